/** Turns of agents and their leases. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import type { judgement, trigger } from '../../sdk/contract/payloads.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import type { Page } from '../postgres/cursors.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import {
  findRow,
  findValue,
  hasRow,
  orderPage,
  type PageOrder,
  type PageQuery,
  planOnce,
  type Queryable,
  readPositionPage,
} from '../postgres/rows.ts';
import { NOTIFY_READERS_SQL } from './session-changes.ts';
import { lockSession, MESSAGE_BYTES } from './sessions.ts';

export type Judgement = z.infer<typeof judgement>;
export type Trigger = z.infer<typeof trigger>;

/**
 * `judging`: the hooks did not let the message pass yet. `vetoed`: a plugin cancelled it. `cleared`: the session was cleared
 * before the turn ended, or since.
 */
export const turnStates = ['judging', 'open', 'vetoed', 'ended', 'cleared'] as const;

export interface TurnKey {
  readonly sessionId: string;
  readonly turnId: string;
}
/** The message that a turn answers, as the transcript has it. */
export interface TurnMessage {
  readonly id: string;
  readonly role: string;
  readonly text: string;
  /** Of any shape, where a runtime added the message. */
  readonly data: Readonly<Record<string, unknown>> | null;
  readonly judgement: Judgement | null;
  /** The required plugins when it was judged, as `digestGuards` returns them. Null: unknown. Set where it was read from the transcript. */
  readonly guards?: string | null;
}
export interface TurnRow {
  readonly id: string;
  readonly sessionId: string;
  readonly state: (typeof turnStates)[number];
  readonly sender: string;
  readonly trigger: Trigger;
  readonly digest: string;
  readonly systemPrompt: string;
  readonly model: string;
  readonly judgement: Judgement | null;
  /** The runtime that holds the lease. */
  readonly runtime: string;
  readonly leaseUntil: string;
  readonly leaseSeconds: number;
  readonly openedAt: string;
  readonly endedAt: string | null;
  readonly replyId: string | null;
  /** Null: it is not in the transcript. */
  readonly message: TurnMessage | null;
}

type GivenField = 'id' | 'sender' | 'trigger' | 'digest' | 'systemPrompt' | 'model' | 'runtime' | 'leaseSeconds';
export type NewTurn = Pick<TurnRow, GivenField>;

/** The first values of each statement that writes a new turn. */
const listTurnValues = (sessionId: string, turn: NewTurn) => [
  sessionId,
  turn.id,
  turn.sender,
  turn.trigger,
  turn.digest,
  turn.systemPrompt,
  turn.model,
  turn.runtime,
  turn.leaseSeconds,
];

export const MESSAGE_OF_TURN = `(SELECT json_build_object('id', m.id, 'role', m.role, 'text', m.text, 'data', m.data, 'judgement', m.judgement, 'guards', m.guards)
    FROM session_messages m WHERE m.session_id = turns.session_id AND m.id = turns.id)`;
export const TURN = `turns.id, turns.session_id AS "sessionId", turns.state, turns.sender, turns.trigger,
  turns.digest, turns.system_prompt AS "systemPrompt", turns.model, turns.judgement, turns.runtime,
  turns.lease_until AS "leaseUntil", turns.lease_seconds AS "leaseSeconds", turns.opened_at AS "openedAt",
  turns.ended_at AS "endedAt", turns.reply_id AS "replyId"`;
/**
 * Part of `lease_seconds`. A renewed lease lasts for `lease_seconds` and two of these parts. A step renews it if less than
 * `lease_seconds` and one part is left, so that most steps write nothing here, and steps shorter than one part need no renewal at
 * their end.
 */
export const LEASE_SPARE_PART = 0.25;
const LEASE_END = (seconds: string): string =>
  `now() + make_interval(secs => ${1 + 2 * LEASE_SPARE_PART} * ${seconds})`;

