/** A message that a plugin writes to an agent: through `middleware.agentMessage`, then into the agent's session. */
import { lockAgent } from '../../db/accounts/agents.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { appendMessages, createSession, findAgentSession, type Session } from '../../db/sessions/sessions.ts';
import { runHook } from '../sessions/hooks.ts';
import { tell } from '../sessions/lifecycle.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import type { AgentMail, PassMessage } from './agents.ts';

/** @param services asked for when a message goes out: plugins run before they are there */
export function openAgentMail(services: () => SessionServices): AgentMail {
  return {
    openSession: (accountId, agentId) => openSession(services(), accountId, agentId),
    pass: (session, sent) => pass(services(), session, sent),
  };
}

/** Agents that only their runtime knows are found by their sessions. */
async function openSession(services: SessionServices, accountId: string, agentId: string): Promise<Session | null> {
  const { pool } = services;
  const newest = await findAgentSession(pool, accountId, agentId);
  if (newest) return newest;
  const { plugins } = await services.pluginsCache.get(accountId);
  return inTransaction(pool, async (tx) => {
    const agent = await lockAgent(tx, accountId, agentId);
    if (!agent) return null;
    // Another message may have started it while this one waited for the agent.
    const started = await findAgentSession(tx, accountId, agentId);
    if (started) return started;
    const session = await createSession(tx, { accountId, agentId, agentName: agent.name, channelId: null });
    await tell(services, tx, plugins, 'sessionStarted', { sessionId: session.id, agentId, channelId: null });
    return session;
  });
}

type Sent = Parameters<PassMessage>[1];

/** The addressed agent reads it as a user's; `data` says who wrote it. A veto is noted in that transcript. */
async function pass(services: SessionServices, session: Session, sent: Sent): ReturnType<PassMessage> {
  const { fromAgentId, text, installationId, plugin } = sent;
  const context = { fromAgentId, toAgentId: session.agentId, message: { text } };
  const passed = await runHook(services, session, 'middleware.agentMessage', context, 'agent');
  if (passed.action === 'cancel') return { cancelled: `${passed.cancelledBy} stopped it: ${passed.reason}` };
  const data = { kind: 'agent_message', fromAgentId, installationId, plugin };
  const message = passed.context.message as typeof context.message;
  // A hook may put anything in that a wire carries.
  const words = message.text.replaceAll('\0', '').toWellFormed();
  const [added] = await appendMessages(services.pool, session.id, [{ role: 'user', text: words, data }]);
  return added ? { id: added.id } : { cancelled: 'the session was deleted meanwhile' };
}
