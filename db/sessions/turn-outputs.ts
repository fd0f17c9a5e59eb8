/** The texts of agents in their turns, whole or in pieces, until they are judged. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import { type attachments, BEFORE_MAX_CHARS, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import type { Page } from '../postgres/cursors.ts';
import {
  changeRows,
  findRow,
  findValue,
  hasRow,
  listRows,
  type PageQuery,
  type Positioned,
  planOnce,
  type Queryable,
  readPositionPage,
} from '../postgres/rows.ts';
import { NOTIFY_READERS_SQL } from './session-changes.ts';
import { MESSAGE_BYTES } from './sessions.ts';
import {
  HOLD_TURN,
  HOLD_TURN_FOR_ROWS,
  type Judgement,
  MESSAGE_OF_TURN,
  TURN,
  type TurnKey,
  type TurnRow,
} from './turns.ts';

export interface OutputKey extends TurnKey {
  readonly outputId: string;
}
export interface OutputRow {
  readonly id: string;
  readonly state: 'open' | 'passed' | 'vetoed';
  readonly digest: string;
  /** Number of pieces; 0: the text came whole. */
  readonly pieces: number;
  readonly shown: number;
  readonly isHeld: boolean;
  /** Whether each piece was judged before it was shown. */
  readonly isStreamed: boolean;
  readonly judgement: Judgement | null;
  /** The required plugins when it was judged, of pieces the first one, as `digestGuards` returns them. Null: unknown. */
  readonly guards: string | null;
  /** As the transcript has it; null while it is not judged. */
  readonly text: string | null;
  readonly attachments: z.infer<typeof attachments> | null;
}

/** A runtime may add an unjudged message with the id of an output. */
const TEXT_OF_OUTPUT = `(SELECT m.text FROM session_messages m WHERE m.session_id = o.session_id AND m.id = o.id
  AND m.role = 'assistant' AND m.judgement IS NOT NULL AND o.state = 'passed')`;
const OUTPUT = `o.id, o.state, o.digest, o.pieces, o.shown, o.is_held AS "isHeld", o.is_streamed AS "isStreamed", o.judgement, o.guards, o.attachments, ${TEXT_OF_OUTPUT} AS text`;

/** An output becomes the message with its id. */
const IS_NEW_ID = 'NOT EXISTS (SELECT 1 FROM session_messages WHERE session_id = $1 AND id = $4)';

/** Whether the next piece of an output waits for the judgement of the whole. */
const MUST_HOLD = `(o.is_held OR $7 = 'whole' OR ($7 = 'pieces' AND NOT o.is_streamed)
  OR (o.is_streamed AND EXISTS (
    SELECT 1 FROM turn_pieces p
     WHERE p.session_id = $1 AND p.turn_id = $2 AND p.output_id = $4 AND p.piece = $5 - 1 AND p.judgement IS NULL)))`;

const HOLD_NEW_OUTPUT = planOnce(`${HOLD_TURN}
  SELECT 1 FROM held WHERE ${IS_NEW_ID}
     AND NOT EXISTS (SELECT 1 FROM turn_outputs WHERE session_id = $1 AND turn_id = $2 AND id = $4)`);

/** Keeps the lease of a turn whose output is new. False: the id is known, or the runtime may not continue the turn. */
export const holdNewOutput = (
  pool: Pool,
  { sessionId, turnId, outputId }: OutputKey,
  runtime: string,
): Promise<boolean> => hasRow(pool, HOLD_NEW_OUTPUT, [sessionId, turnId, runtime, outputId]);

interface NewPiece {
  readonly piece: number;
  readonly text: string;
  /** How plugins judge outputs now. */
  readonly mode: OutboundMode;
}

/** How the plugins judge outputs. `pieces`: piece by piece. */
export const outboundModes = ['none', 'pieces', 'whole'] as const;
export type OutboundMode = (typeof outboundModes)[number];

/** How a new piece is handled. `shown`: it may be shown unjudged. `judged`: as its judgement says. `held`: it waits. */
interface PieceFate {
  readonly fate: 'shown' | 'judged' | 'held';
  /** The end of the judged text before it. */
  readonly tail: string;
  /** Characters of the text with it, as judged so far. */
  readonly wholeChars: number;
}

