/** Old rows are deleted in batches, and what fails for one table does not stop the others. */
import type { Pool } from 'pg';
import t from 'tap';
import { sweepAccountActions } from '../../../db/accounts/account-actions.ts';
import { createIdAt } from '../../../db/postgres/ordered-id.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import { SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { insertLogs } from '../../../db/records/logs.ts';
import { sweepReminders } from '../../../db/sessions/reminders.ts';
import { hasLostChanges, sweepChanges } from '../../../db/sessions/session-changes.ts';
import { sweepCalls } from '../../../db/sessions/tool-calls.ts';
import { createRecordPartitions, maintainTables } from '../../../supervisor/delivery/upkeep.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { createLogLine } from '../../fixtures/log-line.ts';
import { testDatabase } from '../../runner/harness.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

/** More than two batches. */
const OLD = 2 * SWEEP_BATCH + 500;
/** Much more than a batch reads. */
const NEW = 8 * SWEEP_BATCH;
/** Rows that one batch reads of a table: to find, to lock and to delete them, and those that follow them. */
const ROWS_MAX = 4 * SWEEP_BATCH;

const { pool, url } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a'), ('b', 'b')`);
await insertBareInstallation(pool, { accountId: 'a' });
await pool.query(`INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('s', 'a', 'agent', 'agent')`);

async function addCalls(count: number, age: string): Promise<void> {
  await pool.query(
    `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name, started_at)
     SELECT 's', '', $2::text || n, 'd', 'a', 'x', now() - $2::text::interval FROM generate_series(1, $1::int) n`,
    [count, age],
  );
}
async function addReminders(count: number, age: string): Promise<void> {
  await pool.query(
    `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, starts_at, last_at)
     SELECT 's', $2::text || n, 'a', 'd', 'x', 'x', 'UTC', now(), now() - $2::text::interval FROM generate_series(1, $1::int) n`,
    [count, age],
  );
}
async function addChanges(accountId: string, count: number, age: string): Promise<void> {
  await pool.query(
    `INSERT INTO session_changes (account_id, session_id, agent_id, type, at)
     SELECT $1, 's', 'agent', 'deleted', now() - $3::interval FROM generate_series(1, $2::int)`,
    [accountId, count, age],
  );
}
const count = async (table: string, db = pool): Promise<number> =>
  (await db.query(`SELECT count(*)::int FROM ${table}`)).rows[0].count;
const clear = () => pool.query('DELETE FROM tool_calls; DELETE FROM reminders; DELETE FROM session_changes');

/** Runs a sweep. @returns the number of its statements */
async function countStatements(sweep: (pool: Pool) => Promise<void>): Promise<number> {
  const explained = explainPool(pool);
  await sweep(explained.pool);
  for (const { rowsRead } of explained.costs) {
    const read = Math.max(0, ...Object.values(rowsRead));
    t.ok(read <= ROWS_MAX, `${read} rows`);
  }
  return explained.costs.length;
}

t.test('calls and reminders are deleted in batches, until no old one is left', async (t) => {
  for (const age of ['25 hours', '23 hours']) await addCalls(age === '25 hours' ? OLD : 10, age);
  for (const age of ['31 days', '29 days']) await addReminders(age === '31 days' ? OLD : 10, age);
  await pool.query('VACUUM ANALYZE tool_calls, reminders');
  t.equal(await countStatements(sweepCalls), 3);
  t.equal(await countStatements(sweepReminders), 3);
  t.equal(await count('tool_calls'), 10);
  t.equal(await count('reminders'), 10);
  await clear();
});

t.test(
  'what was done in the name of accounts is deleted after 90 days, in batches that read no newer records',
  async (t) => {
    const DAY_MS = 24 * 3_600_000;
    const add = async (count: number, days: number) =>
      pool.query(
        `INSERT INTO account_actions (id, account_id, action, subject, at)
       SELECT id, 'a', 'x', 's', now() - make_interval(days => $2) FROM unnest($1::text[]) id`,
        [Array.from({ length: count }, () => createIdAt(Date.now() - days * DAY_MS)), days],
      );
    await add(OLD, 91);
    await add(NEW, 89);
    await pool.query('VACUUM ANALYZE account_actions');
    t.equal(await countStatements(sweepAccountActions), 3);
    t.equal(await count('account_actions'), NEW);
    t.equal(await countStatements(sweepAccountActions), 1, 'without old ones');
  },
);

t.test('the sweep of a process whose clock is ahead deletes no newer records of what was done', async (t) => {
  const DAY_MS = 24 * 3_600_000;
  const daysAgo = (days: number) => Date.now() - days * DAY_MS;
  await pool.query(
    `INSERT INTO account_actions (id, account_id, action, subject, at)
     SELECT id, 'a', 'x', 's', now() - make_interval(days => days) FROM unnest($1::text[], $2::int[]) AS r(id, days)`,
    [
      [createIdAt(daysAgo(91)), createIdAt(daysAgo(89))],
      [91, 89],
    ],
  );
  const before = await count('account_actions');
  const ahead = daysAgo(-2);
  t.intercept(Date, 'now', { value: () => ahead });
  await sweepAccountActions(pool);
  t.equal(await count('account_actions'), before - 1);
});

