import { setImmediate } from 'node:timers/promises';
import type { Pool } from 'pg';
import { Gauge } from 'prom-client';
import t from 'tap';
import { classifyDatabaseError } from '../../../db/postgres/database-errors.ts';
import { countWaiting, inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { asAccount, asService, ConnectionShares, WAITING_OF_ACCOUNT_MAX } from '../../../db/postgres/shares.ts';
import { readPoolUse } from '../../../service/telemetry/pool-use.ts';
import { type Teardown, testDatabase } from '../../runner/harness.ts';

const { pool: admin, url } = await testDatabase(t);

/** Of 20 connections, four are left to work of no account, and one account gets half of the others. */
const CONNECTIONS = 20;
const OF_ACCOUNTS = 16;
const OF_ONE = 8;

let lastName = 0;
/** A pool whose statements wait while `lock` is held. */
async function openLockedPool(t: Teardown & { equal(found: unknown, wanted: unknown): unknown }) {
  lastName += 1;
  const name = `shares ${lastName}`;
  const { pool } = openPool(url, { name, connections: CONNECTIONS, onError: () => undefined });
  t.teardown(() => pool.ending || pool.end());
  const holder = await admin.connect();
  await holder.query('SELECT pg_advisory_lock($1)', [lastName]);
  const key = lastName;
  let isHeld = true;
  const unlock = async (): Promise<void> => {
    if (!isHeld) return;
    isHeld = false;
    await holder.query('SELECT pg_advisory_unlock($1)', [key]);
    holder.release();
  };
  t.teardown(unlock);
  const countBlocked = async (): Promise<number> => {
    const blocked = `SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE application_name = $1 AND wait_event_type = 'Lock'`;
    return (await admin.query<{ count: number }>(blocked, [name])).rows[0]?.count ?? 0;
  };
  return {
    pool,
    unlock,
    waitForLock: () => pool.query('SELECT pg_advisory_lock_shared($1), pg_advisory_unlock_shared($1)', [key]),
    /** Resolves when this many statements wait for the lock. */
    async untilBlocked(count: number): Promise<void> {
      while ((await countBlocked()) < count) await setImmediate();
      t.equal(await countBlocked(), count);
    },
  };
}
const placeOf = (accountId: string, isCostly = false) => ({ accountId, isCostly });
const times = <T>(count: number, work: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => work(index));
const readOne = async (pool: Pool): Promise<number> => (await pool.query('SELECT 1 AS one')).rows[0].one;
/** The values of the pool's metric, by state. */
async function readMetrics(pool: Pool): Promise<Record<string, number>> {
  const gauge = new Gauge({ name: 'connections', help: 'connections', labelNames: ['state'], registers: [] });
  readPoolUse(pool)(gauge);
  return Object.fromEntries((await gauge.get()).values.map(({ labels, value }) => [labels.state, value]));
}
/** The kind of the error that work fails with. */
const findFault = (work: Promise<unknown>): Promise<unknown> => work.then(() => 'none', classifyDatabaseError);

t.test('slow statements of one account leave connections to others', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const slow = asAccount('ann', () => times(40, waitForLock));
  await untilBlocked(OF_ONE);
  t.equal(countWaiting(pool), 40 - OF_ONE);
  t.match(await readMetrics(pool), { waiting: 0, waiting_for_share: 40 - OF_ONE });
  t.equal(await asAccount('bob', () => readOne(pool)), 1);
  const ofBob = asAccount('bob', () => times(40, waitForLock));
  await untilBlocked(OF_ONE + OF_ONE / 2);
  t.equal(await asAccount('cid', () => readOne(pool)), 1, 'beside two slow accounts, too');
  t.equal(await readOne(pool), 1, 'also work of no account');
  await unlock();
  await Promise.all([...slow, ...ofBob]);
  t.equal(countWaiting(pool), 0);
});

t.test('several accounts that wait are a shortage, also while a place is free', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const slow = ['ann', 'bob', 'cid', 'dan'].flatMap((name) => asAccount(name, () => times(10, waitForLock)));
  await untilBlocked(OF_ACCOUNTS - 1);
  t.match(await readMetrics(pool), { waiting: 40 - (OF_ACCOUNTS - 1), waiting_for_share: 0 });
  t.equal(await asAccount('eve', () => readOne(pool)), 1);
  await unlock();
  await Promise.all(slow);
});

t.test('work of no account is not limited, and finds connections beside all accounts', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const slow = times(CONNECTIONS, (index) =>
    asAccount(`account ${index}`, () => times(CONNECTIONS, waitForLock)),
  ).flat();
  await untilBlocked(OF_ACCOUNTS);
  t.match(await readMetrics(pool), { waiting: CONNECTIONS * CONNECTIONS - OF_ACCOUNTS, waiting_for_share: 0 });
  const ofService = times(CONNECTIONS - OF_ACCOUNTS, (index) =>
    index % 2 ? waitForLock() : asAccount('ann', () => asService(waitForLock)),
  );
  await untilBlocked(CONNECTIONS);
  t.equal(pool.totalCount, CONNECTIONS);
  await unlock();
  await Promise.all([...slow, ...ofService]);
});

