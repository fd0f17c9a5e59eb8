/** Stores an agent's reply to a channel's conversation in the transcript and in the outbox, from which it is sent. */

import { randomUUIDv7 } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { insertReply } from '../../db/channels/deliveries.ts';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { inTransaction, type Transaction } from '../../db/postgres/pool.ts';
import type { Queryable } from '../../db/postgres/rows.ts';
import { findReplyAddress, type ReplyAddress } from '../../db/sessions/conversations.ts';
import { appendMessages, findMessage, lockSession, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments } from '../../sdk/contract/payloads.ts';
import { currentTrace } from '../../service/telemetry/tracing.ts';
import { toJudgement } from '../calls/judgement.ts';
import { requireContinued, runMessageHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import { createReusedProblem } from './turn-answers.ts';

interface NewReply {
  /** An id chosen by the runtime. A reply with a known id is not sent again. */
  readonly id?: string | undefined;
  readonly text: string;
  readonly attachments: z.infer<typeof attachments>;
}
type IdentifiedReply = NewReply & { readonly id: string };

/**
 * Sends a reply. A repeated call with the same id does not send it again.
 *
 * @returns the id of the reply
 * @throws Problem `no_channel`, `cancelled`, `id_reused`, `not_found`, `bad_request`, `quota_exceeded`
 */
export async function sendReply(services: SessionServices, session: Session, reply: NewReply): Promise<string> {
  const address = await findReplyAddress(services.pool, session.id);
  if (!address) throw new Problem('no_channel', 'This session is not a conversation of a connected channel.');
  const identified = { ...reply, id: reply.id ?? randomUUIDv7() };
  if (!(await isStored(services.pool, session.id, identified)))
    await storeReply(services, session, address, identified);
  return identified.id;
}

/** Whether the transcript has the reply. @throws Problem `id_reused` if its id belongs to another message */
async function isStored(
  db: Queryable,
  sessionId: string,
  { id, text, attachments }: IdentifiedReply,
): Promise<boolean> {
  const known = await findMessage(db, sessionId, id);
  if (!known) return false;
  const { role, data, judgement } = known;
  const isReply = role === 'assistant' && judgement !== null && typeof data?.channelId === 'string';
  // A reply that plugins changed cannot be compared, because only the changed one is stored. File types are the detected ones.
  const isSame =
    judgement?.outcome === 'changed' ||
    isDeepStrictEqual([known.text, withoutTypes(data?.attachments)], [text, withoutTypes(attachments)]);
  if (!isReply || !isSame) throw createReusedProblem('a message of the transcript');
  return true;
}

const withoutTypes = (attached: unknown) =>
  (Array.isArray(attached) ? attached : []).map(
    ({ mediaType: _detected, ...rest }: NewReply['attachments'][number]) => rest,
  );

/** Runs the hook `outboundMessage`, then writes transcript and outbox in one transaction. */
async function storeReply(
  services: SessionServices,
  session: Session,
  address: ReplyAddress,
  reply: IdentifiedReply,
): Promise<void> {
  const { id, text, attachments } = reply;
  const context = { message: { id, text, attachments }, target: address.conversationKey };
  const answer = await runMessageHook(services, session, 'middleware.outboundMessage', context, 'agent', {
    requiresFiles: true,
  });
  const { message } = requireContinued(answer).context;
  await services.faultPoint('reply.guarded');
  await inTransaction(services.pool, async (tx) => {
    if (!(await lockSession(tx, session.id))) throw new Problem('not_found', 'You have no session with this id.');
    // The second of two concurrent calls with the same id finds the first one's rows.
    if (await isStored(tx, session.id, reply)) return;
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
  await insertReply(tx, { ...to, id: orderedId(Date.now()), conversationKey, body, traceparent: currentTrace() });
}
