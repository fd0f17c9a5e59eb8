/** Blobs in the database and in a bucket, as two machines see them, with a bucket that fails in every way. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { setBlobPlace } from '../../../db/cluster/cluster-record.ts';
import type { Blobs } from '../../../db/files/blobs.ts';
import { type ObjectStore, openBucket, toContent } from '../../../db/files/s3.ts';
import { openSharedBlobs } from '../../../db/files/shared-blobs.ts';
import { reserveObject } from '../../../db/files/stored-blobs.ts';
import { describeBlobPlace, openConfiguredBlobs } from '../../../service/storage/blob-stores.ts';
import { type ObjectStoreFixture, startObjectStore } from '../../object-store/object-store.ts';
import { type Teardown, type TestDatabase, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

const MINUTE = 60_000;
const HELLO = Buffer.from('hello');
const nothing = async () => new Set<string>();

const bucket = await startObjectStore(t);

interface Machine {
  readonly blobs: Blobs;
  readonly dataDir: string;
}
async function openMachine(
  t: Teardown,
  { pool }: TestDatabase,
  { BLOBS, ...aws }: Partial<ObjectStoreFixture['settings']> & { readonly BLOBS: string },
  megabytes = 16,
): Promise<Machine> {
  const dataDir = await temporaryFolder(t);
  const { AWS_REGION = '', ...rest } = aws;
  const settings = { BLOBS, AWS_REGION, ...rest, DATA_DIR: dataDir, BLOB_CACHE_MEGABYTES: megabytes };
  return { dataDir, blobs: await openConfiguredBlobs(pool, settings) };
}
/** Makes all blobs old enough for a sweep. */
const age = ({ pool }: TestDatabase) => pool.query(`UPDATE stored_blobs SET touched_at = now() - interval '1 day'`);
const sweep = ({ blobs }: Machine, used: readonly string[] = []) =>
  blobs.sweepUnused(MINUTE, Date.now(), async () => new Set(used));
