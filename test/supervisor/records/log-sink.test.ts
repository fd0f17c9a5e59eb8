/** The log sink: caps, cuts, odd texts, and a database that goes away. */

import type { Pool } from 'pg';
import t from 'tap';
import { orderedId } from '../../../db/postgres/ordered-id.ts';
import { maintainLogs, pageLogs, type StoredLogLine } from '../../../db/records/logs.ts';
import { Batch } from '../../../supervisor/records/batch.ts';
import { LogSink } from '../../../supervisor/records/log-sink.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { defaultOptions } from '../default-options.ts';

const plugin = { accountId: 'a1', installationId: 'i1', versionId: 'v1', semVer: '1.0.0' };
const origin = { plugin, sessionId: null, invocationId: null, source: 'tools.x' };
const onError = () => undefined;
const PAGE = 1_000;
/** Lines of 8,000 bytes. A thousand of them fill the queue. */
const FLOOD = amount({ quick: 6_000, soak: 20_000 });
const FLOOD_OF_EACH = amount({ quick: 1_500, soak: 5_000 });
const { logCaps: defaultCaps } = defaultOptions;

const { pool } = await testDatabase(t);
await maintainLogs(pool);
t.beforeEach(() => pool.query('TRUNCATE plugin_logs'));

/** Every line of an installation, newest first. */
async function all(pool: Pool, installationId = 'i1'): Promise<StoredLogLine[]> {
  const lines: StoredLogLine[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await pageLogs(pool, { installationId, limit: PAGE, cursor });
    lines.push(...page.items);
    cursor = page.nextCursor;
  }
  return lines;
}

t.test('over the cap a minute lines are dropped and counted in one line', async (t) => {
  let now = Date.now();
  const caps = { linesPerMinute: 100, messageBytes: 8192, dataBytes: 16_384 };
  const sink = new LogSink(pool, { caps, now: () => now, onError });
  t.teardown(() => sink.close());
  for (let n = 0; n < 250; n++) sink.write(origin, { level: 'info', message: `line ${n}` });
  sink.system(plugin, 'error', 'a crash is written all the same');
  now += 60_000;
  sink.write(origin, { level: 'info', message: 'next minute' });
  await sink.flush();
  const lines = await all(pool);
  t.equal(lines.filter((line) => line.message.startsWith('line ')).length, 100);
  t.match(lines.map((line) => line.message).slice(0, 3), [
    'next minute',
    '150 lines dropped: over 100 a minute',
    'a crash is written all the same',
  ]);
});

t.test('after a step back of the clock, the times of lines go on like their ids', async (t) => {
  let now = Date.now();
  const sink = new LogSink(pool, { caps: defaultCaps, now: () => now, onError });
  t.teardown(() => sink.close());
  sink.write(origin, { level: 'info', message: 'before' });
  now -= 1_800_000;
  sink.write(origin, { level: 'info', message: 'after' });
  await sink.flush();
  const [after, before] = await all(pool);
  t.match([after?.message, before?.message], ['after', 'before']);
  t.equal(after?.at, before?.at);
});

t.test('long messages and data are cut, at whole characters', async (t) => {
  const sink = new LogSink(pool, { caps: defaultCaps, onError });
  t.teardown(() => sink.close());
  sink.write(origin, { level: 'info', message: '€'.repeat(10_000), data: { a: 1 } });
  sink.write(origin, { level: 'info', message: 'data', data: { big: 'x'.repeat(20_000) } });
  sink.write(origin, {
    level: 'warn',
    message: 'odd \0 \ud800',
    data: { 'k\0\ud800': ['\0\ud800', '\\u0000 \\ud800'] },
  });
  sink.write(origin, { level: 'warn', message: 'deep', data: nested(200_000) });
  sink.write(origin, { level: 'debug', message: 'fine', data: [1, null] });
  sink.write(origin, { level: 'info', message: '\ufffd'.repeat(10_000) });
  await sink.flush();
  const [replaced, fine, deep, odd, data, long] = await all(pool);
  t.match(fine, { message: 'fine', data: [1, null], truncated: false, level: 'debug' });
  t.match(deep, { message: 'deep' });
  t.match(odd, { message: 'odd \ufffd \ufffd', truncated: false });
  t.strictSame(odd?.data, { 'k\ufffd\ufffd': ['\ufffd\ufffd', '\\u0000 \\ud800'] }, 'an escape as text stays text');
  t.equal(data?.truncated, true);
  t.ok(JSON.stringify(data?.data).length <= 16_384);
  t.equal(long?.truncated, true);
  t.match(long?.message, /^€+$/);
  t.ok(Buffer.byteLength(long?.message ?? '') <= 8192);
  t.match(replaced?.message, /^\ufffd{2700,}$/, 'only the end is a cut character');
});

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let n = 0; n < depth; n++) value = [value];
  return value;
}

