/** Makes one attempt at the head of a channel queue: claims its row, calls the plugin, and records the result. */

import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import {
  type ChannelQueue,
  type ClaimedDelivery,
  finishDelivery,
  type OwnedChannelQueue,
  postponeDelivery,
  releaseHeldDeliveries,
} from '../../db/channels/delivery-queue.ts';
import type { HeadSearch } from '../../db/channels/head-search.ts';
import { type InstalledPlugin, loadInstalledPlugin } from '../../db/installations/account-plugins.ts';
import { describeInactive, mayRun } from '../../db/installations/run-rule.ts';
import { isInterruption } from '../../db/postgres/database-errors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import type { channelReply } from '../../sdk/contract/payloads.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';
import { traced } from '../../service/telemetry/tracing.ts';
import { type Cancel, formatCancel, type LinkResult } from '../calls/chain.ts';
import { pickStack } from '../calls/plugin-call.ts';
import type { Fleet } from '../children/fleet.ts';
import type { OwnedWork, Ownership } from '../cluster/ownership.ts';
import { judgeWaitingReply, type WaitingReply } from '../sessions/replies.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { callChannelHandler } from './channel-call.ts';
import type { Outcome } from './channel-scheduler.ts';
import { RequiredPluginError, type StoredParts, storeMessages } from './inbound-messages.ts';
import { toRequest } from './webhook-request.ts';
import {
  type AttemptVerdict,
  guardWait,
  isUsedUp,
  judgeDelivery,
  type NeededPlugin,
  REFUSED_WAIT_S,
} from './webhook-retry-policy.ts';

export interface DeliveryDeps extends Pick<SessionServices, 'writes' | 'faultPoint'> {
  readonly services: SessionServices;
  readonly fleet: Pick<Fleet, 'findRefusal'>;
  readonly ownership: Pick<Ownership, 'begin'>;
  readonly heads: HeadSearch;
  readonly storedParts: StoredParts;
  /** Delays after failed attempts, seconds. */
  readonly deliveryWaits: readonly number[];
  /** A monotonic clock, milliseconds. */
  now(): number;
  onError(error: Error): void;
}

/** An attempt, under the ownership whose epoch claims and fences it. */
type AttemptDeps = DeliveryDeps & Pick<OwnedWork, 'fence' | 'isLeaving'>;

/** Delay before a queue whose account is being handed over is looked at again: it may stay here. Milliseconds. */
const HANDOVER_MS = 1_000;

/** No further attempt is due here, as far as this supervisor knows. */
const NOTHING: Outcome = { isNextDue: false, wakeAfterMs: null };

export async function deliverHead(deps: DeliveryDeps, queue: OwnedChannelQueue): Promise<Outcome> {
  const work = deps.ownership.begin(queue.accountId);
  if (!work) return { isNextDue: false, wakeAfterMs: HANDOVER_MS };
  try {
    return await claimAndDeliver({ ...deps, fence: work.fence, isLeaving: work.isLeaving }, queue);
  } finally {
    work.end();
  }
}

async function claimAndDeliver(deps: AttemptDeps, queue: ChannelQueue): Promise<Outcome> {
  const found = await deps.heads.claim(deps.services.pool, queue, deps.fence);
  if (!found.delivery) return found;
  const { delivery } = found;
  const attributes = { deliveryId: delivery.id, direction: delivery.direction, attempt: delivery.attempt };
  const settings = { kind: 'consumer', parent: delivery.traceparent, attributes } as const;
  return traced('delivery', settings, () => deliver(deps, queue, delivery));
}

async function deliver(deps: AttemptDeps, queue: ChannelQueue, delivery: ClaimedDelivery): Promise<Outcome> {
  await deps.faultPoint(formatStep(delivery, 'claimed'));
  if (isUsedUp(delivery, deps.deliveryWaits.length + 1))
    return finish(deps, delivery, 'dead', 'the supervisor ended during each attempt');
  const found = await findPlugin(deps, queue, delivery);
  return 'outcome' in found ? found.outcome : attempt(deps, queue, delivery, found.plugin);
}

