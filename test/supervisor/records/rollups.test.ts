/** No account fills the table of per-minute metrics, or the memory of sums that wait for the database, and no sum costs others. */
import type { Pool } from 'pg';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { Rollups } from '../../../supervisor/records/rollups.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const INSTALLATIONS = 100;
const HANDLERS = 100;
/** Handlers of one account that have rows of their own in one minute. */
const ACCOUNT_HANDLERS = 500;

const makeIds = (owner: string): string[] => Array.from({ length: INSTALLATIONS }, (_, number) => `${owner}-${number}`);

/** Calls each tool of each installation once. */
function callTools(rollups: Rollups, accountId: string, installationIds: readonly string[]): void {
  for (const installationId of installationIds)
    for (let number = 0; number < HANDLERS; number += 1)
      rollups.called({ installationId, accountId }, 'tools', `t${number}`, 'ok', 1);
}

t.test('an account has a limited number of rows in one minute, and every call is counted', async (t) => {
  const { pool } = await testDatabase(t);
  const [loud, quiet] = [await findOrCreateAccount(pool, 'loud'), await findOrCreateAccount(pool, 'quiet')];
  const ofLoud = makeIds('loud');
  for (const id of ofLoud) await insertBareInstallation(pool, { accountId: loud.id, pluginId: id, installationId: id });
  await insertBareInstallation(pool, { accountId: quiet.id, pluginId: 'quiet', installationId: 'quiet' });
  let minute = 1;
  const now = () => Date.UTC(2000, 0, 1, 0, minute);
  const rollups = new Rollups(pool, { now, flushMs: 3_600_000, onError: (error) => t.error(error) });
  t.teardown(() => rollups.close());
  callTools(rollups, loud.id, ofLoud);
  rollups.called({ installationId: 'quiet', accountId: quiet.id }, 'tools', 't0', 'ok', 1);
  await rollups.flush();
  callTools(rollups, loud.id, ofLoud);
  await rollups.flush();
  const { rows } = await pool.query(
    `SELECT installation_id = 'quiet' AS "isQuiet", name = '(other)' AS "isOther", count(*)::int AS rows,
            sum(calls)::int AS calls FROM call_minutes GROUP BY 1, 2 ORDER BY 1, 2`,
  );
  const others = INSTALLATIONS - ACCOUNT_HANDLERS / HANDLERS;
  t.same(rows, [
    { isQuiet: false, isOther: false, rows: ACCOUNT_HANDLERS, calls: 2 * ACCOUNT_HANDLERS },
    { isQuiet: false, isOther: true, rows: others, calls: 2 * others * HANDLERS },
    { isQuiet: true, isOther: false, rows: 1, calls: 1 },
  ]);
  minute = 2;
  rollups.called({ installationId: 'loud-99', accountId: loud.id }, 'tools', 't99', 'ok', 1);
  await rollups.flush();
  const later = await pool.query('SELECT name FROM call_minutes WHERE minute = $1', [new Date(now())]);
  t.same(later.rows, [{ name: 't99' }], 'in the next minute, a handler has a row of its own again');
});

/** Loses the connection of the next transaction: after its COMMIT, or before. */
function loseConnection(pool: Pool, isCommitted: boolean): void {
  const { connect } = pool;
  pool.connect = (async (callback?: () => void) => {
    pool.connect = connect;
    // A statement without a transaction.
    if (callback) return Reflect.apply(connect, pool, [callback]);
    const client = await pool.connect();
    const { query } = client;
    client.query = (async (text: string, ...rest: unknown[]) => {
      if (text !== 'COMMIT') return Reflect.apply(query, client, [text, ...rest]);
      client.query = query;
      await client.query(isCommitted ? 'COMMIT' : 'ROLLBACK');
      throw new Error('Connection terminated unexpectedly');
    }) as typeof query;
    return client;
  }) as typeof connect;
}

t.test('sums are added once if the connection is lost before the answer to COMMIT', async (t) => {
  const { pool } = await testDatabase(t);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const one = { installationId: 'one', accountId };
  await insertBareInstallation(pool, { ...one, pluginId: 'one' });
  const errors: Error[] = [];
  const onError = (error: Error) => void errors.push(error);
  const rollups = new Rollups(pool, { now: () => 0, flushMs: 3_600_000, onError });
  t.teardown(() => rollups.close());
  const readCalls = async () => (await pool.query('SELECT calls FROM call_minutes')).rows[0]?.calls;
  rollups.called(one, 'tools', 't0', 'ok', 1);
  loseConnection(pool, true);
  await rollups.flush();
  await rollups.flush();
  t.equal(await readCalls(), 1);
  t.same(errors, []);
  rollups.called(one, 'tools', 't0', 'ok', 1);
  loseConnection(pool, false);
  await rollups.flush();
  t.equal(await readCalls(), 1);
  t.match(errors, [{ message: 'Connection terminated unexpectedly' }]);
  await rollups.flush();
  t.equal(await readCalls(), 2, 'sums that were not committed are added by the next flush');
});

t.test('while the database is unavailable, a few accounts leave places for the sums of others', async (t) => {
  const down = { connect: () => Promise.reject(new Error('down')) } as unknown as Pool;
  let minute = 0;
  const now = () => Date.UTC(2000, 0, 1, 0, minute);
  const rollups = new Rollups(down, { now, flushMs: 3_600_000, onError: () => undefined });
  t.teardown(() => rollups.close());
  for (; minute < 20; minute += 1)
    for (const accountId of ['loud', 'louder', 'loudest']) callTools(rollups, accountId, makeIds(accountId));
  await rollups.flush();
  const before = rollups.dropped;
  t.ok(before > 0, 'they fill their shares');
  const quiet = { installationId: 'quiet', accountId: 'quiet' };
  rollups.called(quiet, 'tools', 't0', 'ok', 1);
  rollups.used(quiet, 'hostCalls');
  t.equal(rollups.dropped, before);
});

t.test('a sum that PostgreSQL rejects costs no other one', async (t) => {
  const written: string[] = [];
  let isAway = false;
  const query = async (sql: string, [json]: readonly string[] = []) => {
    if (json === undefined) return { command: sql, rows: [] };
    const names = (JSON.parse(json) as readonly { name: string }[]).map(({ name }) => name);
    if (names.includes('t50')) throw Object.assign(new Error('violates a check'), { code: '23514' });
    if (isAway) throw Object.assign(new Error('it shuts down'), { code: '57P01' });
    written.push(...names);
    return { rows: [] };
  };
  const pool = { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
  const errors: Error[] = [];
  const onError = (error: Error) => void errors.push(error);
  const rollups = new Rollups(pool, { now: () => 0, flushMs: 3_600_000, onError });
  t.teardown(() => rollups.close());
  const expected = Array.from({ length: HANDLERS }, (_, number) => `t${number}`).filter((name) => name !== 't50');
  callTools(rollups, 'ann', ['one']);
  await rollups.flush();
  t.same(written.toSorted(), expected.toSorted());
  t.ok(errors.length > 0 && errors.every(({ message }) => message === 'violates a check'), 'the operator reads why');

  written.length = 0;
  isAway = true;
  callTools(rollups, 'ann', ['one']);
  await rollups.flush();
  isAway = false;
  await rollups.flush();
  t.same(
    written.toSorted(),
    expected.toSorted(),
    'if the database goes away meanwhile, the others are written once, later',
  );
});