t.test('an unavailable database loses no line and needs limited memory', async (t) => {
  let away = true;
  const query = (...args: unknown[]) =>
    away ? Promise.reject(new Error('away')) : (pool.query as (...all: unknown[]) => unknown)(...args);
  const sink = new LogSink({ query } as unknown as Pool, {
    onError,
    caps: { linesPerMinute: 1e6, messageBytes: 8192, dataBytes: 16_384 },
  });
  t.teardown(() => sink.close());
  for (let n = 0; n < 2_500; n++) sink.write(origin, { level: 'info', message: String(n) });
  await sink.flush();
  t.equal((await all(pool)).length, 0);
  for (let n = 0; n < FLOOD; n++) sink.write(origin, { level: 'info', message: 'x'.repeat(8_000) });
  t.ok(sink.waiting < 8_000, `${sink.waiting} lines wait`);
  away = false;
  await sink.flush();
  const lines = await all(pool);
  t.strictSame(
    lines.filter((line) => line.message.length < 8).map((line) => line.message),
    Array.from({ length: 2_500 }, (_, n) => String(2_499 - n)),
    'all of them, in order',
  );
});

const rejection = Object.assign(new Error('unsupported Unicode escape sequence'), { code: '22P05' });

t.test('a row that PostgreSQL rejects costs its account that row, and other accounts nothing', async (t) => {
  const statements: (readonly string[])[] = [];
  const rejected: string[] = [];
  let isAway = false;
  const batch = new Batch<string>({
    maxBytes: 1_000_000,
    sizeOf: () => 100,
    ownerOf: (row) => row.slice(0, 1),
    accountOf: (row) => row.slice(0, 1),
    onError,
    onRejected: (rows) => rejected.push(...rows),
    write: async (rows) => {
      statements.push(rows);
      if (isAway) throw new Error('away');
      if (rows.some((row) => row.endsWith('bad'))) throw rejection;
    },
  });
  for (let n = 0; n < 990; n += 1) batch.add(`a ${n}${n === 500 ? ' bad' : ''}`);
  for (let n = 0; n < 5; n += 1) batch.add(`b ${n}`);
  await batch.flush();
  t.strictSame(rejected, ['a 500 bad']);
  t.strictSame(
    statements.findIndex((rows) => rows.every((row) => row.startsWith('b'))),
    2,
    'the other account is written by the third statement',
  );
  t.ok(statements.length < 30, `${statements.length} statements`);
  const numbers = statements.flatMap((rows) => (rows.every((row) => !row.endsWith('bad')) ? rows : []));
  t.strictSame(
    numbers.filter((row) => row.startsWith('a')),
    Array.from({ length: 990 }, (_, n) => `a ${n}`).toSpliced(500, 1),
    'each row once, in order',
  );
  t.equal(batch.length, 0);

  statements.length = 0;
  rejected.length = 0;
  for (let n = 0; n < 900; n += 1) batch.add(`a ${n} bad`);
  await batch.flush();
  t.ok(statements.length < 70, `many bad rows: ${statements.length} statements`);
  t.equal(rejected.length, 900);

  statements.length = 0;
  batch.add('a bad');
  await batch.flush();
  t.strictSame([statements.length, rejected.length], [1, 901], 'a single row is written once');

  isAway = true;
  batch.add('a 1');
  await batch.flush();
  isAway = false;
  await batch.flush();
  t.equal(rejected.length, 901, 'a database that is away rejects nothing');
  t.equal(batch.length, 0);
});

