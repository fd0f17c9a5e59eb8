/** The messages of a session as a model reads them: a summary replaces the older ones. */
import { throwQuotaProblem } from '../accounts/usage.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import { type Bounded, findRow, listRows, planOnce, type Queryable } from '../postgres/rows.ts';
import {
  IS_NOT_CANCELLED,
  listNewestSql,
  lockSession,
  type MessageRow,
  type TranscriptMessage,
  toPlainMessage,
} from './sessions.ts';

export interface SummaryRow {
  readonly upTo: string;
  readonly text: string;
  readonly at: string;
}

const FIND_SUMMARY = planOnce(`SELECT up_to::text AS "upTo", text, at FROM session_summaries WHERE session_id = $1
  ORDER BY session_summaries.up_to DESC LIMIT 1`);

export const findSummary = (db: Queryable, sessionId: string): Promise<SummaryRow | null> =>
  findRow(db, FIND_SUMMARY, [sessionId]);

interface NewSummary {
  readonly upTo: string;
  readonly text: string;
  readonly installationId: string;
  /** Ids of the messages that it was made of. */
  readonly of: readonly string[];
}

/**
 * Adds a summary of the messages up to a position. Does nothing if they were summarized or cleared meanwhile, one of them was
 * cancelled, or the session became strict.
 *
 * @param session as it was when the messages were read
 * @throws Problem `quota_exceeded`
 */
export async function addSummary(
  pool: WritingPool,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  { upTo, text, installationId, of }: NewSummary,
): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await lockSession(tx, sessionId);
    await tx.query(
      `INSERT INTO session_summaries (session_id, up_to, account_id, text, installation_id)
       SELECT m.session_id, m.position, m.account_id, $3, $4
         FROM session_messages m JOIN sessions s ON s.id = m.session_id AND s.strict = $5
        WHERE m.session_id = $1 AND m.position = $2 AND NOT EXISTS (
          SELECT 1 FROM session_messages one WHERE one.session_id = $1 AND one.id = ANY ($6)
             AND one.judgement ->> 'outcome' = 'cancelled')
       ON CONFLICT DO NOTHING`,
      [sessionId, upTo, text, installationId, isStrict, of],
    );
  }).catch(throwQuotaProblem);
}

/** Of a strict session, `$3`, nothing either that no hook judged. */
const MAY_BE_READ = `${IS_NOT_CANCELLED} AND (NOT $3 OR judgement IS NOT NULL)`;

const IS_OF_PROMPT = `role <> 'notice' AND ${MAY_BE_READ}
  AND m.position > coalesce((SELECT max(up_to) FROM session_summaries WHERE session_id = $1), 0)`;
const LIST_MODEL_MESSAGES = planOnce(listNewestSql(IS_OF_PROMPT));

/**
 * The newest messages that no summary replaces and a model may read, newest first: no notices, nothing vetoed. Fewer if they are
 * large.
 *
 * @param isStrict nothing either that no hook judged
 */
export const listModelMessages = (
  db: Queryable,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  limit: number,
): Promise<(MessageRow & Bounded)[]> => listRows(db, LIST_MODEL_MESSAGES, [sessionId, limit, isStrict]);

const LIST_SUMMARIZED_MESSAGES = planOnce(listNewestSql(MAY_BE_READ));

/** The newest messages that a summary for a model may be made of, in the order of the transcript. Fewer if they are large. */
export async function listSummarizedMessages(
  db: Queryable,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  limit: number,
): Promise<TranscriptMessage[]> {
  const newest = await listRows<MessageRow>(db, LIST_SUMMARIZED_MESSAGES, [sessionId, limit, isStrict]);
  return newest.reverse().map(toPlainMessage);
}