/** The plugin that takes the delivery now, or what became of the delivery. */
async function findPlugin(
  deps: AttemptDeps,
  queue: ChannelQueue,
  delivery: ClaimedDelivery,
): Promise<{ readonly plugin: InstalledPlugin } | { readonly outcome: Outcome }> {
  const plugin = await currentEntry(deps.services, delivery);
  if (!plugin) return { outcome: await finish(deps, delivery, 'dead', 'the installation is gone') };
  const held = holdReason(plugin, queue);
  if (held !== null) return { outcome: await holdUntilReady(deps, delivery, held) };
  const refused = deps.fleet.findRefusal(plugin);
  if (refused === null) return { plugin };
  const wait = { afterSeconds: REFUSED_WAIT_S, error: refused, as: 'nothing' } as const;
  await postponeDelivery(deps.services.pool, delivery.id, deps.fence.epoch, wait);
  return { outcome: { isNextDue: false, wakeAfterMs: REFUSED_WAIT_S * SECOND } };
}

/** The running installation; if it does not run, its row, which contains the reason. */
async function currentEntry(
  { pluginsCache, pool }: SessionServices,
  delivery: ClaimedDelivery,
): Promise<InstalledPlugin | null> {
  const { accountId, installationId } = delivery;
  const { plugins } = await pluginsCache.get(accountId);
  const serving = plugins.find((plugin) => plugin.installationId === installationId);
  return serving ?? loadInstalledPlugin(pool, installationId);
}

/** Why a delivery must wait for a change of its installation; null: it may be attempted. */
function holdReason(plugin: InstalledPlugin, { direction }: ChannelQueue): string | null {
  const handler = direction === 'in' ? 'receive' : 'send';
  const missing = `this version of the plugin has no channel.${handler}`;
  return describeInactive(plugin) ?? (plugin.registrations.channel[handler] ? null : missing);
}

async function holdUntilReady(
  { services, fence }: AttemptDeps,
  delivery: ClaimedDelivery,
  why: string,
): Promise<Outcome> {
  await postponeDelivery(services.pool, delivery.id, fence.epoch, { afterSeconds: null, error: why, as: 'nothing' });
  // The installation became ready after the check, when the delivery was not held yet.
  const released = await releaseHeldDeliveries(services.pool, delivery.installationId, delivery.id);
  return released.length > 0 ? { isNextDue: false, wakeAfterMs: 0 } : NOTHING;
}

async function attempt(
  deps: AttemptDeps,
  queue: ChannelQueue,
  delivery: ClaimedDelivery,
  found: InstalledPlugin,
): Promise<Outcome> {
  const { services } = deps;
  const name = delivery.direction === 'in' ? 'receive' : 'send';
  const invocationId = randomUUIDv7();
  const given =
    name === 'receive' ? { fields: { request: toRequest(delivery) } } : await readReply(deps, delivery, found);
  if ('vetoed' in given) return recordVerdict(deps, delivery, { kind: 'dead', error: given.vetoed });
  // While the hooks of a reply ran, its plugin may have been paused or uninstalled.
  const current = name === 'receive' ? { plugin: found } : await findPlugin(deps, queue, delivery);
  if ('outcome' in current) return current.outcome;
  const { plugin } = current;
  const budgetMs = surfaces[`channel.${name}`].budgetMs;
  const answered: AttemptOutcome =
    'fields' in given
      ? await callChannelHandler(services, plugin, { name, invocationId, budgetMs, fields: given.fields })
      : given.failed;
  await deps.faultPoint(formatStep(delivery, 'answered'));
  const result =
    answered.kind === 'answered' && name === 'receive' ? await storeResult(deps, delivery, answered) : answered;
  if (result.kind === 'incomplete') return continueLater(deps, delivery, result);
  const { guardId = null } = result;
  const needed = guardId === null ? await findOwn(deps, plugin, result) : await findGuard(deps, delivery, guardId);
  const verdict = judgeDelivery(delivery, result, needed, deps.deliveryWaits, Math.random());
  if (verdict.kind === 'delivered') {
    await deps.faultPoint(formatStep(delivery, 'taken'));
    const outcome = await recordVerdict(deps, delivery, verdict);
    if (delivery.direction === 'in') services.metrics.webhookDelivered(Date.now() - Date.parse(delivery.queuedAt));
    await deps.faultPoint(formatStep(delivery, 'finished'));
    return outcome;
  }
  const isAside = verdict.kind === 'retry' && (delivery.setAside || verdict.setAside === true);
  const next = verdict.kind === 'dead' ? 'dead' : isAside ? 'set aside' : 'retry';
  const text = `channel.${name}, attempt ${delivery.attempt}: ${verdict.error}`;
  const data = { deliveryId: delivery.id, channelId: delivery.channelId, next, ...pickStack(result) };
  // An attempt that does not count is repeated after a short time, perhaps for hours.
  if (verdict.kind === 'retry' && verdict.as === 'nothing')
    services.logs.sometimes(plugin, `channel.${name}`, 'error', text, { invocationId, data });
  else services.logs.system(plugin, 'error', text, { invocationId, data });
  return recordVerdict(deps, delivery, verdict, guardId);
}

