/**
 * Delivers plugins' messages to agents: through `middleware.agentMessage` and `middleware.inboundMessage`, then into the agent's
 * session.
 */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import { lockAgent } from '../../db/accounts/agents.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { inLockedTransaction, inTransaction, type Transaction, type WritingPool } from '../../db/postgres/pool.ts';
import {
  appendMessages,
  createSession,
  findAgentName,
  findAgentSession,
  type Session,
} from '../../db/sessions/sessions.ts';
import { type Cancel, formatCancel } from '../calls/chain.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments, judgeMessage } from '../calls/message-hook.ts';
import type { PluginPort } from '../calls/plugin-port.ts';
import { recordSessionEvent } from '../calls/session-events.ts';

export interface AgentMessageDeps {
  readonly pool: Pool;
  readonly queues: Queues;
  readonly otherPlugins: PluginPort;
  /** Called at each step; a test may stop the step there. */
  faultPoint(step: string): Promise<void> | undefined;
}
interface AgentMessage {
  readonly fromAgentId: string;
  readonly text: string;
  readonly installationId: string;
  /** Slug of the sending plugin. */
  readonly plugin: string;
}

/**
 * Opens the agent's newest session without a channel, or starts one.
 *
 * @param signal prevents the start when aborted before the commit
 * @returns null: the account has no such agent
 */
export async function openAgentSession(
  { pool, queues }: Pick<AgentMessageDeps, 'pool' | 'queues'>,
  writes: WritingPool,
  { accountId, agentId }: { readonly accountId: string; readonly agentId: string },
  signal?: AbortSignal,
): Promise<Session | null> {
  const newest = await findAgentSession(pool, accountId, agentId);
  if (newest) return newest;
  const start = async (tx: Transaction): Promise<Session | null> => {
    const agent = await lockAgent(tx, accountId, agentId);
    // Agents of an agent runtime are known only by their sessions.
    const agentName = agent?.name ?? (await findAgentName(tx, accountId, agentId));
    if (agentName === null) return null;
    // Another message may have created the session while this one waited for the lock.
    const started = await findAgentSession(tx, accountId, agentId);
    if (started) return started;
    const session = await createSession(tx, { accountId, agentId, agentName, channelId: null });
    const data = { sessionId: session.id, agentId, channelId: null };
    await recordSessionEvent(tx, queues, accountId, 'sessionStarted', data);
    return session;
  };
  return inLockedTransaction(writes, `agent session:${accountId}:${agentId}`, start, signal);
}

/**
 * Adds a user message to a session; `data` names the plugin that wrote it.
 *
 * @param signal prevents the second chain of hooks and the write, when aborted before: hooks may outlast the call
 */
export async function sendAgentMessage(
  { pool, otherPlugins, faultPoint }: AgentMessageDeps,
  writes: WritingPool,
  session: Session,
  { fromAgentId, text, installationId, plugin }: AgentMessage,
  signal: AbortSignal,
): Promise<{ readonly id: string } | { readonly cancelled: string }> {
  const sent = { fromAgentId, toAgentId: session.agentId, message: { text, attachments: [] }, toSessionId: session.id };
  const id = randomUUIDv7();
  const run = { accountId: session.accountId, session, trigger: 'agent' };
  const passed = await otherPlugins.runHook({ ...run, hook: 'middleware.agentMessage', context: sent });
  if (passed.cancelled) return describeRefusal(passed.cancelled);
  // The second chain may take as long as the first, and its hooks would judge a message that is not added.
  signal.throwIfAborted();
  const arriving = { id, from: fromAgentId, ...(passed.context.message as typeof sent.message) };
  const port = { pool, runHook: otherPlugins.runHook };
  const context = { message: arriving };
  const inbound = await judgeMessage(port, { ...run, hook: 'middleware.inboundMessage', context });
  if (inbound.cancelled) return describeRefusal(inbound.cancelled);
  const { text: arrived, attachments } = inbound.context.message;
  const judgement = toJudgement('inboundMessage', inbound);
  const { guards } = inbound;
  await faultPoint('message.judged');
  const add = async (tx: Transaction) => {
    const held = await holdAttachments(tx, session, attachments);
    const data = { kind: 'agent_message', from: fromAgentId, fromAgentId, installationId, plugin, attachments: held };
    return appendMessages(tx, session.id, [{ id, role: 'user', text: arrived, data, judgement, guards }]);
  };
  const [added] = await inTransaction(writes, add, signal);
  return added ? { id: added.id } : { cancelled: 'the session was deleted meanwhile' };
}

const describeRefusal = (cancel: Cancel) => ({ cancelled: formatCancel(cancel) });