const ADD_PIECE = planOnce(`${HOLD_TURN_FOR_ROWS},
  output AS (
    INSERT INTO turn_outputs AS o (session_id, turn_id, id, account_id, pieces, chars, shown, is_held, is_streamed)
    SELECT session_id, $2, $4, account_id, 1, $6, CASE WHEN $7 = 'none' THEN $6 ELSE 0 END, $7 = 'whole', $7 = 'pieces' FROM held
     WHERE ($5 = 0 AND ${IS_NEW_ID})
        OR EXISTS (SELECT 1 FROM turn_outputs WHERE session_id = $1 AND turn_id = $2 AND id = $4)
    ON CONFLICT (session_id, turn_id, id) DO UPDATE SET
      pieces = o.pieces + 1, chars = o.chars + $6, is_held = ${MUST_HOLD},
      shown = o.shown + CASE WHEN o.is_streamed OR ${MUST_HOLD} THEN 0 ELSE $6 END
      WHERE o.state = 'open' AND o.pieces = $5 AND $5 > 0
        AND o.chars + greatest(o.judged_growth, 0) + $6 <= ${TEXT_MAX_CHARS}
    RETURNING o.account_id, o.tail, o.chars + o.judged_growth AS whole, CASE WHEN o.is_held THEN 'held' WHEN o.is_streamed THEN 'judged' ELSE 'shown' END AS fate)
  INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown)
  SELECT $1, $2, $4, $5, account_id, $8, fate = 'shown' FROM output
  RETURNING (SELECT fate FROM output), (SELECT tail FROM output), (SELECT whole FROM output) AS "wholeChars"`);

/**
 * Adds the next piece of an output, and keeps the lease of its turn. The pieces of one output have one fate; where plugins
 * are installed meanwhile or a piece could not be judged, the rest is held.
 *
 * @returns null: it is not the next piece, the text is too long, also as judged so far, or the runtime may not continue
 */
export async function addPiece(
  pool: Pool,
  { sessionId, turnId, outputId }: OutputKey,
  runtime: string,
  { piece, text, mode }: NewPiece,
): Promise<PieceFate | null> {
  const added = findRow<PieceFate>(pool, ADD_PIECE, [
    sessionId,
    turnId,
    runtime,
    outputId,
    piece,
    text.length,
    mode,
    text,
  ]);
  return added.catch(throwQuotaProblem);
}

interface JudgedPiece {
  readonly piece: number;
  readonly text: string;
  /** Characters that the judgement has added; negative: removed. */
  readonly growth: number;
  readonly judgement: Judgement;
  readonly guards: string;
}

// The output is locked before its piece, as by the steps and the removal of its turn.
const PASS_PIECE = planOnce(`WITH output AS MATERIALIZED (
    SELECT 1 FROM turn_outputs WHERE session_id = $1 AND turn_id = $2 AND id = $3 FOR NO KEY UPDATE),
  judged AS (
    UPDATE turn_pieces SET judged_text = $5, judgement = $6, is_shown = true FROM output
     WHERE session_id = $1 AND turn_id = $2 AND output_id = $3 AND piece = $4 AND judgement IS NULL RETURNING 1)
  UPDATE turn_outputs SET shown = shown + $7, judged_growth = judged_growth + $9, tail = right(tail || $5, ${BEFORE_MAX_CHARS}),
         guards = CASE WHEN $4 = 0 THEN $8 ELSE guards END
   WHERE session_id = $1 AND turn_id = $2 AND id = $3 AND EXISTS (SELECT 1 FROM judged)`);

/** Records the judgement of a piece, which may be shown now. */
export async function passPiece(
  pool: Pool,
  { sessionId, turnId, outputId }: OutputKey,
  { piece, text, growth, judgement, guards }: JudgedPiece,
): Promise<void> {
  await changeRows(pool, PASS_PIECE, [
    sessionId,
    turnId,
    outputId,
    piece,
    text,
    JSON.stringify(judgement),
    text.length,
    guards,
    growth,
  ]);
}

