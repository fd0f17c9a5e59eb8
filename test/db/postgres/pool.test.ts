import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { recountUsage } from '../../../db/accounts/usage.ts';
import { isDatabaseUnavailable } from '../../../db/postgres/database-errors.ts';
import { inTransaction, openPool, takeNamedLock } from '../../../db/postgres/pool.ts';
import { findRow, findValue, hasRow, planOnce } from '../../../db/postgres/rows.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Teardown, testDatabase } from '../../runner/harness.ts';
import { openGate } from '../../storm/database-gate.ts';

/** PostgreSQL plans a statement this often for the values it is given, before it keeps a plan for all. */
const CUSTOM_PLANS = 5;
const { pool, url } = await testDatabase(t);
await pool.query('CREATE TABLE notes (text text)');
const count = async (): Promise<number> => (await pool.query('SELECT 1 FROM notes')).rows.length;

t.test('a transaction commits when its work resolves and rolls back when it rejects', async (t) => {
  const answer = await inTransaction(pool, async (tx) => {
    await tx.query("INSERT INTO notes VALUES ('kept')");
    return 7;
  });
  t.equal(answer, 7);
  t.equal(await count(), 1);
  const failing = inTransaction(pool, async (tx) => {
    await tx.query("INSERT INTO notes VALUES ('gone')");
    throw new Error('no');
  });
  await t.rejects(failing, { message: 'no' });
  t.equal(await count(), 1);
});

t.test(
  'a transaction that PostgreSQL rolls back rejects, also where the error of its statement was ignored',
  async (t) => {
    const before = await count();
    const ignoring = inTransaction(pool, async (tx) => {
      await tx.query("INSERT INTO notes VALUES ('gone')");
      await tx.query('SELECT 1 / 0').catch(() => undefined);
    });
    await t.rejects(ignoring, { message: /^The transaction was rolled back/ });
    t.equal(await count(), before);
    t.equal((await pool.query('SELECT 1 AS one')).rows[0].one, 1);
  },
);

t.test('a connection lost inside a transaction is discarded', async (t) => {
  const cut = inTransaction(pool, (tx) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())'));
  await t.rejects(cut);
  t.equal(await count(), 1);
});

