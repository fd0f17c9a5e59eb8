/** The key that signs tokens changes while tokens are verified: none is refused, until the operator removes the old key. */
import { readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { type KeyStore, openKeyFiles } from '../../db/files/key-files.ts';
import { changeClusterKey, openSealedKeys } from '../../db/files/sealed-keys.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { toProblem } from '../../service/http/errors.ts';
import { SignIn } from '../../service/identity/sign-in.ts';
import { addSigningKey, InvalidTokenError, openIssuer, openVerifier } from '../../service/identity/tokens.ts';
import { moveClocks } from '../fixtures/moved-clocks.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';

const none = { OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined };
const KEY = Buffer.alloc(32, 1);
const NEW_KEY = Buffer.alloc(32, 2);
const MINUTE = 60_000;

for (const [name, open] of [
  ['files', async (folder: string) => openKeyFiles(folder)],
  ['database', async () => openSealedKeys((await testDatabase(t)).pool, KEY)],
] as const)
  t.test(`${name}: old and new tokens are verified, and those of a removed key are not`, async (t) => {
    const DATA_DIR = await temporaryFolder(t);
    const store = await open(DATA_DIR);
    let reads = 0;
    const counted: KeyStore = {
      ...store,
      list(purpose) {
        reads += 1;
        return store.list(purpose);
      },
    };
    let now = Date.now();
    const { verify } = await openVerifier({ DATA_DIR, ...none }, () => now, counted);
    const { issue } = await openIssuer(DATA_DIR, store);
    const old = await issue('ann');
    t.equal((await verify(old)).subject, 'ann');
    const [first = ''] = (await store.list('identity')).keys();
    await addSigningKey(store);
    const fresh = await issue('bob');
    t.notMatch(old.split('.')[0], fresh.split('.')[0], 'another key signs');
    now += 251;
    const verified = await Promise.all([old, fresh, old, fresh].map(verify));
    t.same(
      verified.map(({ subject }) => subject),
      ['ann', 'bob', 'ann', 'bob'],
    );
    reads = 0;
    const stranger = await (await openIssuer(await temporaryFolder(t))).issue('ann');
    for (let count = 0; count < 100; count += 1) await t.rejects(verify(stranger), InvalidTokenError);
    t.ok(reads <= 1, 'unknown keys cause few reads');
    await store.remove('identity', first);
    now += MINUTE;
    await t.rejects(verify(old), InvalidTokenError);
    t.equal((await verify(fresh)).subject, 'bob');
    t.equal(
      (await verify(await issue('eve'))).subject,
      'eve',
      'the process that issued tokens before signs with the new key',
    );
    if (name === 'files') t.same(await readdir(join(DATA_DIR, 'keys')), ['identity']);
  });

t.test(
  'tokens of a removed key are refused within a minute, also one that was verified at the last moment',
  async (t) => {
    const { pool } = await testDatabase(t);
    const DATA_DIR = await temporaryFolder(t);
    const store = openKeyFiles(DATA_DIR);
    let now = Date.now();
    const signIn = new SignIn(pool, await openVerifier({ DATA_DIR, ...none }, () => now, store), () => now);
    const token = await (await openIssuer(DATA_DIR, store)).issue('ann');
    const [removed = ''] = (await store.list('identity')).keys();
    await addSigningKey(store);
    await store.remove('identity', removed);
    now += MINUTE / 2 - 1;
    t.equal((await signIn.signIn(token)).name, 'ann');
    now += MINUTE / 2 + 1;
    await t.rejects(signIn.signIn(token), InvalidTokenError);
  },
);

t.test('after a step back of the wall clock, new keys are known and removed ones are refused in time', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const store = openKeyFiles(DATA_DIR);
  const clocks = moveClocks(t);
  const { verify } = await openVerifier({ DATA_DIR, ...none });
  const { issue } = await openIssuer(DATA_DIR);
  const old = await issue('ann');
  const [removed = ''] = (await store.list('identity')).keys();
  clocks.wallMs = -60 * MINUTE;
  await addSigningKey(store);
  clocks.monotonicMs += 251;
  t.equal((await verify(await issue('bob'))).subject, 'bob');
  await store.remove('identity', removed);
  clocks.monotonicMs += MINUTE / 2 + 1;
  await t.rejects(verify(old), InvalidTokenError);
});

