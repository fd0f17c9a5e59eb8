import t from 'tap';
import { inTransaction, openPool, takeNamedLock } from '../../../db/postgres/pool.ts';
import { findRow, planOnce } from '../../../db/postgres/rows.ts';
import { testDatabase } from '../../runner/harness.ts';

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

t.test('a connection lost inside a transaction is discarded', async (t) => {
  const cut = inTransaction(pool, (tx) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())'));
  await t.rejects(cut);
  t.equal(await count(), 1);
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
  const other = openPool(url, { name: 'lossy', connections: 1, onError: (error) => errors.push(error.message) });
  t.teardown(() => other.close());
  await other.pool.query('SELECT 1');
  const poolError = new Promise((resolve) => other.pool.once('error', resolve));
  await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lossy'");
  await poolError;
  t.equal(errors.length, 1);
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

t.test('statements have a timeout', async (t) => {
  const shown = await pool.query('SHOW statement_timeout');
  t.equal(shown.rows[0].statement_timeout, '30s');
});
