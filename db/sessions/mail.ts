/** Mail between agents, as it is in the transcripts of those who got it. */
import type { Pool } from 'pg';
import { listRows } from '../postgres/rows.ts';

export interface ReceivedMail {
  readonly messageId: string;
  readonly sessionId: string;
  readonly fromAgentId: string;
  readonly toAgentId: string;
  readonly text: string;
  readonly at: string;
}

/** Mail has no index of its own: only so many of the newest messages are searched. */
const SEARCHED_MESSAGES = 1_000;

/** Newest first. */
export const listLatestMail = (pool: Pool, accountId: string, limit: number): Promise<ReceivedMail[]> =>
  listRows(
    pool,
    `SELECT m.id AS "messageId", m.session_id AS "sessionId", m.data->>'fromAgentId' AS "fromAgentId",
            s.agent_id AS "toAgentId", m.text, m.at
       FROM (SELECT * FROM session_messages WHERE account_id = $1 ORDER BY tx DESC, position DESC LIMIT $2) m
       JOIN sessions s ON s.id = m.session_id
      WHERE m.data->>'kind' = 'agent_message' ORDER BY m.tx DESC, m.position DESC LIMIT $3`,
    [accountId, SEARCHED_MESSAGES, limit],
  );
