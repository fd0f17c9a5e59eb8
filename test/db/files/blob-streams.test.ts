/** Streams of large blobs in the database and in a bucket: read in pieces, as fast as their reader, and verified. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import type { Pool } from 'pg';
import t from 'tap';
import type { Blobs } from '../../../db/files/blobs.ts';
import { asAccount, findLimitedOwner } from '../../../db/postgres/shares.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { openConfiguredBlobs } from '../../../service/storage/blob-stores.ts';
import { startObjectStore } from '../../object-store/object-store.ts';
import { type Teardown, type TestDatabase, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

/** Not a multiple of a piece, and not compressible, so that PostgreSQL keeps it as it is in any case. */
const LARGE = randomBytes(6 * MIB + 12_345);
/** A piece that is read, and the next one. */
const AHEAD_MAX_BYTES = 2 * MIB;

const bucket = await startObjectStore(t);

interface Machine {
  readonly blobs: Blobs;
  /** Bytes of blobs that were fetched from the store. */
  countFetched(): number;
  /** The accounts of whose share the statements took their connections. */
  readonly accounts: Set<string | null>;
}
async function openMachine(t: Teardown, { pool }: TestDatabase, settings: typeof bucket.settings): Promise<Machine> {
  let fetched = 0;
  const accounts = new Set<string | null>();
  const counting = Object.assign(Object.create(pool) as Pool, {
    query: async (sql: string, values?: unknown[]) => {
      accounts.add(findLimitedOwner()?.accountId ?? null);
      const found = await pool.query(sql, values);
      for (const { content } of found.rows) fetched += content?.byteLength ?? 0;
      return found;
    },
  });
  const before = bucket.countSent();
  const blobs = await openConfiguredBlobs(counting, {
    ...settings,
    DATA_DIR: await temporaryFolder(t),
    BLOB_CACHE_MEGABYTES: 16,
    AWS_SESSION_TOKEN: undefined,
  });
  return { blobs, accounts, countFetched: () => fetched + bucket.countSent() - before };
}

const DATABASE = { ...bucket.settings, BLOBS: 'database' };
for (const [name, settings] of [
  ['database', DATABASE],
  ['bucket', bucket.settings],
] as const) {
  t.test(`streams of a ${name}`, async (t) => {
    const database = await testDatabase(t);
    const { sha256 } = await (await openMachine(t, database, settings)).blobs.put(LARGE);

    await t.test(`a stream fetches a piece when its reader needs it`, async (t) => {
      const machine = await openMachine(t, database, settings);
      const stream = machine.blobs.stream(sha256);
      const chunks: Buffer[] = [];
      let received = 0;
      let aheadMax = 0;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        aheadMax = Math.max(aheadMax, machine.countFetched() - received);
        received += chunk.byteLength;
        chunks.push(chunk);
      }
      t.ok(Buffer.concat(chunks).equals(LARGE));
      t.ok(aheadMax <= AHEAD_MAX_BYTES, `${aheadMax} bytes ahead of the reader`);
    });

    await t.test(`streams that are not read hold a piece each and no connection`, async (t) => {
      const machine = await openMachine(t, database, settings);
      const streams = Array.from({ length: 20 }, () => machine.blobs.stream(sha256));
      await Promise.all(streams.map((stream) => once(stream, 'readable')));
      for (const stream of streams) t.ok((stream.read(1) as Buffer).byteLength === 1);
      const { pool } = database;
      t.equal(pool.idleCount, pool.totalCount, 'all connections are idle');
      t.match(await pool.query('SELECT 1 AS one'), { rows: [{ one: 1 }] });
      t.ok(machine.countFetched() <= 20 * AHEAD_MAX_BYTES, `${machine.countFetched()} bytes`);
      for (const stream of streams) stream.destroy();
    });

    await t.test(`the beginning of a blob is read without the rest`, async (t) => {
      const machine = await openMachine(t, database, settings);
      for await (const chunk of machine.blobs.stream(sha256) as AsyncIterable<Buffer>) {
        t.ok(chunk.equals(LARGE.subarray(0, chunk.byteLength)));
        break;
      }
      t.ok(machine.countFetched() <= AHEAD_MAX_BYTES, `${machine.countFetched()} bytes`);
    });

    await t.test(`pieces are read in the share of the account that opened the stream`, async (t) => {
      const machine = await openMachine(t, database, settings);
      const stream = asAccount('ann', () => machine.blobs.stream(sha256));
      t.ok((await buffer(stream)).equals(LARGE));
      t.same([...machine.accounts], ['ann']);
    });

    await t.test(`a small blob is kept as a copy`, async (t) => {
      const small = LARGE.subarray(0, MIB);
      const { sha256 } = await (await openMachine(t, database, settings)).blobs.put(small);
      const machine = await openMachine(t, database, settings);
      t.ok((await buffer(machine.blobs.stream(sha256))).equals(small));
      const fetched = machine.countFetched();
      t.ok((await buffer(machine.blobs.stream(sha256))).equals(small));
      t.equal(machine.countFetched(), fetched);
    });
  });
}

