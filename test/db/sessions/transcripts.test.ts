/**
 * Transcripts are read in the order in which they were written, across positions whose number of digits differs. Counts of hooks
 * go with their session.
 */
import type { Pool } from 'pg';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { encodeCursor } from '../../../db/postgres/cursors.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { pageOrders } from '../../../db/postgres/rows.ts';
import { addHookCounts, listHookCounts } from '../../../db/sessions/coverage.ts';
import { pageMail } from '../../../db/sessions/mail.ts';
import {
  appendMessages,
  appendNotices,
  clearSession,
  createSession,
  lastMessages,
  pageMessages,
} from '../../../db/sessions/sessions.ts';
import { pageTurns } from '../../../db/sessions/turns.ts';
import { HookCounts } from '../../../supervisor/records/hook-counts.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

/** Positions of a new database start at 1, so these cross 9/10, 99/100 and 999/1000. */
const MESSAGES = 1_020;
const { pool } = await testDatabase(t);
const account = await findOrCreateAccount(pool, 'ann');
const session = await createSession(pool, { accountId: account.id, agentId: 'a', agentName: 'A', channelId: null });
const texts = Array.from({ length: MESSAGES }, (_, index) => `t${index + 1}`);
const added = await appendMessages(
  pool,
  session.id,
  texts.map((text) => ({ role: 'user', text })),
);

t.test('an append answers the messages in the given order', async (t) => {
  t.same(
    added.map(({ text }) => text),
    texts,
  );
});

t.test('a notice takes one statement, because cancelled steps of a turn wait for it', async (t) => {
  const other = await createSession(pool, { accountId: account.id, agentId: 'a', agentName: 'A', channelId: null });
  let statements = 0;
  const count = () => {
    statements += 1;
  };
  pool.on('acquire', count);
  await appendNotices(pool, other.id, [{ id: 'n', text: 'cancelled', data: {} }]);
  pool.off('acquire', count);
  t.equal(statements, 1);
  t.match(await lastMessages(pool, other.id, 1), [{ id: 'n', role: 'notice', text: 'cancelled' }]);
});

t.test('a repeated clear writes only the turns that are not cleared yet', async (t) => {
  const other = await createSession(pool, { accountId: account.id, agentId: 'a', agentName: 'A', channelId: null });
  const addTurns = (ids: readonly string[]) =>
    pool.query(
      `INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until, judgement)
       SELECT $1, id, $2, 's', 't', '', '', '', '', 1, now(), '{}' FROM unnest($3::text[]) AS id`,
      [other.id, account.id, ids],
    );
  /** Where each turn is stored: another place after every write. */
  const listTurns = async () => {
    const { rows } = await pool.query(
      'SELECT id, ctid::text, state, judgement, ended_at IS NULL AS "isOpen" FROM turns WHERE session_id = $1 ORDER BY id',
      [other.id],
    );
    return rows;
  };
  await addTurns(['a', 'b', 'c']);
  await clearSession(pool, other.id);
  const cleared = await listTurns();
  t.match(
    cleared,
    ['a', 'b', 'c'].map((id) => ({ id, state: 'cleared', judgement: null, isOpen: false })),
  );
  await addTurns(['d']);
  await clearSession(pool, other.id);
  const again = await listTurns();
  t.same(again.slice(0, 3), cleared, 'the others stay where they are');
  t.match(again[3], { id: 'd', state: 'cleared', judgement: null, isOpen: false });
});

t.test('pages of any size hold every message once, in order', async (t) => {
  const sizes = amount({ quick: [33, 1_000], soak: [1, 7, 33, 100, 1_000] }).flatMap((limit) =>
    pageOrders.map((order) => ({ limit, order })),
  );
  for (const { limit, order } of sizes) {
    const read: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await pageMessages(pool, { sessionId: session.id, limit, order, cursor });
      read.push(...page.items.map(({ text }) => text));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    t.same(read, order === 'oldest' ? texts : texts.toReversed(), `pages of ${limit}, ${order} first`);
  }
});

t.test('a page may start at a position that a Postgres integer does not hold', async (t) => {
  const page = { limit: 1, cursor: encodeCursor('3000000000') };
  const newest = { ...page, sessionId: session.id, order: 'newest' } as const;
  t.match(await pageMessages(pool, newest), { items: [{ text: texts.at(-1) }] });
  t.match(await pageTurns(pool, { ...newest, state: null }), { items: [] });
  t.match(await pageMail(pool, { ...page, accountId: account.id }), { items: [] });
});

t.test('the last messages are the newest ones, oldest first', async (t) => {
  for (const limit of [1, 5, 30, 200])
    t.same(
      (await lastMessages(pool, session.id, limit)).map(({ text }) => text),
      texts.slice(-limit),
      `the last ${limit}`,
    );
});

t.test('counts of hooks for a session that is just being deleted are dropped, and others are kept', async (t) => {
  const given = { accountId: account.id, agentId: 'a', agentName: 'A', channelId: null };
  const [kept, deleted] = [await createSession(pool, given), await createSession(pool, given)];
  const count = { hook: 'systemPrompt', asked: 1, cancelled: 0, lastAt: new Date().toISOString() };
  const client = await pool.connect();
  t.teardown(() => client.release());
  await client.query('BEGIN');
  await client.query('DELETE FROM sessions WHERE id = $1', [deleted.id]);
  const counts = [deleted, kept].map(({ id }) => ({ ...count, sessionId: id }));
  t.same(await addHookCounts(pool, counts), [deleted.id], 'it may stay');
  await client.query('COMMIT');
  t.match(await listHookCounts(pool, kept.id), [{ hook: 'systemPrompt', asked: 1 }]);
  t.same(await addHookCounts(pool, counts.slice(0, 1)), [], 'it is gone');
});

t.test('counts of hooks that are written while their session is cleared are added afterwards', async (t) => {
  const { id: sessionId } = await createSession(pool, {
    accountId: account.id,
    agentId: 'a',
    agentName: 'A',
    channelId: null,
  });
  const counts = new HookCounts(pool, (error) => t.fail(error.message));
  counts.count(sessionId, 'middleware.systemPrompt', false);
  await inTransaction(pool, async (tx) => {
    await clearSession(tx, sessionId);
    await counts.flush();
  });
  t.same(await listHookCounts(pool, sessionId), []);
  await counts.close();
  t.match(await listHookCounts(pool, sessionId), [{ asked: 1 }]);
});

t.test('the last counts of hooks are written once more if their session is being cleared', async (t) => {
  const given = { accountId: account.id, agentId: 'a', agentName: 'A', channelId: null };
  const { id: sessionId } = await createSession(pool, given);
  const clearing = await pool.connect();
  t.teardown(() => clearing.release());
  await clearing.query('BEGIN');
  await clearSession(clearing, sessionId);
  let writes = 0;
  // The clear commits between the first and the second write.
  const connect = async () => {
    writes += 1;
    if (writes === 2) await clearing.query('COMMIT');
    return pool.connect();
  };
  const counts = new HookCounts({ connect } as unknown as Pool, (error) => t.fail(error.message));
  counts.count(sessionId, 'middleware.systemPrompt', false);
  await counts.close();
  t.match(await listHookCounts(pool, sessionId), [{ asked: 1 }]);
});
