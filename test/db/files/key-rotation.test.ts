/** Rotation of the key of stored secrets: readers and writers keep working, and the next run finishes an interrupted rotation. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import t, { type Test } from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { openKeyFiles } from '../../../db/files/key-files.ts';
import { rotateKey } from '../../../db/files/key-rotation.ts';
import { acceptKeys } from '../../../db/files/recorded-keys.ts';
import { openSecretKeys, readSecret, saveSecret } from '../../../db/files/secrets.ts';
import { cutOff, operator } from '../../deploy/operator-command.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

/** More than one batch of a rotation; more than two in a soak run. */
const COUNT = amount({ quick: 250, soak: 500 });
/** Pause of readers and writers, short enough that many reads and writes happen during the rotation. Milliseconds. */
const PAUSE_MS = 2;
const nameOf = (index: number): string => `secret${index}`;

async function filled(t: Test, count = COUNT) {
  const { url, pool } = await testDatabase(t);
  const dataDir = await temporaryFolder(t);
  const keys = await openSecretKeys(dataDir);
  const installationId = await install(pool);
  for (let index = 0; index < count; index += 1) {
    await saveSecret(pool, keys, installationId, nameOf(index), `value ${index}`);
  }
  const keysInUse = async () => {
    const { rows } = await pool.query<{ id: string }>('SELECT DISTINCT key_id AS id FROM installation_secrets');
    return rows.map(({ id }) => id);
  };
  const env = { DATABASE_URL: url, DATA_DIR: dataDir };
  return { pool, dataDir, keys, installationId, keysInUse, env };
}

async function install(pool: Pool): Promise<string> {
  const { id } = await findOrCreateAccount(pool, 'ann');
  await insertBareInstallation(pool, { accountId: id, pluginId: 'p1', slug: 'keeper', installationId: 'i1' });
  return 'i1';
}

t.test('under load every read succeeds, every write is kept, and all secrets end under the new key', async (t) => {
  const { pool, dataDir, keys, installationId, keysInUse } = await filled(t);
  const [before] = await keysInUse();
  // Keys as another process has loaded them, without the new key.
  const elsewhere = await openSecretKeys(dataDir);
  let isOver = false;
  let reads = 0;
  const read = async (): Promise<void> => {
    for (let index = 0; !isOver; index = (index + 7) % COUNT) {
      if (!(await readSecret(pool, elsewhere, installationId, nameOf(index)))?.value.startsWith('value'))
        throw new Error('lost');
      reads += 1;
      await sleep(PAUSE_MS);
    }
  };
  const write = async (): Promise<void> => {
    for (let index = 0; !isOver; index = (index + 11) % COUNT) {
      await saveSecret(pool, elsewhere, installationId, nameOf(index), `value ${index} again`);
      await sleep(PAUSE_MS);
    }
  };
  const load = [read(), read(), write()];
  const done = await rotateKey(pool, keys, () => undefined);
  isOver = true;
  await Promise.all(load);
  t.match(done, { resumed: false, keyId: keys.newest });
  t.ok(done.sealed >= COUNT - 200, `${done.sealed} sealed beside ${reads} reads`);
  t.same(await keysInUse(), [done.keyId]);
  t.not(done.keyId, before);
  t.equal(readdirSync(join(dataDir, 'keys', 'secrets')).length, 2, 'the old key is kept for older backups');
});

t.test('a full quota refuses longer secrets, and no rotation', async (t) => {
  const { pool, keys, installationId, keysInUse } = await filled(t, 2);
  await saveUsageLimits(pool, { storage: 1 });
  const save = (value: string) => saveSecret(pool, keys, installationId, nameOf(0), value);
  await t.rejects(save('value 0 that is longer'), { code: 'quota_exceeded' });
  await save('value 1');
  // As those from before secrets were counted.
  await pool.query('UPDATE installation_secrets SET account_id = NULL, stored_bytes = NULL WHERE name = $1', [
    nameOf(1),
  ]);
  const done = await rotateKey(pool, keys, () => undefined);
  t.equal(done.sealed, 2);
  t.same(await keysInUse(), [done.keyId]);
  t.match(await readSecret(pool, keys, installationId, nameOf(0)), { value: 'value 1' });
});

t.test('a rotation leaves out the secrets whose key was given up, until the key comes back', async (t) => {
  const { pool } = await testDatabase(t);
  const [lostDir, dataDir] = [await temporaryFolder(t), await temporaryFolder(t)];
  const installationId = await install(pool);
  await saveSecret(pool, await openSecretKeys(lostDir), installationId, 'lost', 'value');
  const keys = await openSecretKeys(dataDir);
  await t.rejects(
    rotateKey(pool, keys, () => undefined),
    /^Secret key \S+ is not in/,
    'not given up: it may be in a backup',
  );
  await acceptKeys(pool, openKeyFiles(dataDir));
  for (const name of ['kept', 'more']) await saveSecret(pool, keys, installationId, name, name);
  const before = keys.newest;
  const done = await rotateKey(pool, keys, () => undefined);
  t.match(done, { resumed: false, sealed: 2, lost: 1, keyId: keys.newest });
  t.not(done.keyId, before);
  t.match(await readSecret(pool, keys, installationId, 'kept'), { value: 'kept' });
  for (const [id, key] of await openKeyFiles(lostDir).list('secrets'))
    await openKeyFiles(dataDir).add('secrets', id, key);
  t.match(await rotateKey(pool, await openSecretKeys(dataDir), () => undefined), { resumed: true, sealed: 1, lost: 0 });
  t.match(await readSecret(pool, keys, installationId, 'lost'), { value: 'value' });
});

t.test('a rotation that was killed is finished by the next call, with the same key', async (t) => {
  const { pool, dataDir, installationId, keysInUse, env } = await filled(t);
  // Locks the last row, so that the rotation cannot finish before it is killed.
  const holder = await pool.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT 1 FROM installation_secrets ORDER BY name DESC LIMIT 1 FOR UPDATE');
  await cutOff(env, /secrets sealed$/, 'rotate-key');
  await holder.query('ROLLBACK');
  holder.release();
  const middle = await keysInUse();
  t.equal(middle.length, 2, 'some secrets have the new key and some the old one');
  t.match(await operator(env, 'actions'), { stdout: /rotate-key/ }, 'the list of actions has it');
  const result = await operator(env, 'rotate-key', '--json');
  const done = JSON.parse(result.stdout);
  t.match(done, { command: 'rotate-key', resumed: true });
  t.same(await keysInUse(), [done.keyId]);
  t.ok(middle.includes(done.keyId));
  const keys = await openSecretKeys(dataDir);
  t.match(await readSecret(pool, keys, installationId, nameOf(COUNT - 1)), { value: `value ${COUNT - 1}` });
});
