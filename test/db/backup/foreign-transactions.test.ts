/** Rows of another server are not new messages: its transaction ids mean nothing here. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Pool } from 'pg';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { openArchive } from '../../../db/backup/archive-reader.ts';
import { writeBackup } from '../../../db/backup/create.ts';
import { restoreBackup } from '../../../db/backup/restore.ts';
import { exportTable, importTables, listTables, type Table } from '../../../db/backup/tables.ts';
import { withConnection } from '../../../db/postgres/dedicated-connection.ts';
import { SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { repairForeignTransactions } from '../../../db/sessions/foreign-transactions.ts';
import { openSessionTail } from '../../../db/sessions/session-tail.ts';
import { appendMessages, createSession } from '../../../db/sessions/sessions.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { eventually } from '../../runner/eventually.ts';
import { emptyDatabase, type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';

const CONNECTION = { application_name: 'bulkhead-test' };
const FUTURE = '4000000000000';
const ALL = { sessionId: null, agentId: null, changes: true };
const ignore = () => undefined;

/** An account with a session, whose rows have the transaction ids of a server that has run for long. */
async function fillDatabase(pool: Pool): Promise<{ accountId: string; sessionId: string }> {
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const { id } = await createSession(pool, { accountId, agentId: 'agent', agentName: 'A', channelId: null });
  await appendMessages(pool, id, [
    { id: 'first', role: 'user', text: 'x' },
    { id: 'second', role: 'user', text: 'x' },
  ]);
  await addChange(pool, accountId, id);
  await pool.query(`UPDATE session_messages SET tx = $1`, [FUTURE]);
  await pool.query(`UPDATE session_changes SET tx = $1`, [FUTURE]);
  return { accountId, sessionId: id };
}

const addChange = (pool: Pool, accountId: string, sessionId: string) =>
  pool.query(
    `INSERT INTO session_changes (account_id, session_id, agent_id, type) VALUES ($1, $2, 'agent', 'cleared')`,
    [accountId, sessionId],
  );

/** What a new reader gets at once, and the ids of the messages that it gets then. */
async function readStream(pool: Pool, accountId: string, sessionId: string) {
  const tail = await openSessionTail(pool, accountId, null, ALL);
  const first = await tail.read();
  await appendMessages(pool, sessionId, [{ id: 'new', role: 'user', text: 'x' }]);
  return { first, next: await readIds(tail) };
}

const readFromBeginning = async (pool: Pool, accountId: string) =>
  readIds(await openSessionTail(pool, accountId, '0-0', ALL));

async function readIds(tail: Awaited<ReturnType<typeof openSessionTail>>): Promise<string[]> {
  const ids: string[] = [];
  // Unsettled: transactions of other tests on the same server are older than the newest rows.
  await eventually(async () => {
    const { events, hasMore, hasUnsettled } = await tail.read();
    ids.push(...events.map(({ type, data }) => (data as { message?: { id: string } }).message?.id ?? type));
    return !hasMore && !hasUnsettled;
  });
  return ids;
}

/** Copies all tables, as a backup of a release does that includes transaction ids. */
async function copyWithTransactions(from: string, to: string): Promise<void> {
  const entries = new Map<string, Buffer>();
  const tables: Table[] = [];
  await withConnection(from, CONNECTION, async (client) => {
    for (const table of await listTables(client)) {
      const isNumbered = ['session_messages', 'session_changes'].includes(table.name);
      const columns = table.columns.filter((column) => column !== 'tx');
      const old = isNumbered ? { ...table, columns: ['tx', ...columns] } : table;
      tables.push(old);
      entries.set(table.name, await buffer(exportTable(client, old).stream));
    }
  });
  await withConnection(to, CONNECTION, async (client) => {
    await client.query('BEGIN');
    const counts = await importTables(client, tables, async ({ name }) => Readable.from([entries.get(name)]));
    await client.query('COMMIT');
    t.equal(counts.get('session_messages'), 2, 'the rows of the backup are counted');
  });
}

