/** `POST /sessions/{id}/replies`: an agent's answer to a channel's conversation, kept before it is sent. */
import { randomUUIDv7 } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { insertReply } from '../../db/channels/deliveries.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findReplyAddress, type ReplyAddress } from '../../db/sessions/conversations.ts';
import { appendMessages, hasMessage, lockSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { attachments, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { currentTrace } from '../../service/telemetry/tracing.ts';
import { runSessionHook } from './hooks.ts';
import { readBody, storedId, storedText } from './input.ts';
import type { SessionParams, SessionServices } from './session-services.ts';

const newReply = z.object({
  /** The runtime's own id: a repeated call sends nothing twice. */
  id: storedId.optional(),
  text: storedText(TEXT_MAX_CHARS),
  attachments: attachments.default([]),
});
type NewReply = z.infer<typeof newReply>;

/** Installs the route. */
export function installReplies(app: FastifyInstance, services: SessionServices): void {
  app.post<{ Params: SessionParams }>('/sessions/:sessionId/replies', async (request, reply) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const body = readBody(newReply, request.body);
    const address = await findReplyAddress(services.pool, session.id);
    if (!address) throw new Problem('no_channel', 'This session is no conversation of a connected channel.');
    const id = body.id ?? randomUUIDv7();
    if (!(await hasMessage(services.pool, session.id, id))) await send(services, session, address, { ...body, id });
    return reply.code(202).send({ id });
  });
}

/** Through `outboundMessage`, then into transcript and outbox in one transaction. */
async function send(
  services: SessionServices,
  session: Session,
  address: ReplyAddress,
  { id, text, attachments }: NewReply & { id: string },
): Promise<void> {
  const context = { message: { id, text, attachments }, target: address.conversationKey };
  const answer = await runSessionHook(services, session, 'middleware.outboundMessage', context, 'agent');
  if (answer.action === 'cancel')
    throw new Problem('cancelled', `${answer.cancelledBy} stopped it: ${answer.reason ?? ''}`);
  services.faultPoint('reply.guarded');
  const { message } = answer.context as typeof context;
  const said = { ...message, text: message.text.replaceAll('\0', '').toWellFormed() };
  const { conversationKey, ...to } = address;
  await inTransaction(services.pool, async (tx) => {
    // Two calls with one id at once: the second finds what the first has written.
    if (!(await lockSession(tx, session.id)) || (await hasMessage(tx, session.id, id))) return;
    const data = { channelId: address.channelId, attachments: said.attachments };
    await appendMessages(tx, session.id, [{ id, role: 'assistant', text: said.text, data }]);
    const body = { conversationKey, text: said.text, attachments: said.attachments };
    await insertReply(tx, {
      ...to,
      id: randomUUIDv7(),
      body: Buffer.from(JSON.stringify(body)),
      traceparent: currentTrace(),
    });
    services.faultPoint('reply.written');
  });
}