const FIND_OUTPUT = `SELECT ${OUTPUT} FROM turn_outputs o WHERE o.session_id = $1 AND o.turn_id = $2 AND o.id = $3`;
export const findOutput = (db: Queryable, { sessionId, turnId, outputId }: OutputKey): Promise<OutputRow | null> =>
  findRow(db, FIND_OUTPUT, [sessionId, turnId, outputId]);

/** In the order in which they began. */
export const pageOutputs = (
  pool: Pool,
  { sessionId, turnId }: TurnKey,
  query: PageQuery,
): Promise<Page<Positioned<OutputRow>>> =>
  readPositionPage(
    pool,
    {
      columns: `${OUTPUT}, o.position::text AS position`,
      table: 'o',
      rows: `SELECT *, stored_bytes + coalesce((SELECT ${MESSAGE_BYTES} FROM session_messages m
            WHERE m.session_id = turn_outputs.session_id AND m.id = turn_outputs.id), 0) AS bytes
          FROM turn_outputs WHERE session_id = $1 AND turn_id = $2 AND position > $3
         ORDER BY turn_outputs.position LIMIT $4`,
    },
    [sessionId, turnId],
    query,
  );

/** Outputs in one page of those that are not complete. */
const UNFINISHED_ROWS = 100;
const FIRST_POSITION = '0';

/** The ids of those whose last piece did not come, in the order in which they began. A turn may have hundreds of thousands of them. */
export async function* listUnfinishedOutputs(db: Queryable, { sessionId, turnId }: TurnKey): AsyncGenerator<string> {
  for (let after = FIRST_POSITION; ; ) {
    const page = await listRows<{ id: string; position: string }>(
      db,
      `SELECT id, position::text AS position FROM turn_outputs
        WHERE session_id = $1 AND turn_id = $2 AND state = 'open' AND pieces > 0 AND position > $3
        ORDER BY turn_outputs.position LIMIT ${UNFINISHED_ROWS}`,
      [sessionId, turnId, after],
    );
    for (const { id } of page) yield id;
    const last = page.at(-1);
    if (last === undefined || page.length < UNFINISHED_ROWS) return;
    after = last.position;
  }
}

/** The last output that passed and is in the transcript. */
export const findLastOutput = (db: Queryable, { sessionId, turnId }: TurnKey): Promise<OutputRow | null> =>
  findRow(
    db,
    `SELECT ${OUTPUT} FROM turn_outputs o WHERE o.session_id = $1 AND o.turn_id = $2 AND ${TEXT_OF_OUTPUT} IS NOT NULL
      ORDER BY o.position DESC LIMIT 1`,
    [sessionId, turnId],
  );

/** Whether another output of the open turn passed after this one and is in the transcript. */
export const isFollowedByOutput = (db: Queryable, { sessionId, turnId, outputId }: OutputKey): Promise<boolean> =>
  hasRow(
    db,
    `SELECT 1 FROM turns t JOIN turn_outputs earlier ON earlier.session_id = t.session_id AND earlier.turn_id = t.id
      WHERE t.session_id = $1 AND t.id = $2 AND t.state = 'open' AND earlier.id = $3 AND earlier.state = 'passed'
        AND EXISTS (SELECT 1 FROM turn_outputs o WHERE o.session_id = $1 AND o.turn_id = $2
                       AND o.position > earlier.position AND ${TEXT_OF_OUTPUT} IS NOT NULL)`,
    [sessionId, turnId, outputId],
  );

/** Gives an output that is not complete another id. */
export async function renameOutput(
  db: Queryable,
  { sessionId, turnId, outputId }: OutputKey,
  newId: string,
): Promise<void> {
  await changeRows(
    db,
    `WITH renamed AS (
       UPDATE turn_outputs SET id = $4 WHERE session_id = $1 AND turn_id = $2 AND id = $3 AND state = 'open' RETURNING 1)
     UPDATE turn_pieces SET output_id = $4
      WHERE session_id = $1 AND turn_id = $2 AND output_id = $3 AND EXISTS (SELECT 1 FROM renamed)`,
    [sessionId, turnId, outputId, newId],
  );
}

export interface PieceRow {
  readonly text: string;
  readonly isShown: boolean;
  /** As the plugins let it pass; null where it was not judged on its own. */
  readonly judgedText: string | null;
  readonly judgement: Judgement | null;
  /** The end of the output's judged text. */
  readonly tail: string;
  /** Characters of the output's text, as judged so far. */
  readonly wholeChars: number;
}

