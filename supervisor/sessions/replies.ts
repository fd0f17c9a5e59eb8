/**
 * Stores an agent's reply to a channel's conversation in the transcript and in the outbox, from which it is sent, and has plugins
 * judge one that waited there.
 */

import { randomUUIDv7 } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { insertReply } from '../../db/channels/deliveries.ts';
import type { ClaimedDelivery } from '../../db/channels/delivery-queue.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { inTransaction, type Transaction } from '../../db/postgres/pool.ts';
import type { Queryable } from '../../db/postgres/rows.ts';
import { findConversation, findReplyAddress, type ReplyAddress } from '../../db/sessions/conversations.ts';
import { appendMessages, findMessage, findSession, lockSession, type Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments } from '../../sdk/contract/payloads.ts';
import { currentTrace } from '../../service/telemetry/tracing.ts';
import type { Cancel } from '../calls/chain.ts';
import { digestGuards, hasNewGuard } from '../calls/guards.ts';
import { runHook } from '../calls/hook-runner.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments } from '../calls/message-hook.ts';
import { requireContinued, runMessageHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';
import { createReusedProblem } from './turn-answers.ts';

const OUTBOUND = 'middleware.outboundMessage';

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
  const identified = { ...reply, id: reply.id ?? randomUUIDv7() };
  // First, because a repetition succeeds also if the plugin was updated to a version without channel.send meanwhile.
  if (reply.id !== undefined && (await isStored(services.pool, session.id, identified))) return identified.id;
  const address = await findReplyAddress(services.pool, session.id);
  if (!address)
    throw new Problem(
      'no_channel',
      'This session is not a conversation of a connected channel whose plugin sends replies: the plugin needs channel.send.',
    );
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
  const answer = await runMessageHook(services, session, OUTBOUND, context, 'agent', {
    noticeId: `${id}:vetoed`,
    requiresFiles: true,
  });
  const { guards } = answer;
  const { message } = requireContinued(answer).context;
  await services.faultPoint('reply.guarded');
  await inTransaction(services.pool, async (tx) => {
    if (!(await lockSession(tx, session.id))) throw new Problem('not_found', 'You have no session with this id.');
    // The second of two concurrent calls with the same id finds the first one's rows.
    if (await isStored(tx, session.id, reply)) return;
    const held = await holdAttachments(tx, session, message.attachments, attachments);
    const data = { channelId: address.channelId, attachments: held };
    const judgement = toJudgement('outboundMessage', answer);
    await appendMessages(tx, session.id, [{ id, role: 'assistant', text: message.text, data, judgement }]);
    await queueReply(tx, address, { ...message, attachments: held, guards });
    await services.faultPoint('reply.written');
  });
}

interface JudgedReply extends Pick<NewReply, 'text' | 'attachments'> {
  /** The required plugins when it was judged, as `digestGuards` returns them. Null: unknown. */
  readonly guards: string | null;
  /** What triggered it. Default: the agent. */
  readonly trigger?: Trigger;
}

/** Writes the reply to the outbox of the channel. */
export async function queueReply(
  tx: Transaction,
  address: ReplyAddress,
  { text, attachments, guards, trigger }: JudgedReply,
): Promise<void> {
  const { conversationKey, ...to } = address;
  const body = Buffer.from(JSON.stringify({ conversationKey, text, attachments, guards, trigger }));
  await requireRoom(tx, address.accountId, 'deliveries', body.byteLength);
  const id = orderedId(Date.now());
  const mediaIds = attachments.flatMap(({ mediaId }) => mediaId ?? []);
  await insertReply(tx, { ...to, id, conversationKey, body, mediaIds, traceparent: currentTrace() });
}

/** A reply as `channel.send` gets it, without the fields of its delivery. */
export interface ChannelReply extends Pick<NewReply, 'text' | 'attachments'> {
  readonly conversationKey: string;
}
/** A reply as the outbox has it. */
export interface WaitingReply extends ChannelReply {
  /** Absent from replies of earlier releases. */
  readonly guards?: string | null;
  readonly trigger?: Trigger;
}

/**
 * Has the required plugins judge a reply of the outbox again, if one of them was installed, changed or required since the reply was
 * judged. The transcript keeps the text that was judged first.
 *
 * @param sender the plugin of the channel
 * @returns the reply as it may be sent
 */
export async function judgeWaitingReply(
  services: SessionServices,
  { id, accountId, channelId }: Pick<ClaimedDelivery, 'id' | 'accountId' | 'channelId'>,
  { conversationKey, text, attachments, guards = null, trigger = 'agent' }: WaitingReply,
  sender: Pick<InstalledPlugin, 'installationId' | 'slug'>,
): Promise<{ readonly reply: ChannelReply } | { readonly cancelled: Cancel }> {
  const present = digestGuards(await services.pluginsCache.current(accountId), OUTBOUND);
  if (!hasNewGuard(guards, present)) return { reply: { conversationKey, text, attachments } };
  const context = { message: { id, text, attachments }, target: conversationKey };
  const options = { noticeId: `${id}:vetoed`, isRepeated: true };
  const conversation = await findConversation(services.pool, channelId, conversationKey, []);
  const session = conversation && (await findSession(services.pool, conversation.sessionId));
  // The session may have been deleted since.
  const answer = session
    ? await runMessageHook(services, session, OUTBOUND, context, trigger, options)
    : await runHook(services, {
        ...options,
        hook: OUTBOUND,
        accountId,
        session,
        actor: sender,
        context,
        trigger,
      });
  if (answer.cancelled) return { cancelled: answer.cancelled };
  const { message } = answer.context as typeof context;
  return { reply: { conversationKey, text: message.text, attachments: message.attachments } };
}