t.test('the end of a transaction that was idle for too long counts as an unavailable database', async (t) => {
  const suspended = inTransaction(pool, async (tx) => {
    const { stream } = (tx as unknown as { readonly connection: { readonly stream: Socket } }).connection;
    const pid = await findValue<number>(tx, 'SELECT pg_backend_pid()');
    await tx.query('SET LOCAL idle_in_transaction_session_timeout = 50');
    // Like a process that was suspended: it sends the next statement before it reads that the connection has ended.
    stream.pause().cork();
    await eventually(async () => !(await hasRow(pool, 'SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid])));
    const answered = tx.query('SELECT 1');
    stream.resume();
    await answered;
  });
  const error: unknown = await suspended.catch((error: unknown) => error);
  t.match(error, { code: '25P03' });
  t.ok(isDatabaseUnavailable(error));
});

t.test('a statement of planOnce is planned again for a table that has grown', async (t) => {
  const explain = async (table: string, plansMaxAgeMs: number): Promise<string> => {
    const other = openPool(url, { name: table, connections: 1, plansMaxAgeMs, onError: t.error });
    t.teardown(() => other.close());
    const statement = planOnce(`SELECT id FROM ${table} WHERE id = $1`);
    return inTransaction(other.pool, async (tx) => {
      await tx.query(`CREATE TABLE ${table} (id int PRIMARY KEY); INSERT INTO ${table} VALUES (1); ANALYZE ${table}`);
      for (let run = 0; run < CUSTOM_PLANS; run += 1) await findRow(tx, statement, [1]);
      t.same(await findRow(tx, statement, [1]), { id: 1 });
      await tx.query(`INSERT INTO ${table} SELECT n FROM generate_series(2, 20000) n`);
      t.same(await findRow(tx, statement, [2]), { id: 2 });
      const { rows } = await tx.query(`EXPLAIN EXECUTE "${statement.name}" (1)`);
      return rows[0]['QUERY PLAN'];
    });
  };
  let tables = 0;
  // Where PostgreSQL has missed which catalog rows others changed, as after a migration elsewhere, it plans everything again.
  const isKept = async () => {
    tables += 1;
    return (await explain(`kept_${tables}`, Number.POSITIVE_INFINITY)).includes('Seq Scan');
  };
  t.ok(await eventually(isKept), 'PostgreSQL keeps its plan');
  t.match(await explain('planned_again', 0), 'Index');
});

t.test('a statement of planOnce does not change places with later ones when it is planned again', async (t) => {
  const other = openPool(url, { name: 'ordered', connections: 1, plansMaxAgeMs: 0, onError: t.error });
  t.teardown(() => other.close());
  await pool.query('CREATE TABLE ordered (text text)');
  const failing = inTransaction(other.pool, async (tx) => {
    tx.query(planOnce(`INSERT INTO ordered VALUES ('not awaited')`)).catch(t.error);
    throw new Error('no');
  });
  await t.rejects(failing, { message: 'no' });
  t.same((await pool.query('SELECT text FROM ordered')).rows, [], 'the transaction contains it');
});

t.test('a connection is closed whose statement of planOnce returns another type since an upgrade', async (t) => {
  const other = openPool(url, { name: 'upgraded', connections: 1, onError: t.error });
  t.teardown(() => other.close());
  const statement = planOnce('SELECT size FROM things');
  const read = () => inTransaction(other.pool, (tx) => findRow(tx, statement));
  await pool.query('CREATE TABLE things (size int); INSERT INTO things VALUES (1)');
  t.same(await read(), { size: 1 });
  await pool.query('ALTER TABLE things ALTER COLUMN size TYPE text');
  await t.rejects(read(), { message: /cached plan must not change result type/ });
  t.same(await read(), { size: '1' });
});

t.test('a connection plans a statement of planOnce once', async (t) => {
  const statement = planOnce('SELECT $1::int AS n');
  await inTransaction(pool, async (tx) => {
    for (const n of [1, 2, 3]) t.same(await findRow(tx, statement, [n]), { n });
    const { rows } = await tx.query(
      'SELECT statement, custom_plans + generic_plans AS runs FROM pg_prepared_statements',
    );
    t.match(rows, [{ statement: 'SELECT $1::int AS n', runs: '3' }]);
  });
});

t.test('a statement takes one processor', async (t) => {
  for (const [name, value] of [
    ['max_parallel_workers_per_gather', '0'],
    ['jit', 'off'],
  ] as const)
    t.match(await findRow(pool, `SHOW ${name}`), { [name]: value });
});

t.test('times are ISO 8601, whatever the zone of the connection', async (t) => {
  const read = (zone: string, time: string) =>
    inTransaction(pool, async (tx) => {
      await tx.query(`SET LOCAL timezone = '${zone}'`);
      return (await tx.query('SELECT $1::timestamptz AS at', [time])).rows[0].at;
    });
  for (const zone of ['UTC', 'Asia/Kathmandu', 'Europe/Lisbon']) {
    t.equal(await read(zone, '2026-07-01T12:00:00Z'), '2026-07-01T12:00:00.000Z');
    t.equal(await read(zone, '2026-01-01T12:00:00.5Z'), '2026-01-01T12:00:00.500Z');
    t.equal(await read(zone, '1999-12-31T23:59:59.999999Z'), '1999-12-31T23:59:59.999Z');
    t.equal(await read(zone, '12026-01-01T00:00:00Z'), '+012026-01-01T00:00:00.000Z');
    t.equal(await read(zone, 'infinity'), 'infinity');
  }
});

t.test('a named lock excludes until the transaction ends', async (t) => {
  const isFree = async (name: string): Promise<boolean> => {
    const found = await pool.query('SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS free', [name]);
    return found.rows[0]?.free === true;
  };
  const order: string[] = [];
  const first = inTransaction(pool, async (tx) => {
    await takeNamedLock(tx, 'one');
    t.equal(await isFree('one'), false);
    t.equal(await isFree('two'), true);
    order.push('first');
  });
  await first;
  await inTransaction(pool, async (tx) => {
    await takeNamedLock(tx, 'one');
    order.push('second');
  });
  t.same(order, ['first', 'second']);
});

t.test('a lost idle connection is reported and replaced', async (t) => {
  const errors: string[] = [];
  const onError = (...passed: Error[]) => errors.push(passed.map(({ message }) => message).join());
  const other = openPool(url, { name: 'lossy', connections: 1, onError });
  t.teardown(() => other.close());
  await other.pool.query('SELECT 1');
  const poolError = new Promise((resolve) => other.pool.once('error', resolve));
  await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lossy'");
  await poolError;
  t.same(errors, ['terminating connection due to administrator command'], 'without the connection');
  t.equal((await other.pool.query('SELECT 1 AS one')).rows[0].one, 1);
  await other.close();
  await other.close();
});

t.test('the connections that a pool keeps are open before requests need them', async (t) => {
  const service = openPool(url, { name: 'service', onError: () => undefined });
  t.teardown(() => service.close());
  await service.openKept();
  const idle = service.pool.idleCount;
  t.ok(idle > 1);
  await Promise.all(Array.from({ length: idle }, () => service.pool.query('SELECT 1')));
  t.equal(service.pool.totalCount, idle, 'no other one was opened');
});

t.test('a server that does not accept a connection for notifications counts as unavailable after 5 s', async (t) => {
  const service = openPool(url, { name: 'service', onError: () => undefined });
  t.teardown(() => service.close());
  t.equal(service.session.options.connectionTimeoutMillis, 5_000);
});

t.test('statements have a timeout', async (t) => {
  const shown = await pool.query('SHOW statement_timeout');
  t.equal(shown.rows[0].statement_timeout, '30s');
});

/** Longer than a busy server takes for a statement without work. Milliseconds. */
const QUERY_TIMEOUT_MS = 3_000;

/** Two open connections through a gate, of a service that reaches the server itself or a pooler. */
async function openGatedPool(t: Teardown, through: 'server' | 'pooler') {
  const gate = await openGate(t, url);
  const sessionUrl = through === 'pooler' ? url : undefined;
  const options = { sessionUrl, connections: 2, queryTimeoutMs: QUERY_TIMEOUT_MS, onError: () => undefined };
  const gated = openPool(gate.url, { name: 'gated', ...options });
  t.teardown(() => gated.close());
  await gated.openKept();
  return { gate, pool: gated.pool };
}
const BACKEND = 'SELECT pg_backend_pid() AS pid';

for (const through of ['server', 'pooler'] as const) {
  t.test(`a statement whose server vanishes fails, and its connection is not used again: ${through}`, async (t) => {
    const { gate, pool } = await openGatedPool(t, through);
    const before = await Promise.all([pool.query(BACKEND), pool.query(BACKEND)]);
    gate.hold();
    const lost = await Promise.allSettled([pool.query("SELECT 'old'"), pool.query("SELECT 'old'")]);
    for (const one of lost) t.ok(one.status === 'rejected' && isDatabaseUnavailable(one.reason));
    gate.open();
    const after = await Promise.all([pool.query(BACKEND), pool.query(BACKEND)]);
    const old = before.map(({ rows }) => rows[0].pid);
    for (const { rows } of after) t.notOk(old.includes(rows[0].pid), 'another connection, which has no old answer');
  });

  t.test(`a transaction whose server vanishes fails without a wait for its rollback: ${through}`, async (t) => {
    const { gate, pool } = await openGatedPool(t, through);
    let next: Promise<string> | undefined;
    const transaction = inTransaction(pool, async (tx) => {
      gate.hold();
      return tx.query('SELECT 1').catch(async (error: unknown) => {
        next = pool.query('SELECT 1').then(String, () => 'the next statement');
        // By now it was sent, so it fails before a rollback would.
        await setImmediate();
        throw error;
      });
    }).catch((error: unknown) => {
      t.ok(isDatabaseUnavailable(error));
      return 'the transaction';
    });
    await transaction.finally(() => gate.open());
    t.equal(await Promise.race([next, transaction]), 'the transaction', 'failed first');
  });
}

t.test('a recount has the time that it needs', async (t) => {
  const { pool: impatient } = await openGatedPool(t, 'server');
  const locker = await pool.connect();
  t.teardown(() => locker.release(true));
  await locker.query('BEGIN; LOCK TABLE account_usage');
  const recount = recountUsage(impatient);
  recount.catch(() => undefined);
  const waiting = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'gated' AND wait_event_type = 'Lock'`;
  await eventually(async () => (await pool.query(waiting)).rowCount !== 0);
  await t.rejects(impatient.query('SELECT pg_sleep(60)'), { message: 'Query read timeout' });
  await locker.query('ROLLBACK');
  await t.resolves(recount);
});
