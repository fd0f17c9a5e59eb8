/** Messages to agents that wait for an answer. */
import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { type PageQuery, readPositionPage } from '../postgres/rows.ts';
import { type JudgedMessage, MESSAGE, type MessageRow, toMessage } from './sessions.ts';

/** The newest messages of users that are looked at: what is older waits no longer. */
const LOOK_BACK = 10_000;

export interface WaitingMessage {
  readonly sessionId: string;
  readonly agentId: string;
  readonly message: JudgedMessage;
}
interface InboxQuery extends PageQuery {
  readonly accountId: string;
  /** Null: of any agent. */
  readonly agentId: string | null;
  readonly sessionId: string | null;
  /** The runtime that asks: turns that others hold do not wait. */
  readonly runtime: string;
}

/**
 * Oldest first: messages that came from elsewhere, such as a channel's, without a turn or with one that is not over. Those that a
 * plugin cancelled do not wait, nor those that a runtime opened its turn with.
 */
export async function pageInbox(pool: Pool, query: InboxQuery): Promise<Page<WaitingMessage>> {
  const page = await readPositionPage<MessageRow & { sessionId: string; agentId: string }>(
    pool,
    `SELECT * FROM (
       SELECT ${MESSAGE.replace('id,', 'm.id,')}, m.session_id AS "sessionId", s.agent_id AS "agentId"
         FROM sessions s JOIN session_messages m ON m.session_id = s.id
        WHERE s.account_id = $1 AND m.role = 'user' AND m.data ->> 'turnId' IS NULL AND ($2::text IS NULL OR s.agent_id = $2) AND ($3::text IS NULL OR s.id = $3)
        ORDER BY m.position DESC LIMIT ${LOOK_BACK}) AS m
      WHERE m.position::bigint > $5 AND coalesce(m.judgement ->> 'outcome', '') <> 'cancelled' AND NOT EXISTS (
        SELECT 1 FROM turns t WHERE t.session_id = m."sessionId" AND t.id = m.id AND (
          t.state NOT IN ('judging', 'open') OR (t.runtime <> $4 AND t.lease_until > now())))
      ORDER BY m.position::bigint LIMIT $6`,
    [query.accountId, query.agentId, query.sessionId, query.runtime],
    query,
  );
  const items = page.items.map(({ sessionId, agentId, ...row }) => ({ sessionId, agentId, message: toMessage(row) }));
  return { items, nextCursor: page.nextCursor };
}