async function restoreInto(test: Teardown, from: string): Promise<Pool> {
  const path = join(await temporaryFolder(test), 'x.backup');
  const source = await temporaryFolder(test);
  await mkdir(join(source, 'workspaces'));
  await writeBackup(from, source, path, ignore);
  const { pool, url } = await emptyDatabase(test);
  await using archive = await openArchive(path, ignore);
  await restoreBackup(archive, url, await temporaryFolder(test), ignore);
  return pool;
}

t.test('a restored message is not new, whatever its transaction was', async (t) => {
  const { pool, url } = await testDatabase(t);
  const { accountId, sessionId } = await fillDatabase(pool);
  const restored = await restoreInto(t, url);
  const { first, next } = await readStream(restored, accountId, sessionId);
  t.match(first, { events: [], hasMore: false, hasUnsettled: false });
  t.same(next, ['new']);
  t.same(await readFromBeginning(restored, accountId), ['first', 'second', 'cleared', 'new'], 'in their order');
});

await soakTest(t, 'a backup that has transaction ids is imported without them', async (t) => {
  const { pool, url } = await testDatabase(t);
  const { accountId, sessionId } = await fillDatabase(pool);
  // After an earlier restore, two changes may differ only in their transaction.
  await pool.query(
    `INSERT INTO session_changes (account_id, session_id, agent_id, type, position)
     SELECT account_id, session_id, agent_id, type, position FROM session_changes`,
  );
  const target = await testDatabase(t);
  await copyWithTransactions(url, target.url);
  const { first, next } = await readStream(target.pool, accountId, sessionId);
  t.match(first, { events: [], hasMore: false, hasUnsettled: false });
  t.same(next, ['new']);
  t.same(await readFromBeginning(target.pool, accountId), ['first', 'second', 'cleared', 'new']);
  t.same((await restoreInto(t, url).then((restored) => restored.query('SELECT FROM session_changes'))).rowCount, 1);
});

await soakTest(t, 'positions go on behind those of messages and changes alike', async (t) => {
  const { pool, url } = await testDatabase(t);
  const { accountId, sessionId } = await fillDatabase(pool);
  const restored = await restoreInto(t, url);
  await addChange(restored, accountId, sessionId);
  const { rows } = await restored.query('SELECT position FROM session_changes');
  t.equal(new Set(rows.map(({ position }) => position)).size, 2);
});

await soakTest(t, 'a database that was restored with transaction ids is repaired', async (t) => {
  const { pool } = await testDatabase(t);
  const { accountId, sessionId } = await fillDatabase(pool);
  await pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text, tx)
     SELECT $1, $2, 'm' || n, 'user', 'x', $3::xid8 FROM generate_series(1, $4::int) n`,
    [sessionId, accountId, FUTURE, 2 * SWEEP_BATCH],
  );
  await repairForeignTransactions(pool);
  const { first, next } = await readStream(pool, accountId, sessionId);
  t.match(first, { events: [], hasMore: false, hasUnsettled: false });
  t.same(next, ['new']);
  t.same((await pool.query('SELECT id FROM session_messages ORDER BY tx, position LIMIT 2')).rows, [
    { id: 'first' },
    { id: 'second' },
  ]);
});

await soakTest(t, 'a repair of a database with nothing to repair reads no messages', async (t) => {
  const { pool } = await testDatabase(t);
  const { accountId, sessionId } = await fillDatabase(pool);
  await repairForeignTransactions(pool);
  await pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text)
     SELECT $1, $2, 'm' || n, 'user', 'x' FROM generate_series(1, 5_000) n`,
    [sessionId, accountId],
  );
  await pool.query(
    `INSERT INTO session_changes (account_id, session_id, agent_id, type)
     SELECT $1, $2, 'agent', 'cleared' FROM generate_series(1, 5_000)`,
    [accountId, sessionId],
  );
  await pool.query('VACUUM ANALYZE session_messages, session_changes, accounts');
  const explained = explainPool(pool);
  await repairForeignTransactions(explained.pool);
  t.same(
    explained.costs.map(({ rowsRead }) => (rowsRead.session_messages ?? 0) + (rowsRead.session_changes ?? 0)),
    [0, 0],
  );
  const moved = await pool.query(`SELECT FROM session_messages WHERE tx = '0'`);
  t.equal(moved.rowCount, 2);
});