t.test('of two keys that are added at once none is lost', async (t) => {
  const store = openKeyFiles(await temporaryFolder(t));
  await store.remove('identity', await addSigningKey(store));
  const added = await Promise.all([addSigningKey(store), addSigningKey(store)]);
  t.same([...(await store.list('identity')).keys()].sort(), added.sort());
});

t.test('after a change of the cluster key, a process goes on with the keys that it has read', async (t) => {
  const { pool } = await testDatabase(t);
  const store = openSealedKeys(pool, KEY);
  const DATA_DIR = await temporaryFolder(t);
  let now = Date.now();
  const { verify } = await openVerifier({ DATA_DIR, ...none }, () => now, store);
  const { issue } = await openIssuer(DATA_DIR, store);
  const token = await issue('ann');
  t.equal(await inTransaction(pool, (tx) => changeClusterKey(tx, KEY, NEW_KEY)), 1);
  now += MINUTE;
  t.equal((await verify(token)).subject, 'ann');
  t.equal((await verify(await issue('bob'))).subject, 'bob');

  const changed = openSealedKeys(pool, NEW_KEY);
  await addSigningKey(changed);
  const fresh = await (await openIssuer(DATA_DIR, changed)).issue('ann');
  now += MINUTE;
  const refused = {
    name: 'SigningKeysUnavailableError',
    message: /sealed under another cluster key than that of this process\. Set .* and restart the process\.$/,
  };
  await t.rejects(verify(fresh), refused, 'a token of a key that it cannot read');
  await t.rejects(verify(fresh), refused, 'also when the keys were read just before');
  t.match(toProblem(await verify(fresh).catch((error: unknown) => error)), { status: 503, code: 'unavailable' });
  t.equal((await verify(token)).subject, 'ann');
});

t.test('while the folder of the keys cannot be read, a process goes on with the keys that it has read', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  let now = Date.now();
  const { issue } = await openIssuer(DATA_DIR);
  const { verify } = await openVerifier({ DATA_DIR, ...none }, () => now);
  const token = await issue('ann');
  const folder = join(DATA_DIR, 'keys');
  await rename(folder, `${folder}.gone`);
  await writeFile(folder, '');
  now += MINUTE;
  t.equal((await verify(token)).subject, 'ann');
  t.equal((await verify(await issue('bob'))).subject, 'bob');
});

t.test('keys are sealed: the rows hold none of them, and a changed row does not open', async (t) => {
  const { pool } = await testDatabase(t);
  const store = openSealedKeys(pool, KEY);
  await store.add('secrets', 'one', Buffer.alloc(32, 9));
  await store.add('secrets', 'two', Buffer.alloc(32, 8));
  const { rows } = await pool.query('SELECT sealed FROM recorded_keys');
  for (const { sealed } of rows) t.notOk(sealed.includes(Buffer.alloc(8, 9)));
  await pool.query(`UPDATE recorded_keys SET sealed = (SELECT sealed FROM recorded_keys WHERE id = 'two')`);
  t.same([...(await store.list('secrets')).keys()], ['two'], 'a key moved to another row does not open');
  t.equal((await openSealedKeys(pool, NEW_KEY).list('secrets')).size, 0, 'nor does any with another key');
  await pool.query(`DELETE FROM recorded_keys WHERE id = 'one'`);
  t.equal(await inTransaction(pool, (tx) => changeClusterKey(tx, KEY, NEW_KEY)), 1);
  t.same((await openSealedKeys(pool, NEW_KEY).list('secrets')).get('two'), Buffer.alloc(32, 8));
  await t.rejects(
    inTransaction(pool, (tx) => changeClusterKey(tx, KEY, NEW_KEY)),
    /The keys are sealed under another cluster key by now/,
    'with a wrong old key nothing is changed',
  );
  t.equal((await openSealedKeys(pool, NEW_KEY).list('secrets')).size, 1);
});