type AttemptOutcome = LinkResult & {
  /** The required installation that stopped the attempt. */
  readonly guardId?: string;
};

function toAttemptOutcome({ reason, by, obstacle }: Cancel): AttemptOutcome {
  const stopped = { message: reason, guardId: by.installationId };
  if (obstacle === 'unavailable') return { kind: 'unavailable', ...stopped };
  return obstacle === 'interrupted' ? { kind: 'error', ...stopped, interrupted: true } : { kind: 'error', ...stopped };
}

/** Reads the plugin of a channel that could not be called, as it is by now: the cache does not learn that one has failed too often. */
async function findOwn(
  { services, writes }: AttemptDeps,
  plugin: InstalledPlugin,
  { kind }: AttemptOutcome,
): Promise<NeededPlugin> {
  if (kind !== 'unavailable') return plugin;
  return (await writes.write(() => loadInstalledPlugin(services.pool, plugin.installationId))) ?? plugin;
}

/** Reads the required plugin that stopped an attempt, as `findOwn` does. */
async function findGuard(
  { services, fleet, writes }: AttemptDeps,
  { queuedAt }: ClaimedDelivery,
  installationId: string,
): Promise<NeededPlugin> {
  const guard = await writes.write(() => loadInstalledPlugin(services.pool, installationId));
  // It was paused or uninstalled meanwhile, or is not required any more: the next attempt may pass.
  if (!guard?.required || guard.status === 'paused' || guard.status === 'uninstalling') return { status: 'ready' };
  const transientWaitS = guardWait((Date.now() - Date.parse(queuedAt)) / SECOND);
  return { status: guard.status, isStopped: !mayRun(guard) || fleet.findRefusal(guard) !== null, transientWaitS };
}

/** Puts a delivery back of which an attempt has stored a part. It stays first in its queue, which goes behind those of others. */
function continueLater(
  { services, fence, writes }: AttemptDeps,
  delivery: ClaimedDelivery,
  { storedCount, messageCount }: Incomplete,
): Promise<Outcome> {
  const error = `${storedCount} of its ${messageCount} messages are processed; the others follow in another attempt`;
  return writes.write(async () => {
    await postponeDelivery(services.pool, delivery.id, fence.epoch, { afterSeconds: 0, error, as: 'nothing' });
    return { isNextDue: true, wakeAfterMs: null };
  });
}

/** @param guardId the required installation that stopped the attempt; null: none did */
function recordVerdict(
  deps: AttemptDeps,
  delivery: ClaimedDelivery,
  verdict: AttemptVerdict,
  guardId: string | null = null,
): Promise<Outcome> {
  return deps.writes.write(async () => {
    if (verdict.kind !== 'retry') return finish(deps, delivery, verdict.kind, verdict.error);
    // Others are set aside with it. Only the worker of their queue may do that: it attempts none of them now.
    const setAside = verdict.setAside === true && !delivery.setAside;
    await postponeDelivery(deps.services.pool, delivery.id, deps.fence.epoch, { ...verdict, setAside, guardId });
    const isOtherDue = setAside && delivery.isReplayed;
    return { isNextDue: setAside || delivery.setAside, wakeAfterMs: isOtherDue ? 0 : verdict.afterSeconds * SECOND };
  });
}

