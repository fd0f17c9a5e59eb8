/** Operator commands for keys: those that sign tokens, those that seal secrets, and the cluster key that seals both. */

import type { Pool } from 'pg';
import { recordAction } from '../../db/accounts/operator-actions.ts';
import {
  acceptMember,
  findBlobMismatch,
  findClusterMismatch,
  type Member,
  requireClusterForCommand,
} from '../../db/cluster/cluster-record.ts';
import { excludeProcesses } from '../../db/cluster/running-processes.ts';
import type { KeyStore } from '../../db/files/key-files.ts';
import { rotateKey as rotate } from '../../db/files/key-rotation.ts';
import {
  deleteRevokedKeyFiles,
  findLostSecrets,
  forgetRemovedKeys,
  type LostSecrets,
  recordKeys,
  revokeKeys,
} from '../../db/files/recorded-keys.ts';
import { changeClusterKey as sealAnew } from '../../db/files/sealed-keys.ts';
import { openSecretKeys } from '../../db/files/secrets.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { addSigningKey, openIssuer } from '../../service/identity/tokens.ts';
import type { SharedSettings } from '../../service/settings/settings.ts';
import { openConfiguredBlobs } from '../../service/storage/blob-stores.ts';
import { decodeKey, readClusterKey, readKeyFile } from '../../service/storage/cluster-key.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { formatTable, linesOption, type OperatorCommand, type Outcome, readLines } from './command.ts';

/** Printed where keys are files. */
const COPIES =
  ' Delete the copies of those keys, too: if keys.existingSecret of the Helm chart is set, remove identity.jwk.json from that Secret.';

/** A new key in a folder that is not the cluster's would be the newest recorded one, without which no process starts. */
async function openClusterKeys(pool: Pool, settings: SharedSettings): Promise<KeyStore> {
  const member = await describeMember(pool, settings);
  await requireClusterForCommand(pool, member);
  return member.keys;
}

export const rotateKey: OperatorCommand = {
  subjects: [],
  doc: 'create a new key and encrypt all stored secrets with it, while the service runs',
  async run(_args, context) {
    const { pool } = await context.currentDatabase();
    const store = await openClusterKeys(pool, context.settings);
    const keys = await openSecretKeys(context.settings.DATA_DIR, store);
    const done = await rotate(pool, keys, (sealed) => context.printProgress(`${sealed} secrets sealed`));
    await recordKeys(pool, store);
    const begun = done.resumed ? 'Finished the interrupted rotation to key' : 'Created the key';
    return {
      sentence: `${begun} ${done.keyId} and encrypted ${done.sealed} secrets with it.${describeLostSecrets(done.lost)} The old keys stay in ${store.place}: older backups need them.`,
      fields: { ...done },
    };
  },
};

export const rotateIdentityKey: OperatorCommand = {
  subjects: [],
  doc: 'create a new key that signs tokens; tokens of older keys stay valid until they expire',
  options: {
    'revoke-old': {
      type: 'boolean',
      doc: 'remove the older keys: their tokens and console sessions are refused within a minute',
    },
  },
  async run({ options }, { settings, currentDatabase }) {
    const { pool } = await currentDatabase();
    const store = await openClusterKeys(pool, settings);
    const old = [...(await store.list('identity')).keys()];
    const keyId = await addSigningKey(store);
    await recordKeys(pool, store);
    const isRevoked = options['revoke-old'] === true;
    // Together, so that no kill leaves tokens refused and the list of actions without the reason.
    await inTransaction(pool, async (tx) => {
      if (isRevoked) await revokeKeys(tx, old);
      await recordAction(tx, { action: 'rotate-identity-key', subject: keyId });
    });
    if (isRevoked) {
      for (const id of old) await store.remove('identity', id);
      await forgetRemovedKeys(pool, 'identity', store);
    }
    const effect = isRevoked
      ? `Tokens of older keys, and sessions of the console that began with them, are refused within a minute.${store.fingerprint === null ? COPIES : ''}`
      : 'Tokens of older keys stay valid until they expire.';
    return { sentence: `New tokens are signed with key ${keyId}. ${effect}`, fields: { keyId, revoked: isRevoked } };
  },
};

export const changeClusterKey: OperatorCommand = {
  subjects: ['file'],
  doc: 'seal the keys in the database under the new cluster key in this file; then restart with it',
  async run({ subjects: [file = ''] }, { settings, currentDatabase }) {
    const { pool } = await currentDatabase();
    const oldKey = await readClusterKey(settings);
    if (oldKey === null) throw new Error('Set the current key of the cluster: CLUSTER_KEY_FILE, for example.');
    await openClusterKeys(pool, settings);
    const newKey = decodeKey(file, await readKeyFile('The file', file));
    // An operator who replaces a stolen key would believe that it is replaced.
    if (newKey.equals(oldKey))
      throw new Error(
        `${file} holds the current key of the cluster: make a new one with openssl rand -base64 32. Nothing was changed.`,
      );
    const count = await inTransaction(pool, async (tx) => {
      const sealed = await sealAnew(tx, oldKey, newKey);
      await recordAction(tx, { action: 'change-cluster-key', subject: file });
      return sealed;
    });
    return {
      sentence: `${count} keys are sealed under the new key. Set it for every process and restart them: until then they use the keys that they have read. Keep the old key as long as you keep backups from before: they need it.`,
      fields: { keys: count },
    };
  },
};