/** A piece of an output that is not complete. */
export function findPiece(
  db: Queryable,
  { sessionId, turnId, outputId }: OutputKey,
  piece: number,
): Promise<PieceRow | null> {
  const sql = `SELECT p.text, p.is_shown AS "isShown", p.judged_text AS "judgedText", p.judgement, o.tail, o.chars + o.judged_growth AS "wholeChars"
     FROM turn_pieces p JOIN turn_outputs o ON o.session_id = p.session_id AND o.turn_id = p.turn_id AND o.id = p.output_id
    WHERE p.session_id = $1 AND p.turn_id = $2 AND p.output_id = $3 AND p.piece = $4`;
  return findRow(db, sql, [sessionId, turnId, outputId, piece]);
}

export interface JoinedPieces {
  /** The text of all pieces as it was judged so far. */
  readonly text: string;
  /** The part that was shown before the last piece. */
  readonly shown: string;
  /** Whether each piece was judged on its own. */
  readonly isJudged: boolean;
  /** The different judgements of the pieces before the last one. */
  readonly judgements: readonly Judgement[];
}

/**
 * Joins the pieces of an output that is not complete. PostgreSQL joins them: to read 100,000 pieces as rows takes the event loop
 * a tenth of a second.
 *
 * @param last number of the last piece
 */
export async function joinPieces(
  db: Queryable,
  { sessionId, turnId, outputId }: OutputKey,
  last: number,
): Promise<JoinedPieces> {
  const joined = await findRow<JoinedPieces>(
    db,
    `WITH pieces AS (
       SELECT piece, coalesce(judged_text, text) AS text, is_shown, judgement::text AS judgement FROM turn_pieces
        WHERE session_id = $1 AND turn_id = $2 AND output_id = $3),
     judgements AS (
       SELECT judgement::json AS judgement, min(piece) AS first FROM pieces
        WHERE piece < $4 AND judgement IS NOT NULL GROUP BY pieces.judgement)
     SELECT coalesce(string_agg(text, '' ORDER BY piece), '') AS text,
            coalesce(string_agg(text, '' ORDER BY piece) FILTER (WHERE is_shown AND piece < $4), '') AS shown,
            coalesce(bool_and(judgement IS NOT NULL), true) AS "isJudged",
            (SELECT coalesce(json_agg(judgement ORDER BY first), '[]') FROM judgements) AS judgements
       FROM pieces`,
    [sessionId, turnId, outputId, last],
  );
  return joined ?? { text: '', shown: '', isJudged: true, judgements: [] };
}

export interface JudgedOutput {
  readonly digest: string;
  readonly judgement: Judgement;
  readonly guards: string | null;
  readonly text: string;
  readonly attachments: z.infer<typeof attachments>;
  readonly data: Readonly<Record<string, unknown>>;
}

const PASS_OUTPUT = planOnce(`WITH s AS (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE),
  t AS (SELECT s.account_id FROM turns, s WHERE turns.session_id = s.id AND turns.id = $2 AND runtime = $3 AND state = 'open'
          FOR NO KEY UPDATE OF turns),
  passed AS (
    INSERT INTO turn_outputs AS o (session_id, turn_id, id, account_id, pieces, is_held, state, digest, judgement, attachments, guards)
    SELECT $1, $2, $4, account_id, 0, true, 'passed', $5, $6, $7, $10 FROM t WHERE $8 = '' OR ${IS_NEW_ID}
    ON CONFLICT (session_id, turn_id, id) DO UPDATE SET
      state = 'passed', digest = excluded.digest, judgement = excluded.judgement, attachments = excluded.attachments,
      guards = excluded.guards, tail = ''
      WHERE o.state = 'open'
    RETURNING account_id),
  added AS (
    INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement)
    SELECT $1, account_id, $4, 'assistant', $8, $9, $6 FROM passed WHERE $8 <> '' ON CONFLICT DO NOTHING
    RETURNING account_id),
  removed AS (DELETE FROM turn_pieces p USING passed WHERE p.session_id = $1 AND p.turn_id = $2 AND p.output_id = $4),
  notified AS (${NOTIFY_READERS_SQL})
  SELECT (SELECT count(*) FROM passed)::int AS passed, (SELECT count(*) FROM notified) AS notified`);

