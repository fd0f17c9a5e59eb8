/** Adds the messages that `channel.receive` returned to their sessions, through the hook `inboundMessage`. */
import { LRUCache } from 'lru-cache';
import type { z } from 'zod';
import type { ClaimedDelivery } from '../../db/channels/delivery-queue.ts';
import { type Fence, inTransaction } from '../../db/postgres/pool.ts';
import { bindConversation, findConversation, lockChannelAgent } from '../../db/sessions/conversations.ts';
import { appendMessages, createSession, renameNotice, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import type { channelMessage } from '../../sdk/contract/payloads.ts';
import type { Cancel } from '../calls/chain.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments } from '../calls/message-hook.ts';
import { recordSessionEvent } from '../calls/session-events.ts';
import { runMessageHook } from '../sessions/hooks.ts';
import type { SessionServices } from '../sessions/session-services.ts';

type ChannelMessage = z.infer<typeof channelMessage>;

/** A required plugin did not judge the message, so it is not stored. */
export class RequiredPluginError extends Error {
  readonly cancel: Cancel;

  constructor(cancel: Cancel) {
    super(cancel.reason);
    this.cancel = cancel;
  }
}

/**
 * After this time an attempt begins no further message: the hooks of each may take 15 s, and longer if they wait for
 * models. Meanwhile the worker is not free, nor can the shard be given up. Milliseconds.
 */
export const STORE_MS = 30 * SECOND;

interface Attempt {
  readonly fence: Fence;
  readonly delivery: ClaimedDelivery;
  /** The messages before it are skipped. */
  readonly firstIndex: number;
  /** A monotonic clock, milliseconds. */
  now(): number;
  /** Whether no further message should begin, because the shard is being given up. */
  isLeaving(): boolean;
}

/**
 * Adds a delivery's messages to their sessions. Idempotent: a message is identified by its delivery and position. Each attempt stores
 * at least one message that was not stored before. Those that were are skipped before the time of the attempt begins.
 *
 * @returns the index of the first message that is left for another attempt; the number of messages if none is
 * @throws RequiredPluginError or Problem, after which the delivery is attempted again
 */
export async function storeMessages(
  services: SessionServices,
  { fence, delivery, firstIndex, now, isLeaving }: Attempt,
  messages: readonly ChannelMessage[],
): Promise<number> {
  let endsAt: number | null = null;
  for (const [index, message] of messages.entries()) {
    if (index < firstIndex) continue;
    if (endsAt !== null && (isLeaving() || now() >= endsAt)) return index;
    const id = `${delivery.id}:${index}`;
    const session = await findOrCreateConversation(services, fence, delivery, { id, key: message.conversationKey });
    if (!session) continue;
    endsAt ??= now() + STORE_MS;
    await storeMessage({ services, fence, session }, delivery, id, message);
  }
  return messages.length;
}

/** Deliveries of which a part is stored: few need several attempts. */
const STORED_PARTS_MAX = 1_000;

/**
 * The messages with which attempts of this supervisor are done, of deliveries that need several attempts. A replay would have those that
 * plugins cancelled judged again in each of its attempts, and might never come to the last message.
 */
export class StoredParts {
  readonly #indexes = new LRUCache<string, number>({ max: STORED_PARTS_MAX });

  /** The index of the first message that is left. */
  find(delivery: ClaimedDelivery): number {
    return this.#indexes.get(nameReplay(delivery)) ?? 0;
  }

  set(delivery: ClaimedDelivery, index: number): void {
    this.#indexes.set(nameReplay(delivery), index);
  }

  /** Forgets a delivery that is finished. */
  delete(delivery: ClaimedDelivery): void {
    this.#indexes.delete(nameReplay(delivery));
  }
}

/** Differs for each replay of a delivery. */
const nameReplay = ({ id, queuedAt }: ClaimedDelivery): string => `${id} ${queuedAt}`;

interface Conversation {
  readonly services: SessionServices;
  readonly fence: Fence;
  readonly session: Session;
}

async function storeMessage(
  { services, fence, session }: Conversation,
  delivery: ClaimedDelivery,
  id: string,
  { conversationKey, from, text, attachments = [] }: ChannelMessage,
): Promise<void> {
  const context = { message: { id, from, text, attachments } };
  const answer = await runMessageHook(services, session, 'middleware.inboundMessage', context, 'channel', {
    noticeId: nameVeto(id),
  });
  if (answer.cancelled) {
    // A plugin's own cancel ends the message, until the delivery is replayed. After a failure, no plugin has cancelled: the delivery
    // is attempted again.
    if (answer.cancelled.cause === 'plugin') return;
    throw new RequiredPluginError(answer.cancelled);
  }
  const { guards } = answer;
  const { message } = answer.context;
  const { channelId, id: deliveryId } = delivery;
  const judgement = toJudgement('inboundMessage', answer);
  await services.faultPoint('message.judged');
  const [added] = await inTransaction({ pool: services.pool, fence }, async (tx) => {
    const held = await holdAttachments(tx, session, message.attachments);
    const data = { from: message.from, attachments: held, channelId, deliveryId, conversationKey };
    return appendMessages(tx, session.id, [{ id, role: 'user', text: message.text, data, judgement, guards }]);
  });
  // The next attempt starts a new session.
  if (!added) throw new Problem('not_found', 'The session of the conversation was deleted meanwhile.');
}

/** The id of the notice of a message that a plugin cancelled. */
const nameVeto = (messageId: string): string => `${messageId}:vetoed`;

/**
 * Finds the conversation's session or creates one. Null: it has the message already, a plugin cancelled the message in an earlier attempt,
 * or the channel was deleted.
 */
async function findOrCreateConversation(
  services: SessionServices,
  fence: Fence,
  delivery: ClaimedDelivery,
  message: { readonly id: string; readonly key: string },
): Promise<Session | null> {
  const { accountId, channelId, isReplayed } = delivery;
  const { id, key } = message;
  // A replay has a cancelled message judged again: the plugin that cancelled it may be gone or corrected.
  const known = await findConversation(services.pool, channelId, key, isReplayed ? [id] : [id, nameVeto(id)]);
  if (known !== null) {
    const { sessionId } = known;
    const isCancelled =
      known.hasMessage &&
      isReplayed &&
      // In earlier releases, the notice of a cancelled message had the id of the message.
      (await inTransaction({ pool: services.pool, fence }, (tx) => renameNotice(tx, sessionId, id, nameVeto(id))));
    return known.hasMessage && !isCancelled ? null : services.sessions.get(accountId, sessionId);
  }
  const started = await inTransaction({ pool: services.pool, fence }, async (tx) => {
    const agent = await lockChannelAgent(tx, channelId);
    if (!agent) return null;
    const made = { accountId, agentId: agent.id, agentName: agent.name, channelId };
    const session = await createSession(tx, made);
    if (!(await bindConversation(tx, { channelId, key, sessionId: session.id }))) throw new ConversationExistsError();
    const data = { sessionId: session.id, agentId: session.agentId, channelId };
    await recordSessionEvent(tx, services.queues, accountId, 'sessionStarted', data);
    return session;
  }).catch((error: unknown) => {
    if (error instanceof ConversationExistsError) return findOrCreateConversation(services, fence, delivery, message);
    throw error;
  });
  if (started) services.sessions.put(started);
  return started;
}

/** Another delivery has started the conversation meanwhile, which is possible if one was set aside. Rolls this session back. */
class ConversationExistsError extends Error {}