export const acceptDataDir: OperatorCommand = {
  subjects: [],
  doc: 'make DATA_DIR the folder of this database after its keys were lost, while the service is stopped',
  options: { yes: { type: 'boolean', doc: 'do it; without it, only print what would be lost' }, limit: linesOption },
  async run(args, { settings, currentDatabase }) {
    const limit = readLines(args);
    const { pool } = await currentDatabase();
    const member = await describeMember(pool, settings);
    const mismatch = await findClusterMismatch(pool, member);
    if (mismatch === null) {
      const lost = await findLostSecrets(pool, member.keys, limit);
      const left = lost.count === 0 ? '' : ` ${lost.count} secrets ${OF_LOST_KEYS}${formatLost(lost)}`;
      return {
        sentence: `DATA_DIR ${settings.DATA_DIR} fits this database. There is nothing to accept, and nothing was changed.${left}`,
        fields: { dataDir: settings.DATA_DIR, lostSecrets: lost.count, listed: lost.listed },
      };
    }
    // `mismatch` names only the first thing that differs.
    const blobs = await findBlobMismatch(pool, member.blobs);
    const lostBlobs = blobs === null ? '' : BLOB_LOSS;
    if (args.options.yes !== true) {
      const lost = await findLostSecrets(pool, member.keys, limit);
      throw new Error(
        `${mismatch}${blobs === null || blobs === mismatch ? '' : ` ${blobs}`} If the right one is lost for good, repeat accept-data-dir with --yes: ${lost.count} secrets can then not be opened, and tokens that a lost key signed are no longer valid.${lostBlobs} Nothing was changed.${formatLost(lost)}`,
      );
    }
    const exclusion = await excludeProcesses(pool);
    if (exclusion === null)
      throw new Error(
        'An API or a supervisor runs on this database, or was killed seconds ago, so its keys are not lost: set DATA_DIR to its folder. If it is meant, stop the service on all machines, then run this again.',
      );
    try {
      return await accept(pool, settings, member, { limit, lostBlobs });
    } finally {
      await exclusion.release();
    }
  },
};

const OF_LOST_KEYS = 'cannot be opened without their lost keys: their users must enter them again.';

/** Of a place that is empty, or has the blobs of another cluster. */
const BLOB_LOSS =
  ' Plugins whose package files are not there can no longer start, and files there that this database does not name are deleted.';

interface Acceptance {
  /** Maximum number of lost secrets that are listed. */
  readonly limit: number;
  /** A sentence. */
  readonly lostBlobs: string;
}

async function accept(
  pool: Pool,
  settings: SharedSettings,
  member: Member,
  { limit, lostBlobs }: Acceptance,
): Promise<Outcome> {
  const { DATA_DIR, OIDC_ISSUER } = settings;
  await deleteRevokedKeyFiles(pool, member);
  // Creates what a first start would create: the service refuses to start while it is missing.
  await openConfiguredBlobs(pool, settings);
  await openSecretKeys(DATA_DIR, member.keys);
  if (OIDC_ISSUER === undefined) await openIssuer(DATA_DIR, member.keys);
  // First: when the keys are accepted, a repetition after a kill finds nothing to do, and would not record it.
  await inTransaction(pool, (tx) => recordAction(tx, { action: 'accept-data-dir', subject: DATA_DIR }));
  await acceptMember(pool, member);
  const lost = await findLostSecrets(pool, member.keys, limit);
  return {
    sentence: `${DATA_DIR} belongs to this database now. ${lost.count} secrets ${OF_LOST_KEYS} Tokens that a lost key signed are no longer valid.${lostBlobs}${formatLost(lost)}`,
    fields: { dataDir: DATA_DIR, lostSecrets: lost.count, listed: lost.listed },
  };
}

/** Of secrets that a command left out. */
export const describeLostSecrets = (count: number): string =>
  count === 0
    ? ''
    : ` ${count} secrets whose keys were given up with accept-data-dir were left out: their users must enter them again.`;

/** Nothing else names them: their installations stay ready, and only reading the secret fails. */
function formatLost({ count, listed }: LostSecrets): string {
  if (count === 0) return '';
  const rows = listed.map(({ account, plugin, secret }) => ({ ACCOUNT: account, PLUGIN: plugin, SECRET: secret }));
  const more = count > listed.length ? `\n${count - listed.length} more: set --limit.` : '';
  return `\n\n${formatTable(rows, '')}${more}`;
}
