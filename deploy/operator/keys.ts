/** Operator commands for the keys in DATA_DIR. */
import { recordAction } from '../../db/accounts/operator-actions.ts';
import { acceptMember } from '../../db/cluster/cluster-record.ts';
import { rotateKey as rotate } from '../../db/files/key-rotation.ts';
import { recordKeys } from '../../db/files/recorded-keys.ts';
import { openSecretKeys } from '../../db/files/secrets.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { openIssuer } from '../../service/identity/tokens.ts';
import { openConfiguredBlobs } from '../../service/storage/blob-stores.ts';
import { describeMember } from '../../service/storage/membership.ts';
import type { OperatorCommand } from './command.ts';

export const rotateKey: OperatorCommand = {
  subjects: [],
  doc: 'create a new key and encrypt all stored secrets with it, while the service runs',
  async run(_given, place) {
    const { pool } = await place.migratedDatabase();
    const keys = await openSecretKeys(place.settings.DATA_DIR);
    const done = await rotate(pool, keys, (sealed) => place.printProgress(`${sealed} secrets sealed`));
    await recordKeys(pool, place.settings.DATA_DIR);
    const begun = done.resumed ? 'Finished the interrupted rotation to key' : 'Created the key';
    return {
      sentence: `${begun} ${done.keyId} and encrypted ${done.sealed} secrets with it. The old keys stay in DATA_DIR/keys/secrets: older backups need them.`,
      fields: { ...done },
    };
  },
};

export const acceptDataDir: OperatorCommand = {
  subjects: [],
  doc: 'make DATA_DIR the folder of this database after its keys were lost; the service refuses to start before',
  async run(_given, { settings, migratedDatabase }) {
    const { DATA_DIR, OIDC_ISSUER } = settings;
    const { pool } = await migratedDatabase();
    // A service that starts creates what is missing, and refuses to start until it exists.
    await openConfiguredBlobs(pool, settings);
    await openSecretKeys(DATA_DIR);
    if (OIDC_ISSUER === undefined) await openIssuer(DATA_DIR);
    const lostSecrets = await acceptMember(pool, describeMember(pool, settings));
    await inTransaction(pool, (tx) => recordAction(tx, { action: 'accept-data-dir', subject: DATA_DIR }));
    return {
      sentence: `${DATA_DIR} belongs to this database now. ${lostSecrets} secrets cannot be opened without their lost keys: their users must enter them again. Tokens that a lost key signed are no longer valid.`,
      fields: { dataDir: DATA_DIR, lostSecrets },
    };
  },
};
