/** Mail between agents of an account: judged by the hooks of both sessions, and added to the receiver's transcript. */
import type { z } from 'zod';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findMail } from '../../db/sessions/mail.ts';
import { appendMessages, findSession, type Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments as attachmentList } from '../../sdk/contract/payloads.ts';
import type { SentMail } from '../../sdk/session/api-types.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments } from '../calls/message-hook.ts';
import { openAgentSession } from '../host/agent-messages.ts';
import { requireContinued, runHookOrThrow, runMessageHook } from '../sessions/hooks.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { createReusedProblem, digestOf } from '../sessions/turn-answers.ts';

export interface Mail {
  /** Idempotency key: a repeated request with this id sends nothing. */
  readonly id: string;
  readonly toAgentId: string;
  /** A session of that agent. Absent: as `openAgentSession` chooses. */
  readonly toSessionId?: string | undefined;
  readonly text: string;
}

/**
 * Sends a message to a session of an agent. Runs `outboundMessage` and `agentMessage` for the sender, then
 * `inboundMessage` for the receiver.
 *
 * @throws Problem `not_found`, `cancelled`, `id_reused`, `quota_exceeded`
 */
export async function sendMail(
  services: SessionServices,
  session: Session,
  mail: Mail,
  trigger: Trigger,
): Promise<SentMail> {
  const { accountId, agentId: fromAgentId } = session;
  const { id, toAgentId, toSessionId, text } = mail;
  const messageId = `mail-${digestOf([session.id, id])}`;
  const requestDigest = digestOf(toSessionId === undefined ? [toAgentId, text] : [toAgentId, text, toSessionId]);
  return services.turnLocks.run(`mail ${messageId}`, async () => {
    const known = await findMail(services.pool, accountId, messageId);
    if (known) {
      if (known.digest !== requestDigest) throw createReusedProblem('a mail');
      return { messageId, sessionId: known.sessionId, toAgentId };
    }
    const receiver = await openReceiver(services, accountId, mail);
    const noticeId = `${messageId}:vetoed`;
    const none: z.infer<typeof attachmentList> = [];
    const written = { message: { id: messageId, text, attachments: none }, target: toAgentId };
    const outbound = requireContinued(
      await runMessageHook(services, session, 'middleware.outboundMessage', written, trigger, { noticeId }),
    );
    const between = {
      fromAgentId,
      toAgentId,
      message: { text: outbound.context.message.text, attachments: outbound.context.message.attachments },
      toSessionId: receiver.id,
    };
    const passed = await runHookOrThrow(services, session, 'middleware.agentMessage', between, trigger, { noticeId });
    const arriving = { ...outbound.context.message, from: fromAgentId, text: passed.context.message.text };
    const inbound = requireContinued(
      await runMessageHook(services, receiver, 'middleware.inboundMessage', { message: arriving }, trigger, {
        noticeId,
      }),
    );
    await services.faultPoint('mail.judged');
    const arrived = inbound.context.message;
    const judgement = toJudgement('inboundMessage', inbound);
    const { guards } = inbound;
    const [added] = await inTransaction(services.pool, async (tx) => {
      const held = await holdAttachments(tx, receiver, arrived.attachments);
      const sender = { from: fromAgentId, fromAgentId, fromSessionId: session.id };
      const data = { kind: 'agent_message', ...sender, attachments: held };
      const judged = { role: 'user', text: arrived.text, judgement, guards } as const;
      return appendMessages(tx, receiver.id, [{ id: messageId, ...judged, data, requestDigest }]);
    });
    if (!added)
      throw new Problem('not_found', 'The session of the agent was deleted meanwhile. Send the message again.');
    await services.faultPoint('mail.written');
    return { messageId, sessionId: receiver.id, toAgentId };
  });
}

/** @throws Problem `not_found` */
async function openReceiver(
  services: SessionServices,
  accountId: string,
  { toAgentId, toSessionId }: Mail,
): Promise<Session> {
  if (toSessionId === undefined) {
    const opened = await openAgentSession(services, services.pool, { accountId, agentId: toAgentId });
    if (opened) return opened;
    throw new Problem('not_found', 'No agent of the account has this id, and none has a session under it.');
  }
  const named = await findSession(services.pool, toSessionId);
  if (named?.accountId === accountId && named.agentId === toAgentId) return named;
  throw new Problem(
    'not_found',
    'The agent has no session with the id toSessionId. Without toSessionId, the message goes to a session without a channel.',
  );
}
