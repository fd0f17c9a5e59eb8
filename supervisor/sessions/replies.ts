/** Replies of agents to a channel's conversation: stored in the transcript and the outbox before they are sent. */

import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { insertReply } from '../../db/channels/deliveries.ts';
import { inTransaction, type Transaction } from '../../db/postgres/pool.ts';
import { findReplyAddress, type ReplyAddress } from '../../db/sessions/conversations.ts';
import { appendMessages, hasMessage, lockSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments } from '../../sdk/contract/payloads.ts';
import { currentTrace } from '../../service/telemetry/tracing.ts';
import { runHookOrThrow } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import { toJudgement } from './turn-answers.ts';

interface NewReply {
  /** An id chosen by the runtime. A reply with a known id is not sent again. */
  readonly id?: string | undefined;
  readonly text: string;
  readonly attachments: z.infer<typeof attachments>;
}

/** Sends a reply once. Resolves with its id. @throws Problem `no_channel`, `cancelled`, `not_found` */
export async function sendReply(services: SessionServices, session: Session, reply: NewReply): Promise<string> {
  const address = await findReplyAddress(services.pool, session.id);
  if (!address) throw new Problem('no_channel', 'This session is not a conversation of a connected channel.');
  const id = reply.id ?? randomUUIDv7();
  if (!(await hasMessage(services.pool, session.id, id))) await send(services, session, address, { ...reply, id });
  return id;
}

/** Runs the hook `outboundMessage`, then writes transcript and outbox in one transaction. */
async function send(
  services: SessionServices,
  session: Session,
  address: ReplyAddress,
  { id, text, attachments }: NewReply & { id: string },
): Promise<void> {
  const context = { message: { id, text, attachments }, target: address.conversationKey };
  const answer = await runHookOrThrow(services, session, 'middleware.outboundMessage', context, 'agent');
  await services.faultPoint('reply.guarded');
  const { message } = answer.context;
  await inTransaction(services.pool, async (tx) => {
    if (!(await lockSession(tx, session.id))) throw new Problem('not_found', 'You have no session with this id.');
    // The second of two concurrent calls with the same id finds the first one's rows.
    if (await hasMessage(tx, session.id, id)) return;
    const data = { channelId: address.channelId, attachments: message.attachments };
    const judgement = toJudgement('outboundMessage', answer);
    await appendMessages(tx, session.id, [{ id, role: 'assistant', text: message.text, data, judgement }]);
    await queueReply(tx, address, message);
    await services.faultPoint('reply.written');
  });
}

/** Writes the reply to the outbox of the channel. */
export async function queueReply(
  tx: Transaction,
  address: ReplyAddress,
  { text, attachments }: Pick<NewReply, 'text' | 'attachments'>,
): Promise<void> {
  const { conversationKey, ...to } = address;
  const body = Buffer.from(JSON.stringify({ conversationKey, text, attachments }));
  await requireRoom(tx, address.accountId, 'deliveries', body.byteLength);
  await insertReply(tx, { ...to, id: randomUUIDv7(), conversationKey, body, traceparent: currentTrace() });
}
