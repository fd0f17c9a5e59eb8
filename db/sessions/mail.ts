/** Mail between agents, as it is in the transcripts of those who got it. */
import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { findValue, type PageQuery, readPositionPage } from '../postgres/rows.ts';
import { MESSAGE_BYTES, type Session } from './sessions.ts';

/** The newest sessions of an agent in which a repeated mail is looked for. Bounds the time of the search. */
const SEARCHED_MAX = 100;

export interface MailRow {
  readonly messageId: string;
  readonly sessionId: string;
  readonly toAgentId: string;
  readonly text: string;
  readonly data: { readonly fromAgentId?: unknown };
  readonly at: string;
  readonly position: string;
}

/** Newest first. The condition is that of the index `session_messages_mail`. */
export const pageMail = (
  pool: Pool,
  { accountId, ...query }: PageQuery & { readonly accountId: string },
): Promise<Page<MailRow>> =>
  readPositionPage<MailRow>(
    pool,
    {
      columns: `id AS "messageId", session_id AS "sessionId", "toAgentId", text, data, at, position::text AS position`,
      table: 'm',
      order: 'DESC',
      rows: `SELECT m.*, s.agent_id AS "toAgentId", ${MESSAGE_BYTES} AS bytes
          FROM session_messages m JOIN sessions s ON s.id = m.session_id
         WHERE m.account_id = $1 AND starts_with(m.data::text, '{"kind":"agent_message"') AND ($2 = 0 OR m.position < $2)
         ORDER BY m.position DESC LIMIT $3`,
    },
    [accountId],
    query,
  );

/** The session of an agent that has a message: not the newest one, if the agent started another since. */
export const findMailSession = (
  pool: Pool,
  { accountId, agentId }: Pick<Session, 'accountId' | 'agentId'>,
  messageId: string,
): Promise<string | null> =>
  findValue(
    pool,
    `SELECT s.id FROM (
       SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $2 ORDER BY id DESC LIMIT ${SEARCHED_MAX}) AS s
       JOIN session_messages m ON m.session_id = s.id AND m.id = $3`,
    [accountId, agentId, messageId],
  );
