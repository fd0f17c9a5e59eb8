/** The messages of a session as a model reads them: a summary replaces the older ones. */
import { hash } from 'node:crypto';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { isLockRefused } from '../postgres/database-errors.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import { type Bounded, findRow, listRows, planOnce, type Queryable } from '../postgres/rows.ts';
import {
  IS_NOT_CANCELLED,
  listNewestSql,
  listOldestSql,
  lockSessionForRows,
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

/** Condition on a message: a model may read it. In a strict session (`$3`), only if a hook judged it. */
const MAY_BE_READ = `${IS_NOT_CANCELLED} AND (NOT $3 OR judgement IS NOT NULL)`;

const IS_OF_PROMPT = `role <> 'notice' AND ${MAY_BE_READ}
  AND m.position > coalesce((SELECT max(up_to) FROM session_summaries WHERE session_id = $1), 0)`;

interface NewSummary {
  readonly text: string;
  readonly installationId: string;
  /** The summary that it replaces. Null: it is the first. */
  readonly previous: SummaryRow | null;
  /** All messages of the prompt after that summary that the new one covers. */
  readonly messages: readonly Pick<MessageRow, 'id' | 'position' | 'judgement' | 'text'>[];
}

/**
 * Adds a summary of messages, unless the prompt's messages up to the last of them have changed since they were read.
 * They have if another summary was added or the previous one removed, if a message was judged, changed, cancelled or cleared, if
 * another message was committed between them, or if the session became strict.
 *
 * @param session as it was when the messages were read
 * @returns false: a transaction that adds rows to the session did not end in time, so the messages were not compared
 * @throws Problem `quota_exceeded`
 */
export async function addSummary(
  pool: WritingPool,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  { text, installationId, previous, messages }: NewSummary,
): Promise<boolean> {
  const read = messages.map(({ id, judgement, text }) => `${judgement === null} ${hash('md5', text)} ${id}`);
  const adding = inTransaction(pool, async (tx) => {
    await lockSessionForRows(tx, sessionId);
    await tx.query(
      `INSERT INTO session_summaries (session_id, up_to, account_id, text, installation_id)
       SELECT s.id, $2, s.account_id, $4, $5 FROM sessions s
        WHERE s.id = $1 AND s.strict = $3
          AND $6 = (SELECT coalesce(max(up_to), 0) FROM session_summaries WHERE session_id = $1)
          AND $7 = ARRAY (SELECT (m.judgement IS NULL)::text || ' ' || md5(m.text) || ' ' || m.id FROM session_messages m
            WHERE session_id = $1 AND m.position <= $2 AND ${IS_OF_PROMPT} ORDER BY m.position)`,
      [sessionId, messages.at(-1)?.position, isStrict, text, installationId, previous?.upTo ?? 0, read],
    );
    return true;
  });
  return adding.catch((error: unknown) => (isLockRefused(error) ? false : throwQuotaProblem(error)));
}

const LIST_MODEL_MESSAGES = planOnce(listNewestSql(IS_OF_PROMPT));

/**
 * Lists the newest messages that no summary replaces and a model may read, newest first: no notices, no cancelled messages, and of a
 * strict session no unjudged ones. Fewer if they are large.
 */
export const listModelMessages = (
  db: Queryable,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  limit: number,
): Promise<(MessageRow & Bounded)[]> => listRows(db, LIST_MODEL_MESSAGES, [sessionId, limit, isStrict]);

const LIST_OLDEST_MODEL_MESSAGES = planOnce(listOldestSql(IS_OF_PROMPT));

/** Lists the oldest of the same messages, oldest first. Fewer if they are large. */
export const listOldestModelMessages = (
  db: Queryable,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  limit: number,
): Promise<MessageRow[]> => listRows(db, LIST_OLDEST_MODEL_MESSAGES, [sessionId, limit, isStrict]);

const LIST_SUMMARIZED_MESSAGES = planOnce(listNewestSql(`role <> 'notice' AND ${MAY_BE_READ}`));

/** The newest messages that a summary for a model may be made of, without notices, in the order of the transcript. Fewer if they are large. */
export async function listSummarizedMessages(
  db: Queryable,
  { id: sessionId, strict: isStrict }: { readonly id: string; readonly strict: boolean },
  limit: number,
): Promise<TranscriptMessage[]> {
  const newest = await listRows<MessageRow>(db, LIST_SUMMARIZED_MESSAGES, [sessionId, limit, isStrict]);
  return newest.reverse().map(toPlainMessage);
}
