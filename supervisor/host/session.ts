/** `host.session`: reads and extends the transcript of the session for which the handler runs. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import type { z } from 'zod';
import { inTransaction, type Transaction } from '../../db/postgres/pool.ts';
import { appendMessages, lastMessages, type NewMessage, type Session } from '../../db/sessions/sessions.ts';
import { SESSION_MESSAGES_DEFAULT } from '../../sdk/contract/limits.ts';
import type { attachments as attachmentList } from '../../sdk/contract/payloads.ts';
import { hostCalls } from '../../sdk/contract/protocol.ts';
import { formatCancel } from '../calls/chain.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments, judgeMessage } from '../calls/message-hook.ts';
import type { PluginPort } from '../calls/plugin-port.ts';
import type { CancelNotices } from '../records/cancel-notices.ts';
import { HostError, type HostHandlers, type HostScope, requireScopeSession, requireStorable } from './host-call.ts';
import type { MessageChains } from './message-chains.ts';

type Calls = 'session.get' | 'session.messages' | 'session.post' | 'session.notice';

interface SessionDeps {
  readonly pool: Pool;
  readonly cancelNotices: CancelNotices;
  readonly otherPlugins: PluginPort;
  readonly messageChains: MessageChains;
  /** Called at each step; a test may stop the step there. */
  faultPoint(step: string): Promise<void> | undefined;
}

export const sessionCalls = (deps: SessionDeps): Pick<HostHandlers, Calls> => ({
  'session.get': async (scope) => {
    const { id, agentId, channelId, createdAt } = requireScopeSession(scope);
    return { id, agentId, channelId, createdAt };
  },
  'session.messages': async (scope, { limit }) => {
    const { id } = requireScopeSession(scope);
    await deps.cancelNotices.waitUntilWritten(id);
    return dropOldest(await lastMessages(deps.pool, id, limit ?? SESSION_MESSAGES_DEFAULT));
  },
  'session.post': (scope, { text }) => postMessage(deps, scope, text),
  'session.notice': (scope, { text }) =>
    addMessage(deps, scope, requireScopeSession(scope), { role: 'notice', text: requireText(text) }),
});

/**
 * Drops the oldest messages until the others fit into one result. The list that was read includes the message that reaches its
 * bound. Counts bytes of JSON, because a frame to a child has long lists as JSON, where a control character takes six bytes.
 */
function dropOldest<Message>(messages: readonly Message[]): Message[] {
  let bytes = 0;
  const dropped = messages.findLastIndex((message) => {
    bytes += 1 + Buffer.byteLength(JSON.stringify(message));
    return bytes > hostCalls['session.messages'].maxBytes;
  });
  return messages.slice(Math.min(dropped + 1, messages.length - 1));
}

const requireText = (text: string): string => requireStorable(text, 'the text of a message');

/** Adds a message as if the agent had written it. All plugins with the hook judge it, except the one that posts it. */
async function postMessage(deps: SessionDeps, scope: HostScope, text: string) {
  const { pool, otherPlugins, messageChains } = deps;
  const session = requireScopeSession(scope);
  messageChains.admit(scope, 'session.post');
  const message = { id: randomUUIDv7(), text: requireText(text), attachments: [] };
  const port = { pool, runHook: otherPlugins.runHook };
  const judged = await judgeMessage(port, {
    hook: 'middleware.outboundMessage',
    session: messageChains.extend(scope, session),
    excludedInstallationId: scope.plugin.installationId,
    context: { message, target: 'user' },
    trigger: 'agent',
  });
  const { cancelled } = judged;
  if (cancelled) throw new HostError(formatCancel(cancelled));
  const { text: passed, attachments } = judged.context.message;
  const judgement = toJudgement('outboundMessage', judged);
  await deps.faultPoint('message.judged');
  return addMessage(deps, scope, session, { id: message.id, role: 'assistant', text: passed, judgement }, attachments);
}

async function addMessage(
  { cancelNotices }: SessionDeps,
  scope: HostScope,
  session: Session,
  message: Omit<NewMessage, 'data'>,
  attachments?: z.infer<typeof attachmentList>,
): Promise<{ id: string }> {
  await cancelNotices.waitUntilWritten(session.id);
  const sender = { installationId: scope.plugin.installationId, plugin: scope.plugin.slug };
  const add = async (tx: Transaction) => {
    const files = attachments && { attachments: await holdAttachments(tx, session, attachments) };
    return appendMessages(tx, session.id, [{ ...message, data: { ...sender, ...files } }]);
  };
  const [added] = await inTransaction(scope.writes, add, scope.signal);
  if (!added) throw new HostError('the session was deleted');
  return { id: added.id };
}