t.test('old changes of sessions are deleted in batches, except the last one of each account', async (t) => {
  await addChanges('b', 1, '26 hours');
  await addChanges('a', OLD, '25 hours');
  await addChanges('a', NEW, '1 hour');
  await pool.query('VACUUM ANALYZE session_changes');
  t.equal(await countStatements(sweepChanges), 3);
  const { rows } = await pool.query(
    `SELECT account_id AS account, count(*)::int FROM session_changes WHERE at < now() - interval '2 hours' GROUP BY 1 ORDER BY 1`,
  );
  t.same(rows, [
    { account: 'a', count: 1 },
    { account: 'b', count: 1 },
  ]);
  t.equal(await count('session_changes'), 2 + NEW);
  for (const account of ['a', 'b']) t.equal(await hasLostChanges(pool, account, '0', '0'), true);
  await clear();
});

t.test('accounts of which one old change is left do not stop the sweep of the others', async (t) => {
  const MARKS = SWEEP_BATCH + 100;
  await pool.query(
    `INSERT INTO session_changes (account_id, session_id, agent_id, type, at)
     SELECT 'm' || n, 's', 'agent', 'deleted', now() - interval '27 hours' - n * interval '1 second'
       FROM generate_series(1, $1::int) n`,
    [MARKS],
  );
  await addChanges('a', OLD, '25 hours');
  await sweepChanges(pool);
  t.equal(await count('session_changes'), MARKS + 1);
  await clear();
});

t.test('upkeep goes on after a step that fails', async (t) => {
  await pool.query(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''too many''; END'`);
  await pool.query('CREATE TRIGGER fails BEFORE DELETE ON tool_calls FOR EACH ROW EXECUTE FUNCTION fail()');
  await addCalls(1, '25 hours');
  await addChanges('a', 2, '25 hours');
  await addReminders(1, '31 days');
  const errors: string[] = [];
  const onError = ({ message }: Error) => errors.push(message);
  await maintainTables({ pool, deliveryDays: 1, metricsDays: 1, onError });
  t.same(errors, ['too many']);
  t.equal(await count('tool_calls'), 1);
  t.equal(await count('session_changes'), 1);
  t.equal(await count('reminders'), 0);
});

t.test('a start waits for no transaction that reads the records, and goes on if another locks them', async (t) => {
  const partitions = `SELECT inhrelid::regclass AS name FROM pg_inherits
    WHERE inhparent IN ('plugin_logs'::regclass, 'audit'::regclass)`;
  const listPartitions = async () => (await pool.query(partitions)).rows;
  const drop = async () => {
    for (const { name } of await listPartitions()) await pool.query(`DROP TABLE ${name}`);
  };
  const errors: string[] = [];
  const onError = ({ message }: Error) => errors.push(message);
  const hasty = openPool(url, { name: 'hasty', onError: () => undefined });
  t.teardown(() => hasty.close());
  hasty.pool.on('connect', (client) => void client.query('SET lock_timeout = 100'));
  const other = await pool.connect();
  try {
    // Those of the template are of the hour in which it was made.
    await drop();
    await createRecordPartitions({ pool, onError });
    const { length } = await listPartitions();
    await drop();
    await other.query('BEGIN; SELECT FROM plugin_logs; SELECT FROM audit');
    await createRecordPartitions({ pool: hasty.pool, onError });
    await other.query('COMMIT');
    t.equal((await listPartitions()).length, length);
    await drop();
    await other.query('BEGIN; LOCK TABLE plugin_logs, audit IN SHARE UPDATE EXCLUSIVE MODE');
    t.same(errors, []);
    await createRecordPartitions({ pool: hasty.pool, onError });
    t.equal(errors.length, 2);
  } finally {
    await other.query('ROLLBACK');
    other.release();
  }
});

t.test('a supervisor starts and writes logs while pg_dump reads every table', async (t) => {
  const { pool } = await testDatabase(t);
  const { rows } = await pool.query(
    `SELECT inhrelid::regclass AS name FROM pg_inherits WHERE inhparent IN ('plugin_logs'::regclass, 'audit'::regclass)`,
  );
  for (const { name } of rows) await pool.query(`DROP TABLE ${name}`);
  const dump = await pool.connect();
  try {
    await dump.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const tables = await dump.query(
      `SELECT oid::regclass AS name FROM pg_class
        WHERE relkind IN ('r', 'p') AND relnamespace IN ('public'::regnamespace, 'pgboss'::regnamespace)`,
    );
    await dump.query(`LOCK TABLE ${tables.rows.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`);
    await startSupervisorFixture(t, { pool });
    await insertLogs(pool, [createLogLine({ id: '1', message: 'hello' })]);
    t.equal(await count('plugin_logs', pool), 1);
  } finally {
    await dump.query('COMMIT');
    dump.release();
  }
});