t.test('a connection inside a transaction waits for no place', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const begun = times(OF_ONE, () => Promise.withResolvers<void>());
  const isOver = Promise.withResolvers<void>();
  let left: Promise<unknown> | undefined;
  const nested = asAccount('ann', () =>
    times(OF_ONE, (index) =>
      inTransaction(pool, async () => {
        begun[index]?.resolve();
        await Promise.all(begun.map(({ promise }) => promise));
        left ??= isOver.promise.then(waitForLock);
        return (await readOne(pool)) + (await asAccount('bob', () => readOne(pool)));
      }),
    ),
  );
  t.same(
    await Promise.all(nested),
    times(OF_ONE, () => 2),
  );
  // Work that a transaction started and that goes on after it is limited again.
  const slow = asAccount('ann', () => times(OF_ONE, waitForLock));
  await untilBlocked(OF_ONE);
  isOver.resolve();
  await setImmediate();
  t.equal(countWaiting(pool), 1);
  await unlock();
  await Promise.all([...slow, left]);
});

t.test('accounts that wait have turns', async (t) => {
  const shares = new ConnectionShares(4, 60_000);
  await Promise.all(['ann', 'ann', 'bob', 'cid'].map((accountId) => shares.claim(placeOf(accountId))));
  const order: string[] = [];
  const waiting = ['dan 1', 'dan 2', 'dan 3', 'eve 1'].map(async (name) => {
    await shares.claim(placeOf(name.slice(0, 3)));
    order.push(name);
  });
  t.equal(shares.waiting, 4);
  for (const accountId of ['ann', 'dan', 'eve', 'dan', 'dan']) {
    shares.release(placeOf(accountId));
    await setImmediate();
  }
  await Promise.all(waiting);
  t.same(order, ['dan 1', 'eve 1', 'dan 2', 'dan 3']);
});

t.test('costly statements of a hundred accounts leave half of the connections to the others', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const slow = times(100, (index) => asAccount(`account ${index}`, () => times(2, waitForLock), true)).flat();
  await untilBlocked(OF_ACCOUNTS / 2);
  t.equal(countWaiting(pool), 200 - OF_ACCOUNTS / 2);
  t.equal(await asAccount('ann', () => readOne(pool)), 1);
  t.equal(await asAccount('account 1', () => readOne(pool)), 1, 'also to one of theirs');
  await unlock();
  await Promise.all(slow);
});

t.test('a place that does not become free in time is a busy database', async (t) => {
  const shares = new ConnectionShares(2, 1);
  const ann = placeOf('ann');
  await shares.claim(ann);
  t.equal(await findFault(shares.claim(ann)), 'busy');
  t.equal(shares.waiting, 0);
  shares.release(ann);
  await shares.claim(ann);
});

t.test('an account may have a limited number of statements waiting', async (t) => {
  const { pool, waitForLock, unlock } = await openLockedPool(t);
  const slow = asAccount('ann', () => times(OF_ONE + WAITING_OF_ACCOUNT_MAX, waitForLock));
  t.equal(await findFault(asAccount('ann', () => readOne(pool))), 'busy');
  t.equal(await asAccount('bob', () => readOne(pool)), 1);
  await unlock();
  await Promise.all(slow);
});

t.test('a place is given back however its work ends', async (t) => {
  const { pool } = await openLockedPool(t);
  const lose = 'SELECT pg_terminate_backend(pg_backend_pid())';
  const endings: (() => Promise<unknown>)[] = [
    () => pool.query('SELECT 1/0'),
    () => pool.query(lose),
    () => inTransaction(pool, (tx) => tx.query('SELECT 1/0')),
    () => inTransaction(pool, (tx) => tx.query(lose)),
    async () => (await pool.connect()).release(new Error('broken')),
    async () => (await pool.connect()).release(true),
  ];
  for (const end of endings)
    for (let count = 0; count <= OF_ONE; count += 1) await asAccount('ann', end).catch(() => undefined);
  t.equal(await asAccount('ann', () => readOne(pool)), 1);
  const client = await asAccount('ann', () => pool.connect());
  client.release();
  t.throws(() => client.release(), /already been released/);
  const lost = openPool('postgres://user@127.0.0.1:1/database', { name: 'lost', onError: () => undefined });
  for (let count = 0; count <= OF_ONE; count += 1)
    t.equal(await findFault(asAccount('ann', () => readOne(lost.pool))), 'unavailable');
  await lost.close();
});

t.test('statements that wait when the pool closes fail', async (t) => {
  const { pool, waitForLock, untilBlocked, unlock } = await openLockedPool(t);
  const slow = Promise.allSettled(asAccount('ann', () => times(40, waitForLock)));
  await untilBlocked(OF_ONE);
  const closed = pool.end();
  await unlock();
  const failed = (await slow).filter((one) => one.status === 'rejected');
  t.equal(failed.length, 40 - OF_ONE);
  for (const { reason } of failed) t.equal(classifyDatabaseError(reason), 'unavailable');
  await closed;
});