t.test('a flush writes the rows of its caller, also when another one failed before it', async (t) => {
  // The write that the rows began, and that of the first caller.
  let failuresLeft = 2;
  const batch = new Batch<string>({
    maxBytes: 10_000_000,
    sizeOf: () => 100,
    ownerOf: () => 'o',
    accountOf: () => 'a',
    onError,
    write: async () => {
      if (failuresLeft === 0) return;
      failuresLeft -= 1;
      throw new Error('away');
    },
  });
  for (let n = 0; n < 3_000; n += 1) batch.add(String(n));
  await Promise.all([batch.flush(), batch.flush()]);
  t.equal(batch.length, 0);
});

t.test('lines that the database rejects are counted in a line', async (t) => {
  const query = (sql: string, [lines]: [string]) =>
    lines.includes('"message":"bad') ? Promise.reject(rejection) : pool.query(sql, [lines]);
  const sink = new LogSink({ query } as unknown as Pool, { caps: defaultCaps, onError });
  t.teardown(() => sink.close());
  for (const message of ['one', 'bad 1', 'two', 'bad 2']) sink.write(origin, { level: 'info', message });
  await sink.flush();
  await sink.flush();
  t.strictSame(
    (await all(pool)).map((line) => line.message),
    ['2 lines dropped: the database rejects them', 'two', 'one'],
  );
});

t.test('lines whose commit was not confirmed are stored once', async (t) => {
  let isLost = true;
  const query = async (sql: string, values: unknown[]) => {
    const result = await pool.query(sql, values);
    if (isLost) throw new Error('Connection terminated unexpectedly');
    return result;
  };
  const sink = new LogSink({ query } as unknown as Pool, { caps: defaultCaps, onError });
  t.teardown(() => sink.close());
  for (const message of ['one', 'two']) sink.write(origin, { level: 'info', message });
  await sink.flush();
  sink.write(origin, { level: 'info', message: 'three' });
  isLost = false;
  await sink.flush();
  t.strictSame(
    (await all(pool)).map((line) => line.message),
    ['three', 'two', 'one'],
  );
});

