/** Log and audit rows: pages, filters, cursors, partitions. */
import t from 'tap';
import { decodeCursor, encodeCursor } from '../../../db/postgres/cursors.ts';
import { isRejectedRow } from '../../../db/postgres/database-errors.ts';
import { insertAudit, maintainAudit, pageAudit } from '../../../db/records/audit.ts';
import { insertLogs, type LogLine, maintainLogs, pageLogs } from '../../../db/records/logs.ts';
import { createLogLine } from '../../fixtures/log-line.ts';
import { testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

const HOUR = 3_600_000;
/** The partition that a maintenance at that time creates. */
const nameHour = (at: number): string => `plugin_logs_${new Date(at).toISOString().slice(0, 13).replace(/[-T]/g, '')}`;
const line = (n: number, more: Partial<LogLine> = {}): LogLine =>
  createLogLine({ id: String(n).padStart(6, '0'), message: `m${n}`, ...more });

t.test('pages go newest first and miss nothing while lines arrive', async (t) => {
  const { pool } = await testDatabase(t);
  await maintainLogs(pool);
  await insertLogs(
    pool,
    Array.from({ length: 25 }, (_, n) => line(n, { data: n === 24 ? '{"a":[1]}' : null })),
  );
  await insertLogs(pool, []);
  const first = await pageLogs(pool, { installationId: 'i1', limit: 10 });
  t.match(first.items[0], { message: 'm24', data: { a: [1] }, at: /Z$/ });
  await insertLogs(pool, [line(99)]);
  const rest: string[] = [];
  for (let cursor = first.nextCursor; cursor; ) {
    const page = await pageLogs(pool, { installationId: 'i1', limit: 10, cursor });
    rest.push(...page.items.map((item) => item.message));
    cursor = page.nextCursor;
  }
  t.strictSame(
    rest,
    Array.from({ length: 15 }, (_, n) => `m${14 - n}`),
  );
  await t.rejects(pageLogs(pool, { installationId: 'i1', limit: 1, cursor: 'no cursor' }), { code: 'bad_request' });
  t.same((await pageLogs(pool, { installationId: 'other', limit: 10 })).items, []);
});

await soakTest(t, 'levels and sessions filter', async (t) => {
  const { pool } = await testDatabase(t);
  await maintainLogs(pool);
  await insertLogs(pool, [
    line(1, { level: 'warn', sessionId: 's1' }),
    line(2, { level: 'error', sessionId: 's2' }),
    line(3, { sessionId: 's1' }),
  ]);
  const messages = async (query: object) =>
    (await pageLogs(pool, { installationId: 'i1', limit: 10, ...query })).items.map((item) => item.message);
  t.strictSame(await messages({ levels: ['warn', 'error'] }), ['m2', 'm1']);
  t.strictSame(await messages({ sessionId: 's1' }), ['m3', 'm1']);
  t.strictSame(await messages({ sessionId: 's1', levels: ['warn'] }), ['m1']);
  t.strictSame(await messages({ levels: [] }), ['m3', 'm2', 'm1']);
});

t.test('hours are made ahead and dropped after a day, in many processes at once', async (t) => {
  const { pool } = await testDatabase(t);
  const now = Date.now();
  const hours = async () =>
    (
      await pool.query(
        `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = 'plugin_logs'::regclass ORDER BY 1`,
      )
    ).rows.map((row) => row.name);
  const current = await hours();
  await Promise.all(Array.from({ length: 8 }, () => maintainLogs(pool, now - 30 * HOUR)));
  const old = (await hours()).filter((name) => !current.includes(name));
  t.equal(old.length, 5, old.join());
  await insertLogs(pool, [line(1, { at: new Date(now - 30 * HOUR).toISOString() })]);
  t.same((await pageLogs(pool, { installationId: 'i1', limit: 1 })).items, [], 'it can no longer be read');
  await maintainLogs(pool, now);
  const fresh = await hours();
  t.equal(fresh.filter((name) => old.includes(name)).length, 0, 'dropped');
  await insertLogs(pool, [line(2), line(3, { at: new Date(now + 2 * HOUR).toISOString() })]);
});

t.test(
  'a transaction that reads the lines for hours, as pg_dump does, stops neither maintenance nor inserts',
  async (t) => {
    const { pool } = await testDatabase(t);
    const now = Date.now();
    await maintainLogs(pool, now - 30 * HOUR);
    const countOld = async () =>
      (await pool.query(`SELECT count(*)::int FROM pg_class WHERE relname = $1`, [nameHour(now - 30 * HOUR)])).rows[0]
        .count;
    t.equal(await countOld(), 1);
    const reader = await pool.connect();
    try {
      await reader.query('BEGIN; SELECT FROM plugin_logs');
      await Promise.all([maintainLogs(pool, now + HOUR), insertLogs(pool, [line(1)])]);
      t.equal(await countOld(), 1, 'what it reads stays');
    } finally {
      await reader.query('COMMIT');
      reader.release();
    }
    t.equal((await pageLogs(pool, { installationId: 'i1', limit: 5 })).items.length, 1);
    await maintainLogs(pool, now + HOUR);
    t.equal(await countOld(), 0, 'until the next run');
  },
);

t.test(
  'an insert creates the partitions that maintenance could not, and a row too old for them is rejected',
  async (t) => {
    const { pool } = await testDatabase(t);
    const { rows } = await pool.query(
      `SELECT inhrelid::regclass AS name FROM pg_inherits WHERE inhparent IN ('plugin_logs'::regclass, 'audit'::regclass)`,
    );
    for (const { name } of rows) await pool.query(`DROP TABLE ${name}`);
    await Promise.all([insertLogs(pool, [line(1)]), insertLogs(pool, [line(2)])]);
    t.equal((await pageLogs(pool, { installationId: 'i1', limit: 5 })).items.length, 2);
    const call = { member: 'storage.get', outcome: 'ok', durationMs: 1, argumentsSha256: null, detail: null } as const;
    const entry = { id: 'a1', installationId: 'i1', sessionId: null, invocationId: null, ...call };
    await insertAudit(pool, [{ ...entry, at: new Date().toISOString() }]);
    t.equal((await pageAudit(pool, { installationId: 'i1', limit: 5 })).items.length, 1);
    const old = insertLogs(pool, [line(3, { at: new Date(Date.now() - 30 * HOUR).toISOString() })]);
    await old.then(
      () => t.fail('no partition takes it'),
      (error: Error) => t.ok(isRejectedRow(error), error.message),
    );
  },
);

t.test('lines and entries that waited for the database for hours are stored, with their times', async (t) => {
  const { pool } = await testDatabase(t);
  const now = Date.now();
  const waited = [20, 10, 9, 5, 0].map((hours, index) =>
    line(index, { at: new Date(now - hours * HOUR).toISOString() }),
  );
  await insertLogs(pool, waited);
  const { items } = await pageLogs(pool, { installationId: 'i1', limit: 9 });
  const readTimes = (lines: readonly { at: string }[]) => lines.map(({ at }) => Date.parse(at));
  t.same(readTimes(items), readTimes(waited.reverse()));
  const call = { member: 'storage.get', outcome: 'ok', durationMs: 1, argumentsSha256: null, detail: null } as const;
  const entry = { id: 'a1', installationId: 'i1', sessionId: null, invocationId: null, ...call };
  await insertAudit(pool, [{ ...entry, at: new Date(now - 72 * HOUR).toISOString() }]);
  t.equal((await pageAudit(pool, { installationId: 'i1', limit: 5 })).items.length, 1);
});

await soakTest(
  t,
  'lines and entries of a process whose clock is a day ahead are kept, with the database’s time',
  async (t) => {
    const { pool } = await testDatabase(t);
    const ahead = new Date(Date.now() + 24 * HOUR).toISOString();
    await maintainLogs(pool);
    await maintainAudit(pool);
    await insertLogs(pool, [line(1), line(2, { at: ahead }), line(3)]);
    t.strictSame(
      (await pageLogs(pool, { installationId: 'i1', limit: 5 })).items.map(({ message }) => message),
      ['m3', 'm2', 'm1'],
    );
    const { rows } = await pool.query('SELECT 1 FROM plugin_logs WHERE at > now()');
    t.same(rows, []);
    const call = { member: 'storage.get', outcome: 'ok', durationMs: 1, argumentsSha256: null, detail: null } as const;
    const entry = { id: 'a1', installationId: 'i1', sessionId: null, invocationId: null };
    await insertAudit(pool, [{ ...entry, at: new Date(Date.now() + 72 * HOUR).toISOString(), ...call }]);
    t.equal((await pageAudit(pool, { installationId: 'i1', limit: 5 })).items.length, 1);
    // The process whose clock is ahead maintains the partitions, too.
    const { now } = Date;
    t.teardown(() => Object.assign(Date, { now }));
    Object.assign(Date, { now: () => now() + 24 * HOUR });
    await maintainLogs(pool);
    t.equal((await pageLogs(pool, { installationId: 'i1', limit: 5 })).items.length, 3, 'nothing was dropped');
  },
);

t.test('audit pages', async (t) => {
  const { pool } = await testDatabase(t);
  await maintainAudit(pool);
  const at = new Date().toISOString();
  const entry = (n: number) => ({
    id: `a${n}`,
    at,
    installationId: 'i1',
    sessionId: null,
    invocationId: null,
    member: 'storage.get',
    outcome: 'ok' as const,
    durationMs: 1.5,
    argumentsSha256: null,
    detail: null,
  });
  await insertAudit(pool, [entry(1), entry(2), entry(3)]);
  const first = await pageAudit(pool, { installationId: 'i1', limit: 2 });
  t.match(first.items, [{ id: 'a3', durationMs: 1.5 }, { id: 'a2' }]);
  t.match(await pageAudit(pool, { installationId: 'i1', limit: 2, cursor: first.nextCursor ?? '' }), {
    items: [{ id: 'a1' }],
    nextCursor: null,
  });
});

t.test('audit entries are kept for thirty days, and gone a day later', async (t) => {
  const { pool } = await testDatabase(t);
  const now = Date.now();
  await maintainAudit(pool, now);
  const entry = {
    id: 'a1',
    at: new Date(now).toISOString(),
    installationId: 'i1',
    sessionId: null,
    invocationId: null,
  };
  const call = {
    member: 'storage.get',
    outcome: 'denied' as const,
    durationMs: 1,
    argumentsSha256: null,
    detail: null,
  };
  await insertAudit(pool, [{ ...entry, ...call }]);
  const kept = async (days: number) => {
    await maintainAudit(pool, now + days * 24 * HOUR);
    return (await pageAudit(pool, { installationId: 'i1', limit: 5 })).items.map(({ id }) => id);
  };
  t.same(await kept(30), ['a1']);
  t.same(await kept(32), []);
});

t.test('cursors are ours or refused', async (t) => {
  t.equal(decodeCursor(encodeCursor('ä/1')), 'ä/1');
  t.equal(decodeCursor(undefined), null);
  t.equal(decodeCursor(''), null);
  for (const bad of ['!', 'a', encodeCursor('a\0'), encodeCursor('x'.repeat(1_300)), `${encodeCursor('a')}=`])
    t.throws(() => decodeCursor(bad), { code: 'bad_request' }, bad.slice(0, 20));
});
