/** Messages that wait for their turns, and that no model has read yet. */
import type { Pool } from 'pg';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import { lockSession } from './sessions.ts';
import type { Judgement, TurnMessage } from './turns.ts';

interface FreshJudgement extends Pick<TurnMessage, 'text' | 'data'> {
  readonly judgement: Judgement;
  /** The required plugins that judged it. */
  readonly guards: string;
}

/**
 * Stores what plugins made of a message that had been judged before. One that they cancelled waits no longer. Has no effect if its
 * turn was opened or a prompt contained it meanwhile.
 *
 * @throws Problem `quota_exceeded`
 */
export async function storeFreshJudgement(
  pool: WritingPool,
  { sessionId, id }: { readonly sessionId: string; readonly id: string },
  { text, data, judgement, guards }: FreshJudgement,
): Promise<void> {
  const { outcome } = judgement;
  await inTransaction(pool, async (tx) => {
    // A summary that is being added is either seen here, or sees the judgement.
    await lockSession(tx, sessionId);
    await tx.query(
      `WITH judged AS (
         UPDATE session_messages SET text = $3, data = $4, judgement = $5, guards = $6, waits = $7
          WHERE session_id = $1 AND id = $2 AND waits AND NOT is_read RETURNING position)
       DELETE FROM session_summaries s USING judged WHERE $8 AND s.session_id = $1 AND s.up_to >= judged.position`,
      [
        sessionId,
        id,
        text,
        data === null ? null : JSON.stringify(data),
        JSON.stringify(judgement),
        guards,
        outcome !== 'cancelled',
        outcome !== 'unchanged',
      ],
    );
  }).catch(throwQuotaProblem);
}

/** Records that a prompt contains these messages. */
export async function markRead(pool: Pool, sessionId: string, ids: readonly string[]): Promise<void> {
  await pool.query('UPDATE session_messages SET is_read = true WHERE session_id = $1 AND id = ANY ($2)', [
    sessionId,
    ids,
  ]);
}