t.test('ids sort like they were made', async (t) => {
  const now = Date.now();
  const ids = Array.from({ length: 20_000 }, (_, n) => orderedId(now + (n % 3) - 1));
  t.strictSame([...ids].sort(), ids);
  t.equal(new Set(ids).size, ids.length);
  t.match(ids[0], /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

t.test('a statement has at most a quarter of a megabyte, and at least one row', async (t) => {
  const written: string[] = [];
  const batch = new Batch<number>({
    maxBytes: 20_000_000,
    sizeOf: (size) => size,
    ownerOf: () => '',
    accountOf: () => '',
    onError: (error) => t.fail(error.message),
    write: async (sizes) => void written.push(sizes.join(' ')),
  });
  for (const size of [80_000, 150_000, 80_000, 5_000_000, 100]) batch.add(size);
  await batch.flush();
  t.same(written, ['80000 150000', '80000', '5000000', '100']);
});

t.test('lines that find no room are counted in a line and in the metrics of the installation', async (t) => {
  const written: { source: string; installationId: string; message: string }[] = [];
  let isAway = true;
  const query = async (_sql: string, [lines]: [string]) => {
    if (isAway) throw new Error('away');
    written.push(...JSON.parse(lines));
  };
  const all = { written: 0, dropped: 0 };
  const ofPlugin = { kept: 0, dropped: 0 };
  const sink = new LogSink({ query } as unknown as Pool, {
    caps: defaultCaps,
    onError,
    onLines: (kept, dropped) => {
      all.written += kept;
      all.dropped += dropped;
    },
    onLine: (_plugin, isKept) => {
      ofPlugin[isKept ? 'kept' : 'dropped'] += 1;
    },
  });
  t.teardown(() => sink.close());
  const made = 2_000;
  for (let n = 0; n < made; n += 1) sink.write(origin, { level: 'info', message: 'x'.repeat(4_000) });
  const quiet = { ...origin, plugin: { ...plugin, accountId: 'a2', installationId: 'quiet' } };
  sink.write(quiet, { level: 'info', message: 'quiet' });
  isAway = false;
  await sink.flush();
  const { dropped } = ofPlugin;
  t.ok(dropped > 0 && dropped < made, `${dropped} lines dropped`);
  t.strictSame(ofPlugin, { kept: made + 1 - dropped, dropped });
  t.strictSame(all, { written: made + 2 - dropped, dropped });
  t.match(
    written.filter(({ source }) => source === 'system'),
    [{ installationId: 'i1', message: `${dropped} lines dropped: too many waited for the database` }],
  );
  t.equal(written.length, all.written);
});

t.test('during an outage, a flooding plugin leaves room for others and for the host', async (t) => {
  let away = true;
  const query = (...args: unknown[]) =>
    away ? Promise.reject(new Error('away')) : (pool.query as (...all: unknown[]) => unknown)(...args);
  const caps = { linesPerMinute: 1e6, messageBytes: 8192, dataBytes: 16_384 };
  const sink = new LogSink({ query } as unknown as Pool, { onError, caps });
  t.teardown(() => sink.close());
  const flood = (installationId: string) => {
    const flooder = { ...origin, plugin: { ...plugin, accountId: installationId, installationId } };
    for (let n = 0; n < FLOOD_OF_EACH; n++) sink.write(flooder, { level: 'info', message: 'x'.repeat(8_000) });
    sink.system(flooder.plugin, 'error', `${installationId} crashed`);
  };
  for (const flooder of ['f1', 'f2', 'f3']) flood(flooder);
  for (let n = 0; n < 50; n++) sink.write(origin, { level: 'info', message: `quiet ${n}` });
  flood('f4');
  away = false;
  await sink.flush();
  t.equal((await all(pool)).length, 50, 'the quiet one lost nothing');
  for (const installationId of ['f1', 'f2', 'f3', 'f4']) {
    const items = await all(pool, installationId);
    t.match(items[0]?.message, /^\d+ lines dropped: too many waited for the database$/);
    t.equal(items[1]?.message, `${installationId} crashed`);
    t.ok(items.length > 10 && items.length < 600, `${installationId} kept ${items.length} lines`);
  }
});

t.test('lines of a flooding account do not delay those of others, and keep their order', async (t) => {
  const written: string[][] = [];
  const batch = new Batch<string>({
    maxBytes: 1_000_000,
    sizeOf: () => 100,
    onError: (error) => t.fail(error.message),
    ownerOf: (row) => row.slice(0, 2),
    accountOf: (row) => row.slice(0, 1),
    write: async (rows) => void written.push([...rows]),
  });
  for (let n = 0; n < 3_000; n += 1) batch.add(`${n % 2 ? 'a1' : 'a2'} ${n}`);
  for (const row of ['b1 0', 'b2 1', 'c1 0']) t.ok(batch.add(row));
  await batch.flush();
  const rows = written.flat();
  // The first batch was taken before the others came.
  for (const row of ['b1 0', 'b2 1', 'c1 0']) t.ok(rows.indexOf(row) < 1_010, `${row} is row ${rows.indexOf(row)}`);
  const numbers = rows.filter((row) => row.startsWith('a')).map((row) => Number(row.slice(3)));
  t.strictSame(
    numbers,
    numbers.toSorted((one, other) => one - other),
  );
  t.equal(batch.length, 0);
});

t.test('a flood of lines leaves most of the database’s time to others', async (t) => {
  const spans: { from: number; to: number }[] = [];
  const batch = new Batch<string>({
    maxBytes: 2 ** 24,
    sizeOf: (row) => row.length,
    ownerOf: () => 'one',
    accountOf: () => 'one',
    onError,
    write: async () => {
      const from = performance.now();
      // With the rest, longer than a single row waits at most.
      await new Promise((resolve) => setTimeout(resolve, 100));
      spans.push({ from, to: performance.now() });
    },
  });
  const flood = () => {
    for (let n = 0; n < 5_000; n += 1) batch.add('x'.repeat(1_000));
  };
  flood();
  while (spans.length < 3) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    batch.add('one more of a thousand that wait');
  }
  for (const [index, { from, to }] of spans.slice(0, -1).entries())
    t.ok((spans[index + 1]?.from ?? 0) - to >= 2 * (to - from), 'rests longer than it writes');
  await batch.flush();
  t.equal(batch.length, 0, 'who waits for the end does not wait for rests');
});
