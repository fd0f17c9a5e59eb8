/** Which hooks ran for a session, and which of its messages were judged. */
import type { Pool } from 'pg';
import { inCertainTransaction } from '../postgres/certain-transaction.ts';
import { listRows, listValues } from '../postgres/rows.ts';

export interface HookCount {
  readonly sessionId: string;
  readonly hook: string;
  readonly asked: number;
  readonly cancelled: number;
  readonly lastAt: string;
}

/**
 * Adds counts. Drops those of deleted sessions. These rows have no quota of their own: a session has at most one for each hook.
 *
 * @returns the sessions whose counts were not added, because they are just being deleted, cleared or summarized: others must not wait
 */
export async function addHookCounts(pool: Pool, counts: readonly HookCount[]): Promise<string[]> {
  // Those that were not added are added later, together with others.
  return inCertainTransaction(pool, (tx) =>
    listValues<string>(
      tx,
      `WITH c AS MATERIALIZED (
       SELECT * FROM json_to_recordset($1::json)
         AS c("sessionId" text, hook text, asked bigint, cancelled bigint, "lastAt" timestamptz)),
     s AS MATERIALIZED (
       SELECT id FROM sessions WHERE id IN (SELECT "sessionId" FROM c) ORDER BY id FOR KEY SHARE SKIP LOCKED),
     added AS (
       INSERT INTO session_hooks AS h (session_id, hook, asked, cancelled, last_at)
       SELECT s.id, c.hook, c.asked, c.cancelled, c."lastAt" FROM c JOIN s ON s.id = c."sessionId" ORDER BY s.id, c.hook
       ON CONFLICT (session_id, hook) DO UPDATE SET
         asked = h.asked + excluded.asked, cancelled = h.cancelled + excluded.cancelled,
         last_at = greatest(h.last_at, excluded.last_at))
     SELECT id FROM sessions WHERE id IN (SELECT "sessionId" FROM c) AND id NOT IN (SELECT id FROM s)`,
      [JSON.stringify(counts)],
    ),
  );
}

export const listHookCounts = (pool: Pool, sessionId: string): Promise<Omit<HookCount, 'sessionId'>[]> =>
  listRows(
    pool,
    `SELECT hook, asked::float8 AS asked, cancelled::float8 AS cancelled, last_at AS "lastAt" FROM session_hooks
      WHERE session_id = $1`,
    [sessionId],
  );

interface JudgedCount {
  readonly role: string;
  readonly judged: number;
  readonly total: number;
}
/** Counts the messages of the transcript, and how many of them were judged, by role. */
export const countJudged = (pool: Pool, sessionId: string): Promise<JudgedCount[]> =>
  listRows(
    pool,
    `SELECT role, count(judgement)::int AS judged, count(*)::int AS total FROM session_messages WHERE session_id = $1
      GROUP BY role`,
    [sessionId],
  );