async function finish(
  { services: { pool, metrics }, fence, storedParts }: AttemptDeps,
  delivery: ClaimedDelivery,
  state: 'delivered' | 'dead',
  error?: string,
): Promise<Outcome> {
  const { id, direction, setAside, hasNext } = delivery;
  storedParts.delete(delivery);
  const isRecorded = await finishDelivery(pool, id, fence.epoch, state, error);
  // The write may be a repeated one, whose first answer was lost.
  if (!isRecorded) return { isNextDue: false, wakeAfterMs: 0 };
  if (state === 'dead') metrics.deliveryDied(direction === 'in' ? 'webhooks' : 'replies');
  // A delivery that was set aside has delayed later replies of its conversation, which are in the other queue.
  return { isNextDue: hasNext, wakeAfterMs: setAside ? 0 : null };
}

/** Name of a step for tests and traces: inbound webhook request or outbound reply. */
const formatStep = ({ direction }: ClaimedDelivery, step: string): string =>
  `${direction === 'in' ? 'delivery' : 'reply'}.${step}`;

/** The result of an attempt whose time to store messages was over before the last one. */
interface Incomplete {
  readonly kind: 'incomplete';
  /** Messages that are stored, or that a plugin cancelled. */
  readonly storedCount: number;
  readonly messageCount: number;
}

/**
 * Stores the handler's result. A result that cannot be stored counts as a failed attempt, so that it does not block the
 * channel.
 */
async function storeResult(
  { services, fence, isLeaving, now, storedParts, writes, onError }: AttemptDeps,
  delivery: ClaimedDelivery,
  result: LinkResult & { kind: 'answered' },
): Promise<AttemptOutcome | Incomplete> {
  const messages = readMessages(result);
  const attempt = { fence, delivery, firstIndex: storedParts.find(delivery), now, isLeaving };
  try {
    const storedCount = await writes.write(() => storeMessages(services, attempt, messages));
    if (storedCount >= messages.length) return result;
    storedParts.set(delivery, storedCount);
    return { kind: 'incomplete', storedCount, messageCount: messages.length };
  } catch (error) {
    if (error instanceof RequiredPluginError) return toAttemptOutcome(error.cancel);
    return { kind: 'error', message: describeFailure(error, onError) ?? 'its messages could not be stored' };
  }
}

/**
 * Returns why an attempt failed. Null: unexpectedly, which is reported.
 *
 * @throws the error, if another attempt comes that does not count this one
 */
function describeFailure(error: unknown, onError: (error: Error) => void): string | null {
  if (error instanceof Problem) return error.message;
  // Where writes are repeated until the supervisor stops, the next one repeats the attempt.
  if (isInterruption(error)) throw error;
  onError(error as Error);
  return null;
}

type Answer = NonNullable<ReturnType<(typeof surfaces)['channel.receive']['result']['parse']>>;
const readMessages = ({ answer }: { answer: unknown }): Answer['messages'] =>
  (answer as Answer | undefined)?.messages ?? [];

/**
 * Reads the fields for `channel.send`. Replies are stored as the JSON that it receives.
 *
 * @returns `vetoed`: why a plugin cancelled the reply. `failed`: the result of this attempt, because a required plugin did not run
 */
async function readReply(
  { services, onError }: AttemptDeps,
  delivery: ClaimedDelivery,
  sender: InstalledPlugin,
): Promise<
  | { readonly fields: { readonly message: z.input<typeof channelReply> } }
  | { readonly vetoed: string }
  | { readonly failed: AttemptOutcome }
> {
  try {
    const reply = JSON.parse(Buffer.from(delivery.body).toString('utf8')) as WaitingReply;
    const judged = await judgeWaitingReply(services, delivery, reply, sender);
    const { id: deliveryId, attempt, channelId } = delivery;
    if ('reply' in judged) return { fields: { message: { ...judged.reply, deliveryId, attempt, channelId } } };
    const { cancelled } = judged;
    return cancelled.cause === 'plugin' ? { vetoed: formatCancel(cancelled) } : { failed: toAttemptOutcome(cancelled) };
  } catch (error) {
    const message = describeFailure(error, onError) ?? 'the reply could not be read or judged';
    return { failed: { kind: 'error', message } };
  }
}
