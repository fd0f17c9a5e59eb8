/** Keys that are rows of the database, sealed under the key of the cluster. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { insertSshHost, updateSshHost } from '../../../db/accounts/ssh-hosts.ts';
import { rotateKey } from '../../../db/files/key-rotation.ts';
import { changeClusterKey, openSealedKeys } from '../../../db/files/sealed-keys.ts';
import { openSecretKeys, readSecret, saveSecret } from '../../../db/files/secrets.ts';
import { inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

t.test('a transaction that seals a value needs no second connection', async (t) => {
  const { url } = await testDatabase(t);
  const { pool, close } = openPool(url, { name: 'sealed-keys-test', connections: 1, onError: () => undefined });
  t.teardown(close);
  const keys = await openSecretKeys('', openSealedKeys(pool, randomBytes(32)));
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  await insertBareInstallation(pool, { accountId });
  await inTransaction(pool, (tx) => saveSecret(tx, keys, 'i', 'name', 'value'));
  const fields = { name: 'h', address: 'host.example', port: 22, user: 'ann', hostKeys: [], login: { password: 'x' } };
  const made = await inTransaction(pool, (tx) => insertSshHost(tx, keys, { accountId, hostId: 'h' }, fields, 1));
  const key = { accountId, hostId: 'h', revision: made?.revision ?? '' };
  t.ok(await inTransaction(pool, (tx) => updateSshHost(tx, keys, key, { ...fields, login: { password: 'y' } })));
  t.match(await rotateKey(pool, keys, () => undefined), { sealed: 2 });
  t.match(await readSecret(pool, keys, 'i', 'name'), { value: 'value' });
});

t.test('a key that another cluster key seals is not called lost', async (t) => {
  const { pool } = await testDatabase(t);
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const running = await openSecretKeys('', openSealedKeys(pool, oldKey));
  const before = await running.seal('i', 'name', 'before');
  const command = await openSecretKeys('', openSealedKeys(pool, oldKey));
  await command.rotate();
  const rotated = await command.seal('i', 'name', 'rotated');
  await inTransaction(pool, (tx) => changeClusterKey(tx, oldKey, newKey));
  t.equal(await running.open('i', 'name', before), 'before');
  await t.rejects(running.open('i', 'name', rotated), {
    message: `Secret key ${rotated.keyId} is sealed under another cluster key than that of this process. Set the current key of the cluster and restart the process.`,
  });
  await t.rejects(running.open('i', 'name', { ...rotated, keyId: 'unknown' }), {
    message: 'Secret key unknown is not in the database. Restore it from a backup.',
  });
  const restarted = await openSecretKeys('', openSealedKeys(pool, newKey));
  t.equal(await restarted.open('i', 'name', rotated), 'rotated');
});