/** The values of `PASS_OUTPUT` and `PASS_LAST_OUTPUT`. */
const listPassedValues = ({ sessionId, turnId, outputId }: OutputKey, runtime: string, output: JudgedOutput) => [
  sessionId,
  turnId,
  runtime,
  outputId,
  output.digest,
  JSON.stringify(output.judgement),
  JSON.stringify(output.attachments),
  output.text,
  JSON.stringify(output.data),
  output.guards,
];

/**
 * Adds a judged text to the transcript. The pieces of one that did not come whole are not needed any more.
 *
 * @returns false: another runtime holds the turn meanwhile, the output was judged already, or a message has its id
 * @throws Problem `quota_exceeded`
 */
export async function passOutput(
  db: Queryable,
  key: OutputKey,
  runtime: string,
  output: JudgedOutput,
): Promise<boolean> {
  const passed = findValue(db, PASS_OUTPUT, listPassedValues(key, runtime, output));
  return (await passed.catch(throwQuotaProblem)) === 1;
}

const PASS_LAST_OUTPUT = planOnce(`WITH s AS (SELECT id FROM sessions WHERE id = $1 FOR KEY SHARE),
  ended AS (
    UPDATE turns SET state = 'ended', ended_at = now(), reply_id = $4 FROM s
     WHERE turns.session_id = s.id AND turns.id = $2 AND runtime = $3 AND state = 'open'
       AND NOT EXISTS (SELECT 1 FROM turn_outputs o WHERE o.session_id = $1 AND o.turn_id = $2 AND (o.state = 'open' OR o.id = $4))
       AND ${IS_NEW_ID}
    RETURNING turns.*),
  passed AS (
    INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held, state, digest, judgement, attachments, guards)
    SELECT $1, $2, $4, account_id, 0, true, 'passed', $5, $6, $7, $10 FROM ended),
  added AS (
    INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement)
    SELECT $1, account_id, $4, 'assistant', $8, $9, $6 FROM ended ON CONFLICT DO NOTHING RETURNING account_id),
  notified AS (${NOTIFY_READERS_SQL})
  SELECT ${TURN}, ${MESSAGE_OF_TURN} AS message, (SELECT count(*) FROM notified) AS notified FROM ended AS turns`);

/**
 * Adds a judged text to the transcript and ends its turn with it, in one statement.
 *
 * @returns null: as `passOutput`, another output of the turn is not complete, or the id is known
 * @throws Problem `quota_exceeded`
 */
export function passLastOutput(
  db: Queryable,
  key: OutputKey,
  runtime: string,
  output: JudgedOutput,
): Promise<TurnRow | null> {
  return findRow<TurnRow>(db, PASS_LAST_OUTPUT, listPassedValues(key, runtime, output)).catch(throwQuotaProblem);
}

/** Records that a plugin cancelled a text. */
export const vetoOutput = (
  db: Queryable,
  { sessionId, turnId, outputId }: OutputKey,
  runtime: string,
  { digest, judgement }: Pick<JudgedOutput, 'digest' | 'judgement'>,
): Promise<boolean> =>
  hasRow(
    db,
    `WITH t AS (
       SELECT account_id FROM turns WHERE session_id = $1 AND id = $2 AND runtime = $3 AND state = 'open' FOR NO KEY UPDATE),
     vetoed AS (
       INSERT INTO turn_outputs AS o (session_id, turn_id, id, account_id, pieces, is_held, state, digest, judgement)
       SELECT $1, $2, $4, account_id, 0, true, 'vetoed', $5, $6 FROM t
       ON CONFLICT (session_id, turn_id, id) DO UPDATE SET
         state = 'vetoed', digest = excluded.digest, judgement = excluded.judgement, tail = '' WHERE o.state = 'open'
       RETURNING 1),
     removed AS (DELETE FROM turn_pieces p USING vetoed WHERE p.session_id = $1 AND p.turn_id = $2 AND p.output_id = $4)
     SELECT 1 FROM vetoed`,
    [sessionId, turnId, runtime, outputId, digest, JSON.stringify(judgement)],
  );
