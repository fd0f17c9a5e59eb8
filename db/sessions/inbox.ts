/** Messages to agents that wait for an answer, and their turns. */
import type { Pool } from 'pg';
import { mapPage, type Page } from '../postgres/cursors.ts';
import { type PageQuery, readPositionPage } from '../postgres/rows.ts';
import {
  IS_NOT_CANCELLED,
  type JudgedMessage,
  MESSAGE,
  MESSAGE_BYTES,
  type MessageRow,
  toMessage,
} from './sessions.ts';
import { MESSAGE_OF_TURN, TURN, type TurnRow } from './turns.ts';

/** A list reads this many of an account's newest messages that may wait, which bounds its time. Older ones are not listed. */
const READ_MAX = 50_000;
/** The condition of the index `session_messages_waiting`. */
const MAY_WAIT = `m.account_id = $1 AND m.role = 'user' AND m.waits`;
/**
 * Returns SQL for the messages that may wait, oldest first. Its LIMIT makes PostgreSQL read by that index, also where it takes another
 * one for better. A page after another one is newer than the messages that are too old.
 *
 * @param start the parameter with the position after which the page starts
 */
const listMayWait = (start: string): string =>
  `SELECT * FROM session_messages m WHERE ${MAY_WAIT} AND m.position > CASE WHEN ${start}::bigint > 0 THEN ${start} ELSE coalesce(
     (SELECT m.position FROM session_messages m WHERE ${MAY_WAIT} ORDER BY m.position DESC OFFSET ${READ_MAX} LIMIT 1), 0) END
   ORDER BY m.position LIMIT ${READ_MAX}`;

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
 * Lists messages that wait, oldest first: those that were added without a turn, such as a channel's, until a turn of them is over or
 * another runtime holds it. Messages that a plugin cancelled do not wait, nor those that a runtime opened a turn with.
 */
export async function pageInbox(pool: Pool, query: InboxQuery): Promise<Page<WaitingMessage>> {
  const page = await readPositionPage<MessageRow & { sessionId: string; agentId: string }>(
    pool,
    {
      columns: `${MESSAGE}, "sessionId", "agentId"`,
      table: 'm',
      rows: `SELECT m.*, ${MESSAGE_BYTES} AS bytes, s.id AS "sessionId", s.agent_id AS "agentId"
         FROM (${listMayWait('$5')}) AS m JOIN sessions s ON s.id = m.session_id
        WHERE ($2::text IS NULL OR s.agent_id = $2) AND ($3::text IS NULL OR s.id = $3) AND ${IS_NOT_CANCELLED} AND NOT EXISTS (
          SELECT 1 FROM turns t WHERE t.session_id = m.session_id AND t.id = m.id AND (
            t.state NOT IN ('judging', 'open') OR (t.runtime <> $4 AND t.lease_until > now())))
        ORDER BY m.position LIMIT $6`,
    },
    [query.accountId, query.agentId, query.sessionId, query.runtime],
    query,
  );
  return mapPage(page, ({ sessionId, agentId, ...row }) => ({ sessionId, agentId, message: toMessage(row) }));
}

interface BegunTurnsQuery extends PageQuery {
  readonly accountId: string;
  /** Null: of any agent. */
  readonly agentId: string | null;
}

/**
 * Lists turns that are not over, by their messages, oldest first: those of messages that were added without a turn. A runtime that
 * opened a turn with a text of its own goes on with it itself.
 */
export const pageBegunTurns = (
  pool: Pool,
  query: BegunTurnsQuery,
): Promise<Page<TurnRow & { readonly position: string }>> =>
  readPositionPage(
    pool,
    {
      columns: `${TURN}, ${MESSAGE_OF_TURN} AS message, m.position::text AS position`,
      table: 'm',
      joins: 'JOIN turns ON turns.session_id = m.session_id AND turns.id = m.id',
      // LATERAL with LIMIT makes PostgreSQL look up each turn by its key: a join may read the turns of all accounts.
      rows: `SELECT m.session_id, m.id, m.position, ${MESSAGE_BYTES} + t.stored_bytes AS bytes
         FROM (${listMayWait('$3')}) AS m JOIN sessions s ON s.id = m.session_id, LATERAL (
           SELECT stored_bytes FROM turns
            WHERE turns.session_id = m.session_id AND turns.id = m.id AND turns.state IN ('judging', 'open') LIMIT 1) t
        WHERE ($2::text IS NULL OR s.agent_id = $2) ORDER BY m.position LIMIT $4`,
    },
    [query.accountId, query.agentId],
    query,
  );
