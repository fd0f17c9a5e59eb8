/** Maps the conversations of a channel to sessions. */

import type { ClientBase, Pool } from 'pg';
import { deleteChannel } from '../channels/channels.ts';
import type { Queues } from '../jobs/queues.ts';
import type { Transaction, WritingPool } from '../postgres/pool.ts';
import { changeRows, findRow, findValue, hasRow, listValues, planOnce, type Queryable } from '../postgres/rows.ts';
import { deleteWithSessions } from './session-removal.ts';

const FIND_CONVERSATION = planOnce(`SELECT k.session_id AS "sessionId", EXISTS (
    SELECT 1 FROM session_messages m WHERE m.session_id = k.session_id AND m.id = ANY ($3)) AS "hasMessage"
  FROM conversations k WHERE k.channel_id = $1 AND k.conversation_key = $2`);

/** @returns its session, and whether it has one of the messages; null: the conversation has no session yet */
export const findConversation = (
  pool: Pool,
  channelId: string,
  key: string,
  messageIds: readonly string[],
): Promise<{ readonly sessionId: string; readonly hasMessage: boolean } | null> =>
  findRow(pool, FIND_CONVERSATION, [channelId, key, messageIds]);

/** Binds a conversation to its session. False: it has one already. */
export async function bindConversation(
  tx: ClientBase,
  conversation: { channelId: string; key: string; sessionId: string },
): Promise<boolean> {
  const made = await changeRows(
    tx,
    `INSERT INTO conversations (channel_id, conversation_key, session_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
    [conversation.channelId, conversation.key, conversation.sessionId],
  );
  return made === 1;
}

/** Where the replies of a session are sent. */
export interface ReplyAddress {
  readonly channelId: string;
  readonly conversationKey: string;
  readonly installationId: string;
  readonly accountId: string;
  readonly routingId: string;
}

/**
 * Null: the session does not belong to a channel, or the plugin has no `channel.send`, and its replies would wait for a version that
 * may never come.
 */
export const findReplyAddress = (pool: Queryable, sessionId: string): Promise<ReplyAddress | null> =>
  findRow(
    pool,
    `SELECT c.id AS "channelId", k.conversation_key AS "conversationKey", c.installation_id AS "installationId",
            c.account_id AS "accountId", c.routing_id AS "routingId"
       FROM conversations k JOIN channels c ON c.id = k.channel_id
       JOIN installations i ON i.id = c.installation_id JOIN versions v ON v.id = i.current_version_id
      WHERE k.session_id = $1 AND (v.registrations -> 'channel' ->> 'send')::boolean`,
    [sessionId],
  );

/** Null: the session does not belong to a channel. */
export const findConversationKey = (pool: Queryable, sessionId: string): Promise<string | null> =>
  findValue(pool, 'SELECT conversation_key FROM conversations WHERE session_id = $1', [sessionId]);

/** Reads the agent of a channel and locks the channel's row against deletion. Null: the channel was deleted. */
export const lockChannelAgent = (tx: Transaction, channelId: string): Promise<{ id: string; name: string } | null> =>
  findRow(
    tx,
    `SELECT coalesce(agent_id, id) AS id, coalesce(agent_name, agent_id, name) AS name FROM channels WHERE id = $1
        FOR KEY SHARE`,
    [channelId],
  );

export async function setChannelAgent(
  tx: ClientBase,
  channelId: string,
  agent: { id: string; name: string | null },
): Promise<void> {
  await tx.query('UPDATE channels SET agent_id = $2, agent_name = $3 WHERE id = $1', [channelId, agent.id, agent.name]);
}

interface ChannelScope {
  readonly accountId: string;
  readonly installationId: string;
  /** Left out: all channels of the installation. */
  readonly channelId?: string;
}

/** Deletes a channel with its sessions. False: no such channel. @param signal ends it between two batches of sessions */
export const deleteChannelWithSessions = (
  pool: WritingPool,
  queues: Queues,
  scope: Required<ChannelScope>,
  signal?: AbortSignal,
): Promise<boolean> =>
  deleteWithSessions(
    pool,
    queues,
    {
      accountId: scope.accountId,
      lock: (tx) => lockChannels(tx, scope),
      listSessions: (db, limit) => listChannelSessions(db, scope, limit),
      delete: (tx) => deleteChannel(tx, scope.installationId, scope.channelId),
    },
    signal,
  );

/** Locks an installation's channels, or one of them, so that no session of theirs starts. @returns whether one exists */
export const lockChannels = (tx: Transaction, { installationId, channelId }: ChannelScope): Promise<boolean> =>
  hasRow(
    tx,
    `SELECT 1 FROM channels WHERE installation_id = $1 AND ($2::text IS NULL OR id = $2) ORDER BY id FOR UPDATE`,
    [installationId, channelId ?? null],
  );

/** Lists sessions of an installation's channels, or of one channel. */
export const listChannelSessions = (
  db: Queryable,
  { installationId, channelId }: ChannelScope,
  limit: number,
): Promise<string[]> =>
  listValues(
    db,
    `SELECT k.session_id FROM channels c JOIN conversations k ON k.channel_id = c.id
      WHERE c.installation_id = $1 AND ($2::text IS NULL OR c.id = $2) LIMIT $3`,
    [installationId, channelId ?? null, limit],
  );
