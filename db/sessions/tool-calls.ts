/** Calls of tools in turns. A call's id, which its runtime chose, is an idempotency key: the call is made once, and its answer kept for a day. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import type { ProblemCode, ProblemLocation } from '../../sdk/contract/errors.ts';
import type { json, toolResult } from '../../sdk/contract/payloads.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import type { Page } from '../postgres/cursors.ts';
import { deleteOldRows } from '../postgres/old-rows.ts';
import {
  changeRows,
  findRow,
  type PageQuery,
  type Positioned,
  planOnce,
  type Queryable,
  readPositionPage,
} from '../postgres/rows.ts';
import { NOTIFY_READERS_SQL } from './session-changes.ts';
import { HOLD_TURN_FOR_ROWS, type Judgement, type TurnKey } from './turns.ts';

/** How long an answer is kept, hours. */
const CALL_KEPT_HOURS = 24;

/** What a call of a tool answered: a result for the agent, or a problem for its runtime. */
export type CallAnswer =
  | { readonly result: z.infer<typeof toolResult> }
  | {
      readonly problem: {
        readonly code: ProblemCode;
        readonly detail: string;
        readonly errors?: readonly ProblemLocation[] | undefined;
      };
    };

export interface CallKey extends TurnKey {
  readonly callId: string;
  /** Digest of the tool and the arguments, with their keys in the order in which they were sent. */
  readonly digest: string;
}
export interface CallRow {
  readonly callId: string;
  readonly name: string;
  readonly digest: string;
  /** The same with sorted keys. Null: an earlier release stored the call. */
  readonly sortedDigest: string | null;
  /** Null: it has not ended. */
  readonly answer: CallAnswer | null;
  /** As the plugins let them pass, for the runtime to perform the call. Null: the host performs it, or has yet to judge it. */
  readonly handed: { readonly arguments: z.infer<typeof json>; readonly attempt: string } | null;
  /** Digest of the result that the runtime sent. */
  readonly resultDigest: string | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
}

const CALL = `call_id AS "callId", name, digest, sorted_digest AS "sortedDigest", answer, result_digest AS "resultDigest",
  CASE WHEN attempt IS NOT NULL THEN json_build_object('arguments', arguments, 'attempt', attempt) END AS handed, started_at AS "startedAt", ended_at AS "endedAt"`;

const CLAIM_TURN_CALL = planOnce(`${HOLD_TURN_FOR_ROWS}
  INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name, sorted_digest)
  SELECT session_id, $2, $4, $5, account_id, $6, $7 FROM held ON CONFLICT DO NOTHING`);

/**
 * Writes a call of an open turn before it is made, and keeps the lease of the turn.
 *
 * @returns false: the id is known, or the runtime may not continue the turn
 */
export async function claimTurnCall(
  pool: Pool,
  { sessionId, turnId, callId, digest }: CallKey,
  { runtime, name, sortedDigest }: { readonly runtime: string; readonly name: string; readonly sortedDigest: string },
): Promise<boolean> {
  const values = [sessionId, turnId, runtime, callId, digest, name, sortedDigest];
  const claimed = changeRows(pool, CLAIM_TURN_CALL, values);
  return (await claimed.catch(throwQuotaProblem)) === 1;
}

const FIND_CALL = `SELECT ${CALL} FROM tool_calls WHERE session_id = $1 AND turn_id = $2 AND call_id = $3`;
export const findCall = (
  db: Queryable,
  { sessionId, turnId, callId }: Omit<CallKey, 'digest'>,
): Promise<CallRow | null> => findRow(db, FIND_CALL, [sessionId, turnId, callId]);