const OPEN = `session_id = $1 AND id = $2 AND state = 'open'`;
/** The same, of a session `s`. */
const OPEN_IN_SESSION = `turns.session_id = s.id AND turns.id = $2 AND state = 'open'`;
const holdTurnSql = (session: string, lock = ''): string => `WITH s AS (${session}),
  kept AS (
    SELECT turns.* FROM turns, s WHERE ${OPEN_IN_SESSION} AND runtime = $3
       AND lease_until > now() + make_interval(secs => ${1 + LEASE_SPARE_PART} * lease_seconds) ${lock}),
  renewed AS (
    UPDATE turns SET runtime = $3, lease_until = ${LEASE_END('lease_seconds')} FROM s
     WHERE ${OPEN_IN_SESSION} AND (runtime = $3 OR lease_until < now()) AND NOT EXISTS (SELECT 1 FROM kept)
     RETURNING turns.*),
  held AS (SELECT * FROM kept UNION ALL SELECT * FROM renewed)`;
/**
 * The head of a step's statement that writes nothing else. `held` has the turn `$2` of session `$1` if it is open and the runtime
 * `$3` has its lease or gets one that has expired. Without a row, the step is refused.
 */
export const HOLD_TURN = holdTurnSql('SELECT $1::text AS id');
/**
 * The same for a statement that adds rows to the turn. It waits for a transaction that deletes or clears the session, and then
 * finds no turn. Otherwise, the added row would violate a foreign key, or stay in the cleared session. The lock of the turn
 * excludes other steps: two that shared it would deadlock when both renew the lease.
 */
export const HOLD_TURN_FOR_ROWS = holdTurnSql(
  'SELECT id FROM sessions WHERE id = $1 FOR KEY SHARE',
  'FOR NO KEY UPDATE OF turns',
);

/**
 * Writes a new turn, or finds the one with this id. The runtime gets the lease if it is free.
 *
 * @param hasText false: the request is for the message that the turn or the transcript has
 * @returns null: the session was deleted
 * @throws Problem `quota_exceeded`
 */
export function claimTurn(pool: Pool, sessionId: string, turn: NewTurn, hasText = true): Promise<TurnRow | null> {
  const isFree = '(turns.runtime = excluded.runtime OR turns.lease_until < now())';
  // Nothing was judged yet: the last request counts.
  const isUnjudged = `${isFree} AND turns.state = 'judging'`;
  const isSameOpen = `${isFree} AND turns.state = 'open'
    AND (turns.digest = excluded.digest OR NOT $10::boolean AND turns.trigger = excluded.trigger)`;
  // A newer release of a runtime replaces them. A runtime that only renews its lease omits them.
  const setGiven = (column: string): string =>
    `${column} = CASE WHEN ${isUnjudged} OR ${isSameOpen} AND excluded.${column} NOT IN ('', turns.${column})
       THEN excluded.${column} ELSE turns.${column} END`;
  return findRow<TurnRow>(
    pool,
    `INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds, lease_until)
     SELECT s.id, $2, s.account_id, $3, $4, $5, $6, $7, $8, $9, ${LEASE_END('$9::integer')}
       FROM (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE) s
     ON CONFLICT (session_id, id) DO UPDATE SET
       digest = CASE WHEN ${isUnjudged} THEN excluded.digest ELSE turns.digest END,
       sender = CASE WHEN ${isUnjudged} THEN excluded.sender ELSE turns.sender END,
       trigger = CASE WHEN ${isUnjudged} THEN excluded.trigger ELSE turns.trigger END,
       ${setGiven('system_prompt')},
       ${setGiven('model')},
       runtime = CASE WHEN ${isFree} THEN excluded.runtime ELSE turns.runtime END,
       lease_seconds = CASE WHEN ${isFree} THEN excluded.lease_seconds ELSE turns.lease_seconds END,
       lease_until = CASE WHEN ${isFree} THEN excluded.lease_until ELSE turns.lease_until END
     RETURNING ${TURN}, ${MESSAGE_OF_TURN} AS message`,
    [...listTurnValues(sessionId, turn), hasText],
  ).catch(throwQuotaProblem);
}

