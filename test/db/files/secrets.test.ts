/** Secrets: sealed to their row, opened with the key that sealed them, whatever key is newest. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { openSecretKeys } from '../../../db/files/secrets.ts';
import { temporaryFolder } from '../../runner/harness.ts';

t.test('a sealed value opens for its own row only', async (t) => {
  const keys = await openSecretKeys(await temporaryFolder(t));
  const secret = await keys.seal('i1', 'apiKey', 'välue 🔑');
  t.notOk(secret.sealed.includes('välue'));
  t.equal(await keys.open('i1', 'apiKey', secret), 'välue 🔑');
  await t.rejects(keys.open('i2', 'apiKey', secret));
  await t.rejects(keys.open('i1', 'other', secret));
  for (let index = 0; index < secret.sealed.length; index += 1) {
    const changed = Buffer.from(secret.sealed);
    changed[index] = (changed[index] ?? 0) ^ 1;
    await t.rejects(keys.open('i1', 'apiKey', { ...secret, sealed: changed }));
  }
  const again = await keys.seal('i1', 'apiKey', 'välue 🔑');
  t.notOk(again.sealed.equals(secret.sealed), 'a nonce is used once');
});

t.test('after a rotation old values open and new ones use the new key, in every process', async (t) => {
  const folder = await temporaryFolder(t);
  const api = await openSecretKeys(folder);
  const supervisor = await openSecretKeys(folder);
  const before = await api.seal('i', 'n', 'old');
  // Within one millisecond, too.
  for (let times = 0; times < 20; times += 1) t.equal(await api.rotate(), api.newest);
  const keyId = await api.rotate();
  const after = await api.seal('i', 'n', 'new');
  t.equal(after.keyId, keyId);
  t.not(before.keyId, keyId);
  t.equal(await supervisor.open('i', 'n', before), 'old');
  t.equal(await supervisor.open('i', 'n', after), 'new', 'a key made meanwhile is picked up');
  await t.rejects(supervisor.open('i', 'n', { ...after, keyId: 'unknown' }), /Restore it from a backup/);
});

t.test('keys are private files, and two first starts at once agree', async (t) => {
  const folder = await temporaryFolder(t);
  const [one, two] = await Promise.all([openSecretKeys(folder), openSecretKeys(folder)]);
  t.equal(await two.open('i', 'n', await one.seal('i', 'n', 'a')), 'a');
  t.equal(await one.open('i', 'n', await two.seal('i', 'n', 'b')), 'b');
  const directory = join(folder, 'keys', 'secrets');
  for (const name of await readdir(directory)) t.equal((await stat(join(directory, name))).mode & 0o777, 0o600);
});
