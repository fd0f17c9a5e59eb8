/** The cost of the list of waiting messages does not grow with the messages of the account. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { pageInbox } from '../../../db/sessions/inbox.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const MESSAGES = 60_000;
const SESSIONS = 20;
/** How many messages of users the list reads at most, and how many that match it looks at. */
const READ_MAX = 50_000;
const LOOK_BACK = 10_000;
const LIMIT = 100;
/** Maximum size of a message without its text in a sort. */
const KEY_BYTES = 200;

t.setTimeout(120_000);
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

t.test('a page reads the messages that are looked at, and sorts no texts', async (t) => {
  const explained = explainPool(pool);
  const page = await pageInbox(explained.pool, query);
  t.same(
    page.items.map(({ message }) => message.id),
    Array.from({ length: LIMIT }, (_, index) => `m${MESSAGES - LOOK_BACK + 1 + index}`),
  );
  t.match(page.items[0]?.message, { role: 'user', text: 'x'.repeat(1000) });
  const { indexes = [], rowsRead = {}, temporaryBytes } = explained.costs[0] ?? {};
  t.ok(indexes.includes('session_messages_inbox'), indexes.join());
  t.ok((rowsRead.session_messages ?? 0) <= LOOK_BACK + LIMIT + 1, JSON.stringify(rowsRead));
  t.equal(temporaryBytes, 0);
});

t.test('a list of one agent looks further back, at the newest messages, and sorts no texts', async (t) => {
  for (const [agentId, count] of [
    ['rare', READ_MAX / SESSIONS],
    ['busy', LOOK_BACK],
  ] as const) {
    const explained = explainPool(pool);
    const page = await pageInbox(explained.pool, { ...query, agentId });
    t.ok(page.items.every((item) => item.agentId === agentId));
    const temporaryBytes = explained.costs[0]?.temporaryBytes ?? 0;
    t.ok(temporaryBytes <= MESSAGES * KEY_BYTES, `${temporaryBytes} bytes are sorted outside memory`);
    let listed = page.items.length;
    for (let cursor = page.nextCursor; cursor !== null; ) {
      const next = await pageInbox(pool, { ...query, agentId, limit: 1_000, cursor });
      listed += next.items.length;
      cursor = next.nextCursor;
    }
    t.equal(listed, count);
  }
});
