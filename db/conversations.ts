/** Which session a channel's conversation goes on in. */
import type { ClientBase, Pool } from 'pg';

/** The session of a conversation; null: it has none yet. */
export async function findConversation(pool: Pool, channelId: string, key: string): Promise<string | null> {
  const found = await pool.query<{ sessionId: string }>(
    'SELECT session_id AS "sessionId" FROM conversations WHERE channel_id = $1 AND conversation_key = $2',
    [channelId, key],
  );
  return found.rows[0]?.sessionId ?? null;
}

/** Binds a conversation to a session. False: it has one already. */
export async function bindConversation(
  tx: ClientBase,
  conversation: { channelId: string; key: string; sessionId: string },
): Promise<boolean> {
  const made = await tx.query(
    `INSERT INTO conversations (channel_id, conversation_key, session_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
    [conversation.channelId, conversation.key, conversation.sessionId],
  );
  return made.rowCount === 1;
}

/** Where a session's replies go. */
export interface ReplyAddress {
  readonly channelId: string;
  readonly conversationKey: string;
  readonly installationId: string;
  readonly accountId: string;
  readonly routingId: string;
}

/** Where replies of a session go; null: it is no channel's conversation. */
export async function findReplyAddress(pool: ClientBase | Pool, sessionId: string): Promise<ReplyAddress | null> {
  const found = await pool.query<ReplyAddress>(
    `SELECT c.id AS "channelId", k.conversation_key AS "conversationKey", c.installation_id AS "installationId",
            c.account_id AS "accountId", c.routing_id AS "routingId"
       FROM conversations k JOIN channels c ON c.id = k.channel_id WHERE k.session_id = $1`,
    [sessionId],
  );
  return found.rows[0] ?? null;
}

/** Who answers in a channel. */
export async function findChannelAgent(pool: Pool, channelId: string): Promise<{ id: string; name: string } | null> {
  const found = await pool.query<{ id: string; name: string }>(
    `SELECT coalesce(agent_id, id) AS id, coalesce(agent_name, agent_id, name) AS name FROM channels WHERE id = $1`,
    [channelId],
  );
  return found.rows[0] ?? null;
}

/** Says who answers in a channel. */
export async function setChannelAgent(
  tx: ClientBase,
  channelId: string,
  agent: { id: string; name: string | null },
): Promise<void> {
  await tx.query('UPDATE channels SET agent_id = $2, agent_name = $3 WHERE id = $1', [channelId, agent.id, agent.name]);
}

/** Removes the sessions of an installation's channels, or of one of them: the chats go with the connection. */
export async function deleteConversations(
  tx: ClientBase,
  of: { installationId: string; channelId?: string },
): Promise<void> {
  await tx.query(
    `DELETE FROM sessions WHERE id IN (
       SELECT k.session_id FROM conversations k JOIN channels c ON c.id = k.channel_id
        WHERE c.installation_id = $1 AND ($2::text IS NULL OR c.id = $2))`,
    [of.installationId, of.channelId ?? null],
  );
}