const listCopies = async ({ dataDir }: Machine): Promise<string[]> =>
  (await readdir(join(dataDir, 'blob-cache'), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

/** @param path of the endpoint */
function openObjects(path = ''): ObjectStore {
  const { BLOBS: address, AWS_ENDPOINT_URL: endpoint, AWS_REGION: region, ...keys } = bucket.settings;
  const credentials = {
    accessKeyId: keys.AWS_ACCESS_KEY_ID,
    secretAccessKey: keys.AWS_SECRET_ACCESS_KEY,
    sessionToken: undefined,
  };
  return openBucket({ address, endpoint: `${endpoint}${path}`, region, credentials });
}

/** Changes an object in the bucket. */
async function replaceObject({ pool }: TestDatabase, sha256: string, text: string): Promise<void> {
  const { rows } = await pool.query('SELECT object_key FROM stored_blobs WHERE sha256 = $1', [sha256]);
  await openObjects().put(rows[0].object_key, toContent(Buffer.from(text)));
}

const STORES = { database: { BLOBS: 'database' }, bucket: bucket.settings };
for (const [name, settings] of Object.entries(STORES)) {
  t.test(`${name}: what one machine stores, another reads`, async (t) => {
    const database = await testDatabase(t);
    const [one, two] = [await openMachine(t, database, settings), await openMachine(t, database, settings)];
    const { sha256, sizeBytes } = await one.blobs.put(HELLO);
    t.equal(sizeBytes, 5);
    t.ok(await two.blobs.has(sha256));
    t.equal((await two.blobs.read(sha256)).toString(), 'hello');
    t.equal((await buffer(two.blobs.stream(sha256))).toString(), 'hello');
    await using staging = await one.blobs.stage();
    const files = [await staging.add([Buffer.from('a'), Buffer.from('b')]), await staging.add([HELLO])];
    await staging.commit(files);
    t.equal((await two.blobs.read(files[0]?.sha256 ?? '')).toString(), 'ab');
    await t.rejects(two.blobs.read('0'.repeat(64)), /^Blob 0+ is missing from /);
    await t.rejects(two.blobs.read('../../etc/passwd'), /64 lower-case hex/);
    await t.rejects(buffer(two.blobs.stream('0'.repeat(64))), /is missing from/);
  });

  await soakTest(t, `${name}: a damaged copy is fetched again`, async (t) => {
    const machine = await openMachine(t, await testDatabase(t), settings);
    const { sha256 } = await machine.blobs.put(HELLO);
    const [copy = ''] = await listCopies(machine);
    await writeFile(copy, 'hellO');
    t.equal((await machine.blobs.read(sha256)).toString(), 'hello');
    t.equal(await readFile(copy, 'utf8'), 'hello');
  });

  await soakTest(t, `${name}: bytes that are stored again replace a damaged blob`, async (t) => {
    const database = await testDatabase(t);
    const machine = await openMachine(t, database, settings);
    const { sha256 } = await machine.blobs.put(HELLO);
    if (name === 'database') await database.pool.query(`UPDATE stored_blobs SET content = 'hellO'`);
    else await replaceObject(database, sha256, 'hellO');
    const reader = await openMachine(t, database, settings);
    await t.rejects(reader.blobs.read(sha256), /is damaged in /);
    await machine.blobs.put(HELLO);
    t.equal((await reader.blobs.read(sha256)).toString(), 'hello');
  });

  t.test(`${name}: what was stored long before it is used is kept, or reported as removed`, async (t) => {
    const database = await testDatabase(t);
    const machine = await openMachine(t, database, settings);
    const names = await Promise.all(
      ['one', 'two'].map(async (text) => (await machine.blobs.put(Buffer.from(text))).sha256),
    );
    await age(database);
    await machine.blobs.keep([...names, ...names]);
    t.equal(await sweep(machine), 0);
    await age(database);
    t.equal(await sweep(machine, names.slice(0, 1)), 1);
    await t.rejects(machine.blobs.keep(names), { name: 'BlobStoreUnavailableError' });
  });

  t.test(`${name}: the sweep removes what nothing uses, and nothing that was touched`, async (t) => {
    const database = await testDatabase(t);
    const [one, two] = [await openMachine(t, database, settings), await openMachine(t, database, settings)];
    const before = await bucket.countObjects();
    const [used, touched, unused] = await Promise.all(
      ['used', 'touched', 'unused', 'unused, too', 'also unused'].map(
        async (text) => (await one.blobs.put(Buffer.from(text))).sha256,
      ),
    );
    await age(database);
    await two.blobs.put(Buffer.from('touched'));
    t.equal(await sweep(one, [used ?? '']), 3);
    for (const kept of [used, touched]) t.ok(await two.blobs.has(kept ?? ''));
    t.notOk(await two.blobs.has(unused ?? ''));
    if (name === 'bucket') t.equal(await bucket.countObjects(), before + 2);
    await one.blobs.put(Buffer.from('unused'));
    t.equal((await two.blobs.read(unused ?? '')).toString(), 'unused', 'and it can be stored again');
  });
}

t.test(
  'a file that is too long for a row is refused, and longer rows of old releases are read in pieces',
  async (t) => {
    const { pool } = await testDatabase(t);
    const open = async (rowMaxBytes: number): Promise<Blobs> =>
      openSharedBlobs({ pool, objects: null, dataDir: await temporaryFolder(t), cacheBytes: 1, rowMaxBytes });
    const [old, now] = [await open(1_000), await open(4)];
    const { sha256 } = await old.put(HELLO);
    t.equal((await now.read(sha256)).toString(), 'hello');
    await pool.query(`UPDATE stored_blobs SET object_key = 'blobs/unfinished'`);
    t.equal((await now.read(sha256)).toString(), 'hello', 'also after a move to a bucket was interrupted');
    await using staging = await now.stage();
    const again = await staging.add([HELLO]);
    await staging.commit([again]);
    const other = await staging.add([Buffer.from('world')]);
    await t.rejects(staging.commit([other]), { name: 'BlobTooLargeError', sha256: other.sha256, maxBytes: 4 });
    await t.rejects(now.put(Buffer.from('world')), /has 5 bytes. In the database, a blob may have at most 4/);
  },
);

await soakTest(t, 'the copies are bounded', async (t) => {
  const machine = await openMachine(t, await testDatabase(t), { BLOBS: 'database' }, 1);
  const names: string[] = [];
  for (let index = 0; index < 40; index += 1) names.push((await machine.blobs.put(Buffer.alloc(50_000, index))).sha256);
  const copies = await listCopies(machine);
  t.ok(copies.length >= 15 && copies.length <= 21, `${copies.length} copies of 50 kB are left`);
  for (const name of names) t.equal((await machine.blobs.read(name)).byteLength, 50_000);
});

t.test('an upload that is cut off leaves nothing that is read, and is repeated', async (t) => {
  const database = await testDatabase(t);
  const machine = await openMachine(t, database, bucket.settings);
  const before = await bucket.countObjects();
  bucket.intercept(({ method }) => (method === 'PUT' ? 'hang up' : null));
  await t.rejects(machine.blobs.put(HELLO), {
    name: 'BlobStoreUnavailableError',
    message: /^The blob store s3:\/\/packages\/one\/cluster at http:\S+ does not answer: .+ It is tried again/,
  });
  bucket.intercept(() => null);
  const { rows } = await database.pool.query('SELECT sha256 FROM stored_blobs');
  t.notOk(await machine.blobs.has(rows[0].sha256));
  await t.rejects(machine.blobs.read(rows[0].sha256), /missing/);
  await age(database);
  t.equal(await sweep(machine), 1, 'a sweep finds it by its row');
  await machine.blobs.put(HELLO);
  t.equal((await machine.blobs.read(rows[0].sha256)).toString(), 'hello');
  t.equal(await bucket.countObjects(), before + 1);
});

await soakTest(t, 'bytes that are stored already need no bucket that answers', async (t) => {
  const machine = await openMachine(t, await testDatabase(t), bucket.settings);
  const { sha256 } = await machine.blobs.put(HELLO);
  bucket.intercept(() => 'hang up');
  t.equal((await machine.blobs.put(HELLO)).sha256, sha256);
  bucket.intercept(() => null);
});

t.test('a process that was killed after its upload leaves an object that a sweep finds', async (t) => {
  const database = await testDatabase(t);
  const machine = await openMachine(t, database, bucket.settings);
  const before = await bucket.countObjects();
  await machine.blobs.put(HELLO);
  await database.pool.query(`UPDATE stored_blobs SET state = 'storing'`);
  await age(database);
  t.equal(await sweep(machine), 1);
  t.equal(await bucket.countObjects(), before);
});

t.test('while blobs are moved from the database, it keeps them until it has another place', async (t) => {
  const database = await testDatabase(t);
  const { pool } = database;
  await pool.query(`INSERT INTO cluster (id, release, blob_store) VALUES ('one', '1.0.0', 'database')`);
  const rows = await openMachine(t, database, { BLOBS: 'database' });
  const { sha256 } = await rows.blobs.put(HELLO);
  const objects = await openMachine(t, database, bucket.settings);
  await objects.blobs.put(HELLO);
  const reader = await openMachine(t, database, { BLOBS: 'database' });
  t.equal((await reader.blobs.read(sha256)).toString(), 'hello');
  t.ok(await rows.blobs.has(sha256));
  t.notOk(await objects.blobs.has(sha256), 'a repeated move copies it again: the bucket may be another one');
  const moved = describeBlobPlace(pool, { ...bucket.settings, DATA_DIR: '', BLOB_CACHE_MEGABYTES: 1 });
  await setBlobPlace(pool, moved, [sha256], async () => undefined);
  t.ok(await objects.blobs.has(sha256));
  t.notOk(await rows.blobs.has(sha256));
  const after = await openMachine(t, database, bucket.settings);
  t.equal((await after.blobs.read(sha256)).toString(), 'hello');
});

await soakTest(t, 'of a blob that a move has copied and nothing uses, the sweep removes the content', async (t) => {
  const database = await testDatabase(t);
  const { pool } = database;
  await pool.query(`INSERT INTO cluster (id, release, blob_store) VALUES ('one', '1.0.0', 'database')`);
  const rows = await openMachine(t, database, { BLOBS: 'database' });
  await rows.blobs.put(HELLO);
  await (await openMachine(t, database, bucket.settings)).blobs.put(HELLO);
  await age(database);
  t.equal(await sweep(rows), 0, 'its object is in a bucket that is not used');
  t.same((await pool.query('SELECT content, state FROM stored_blobs')).rows, [{ content: null, state: 'deleting' }]);
});

await soakTest(
  t,
  'an upload that begins when another one of the blob has just ended keeps the blob readable',
  async (t) => {
    const database = await testDatabase(t);
    const before = await bucket.countObjects();
    const { sha256 } = await (await openMachine(t, database, bucket.settings)).blobs.put(HELLO);
    // It has looked for the blob before it was stored, and is killed before it has uploaded it.
    await reserveObject(database.pool, sha256, HELLO.byteLength, 'blobs/another');
    const machine = await openMachine(t, database, bucket.settings);
    t.equal((await machine.blobs.read(sha256)).toString(), 'hello');
    await age(database);
    t.equal(await sweep(machine), 1);
    t.equal(await bucket.countObjects(), before, 'no object is left behind');
  },
);

await soakTest(t, 'an object that the bucket refuses to remove keeps no other, and the sweep reports it', async (t) => {
  const database = await testDatabase(t);
  const machine = await openMachine(t, database, bucket.settings);
  const before = await bucket.countObjects();
  const names: string[] = [];
  for (let index = 0; index < 20; index += 1)
    names.push((await machine.blobs.put(Buffer.from(`unused ${index}`))).sha256);
  await age(database);
  const [held = ''] = names;
  bucket.intercept(({ method, path }) =>
    method === 'DELETE' && path.includes(held.slice(2))
      ? { status: 403, body: '<Error><Code>AccessDenied</Code></Error>' }
      : null,
  );
  t.teardown(() => bucket.intercept(() => null));
  const refusal = /refused to remove a blob: status 403, AccessDenied/;
  await t.rejects(sweep(machine), refusal);
  t.equal(await bucket.countObjects(), before + 1);
  t.same((await database.pool.query('SELECT sha256 FROM stored_blobs')).rows, [{ sha256: held }]);
  await t.rejects(sweep(machine), refusal, 'it is tried again');
  bucket.intercept(() => null);
  t.equal(await sweep(machine), 1);
});

await soakTest(t, 'a bucket that does not answer ends the sweep', async (t) => {
  const database = await testDatabase(t);
  const machine = await openMachine(t, database, bucket.settings);
  for (let index = 0; index < 20; index += 1) await machine.blobs.put(Buffer.from(`away ${index}`));
  await age(database);
  const asked = new Set<string>();
  bucket.intercept(({ path }) => {
    asked.add(path);
    return 'hang up';
  });
  t.teardown(() => bucket.intercept(() => null));
  await t.rejects(sweep(machine), /does not answer/);
  t.equal(asked.size, 8, 'only for the first group');
});

t.test('a publish that meets a sweep keeps its blob', async (t) => {
  const database = await testDatabase(t);
  const [one, two] = [await openMachine(t, database, bucket.settings), await openMachine(t, database, bucket.settings)];
  const { sha256 } = await one.blobs.put(HELLO);
  await age(database);
  // The sweep has decided, and its request is under way.
  bucket.intercept(async ({ method }) => {
    if (method === 'DELETE') await two.blobs.put(HELLO);
    return null;
  });
  await sweep(one);
  bucket.intercept(() => null);
  const three = await openMachine(t, database, bucket.settings);
  t.equal((await three.blobs.read(sha256)).toString(), 'hello');
  t.equal(await one.blobs.sweepUnused(MINUTE, Date.now(), nothing), 0);
});

t.test('a bucket that answers wrong is asked again, and refused when it stays so', async (t) => {
  const database = await testDatabase(t);
  const { sha256 } = await (await openMachine(t, database, bucket.settings)).blobs.put(HELLO);
  const machine = await openMachine(t, database, bucket.settings);
  let wrong = 1;
  bucket.intercept(({ method }) =>
    method === 'GET' && wrong-- > 0 ? { status: 200, body: 'something else that is longer' } : null,
  );
  t.equal((await machine.blobs.read(sha256)).toString(), 'hello');
  const other = await openMachine(t, database, bucket.settings);
  bucket.intercept(() => ({ status: 200, body: 'hellO' }));
  await t.rejects(other.blobs.read(sha256), /^Blob \S+ is damaged in s3:\/\/packages\/one\/cluster: /);
  t.same(await listCopies(other), [], 'and not kept');
  bucket.intercept(() => ({ status: 403, body: '<Error><Code>InvalidAccessKeyId</Code></Error>' }));
  await t.rejects(
    other.blobs.read(sha256),
    /refused to read a blob: status 403, InvalidAccessKeyId\. Check the bucket/,
  );
  let faults = 2;
  bucket.intercept(() => (faults-- > 0 ? { status: 503, body: '<Code>SlowDown</Code>' } : null));
  t.equal((await other.blobs.read(sha256)).toString(), 'hello', 'a server that recovers within a second is no error');
  let stalls = 1;
  bucket.intercept(({ method }) =>
    method === 'PUT' && stalls-- > 0 ? { status: 400, body: '<Error><Code>RequestTimeout</Code></Error>' } : null,
  );
  await other.blobs.put(Buffer.from('a body that stalls once is sent again'));
  t.equal(stalls, -1);
  bucket.intercept(() => ({ status: 403, body: '<Error><Code>RequestTimeTooSkewed</Code></Error>' }));
  await t.rejects(
    other.blobs.put(Buffer.from('late')),
    /refused to store a blob: status 403, RequestTimeTooSkewed\. Check the clock of this machine\.$/,
  );
  bucket.intercept(() => null);
});

await soakTest(t, 'a path of the endpoint is part of every address', async (t) => {
  const paths: string[] = [];
  bucket.intercept(({ path }) => {
    paths.push(path);
    return { status: 200, body: '' };
  });
  t.teardown(() => bucket.intercept(() => null));
  for (const endpointPath of ['/storage/v1/s3', '/s3//', '/'])
    await openObjects(endpointPath).put('a b', toContent(HELLO));
  t.same(paths, [
    '/storage/v1/s3/packages/one/cluster/a%20b',
    '/s3/packages/one/cluster/a%20b',
    '/packages/one/cluster/a%20b',
  ]);
});

await soakTest(t, 'an endpoint that ends with the bucket is refused', async (t) => {
  const AWS_ENDPOINT_URL = `${bucket.settings.AWS_ENDPOINT_URL}/packages`;
  const machine = openMachine(t, await testDatabase(t), { ...bucket.settings, AWS_ENDPOINT_URL });
  await t.rejects(machine, {
    message: 'AWS_ENDPOINT_URL must not end with the bucket: remove /packages, which BLOBS names.',
  });
});

t.test('without access keys it says which are missing', async (t) => {
  const machine = openMachine(t, await testDatabase(t), { BLOBS: bucket.settings.BLOBS });
  await t.rejects(machine, { message: /^AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set for s3:/ });
});