const FIND_TURN_OR_MESSAGE = planOnce(`SELECT 1 FROM turns WHERE session_id = $1 AND id = $2
  UNION ALL SELECT 1 FROM session_messages WHERE session_id = $1 AND id = $2 LIMIT 1`);

export const hasTurnOrMessage = (db: Queryable, { sessionId, turnId }: TurnKey): Promise<boolean> =>
  hasRow(db, FIND_TURN_OR_MESSAGE, [sessionId, turnId]);

interface JudgedMessage {
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Its files, which the session must hold. */
  readonly mediaIds: readonly string[];
}

/**
 * `kept` has those of the files `ids` that the session `s` holds. Locked: without a lock, the statement would see the rows that a clear
 * has removed while the statement waited for the session.
 */
const keepFilesSql = (ids: string): string => `kept AS MATERIALIZED (
    SELECT h.media_id FROM session_media h, s WHERE h.session_id = s.id AND h.media_id = ANY (${ids}::text[]) FOR KEY SHARE OF h)`;
const hasFilesSql = (ids: string): string =>
  `NOT EXISTS (SELECT 1 FROM unnest(${ids}::text[]) file WHERE file NOT IN (SELECT media_id FROM kept))`;

const OPEN_JUDGED_TURN = planOnce(`WITH s AS (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE),
  ${keepFilesSql('$13')},
  opened AS (
    INSERT INTO turns (session_id, id, account_id, sender, trigger, digest, system_prompt, model, runtime, lease_seconds,
      lease_until, state, judgement)
    SELECT s.id, $2, s.account_id, $3, $4, $5, $6, $7, $8, $9, ${LEASE_END('$9::integer')}, 'open', $10
      FROM s
     WHERE NOT EXISTS (SELECT 1 FROM session_messages m WHERE m.session_id = $1 AND m.id = $2) AND ${hasFilesSql('$13')}
    ON CONFLICT DO NOTHING RETURNING turns.*),
  added AS (
    INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement, waits)
    SELECT $1, account_id, $2, 'user', $11, $12, $10, false FROM opened ON CONFLICT DO NOTHING RETURNING account_id),
  notified AS (${NOTIFY_READERS_SQL})
  SELECT ${TURN}, NULL AS message, (SELECT count(*) FROM notified) AS notified FROM opened AS turns`);

/**
 * Writes a turn whose message was judged before, and adds the message to the transcript.
 *
 * @returns null: the id is known meanwhile, the session was deleted, or it does not hold a file any more
 * @throws Problem `quota_exceeded`
 */
export function openJudgedTurn(
  pool: Pool,
  sessionId: string,
  turn: NewTurn,
  judged: Judgement,
  { text, data, mediaIds }: JudgedMessage,
): Promise<TurnRow | null> {
  return findRow<TurnRow>(pool, OPEN_JUDGED_TURN, [
    ...listTurnValues(sessionId, turn),
    JSON.stringify(judged),
    text,
    JSON.stringify(data),
    mediaIds,
  ]).catch(throwQuotaProblem);
}

const openTurnSql = (files = '', condition = ''): string => `WITH s AS (
    SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE),
  ${files}
  opened AS (
    UPDATE turns SET state = 'open', judgement = $4, lease_until = ${LEASE_END('lease_seconds')} FROM s
     WHERE turns.session_id = s.id AND turns.id = $2 AND turns.runtime = $3 AND turns.state = 'judging' ${condition}
     RETURNING s.account_id, lease_until)`;
const OPEN_TURN = openTurnSql();
const OPEN_TURN_WITH_FILES = openTurnSql(`${keepFilesSql('$7')},`, `AND ${hasFilesSql('$7')}`);

/**
 * Opens a judged turn and adds its message to the transcript.
 *
 * @returns the end of the lease; null: another runtime has the lease meanwhile, the turn is gone, or the session does not hold a file any
 *   more
 * @throws Problem `quota_exceeded`
 */
