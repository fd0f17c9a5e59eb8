/** Keys that are rows of the database, sealed under the key of the cluster. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { insertSshHost, updateSshHost } from '../../../db/accounts/ssh-hosts.ts';
import { rotateKey } from '../../../db/files/key-rotation.ts';
import { openSealedKeys } from '../../../db/files/sealed-keys.ts';
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
