/** Messages to agents that wait for an answer. */
import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { boundedSql, type PageQuery, readPositionPage } from '../postgres/rows.ts';
import { type JudgedMessage, MESSAGE, MESSAGE_BYTES, type MessageRow, toMessage } from './sessions.ts';

/** The newest messages of users that are read, whatever is asked for: bounds the time of a list that finds few of them. */
const READ_MAX = 50_000;
/** The newest of them that match and are looked at: what is older waits no longer. */
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
    boundedSql({
      columns: `${MESSAGE}, "sessionId", "agentId"`,
      table: 'm',
      order: 'ASC',
      rows: `SELECT m.*, ${MESSAGE_BYTES} AS bytes, w."sessionId", w."agentId" FROM (
         SELECT u."sessionId", u."agentId", u.position AS waiting FROM (
           SELECT r.*, s.agent_id AS "agentId" FROM (
             -- Without texts: a sort of that many would not fit into memory.
             SELECT m.session_id AS "sessionId", m.id, m.position, m.data ->> 'turnId' IS NULL AS "isInbound",
                    m.judgement ->> 'outcome' AS outcome
               FROM session_messages m WHERE m.account_id = $1 AND m.role = 'user'
              ORDER BY m.position DESC LIMIT ${READ_MAX}) AS r JOIN sessions s ON s.id = r."sessionId"
            WHERE r."isInbound" AND ($2::text IS NULL OR s.agent_id = $2) AND ($3::text IS NULL OR s.id = $3)
            ORDER BY r.position DESC LIMIT ${LOOK_BACK}) AS u
          WHERE u.position > $5 AND coalesce(u.outcome, '') <> 'cancelled' AND NOT EXISTS (
            SELECT 1 FROM turns t WHERE t.session_id = u."sessionId" AND t.id = u.id AND (
              t.state NOT IN ('judging', 'open') OR (t.runtime <> $4 AND t.lease_until > now())))
          ORDER BY u.position LIMIT $6) AS w
       JOIN session_messages m ON m.session_id = w."sessionId" AND m.position = w.waiting
      ORDER BY m.position`,
    }),
    [query.accountId, query.agentId, query.sessionId, query.runtime],
    query,
  );
  const items = page.items.map(({ sessionId, agentId, ...row }) => ({ sessionId, agentId, message: toMessage(row) }));
  return { items, nextCursor: page.nextCursor };
}