/** Reads a stream until it fails. @returns the bytes that came before */
async function readUntilFailure(blobs: Blobs, sha256: string): Promise<{ bytes: number; message: string }> {
  let bytes = 0;
  try {
    for await (const chunk of blobs.stream(sha256) as AsyncIterable<Buffer>) bytes += chunk.byteLength;
  } catch (error) {
    return { bytes, message: (error as Error).message };
  }
  throw new Error('the stream ended well');
}

t.test('database: the stream of a damaged blob fails before its last piece', async (t) => {
  const database = await testDatabase(t);
  const { blobs } = await openMachine(t, database, DATABASE);
  const { sha256 } = await blobs.put(LARGE);
  const damages = ['set_byte(content, 0, get_byte(content, 0) # 1)', 'substring(content FROM 1 FOR 3000000)', "''"];
  for (const damaged of damages) {
    await database.pool.query(`UPDATE stored_blobs SET content = ${damaged}`);
    const { bytes, message } = await readUntilFailure(blobs, sha256);
    t.match(message, /^Blob \S+ is damaged in the database: its content has another hash\./);
    t.ok(bytes < LARGE.byteLength, `${bytes} bytes`);
  }
  await database.pool.query('DELETE FROM stored_blobs');
  t.match((await readUntilFailure(blobs, sha256)).message, /is missing from the database/);
});

await soakTest(t, 'database: a compressed blob of an old release is read in larger pieces', async (t) => {
  const database = await testDatabase(t);
  await database.pool.query('ALTER TABLE stored_blobs ALTER COLUMN content SET STORAGE EXTENDED');
  const zeros = Buffer.alloc(20 * MIB);
  const { sha256 } = await (await openMachine(t, database, DATABASE)).blobs.put(zeros);
  const machine = await openMachine(t, database, DATABASE);
  const stream = machine.blobs.stream(sha256);
  await once(stream, 'readable');
  t.equal(machine.countFetched(), 8 * MIB);
  t.ok((await buffer(stream)).equals(zeros));
});

t.test('bucket: the stream of a damaged object fails before its last piece', async (t) => {
  const database = await testDatabase(t);
  const { blobs } = await openMachine(t, database, bucket.settings);
  const { sha256 } = await blobs.put(LARGE);
  t.teardown(() => bucket.intercept(() => null));
  const interceptThird = (status: number, body: string): void => {
    let gets = 0;
    bucket.intercept(({ method }) => {
      if (method === 'GET') gets += 1;
      return gets === 3 ? { status, body } : null;
    });
  };
  interceptThird(206, 'x'.repeat(MIB));
  const { bytes, message } = await readUntilFailure(blobs, sha256);
  t.match(message, /^Blob \S+ is damaged in s3:\/\/packages\/one\/cluster: its content has another hash\./);
  t.ok(bytes < LARGE.byteLength, `${bytes} bytes`);
  for (const [status, pattern] of [
    [206, /is damaged/],
    [416, /is damaged/],
    [404, /is missing from s3:/],
    [200, /refused to read a range of a blob: status 200/],
  ] as const) {
    interceptThird(status, 'x');
    const failure = await readUntilFailure(blobs, sha256);
    t.match(failure.message, pattern);
    t.equal(failure.bytes, 2 * MIB);
  }
});