export function openTurnWithMessage(
  pool: Pool,
  { sessionId, turnId }: TurnKey,
  runtime: string,
  judged: Judgement,
  message: JudgedMessage,
): Promise<string | null> {
  const leaseUntil = findValue<string>(
    pool,
    `${OPEN_TURN_WITH_FILES},
     added AS (
       INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement, waits)
       SELECT $1, account_id, $2, 'user', $5, $6, $4, false FROM opened ON CONFLICT DO NOTHING RETURNING account_id),
     notified AS (${NOTIFY_READERS_SQL})
     SELECT (SELECT lease_until FROM opened) AS "leaseUntil", (SELECT count(*) FROM notified) AS notified`,
    [sessionId, turnId, runtime, JSON.stringify(judged), message.text, JSON.stringify(message.data), message.mediaIds],
  );
  return leaseUntil.catch(throwQuotaProblem);
}

/**
 * Opens a judged turn whose message is in the transcript already: from a channel, or added unjudged. If plugins changed a message
 * that was not judged before, the summaries that were made of it are removed.
 *
 * @param message as it was judged now; null: it stays as it was judged before
 * @returns the end of the lease; null: another runtime has the lease meanwhile, or the turn is gone
 */
export function openTurnOfMessage(
  pool: Pool,
  { sessionId, turnId }: TurnKey,
  runtime: string,
  judged: Judgement,
  message: Pick<TurnMessage, 'text' | 'data'> | null,
): Promise<string | null> {
  return inTransaction(pool, async (tx) => {
    // A summary that is being added is either seen here, or sees the judgement.
    await lockSession(tx, sessionId);
    return findValue<string>(
      tx,
      `${OPEN_TURN},
       marked AS (
         UPDATE session_messages m SET is_read = true, text = CASE WHEN $8 THEN $5 ELSE m.text END,
                data = CASE WHEN $8 THEN $6 ELSE m.data END, judgement = CASE WHEN $8 THEN $4 ELSE m.judgement END
           FROM opened WHERE m.session_id = $1 AND m.id = $2 RETURNING m.position),
       forgotten AS (
         DELETE FROM session_summaries s USING marked WHERE $7 AND s.session_id = $1 AND s.up_to >= marked.position)
       SELECT lease_until FROM opened`,
      [
        sessionId,
        turnId,
        runtime,
        JSON.stringify(judged),
        message?.text ?? '',
        message?.data ? JSON.stringify(message.data) : null,
        message !== null && judged.outcome === 'changed',
        message !== null,
      ],
    );
  });
}

/**
 * Ends a turn whose message a plugin cancelled. A message that is in the transcript already loses its text and its data, and
 * the summaries that were made of it are removed.
 *
 * @returns when the turn ended. Null: see `findTurn` for the reason
 */
export function vetoTurn(
  pool: WritingPool,
  { sessionId, turnId }: TurnKey,
  runtime: string,
  judged: Judgement,
): Promise<string | null> {
  return inTransaction(pool, async (tx) => {
    // A summary that is being added is either seen here, or sees the veto.
    await lockSession(tx, sessionId);
    return findValue<string>(
      tx,
      `WITH vetoed AS (
         UPDATE turns SET state = 'vetoed', judgement = $4, ended_at = now()
          WHERE session_id = $1 AND id = $2 AND runtime = $3 AND state = 'judging' RETURNING session_id, id, ended_at),
       emptied AS (
         UPDATE session_messages m SET judgement = $4, text = '', data = NULL
           FROM vetoed WHERE m.session_id = vetoed.session_id AND m.id = vetoed.id RETURNING m.position),
       forgotten AS (DELETE FROM session_summaries s USING emptied WHERE s.session_id = $1 AND s.up_to >= emptied.position)
       SELECT ended_at FROM vetoed`,
      [sessionId, turnId, runtime, JSON.stringify(judged)],
    );
  });
}

