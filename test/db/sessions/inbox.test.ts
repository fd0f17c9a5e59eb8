/** The cost of the list of waiting messages does not grow with the messages of the account. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { pageBegunTurns, pageInbox } from '../../../db/sessions/inbox.ts';
import { appendMessages, createSession } from '../../../db/sessions/sessions.ts';
import { claimTurn, endTurn } from '../../../db/sessions/turns.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const MESSAGES = 60_000;
const SESSIONS = 20;
/** How many messages that may wait the list reads at most. */
const READ_MAX = 50_000;
const LIMIT = 100;

const { pool } = await testDatabase(t);
const account = await findOrCreateAccount(pool, 'ann');
for (let session = 0; session < SESSIONS; session += 1)
  await createSession(pool, {
    ...{ accountId: account.id, agentName: 'A', channelId: null },
    agentId: session === 0 ? 'rare' : 'busy',
  });
await pool.query(
  `INSERT INTO session_messages (session_id, account_id, id, role, text)
   SELECT s.ids[1 + n % cardinality(s.ids)], $1, 'm' || n, 'user', repeat('x', 1000)
     FROM generate_series(1, $2::int) n, (SELECT array_agg(id ORDER BY id) AS ids FROM sessions WHERE account_id = $1) s`,
  [account.id, MESSAGES],
);
await pool.query('VACUUM ANALYZE session_messages, sessions, turns');

const query = { accountId: account.id, agentId: null, sessionId: null, runtime: 'r', limit: LIMIT };

const newestId = (n: number): string => `m${MESSAGES - READ_MAX + n}`;

t.test('a page reads its own messages, and sorts no texts', async (t) => {
  const explained = explainPool(pool);
  const page = await pageInbox(explained.pool, query);
  t.same(
    page.items.map(({ message }) => message.id),
    Array.from({ length: LIMIT }, (_, index) => newestId(1 + index)),
  );
  t.match(page.items[0]?.message, { role: 'user', text: 'x'.repeat(1000) });
  const { indexes = [], temporaryBytes } = explained.costs[0] ?? {};
  t.ok(indexes.includes('session_messages_waiting'), indexes.join());
  t.equal(temporaryBytes, 0);
  const cursor = page.nextCursor ?? '';
  const next = explainPool(pool);
  t.equal((await pageInbox(next.pool, { ...query, cursor })).items[0]?.message.id, newestId(1 + LIMIT));
  const { rowsRead = {} } = next.costs[0] ?? {};
  t.ok((rowsRead.session_messages ?? 0) <= LIMIT + 1, JSON.stringify(rowsRead));
});

t.test('a list of one agent or session reads on, and sorts no texts', async (t) => {
  const [rare] = (await pool.query(`SELECT id FROM sessions WHERE agent_id = 'rare'`)).rows;
  const filters = [
    [{ agentId: 'rare' }, READ_MAX / SESSIONS],
    [{ agentId: 'busy' }, READ_MAX - READ_MAX / SESSIONS],
    [{ sessionId: rare.id }, READ_MAX / SESSIONS],
    [{ agentId: 'nobody' }, 0],
  ] as const;
  for (const [filter, count] of filters) {
    const explained = explainPool(pool);
    const page = await pageInbox(explained.pool, { ...query, ...filter });
    const { temporaryBytes, rowsRead = {} } = explained.costs[0] ?? {};
    t.equal(temporaryBytes, 0, JSON.stringify(filter));
    t.ok((rowsRead.session_messages ?? 0) <= READ_MAX + MESSAGES, JSON.stringify(rowsRead));
    let listed = page.items.length;
    for (let cursor = page.nextCursor; cursor !== null; ) {
      const next = await pageInbox(pool, { ...query, ...filter, limit: 1_000, cursor });
      listed += next.items.length;
      cursor = next.nextCursor;
    }
    t.equal(listed, count);
  }
});

t.test('begun turns are listed by the messages that may wait, however many turns the sessions had', async (t) => {
  const addTurns = (id: string, state: string, isWanted: string) =>
    pool.query(
      `INSERT INTO turns (session_id, id, account_id, state, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until)
       SELECT session_id, ${id}, account_id, $2, '', 'channel', '', '', '', 'r', 100, now()
         FROM session_messages WHERE account_id = $1 AND ${isWanted}`,
      [account.id, state],
    );
  await addTurns(`'over-' || id`, 'ended', 'true');
  await addTurns('id', 'judging', 'position % 400 = 1');
  await addTurns('id', 'open', 'position % 400 = 201');
  await pool.query('VACUUM ANALYZE turns');
  const explained = explainPool(pool);
  const page = await pageBegunTurns(explained.pool, { accountId: account.id, agentId: null, limit: 1_000 });
  t.equal(page.items.length, READ_MAX / 200);
  t.match(page.items[0], { id: newestId(1), state: 'judging', message: { text: 'x'.repeat(1000) } });
  const { indexes = [], rowsRead = {}, temporaryBytes } = explained.costs[0] ?? {};
  t.ok(indexes.includes('session_messages_waiting') && indexes.includes('turns_pkey'), indexes.join());
  // EXPLAIN rounds the rows of each of 50,000 look-ups to hundredths.
  t.ok((rowsRead.turns ?? 0) <= READ_MAX / 100 + page.items.length, JSON.stringify(rowsRead));
  t.equal(temporaryBytes, 0);
});

t.test('messages that do not wait are not read', async (t) => {
  const { id: accountId } = await findOrCreateAccount(pool, 'bob');
  const { id: sessionId } = await createSession(pool, { accountId, agentId: 'a', agentName: 'A', channelId: null });
  const answered = Array.from({ length: 500 }, (_, n) => ({ id: `a${n}`, role: 'user', text: 'x' }) as const);
  await appendMessages(pool, sessionId, answered);
  const turn = { sender: 'user', trigger: 'user', digest: '', systemPrompt: '', model: '' } as const;
  for (const { id } of answered.slice(0, 10))
    await claimTurn(pool, sessionId, { ...turn, id, runtime: 'r', leaseSeconds: 100 });
  await pool.query(
    `INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until)
     SELECT $1, 'a' || n, $2, '', 'user', '', '', '', 'r', 100, now() FROM generate_series(10, 499) n`,
    [sessionId, accountId],
  );
  await pool.query(`UPDATE turns SET state = 'open' WHERE session_id = $1`, [sessionId]);
  for (const { id } of answered.slice(0, 10)) await endTurn(pool, { sessionId, turnId: id }, 'r', null);
  await pool.query(`UPDATE turns SET state = 'ended' WHERE session_id = $1 AND state = 'open'`, [sessionId]);
  const waiting = { id: 'w', role: 'user', text: 'x', data: { zero: '\0' } } as const;
  const cancelled = { hook: 'h', outcome: 'cancelled' as const, asked: 1, by: ['x'], reason: 'no' };
  await appendMessages(pool, sessionId, [
    waiting,
    { id: 'of-a-turn', role: 'user', text: 'x', data: { turnId: 'of-a-turn' } },
    { id: 'cancelled', role: 'user', text: 'x', judgement: cancelled },
    { id: 'reply', role: 'assistant', text: 'x' },
  ]);
  const explained = explainPool(pool);
  const page = await pageInbox(explained.pool, { ...query, accountId });
  t.match(page, { items: [{ message: { id: 'w', data: { zero: '\0' } } }], nextCursor: null });
  t.equal(page.items.length, 1);
  const rows = explained.costs[0]?.rowsRead.session_messages ?? 0;
  t.ok(rows <= 2, `${rows} rows are read`);
});
