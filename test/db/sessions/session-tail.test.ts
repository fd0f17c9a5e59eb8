/** The cost of a read of the session stream does not grow with the rows that its filter leaves out. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { JsonText, TAIL_BATCH_BYTES } from '../../../db/postgres/row-tail.ts';
import { openSessionTail, type SessionTail } from '../../../db/sessions/session-tail.ts';
import { appendMessages, createSession } from '../../../db/sessions/sessions.ts';
import { type Cost, explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const MESSAGES = amount({ quick: 6_000, soak: 20_000 });
/** Messages that one read looks through, and messages that it returns. */
const WINDOW = 1_000;
const BATCH = 10;

const { pool } = await testDatabase(t);
const { id: accountId } = await findOrCreateAccount(pool, 'ann');
const openSession = async (agentId: string) =>
  (await createSession(pool, { accountId, agentId, agentName: 'A', channelId: null })).id;
const [busy, quiet] = [await openSession('busy'), await openSession('quiet')];
await appendMessages(pool, quiet, [{ id: 'first', role: 'user', text: 'x' }]);
await pool.query(
  `INSERT INTO session_messages (session_id, account_id, id, role, text)
   SELECT $1, $2, 'm' || n, 'user', repeat('x', 1000) FROM generate_series(1, $3::int) n`,
  [busy, accountId, MESSAGES],
);
await appendMessages(pool, quiet, [{ id: 'second', role: 'user', text: 'x' }]);
await pool.query(
  `INSERT INTO session_changes (account_id, session_id, agent_id, type)
   SELECT $1, $2, 'busy', 'cleared' FROM generate_series(1, $3::int)`,
  [accountId, busy, MESSAGES],
);
await pool.query('VACUUM ANALYZE session_messages, session_changes, sessions');

const countRows = ({ rowsRead }: Cost): number =>
  (rowsRead.session_messages ?? 0) + (rowsRead.session_changes ?? 0) + (rowsRead.sessions ?? 0);

/** Reads to the end. Returns the ids of the messages and the rows that the most expensive read cost. */
async function readAll(tail: SessionTail, costs: Cost[]): Promise<{ ids: string[]; mostRows: number }> {
  costs.length = 0;
  const ids: string[] = [];
  for (let isOver = false; !isOver; ) {
    const { events, hasMore, hasUnsettled } = await tail.read();
    ids.push(...events.map(({ data }) => (data as { message: { id: string } }).message.id));
    // Unsettled: transactions of other tests on the same server are older than the newest rows.
    isOver = !hasMore && !hasUnsettled;
  }
  return { ids, mostRows: Math.max(...costs.map(countRows)) };
}

for (const [name, filter] of [
  ['a session', { sessionId: quiet, agentId: null, changes: false }],
  ['an agent', { sessionId: null, agentId: 'quiet', changes: true }],
] as const)
  t.test(`the stream of ${name} looks through each row once, a window at a time`, async (t) => {
    const explained = explainPool(pool);
    const tail = await openSessionTail(explained.pool, accountId, '0-0', filter);
    const { ids, mostRows } = await readAll(tail, explained.costs);
    t.same(ids, ['first', 'second']);
    t.ok(mostRows <= 6 * WINDOW, `one read costs ${mostRows} rows`);
    const again = await readAll(tail, explained.costs);
    t.same(again.ids, []);
    t.ok(again.mostRows <= BATCH, `a read without new rows costs ${again.mostRows} rows`);
    await appendMessages(pool, busy, [{ role: 'user', text: 'x' }]);
    await appendMessages(pool, quiet, [{ id: `new for ${name}`, role: 'user', text: 'x' }]);
    const next = await readAll(tail, explained.costs);
    t.same(next.ids, [`new for ${name}`]);
    t.ok(next.mostRows <= BATCH, `a read of two new rows costs ${next.mostRows} rows`);
    await pool.query(`DELETE FROM session_messages WHERE id LIKE 'new for %'`);
  });

t.test('a stream without a filter reads no more than it returns', async (t) => {
  const explained = explainPool(pool);
  const tail = await openSessionTail(explained.pool, accountId, '0-0');
  explained.costs.length = 0;
  const { events, hasMore } = await tail.read();
  t.equal(events.length, BATCH);
  t.ok(hasMore);
  const rows = countRows(explained.costs[0] as Cost);
  t.ok(rows <= 3 * BATCH, `${rows} rows`);
});

t.test('a row that no reader may see yet is not passed over', async (t) => {
  const filter = { sessionId: quiet, agentId: null, changes: false };
  const tail = await openSessionTail(pool, accountId, null, filter);
  const early = await pool.connect();
  await early.query('BEGIN');
  await appendMessages(early, quiet, [{ id: 'early', role: 'user', text: 'x' }]);
  await appendMessages(pool, busy, [{ role: 'user', text: 'x' }]);
  t.match(await tail.read(), { events: [], hasMore: false, hasUnsettled: false });
  await appendMessages(pool, quiet, [{ id: 'late', role: 'user', text: 'x' }]);
  t.match(await tail.read(), { events: [], hasMore: false, hasUnsettled: true });
  await early.query('COMMIT');
  early.release();
  t.same((await readAll(tail, [])).ids, ['early', 'late']);
});

t.test('large messages are read a few at a time, each once and in order, with their data as text', async (t) => {
  const large = await openSession('large');
  const data = { values: Array.from({ length: 20_000 }, () => 1) };
  const ids = Array.from({ length: 10 }, (_, n) => `large ${n}`);
  for (const id of ids) await appendMessages(pool, large, [{ id, role: 'user', text: 'x', data }]);
  await appendMessages(pool, large, [{ id: 'small', role: 'user', text: 'x' }]);
  for (const filter of [
    { sessionId: large, agentId: null, changes: false },
    { sessionId: null, agentId: 'large', changes: true },
  ]) {
    const tail = await openSessionTail(pool, accountId, '0-0', filter);
    const read: string[] = [];
    let batches = 0;
    for (let isOver = false; !isOver; ) {
      const { events, bytes, hasMore, hasUnsettled } = await tail.read();
      if (events.length > 0) batches += 1;
      const messages = events.map((event) => (event.data as { message: { id: string; data?: JsonText } }).message);
      read.push(...messages.map(({ id }) => id));
      const sizes = messages.map((message) => message.data?.text.length ?? 0);
      const beforeLast = sizes.slice(0, -1).reduce((sum, size) => sum + size, 0);
      t.ok(beforeLast < TAIL_BATCH_BYTES, `${sizes} bytes in one batch`);
      t.ok(bytes >= beforeLast, `${bytes} bytes`);
      for (const message of messages) if (message.id !== 'small') t.type(message.data, JsonText);
      isOver = !hasMore && !hasUnsettled;
    }
    t.same(read, [...ids, 'small']);
    t.ok(batches >= 3, `${batches} batches`);
  }
});