const HOLD_OPEN_TURN = planOnce(`${HOLD_TURN} SELECT ${TURN}, NULL AS message FROM held AS turns`);

/** Keeps or takes the lease of an open turn. Null: see `findTurn` for the reason. */
export const holdTurn = (db: Queryable, { sessionId, turnId }: TurnKey, runtime: string): Promise<TurnRow | null> =>
  findRow(db, HOLD_OPEN_TURN, [sessionId, turnId, runtime]);

const FIND_TURN = `SELECT ${TURN}, ${MESSAGE_OF_TURN} AS message FROM turns WHERE session_id = $1 AND id = $2`;
export const findTurn = (db: Queryable, { sessionId, turnId }: TurnKey): Promise<TurnRow | null> =>
  findRow(db, FIND_TURN, [sessionId, turnId]);

interface TurnsQuery extends PageQuery {
  readonly sessionId: string;
  readonly state: string | null;
  readonly order: PageOrder;
}

export function pageTurns(pool: Pool, query: TurnsQuery): Promise<Page<TurnRow & { readonly position: string }>> {
  const { condition, direction } = orderPage('turns.position', '$3', query.order);
  return readPositionPage(
    pool,
    {
      columns: `${TURN}, ${MESSAGE_OF_TURN} AS message, turns.position::text AS position`,
      table: 'turns',
      rows: `SELECT turns.*, stored_bytes + coalesce((SELECT ${MESSAGE_BYTES} FROM session_messages m
                 WHERE m.session_id = turns.session_id AND m.id = turns.id), 0) AS bytes
          FROM turns WHERE session_id = $1 AND ($2::text IS NULL OR state = $2) AND ${condition}
         ORDER BY turns.position ${direction} LIMIT $4`,
      order: direction,
    },
    [query.sessionId, query.state],
    query,
  );
}

/** Ends an open turn that the runtime holds. Null: it is not open, or another runtime holds it. */
export const endTurn = (
  db: Queryable,
  { sessionId, turnId }: TurnKey,
  runtime: string,
  replyId: string | null,
): Promise<TurnRow | null> =>
  findRow(
    db,
    `UPDATE turns SET state = 'ended', ended_at = now(), runtime = $3, reply_id = $4
      WHERE ${OPEN} AND (runtime = $3 OR lease_until < now()) RETURNING ${TURN}, ${MESSAGE_OF_TURN} AS message`,
    [sessionId, turnId, runtime, replyId],
  );

const END_COMPLETE_TURN = planOnce(`UPDATE turns SET state = 'ended', ended_at = now(), runtime = $3, reply_id = (
   SELECT o.id FROM turn_outputs o JOIN session_messages m ON m.session_id = o.session_id AND m.id = o.id
    WHERE o.session_id = $1 AND o.turn_id = $2 AND o.state = 'passed' ORDER BY o.position DESC LIMIT 1)
  WHERE ${OPEN} AND (runtime = $3 OR lease_until < now()) AND NOT EXISTS (
   SELECT 1 FROM turn_outputs o WHERE o.session_id = $1 AND o.turn_id = $2 AND o.state = 'open' AND o.pieces > 0)
  RETURNING ${TURN}, ${MESSAGE_OF_TURN} AS message`);

/**
 * Ends an open turn whose outputs are all complete, with the last one that passed.
 *
 * @returns null: it is not open, another runtime holds it, or an output is not complete
 */
export const endCompleteTurn = (
  db: Queryable,
  { sessionId, turnId }: TurnKey,
  runtime: string,
): Promise<TurnRow | null> => findRow(db, END_COMPLETE_TURN, [sessionId, turnId, runtime]);

/** Forgets a turn that could not be judged or kept. */
export async function forgetTurn(pool: Pool, { sessionId, turnId }: TurnKey): Promise<void> {
  await pool.query(`DELETE FROM turns WHERE session_id = $1 AND id = $2 AND state = 'judging'`, [sessionId, turnId]);
}