/** In the order in which they began. */
export const pageCalls = (
  pool: Pool,
  { sessionId, turnId }: TurnKey,
  query: PageQuery,
): Promise<Page<Positioned<CallRow>>> =>
  readPositionPage(
    pool,
    {
      columns: `${CALL}, position::text AS position`,
      table: 'c',
      // Arguments and answers are JSON, mostly with texts: as in a prompt, a byte of it costs five.
      rows: `SELECT *, 5 * stored_bytes AS bytes FROM tool_calls
        WHERE session_id = $1 AND turn_id = $2 AND position > $3 ORDER BY tool_calls.position LIMIT $4`,
    },
    [sessionId, turnId],
    query,
  );

interface ToolMessage {
  readonly id: string;
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly judgement: Judgement;
}

/** The lock of the turn makes its end wait until the message is in the transcript, as `HOLD_TURN_FOR_ROWS` does. */
const ANSWER_CALL = planOnce(`WITH s AS (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE),
  t AS (
    SELECT s.account_id, turns.state FROM turns, s WHERE turns.session_id = s.id AND turns.id = $2
       FOR NO KEY UPDATE OF turns),
  answered AS (
    UPDATE tool_calls SET answer = $5, result_digest = $9, ended_at = now() FROM t
     WHERE session_id = $1 AND turn_id = $2 AND call_id = $3 AND digest = $4 AND answer IS NULL
     RETURNING t.account_id, t.state),
  added AS (
    INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement)
    SELECT $1, account_id, $6, 'tool', $7, $8, $10 FROM answered WHERE $6::text IS NOT NULL AND state = 'open'
    ON CONFLICT DO NOTHING RETURNING account_id),
  notified AS (${NOTIFY_READERS_SQL})
  SELECT (SELECT count(*) FROM answered)::int AS answered, (SELECT count(*) FROM notified) AS notified`);

/**
 * Writes the answer of a call, and adds its result to the transcript while the turn is open: after its end, the message would follow
 * those of the next turn. False: it has an answer, or its session was deleted.
 *
 * @param message null: only the answer is written
 * @param resultDigest of the result of a call that the runtime performed
 * @throws Problem `quota_exceeded` if the transcript has no room for the message
 */
export async function answerCall(
  pool: Pool,
  { sessionId, turnId, callId, digest }: CallKey,
  answer: CallAnswer,
  message: ToolMessage | null,
  resultDigest: string | null = null,
): Promise<boolean> {
  const answered = findRow<{ answered: number }>(pool, ANSWER_CALL, [
    sessionId,
    turnId,
    callId,
    digest,
    JSON.stringify(answer),
    message?.id ?? null,
    message?.text ?? null,
    message === null ? null : JSON.stringify(message.data),
    resultDigest,
    message === null ? null : JSON.stringify(message.judgement),
  ]);
  return (await answered.catch(throwQuotaProblem))?.answered === 1;
}

/** Leaves a judged call to the runtime. False: it ended meanwhile. */
export async function handCall(
  pool: Pool,
  { sessionId, turnId, callId, digest }: CallKey,
  { arguments: args, attempt }: NonNullable<CallRow['handed']>,
): Promise<boolean> {
  const handed = changeRows(
    pool,
    `UPDATE tool_calls SET arguments = $5, attempt = $6
      WHERE session_id = $1 AND turn_id = $2 AND call_id = $3 AND digest = $4 AND answer IS NULL`,
    [sessionId, turnId, callId, digest, JSON.stringify(args), attempt],
  );
  return (await handed) === 1;
}

/** Forgets a call that was not made, so that its id can be used again. */
export async function releaseCall(pool: Pool, { sessionId, turnId, callId, digest }: CallKey): Promise<void> {
  await pool.query(
    `DELETE FROM tool_calls WHERE session_id = $1 AND turn_id = $2 AND call_id = $3 AND digest = $4 AND answer IS NULL`,
    [sessionId, turnId, callId, digest],
  );
}

export const sweepCalls = (pool: Pool): Promise<void> =>
  deleteOldRows(pool, 'tool_calls', 'started_at', 'started_at < now() - make_interval(hours => $1)', [CALL_KEPT_HOURS]);
