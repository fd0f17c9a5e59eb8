/** `host.session`: the transcript of the running handler's session only. */
import type { Pool } from 'pg';
import { inTransaction } from '../../db/postgres/pool.ts';
import { appendMessages, lastMessages, type NewMessage } from '../../db/sessions/sessions.ts';
import { HostError, type HostHandlers, type HostScope, requireScopeSession, requireStorable } from './host-call.ts';

/** Messages read by default. */
const DEFAULT_MESSAGES = 100;

type Calls = 'session.get' | 'session.messages' | 'session.post' | 'session.notice';

export const sessionCalls = (pool: Pool): Pick<HostHandlers, Calls> => ({
  'session.get': async (scope) => {
    const { id, agentId, channelId, createdAt } = requireScopeSession(scope);
    return { id, agentId, channelId, createdAt };
  },
  'session.messages': (scope, { limit }) =>
    lastMessages(pool, requireScopeSession(scope).id, limit ?? DEFAULT_MESSAGES),
  'session.post': (scope, { text }) => add(scope, 'assistant', text),
  'session.notice': (scope, { text }) => add(scope, 'notice', text),
});

async function add(scope: HostScope, role: NewMessage['role'], text: string): Promise<{ id: string }> {
  const session = requireScopeSession(scope);
  requireStorable(text, 'the text of a message');
  const data = { installationId: scope.plugin.installationId, plugin: scope.plugin.slug };
  const [added] = await inTransaction(
    scope.writes,
    (tx) => appendMessages(tx, session.id, [{ role, text, data }]),
    scope.signal,
  );
  if (!added) throw new HostError('the session is gone');
  return { id: added.id };
}
