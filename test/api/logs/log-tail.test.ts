/** The cost of a read of a filtered log stream does not grow with the lines that the filter leaves out. */
import t from 'tap';
import { LogTail } from '../../../api/logs/log-tail.ts';
import { createIdAt } from '../../../db/postgres/ordered-id.ts';
import { type RowEvent, TAIL_BATCH_BYTES } from '../../../db/postgres/row-tail.ts';
import { insertLogs, type LogLine, maintainLogs, type StoredLogLine } from '../../../db/records/logs.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { createLogLine } from '../../fixtures/log-line.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const LINES = amount({ quick: 6_000, soak: 20_000 });
const EVERY_MS = 10;
/** Lines that one read looks through, those that the tail remembers because others may be committed before them, and those at the borders. */
const READ_MAX = 1_000 + 2_000 + 5;
const LIMIT = 100;
const BEGINNING = '00000000-0000-7000-8000-000000000000';

const { pool } = await testDatabase(t);
await maintainLogs(pool);
const startedAt = Date.now() - LINES * EVERY_MS;
/** All are in one partition: of each, a read looks at one row more. */
const at = new Date().toISOString();
const line = (n: number, more: Partial<LogLine> = {}): LogLine =>
  createLogLine({ id: createIdAt(startedAt + n * EVERY_MS), message: `m${n}`, at, ...more });
const readMessage = ({ data }: RowEvent): string => (data as StoredLogLine).message;
const error = { level: 'error', sessionId: 's', data: '{"a":1}' } as const;
await insertLogs(
  pool,
  Array.from({ length: LINES }, (_, n) => line(n, n === 7 || n === LINES - 7 ? error : {})),
);
await pool.query('VACUUM ANALYZE plugin_logs');

for (const filter of [{ levels: ['error'] }, { sessionId: 's' }] as const)
  t.test(`a filter by ${Object.keys(filter)} looks through each line once, a window at a time`, async (t) => {
    const explained = explainPool(pool);
    const tail = await LogTail.open(explained.pool, { installationId: 'i1', ...filter }, BEGINNING);
    const readAll = async (): Promise<{ messages: string[]; mostRows: number }> => {
      explained.costs.length = 0;
      const messages: string[] = [];
      for (let hasMore = true; hasMore; ) {
        const found = await tail.read();
        messages.push(...found.events.map(readMessage));
        ({ hasMore } = found);
      }
      const rows = explained.costs.map(({ rowsRead }) => Object.values(rowsRead).reduce((sum, read) => sum + read, 0));
      return { messages, mostRows: Math.max(...rows) };
    };
    const all = await readAll();
    t.same(all.messages, ['m7', `m${LINES - 7}`]);
    t.ok(all.mostRows <= READ_MAX, `one read costs ${all.mostRows} rows`);
    await insertLogs(pool, [line(LINES), line(LINES + 1, error)]);
    const next = await readAll();
    t.same(next.messages, [`m${LINES + 1}`]);
    t.ok(next.mostRows <= READ_MAX, `a read of two new lines costs ${next.mostRows} rows`);
    await pool.query('DELETE FROM plugin_logs WHERE message = $1', [`m${LINES + 1}`]);
  });

t.test('many lines that the filter wants come in order, each once', async (t) => {
  const tail = await LogTail.open(pool, { installationId: 'i1', levels: ['info'] }, BEGINNING);
  let count = 0;
  for (let hasMore = true; hasMore && count < 1_500; ) {
    const found = await tail.read();
    t.ok(found.events.length <= LIMIT);
    for (const message of found.events.map(readMessage)) {
      if (count === 7) count += 1;
      if (message !== `m${count}`) t.fail(`${message} comes instead of m${count}`);
      count += 1;
    }
    ({ hasMore } = found);
  }
});

t.test('a client does not resume behind lines that its filter left out', async (t) => {
  const ofLate = { installationId: 'late' };
  const tail = await LogTail.open(pool, { installationId: 'late', levels: ['error'] }, BEGINNING);
  await insertLogs(pool, [line(LINES, ofLate)]);
  t.same((await tail.read()).events, []);
  const committedLate = line(LINES - 1, { ...ofLate, level: 'error' });
  await insertLogs(pool, [committedLate]);
  const [event] = (await tail.read()).events;
  t.equal(event?.id, committedLate.id);
});

t.test('lines of a supervisor whose clock is behind that of the one before are sent', async (t) => {
  const installationId = 'moved';
  const add = (message: string, aheadMs: number) => {
    const time = Date.now() + aheadMs;
    const more = { installationId, message, at: new Date(time).toISOString() };
    return insertLogs(pool, [createLogLine({ id: createIdAt(time), ...more })]);
  };
  const read = async (tail: LogTail) => (await tail.read()).events.map(readMessage);
  await add('before', 30_000);
  const tail = await LogTail.open(pool, { installationId }, null);
  await add('behind', -25_000);
  t.same(await read(tail), ['behind']);
  await add('ahead', 30_000);
  t.same(await read(tail), ['ahead']);
  await add('behind again', -25_000);
  const { events } = await tail.read();
  t.same(events.map(readMessage), ['behind again']);
  const resumed = await LogTail.open(pool, { installationId }, events[0]?.id ?? null);
  t.same(await read(resumed), []);
  await add('behind after a new connection', -25_000);
  t.same(await read(resumed), ['behind after a new connection']);
  t.same(await read(tail), ['behind after a new connection']);
});

t.test('late lines of a log that is too fast to remember its lines are found behind the newest 1,000', async (t) => {
  const installationId = 'fast';
  const add = (message: string, ...ages: number[]) =>
    insertLogs(
      pool,
      ages.map((ms) =>
        createLogLine({ id: createIdAt(startedAt + LINES * EVERY_MS - ms), installationId, message, at }),
      ),
    );
  await add('first', ...Array.from({ length: 3_000 }, (_, n) => n * 10));
  const tail = await LogTail.open(pool, { installationId }, null);
  await add('late', 9_985);
  await add('too late', 9_995);
  t.same((await tail.read()).events.map(readMessage), ['late']);
});

t.test('large lines are read a few at a time, each once and in order', async (t) => {
  const ofLarge = { installationId: 'large', message: 'x'.repeat(8_000), data: JSON.stringify('x'.repeat(16_000)) };
  const lines = Array.from({ length: 2 * LIMIT }, (_, n) =>
    line(n, { ...ofLarge, level: n % 2 === 0 ? 'error' : 'info' }),
  );
  await insertLogs(pool, lines);
  const lineBytes = 24_000;
  for (const levels of [[], ['error']] as const) {
    const tail = await LogTail.open(pool, { installationId: 'large', levels }, BEGINNING);
    const ids: string[] = [];
    for (let hasMore = true; hasMore; ) {
      const found = await tail.read();
      ids.push(...found.events.map(({ id }) => id));
      t.ok((found.events.length - 1) * lineBytes < TAIL_BATCH_BYTES, `${found.events.length} lines in one batch`);
      t.ok(found.bytes >= found.events.length * lineBytes);
      ({ hasMore } = found);
    }
    const wanted = lines.filter(({ level }) => levels.length === 0 || level === 'error');
    t.same(
      ids,
      wanted.map(({ id }) => id),
    );
  }
});
