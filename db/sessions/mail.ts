/** Mail between agents, as the transcripts of the receivers have it. */
import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { findRow, orderPage, type PageQuery, readPositionPage } from '../postgres/rows.ts';
import { MESSAGE_BYTES } from './sessions.ts';

export interface MailRow {
  readonly messageId: string;
  readonly sessionId: string;
  readonly toAgentId: string;
  readonly text: string;
  readonly data: { readonly fromAgentId?: unknown };
  readonly at: string;
  readonly position: string;
}

const NEWEST = orderPage('m.position', '$2', 'newest');

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
      order: NEWEST.direction,
      rows: `SELECT m.*, s.agent_id AS "toAgentId", ${MESSAGE_BYTES} AS bytes
          FROM session_messages m JOIN sessions s ON s.id = m.session_id
         WHERE m.account_id = $1 AND starts_with(m.data::text, '{"kind":"agent_message"') AND ${NEWEST.condition}
         ORDER BY m.position ${NEWEST.direction} LIMIT $3`,
    },
    [accountId],
    query,
  );

/** Finds a sent mail by its id. The id does not depend on the receiver, so the search covers all sessions of the account. */
export const findMail = (
  pool: Pool,
  accountId: string,
  messageId: string,
): Promise<{ readonly sessionId: string; readonly digest: string } | null> =>
  findRow(
    pool,
    `SELECT session_id AS "sessionId", request_digest AS digest FROM session_messages
      WHERE account_id = $1 AND id = $2 AND request_digest IS NOT NULL`,
    [accountId, messageId],
  );
