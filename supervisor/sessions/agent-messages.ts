/** A message that a plugin writes to an agent: through `middleware.agentMessage`, then into the agent's session. */
import { appendMessages } from '../../db/sessions.ts';
import type { PassMessage } from '../host/agents.ts';
import { runHook } from './hooks.ts';
import type { SessionServices } from './services.ts';

type Parameters = [services: SessionServices, ...message: globalThis.Parameters<PassMessage>];

/** The addressed agent reads it as a user's; `data` says who wrote it. A veto is noted in that transcript. */
export async function passAgentMessage(...[services, session, sent]: Parameters): ReturnType<PassMessage> {
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
