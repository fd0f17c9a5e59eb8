/** Connecting and disconnecting channels, and replaying what came through them. */

import { findVersion } from '../../db/catalog/versions.ts';
import { type Channel, deleteChannel, insertChannel, replaceAddress } from '../../db/channels/channels.ts';
import { type Delivery, findDelivery, replayDeliveries } from '../../db/channels/delivery-history.ts';
import { endOrphanedDeliveries } from '../../db/channels/delivery-queue.ts';
import { type RecordedEvent, replayEvent } from '../../db/installations/event-history.ts';
import { lockInstallation } from '../../db/installations/installations.ts';
import { notifyInstallationChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { deleteChannelSessions, setChannelAgent } from '../../db/sessions/conversations.ts';
import { lockAccountSessions } from '../../db/sessions/session-removal.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireInstallation } from '../installations/installation-lifecycle.ts';
import type { Discovered } from '../package/discovery.ts';
import type { Services } from '../services.ts';
import { BODY_SHOWN_BYTES } from './channel-resource.ts';

/** Channels one installation may have: a vendor account each, and each queue of them is looked at every second. */
export const CHANNELS_MAX = 100;
/** Deliveries made pending by one call. */
export const REPLAY_MAX = 10_000;

export interface NewChannel {
  readonly name: string;
  readonly agentId?: string | undefined;
  readonly agentName?: string | undefined;
}

/** Connects a channel of an installation whose version receives webhooks. */
export function connectChannel(
  services: Services,
  caller: Caller,
  installationId: string,
  { name, agentId, agentName }: NewChannel,
): Promise<Channel> {
  return inTransaction(services.pool, async (tx) => {
    const installation = await lockInstallation(tx, caller.id, installationId);
    if (!installation) throw new Problem('not_found', 'You have no such installation.');
    const version = installation.currentVersionId ? await findVersion(tx, installation.currentVersionId) : null;
    if ((version?.discovered as Discovered | undefined)?.channel?.receive !== true)
      throw new Problem('no_channel', `“${installation.slug}” receives no webhooks: it registers no channel.receive.`);
    if (installation.channels.length >= CHANNELS_MAX)
      throw new Problem('rate_limited', `An installation has ${CHANNELS_MAX} channels at most. Disconnect one first.`);
    const channel = await insertChannel(tx, { installationId, accountId: caller.id, name });
    if (agentId !== undefined) await setChannelAgent(tx, channel.id, { id: agentId, name: agentName ?? null });
    await notifyInstallationChanged(tx, installationId);
    return channel;
  });
}

/** Gives a channel a new address. The old one answers 410 from then on. */
export async function replaceChannelAddress(
  services: Services,
  caller: Caller,
  installationId: string,
  channelId: string,
): Promise<Channel> {
  await requireInstallation(services, caller, installationId);
  const channel = await inTransaction(services.pool, (tx) => replaceAddress(tx, installationId, channelId));
  if (!channel) throw unknownChannel();
  return channel;
}

/** Disconnects a channel; its chats go with it. What was not delivered yet stays, dead, to be looked at. */
export async function disconnectChannel(
  services: Services,
  caller: Caller,
  installationId: string,
  channelId: string,
): Promise<void> {
  await requireInstallation(services, caller, installationId);
  const gone = await inTransaction(services.pool, async (tx) => {
    await lockAccountSessions(tx, caller.id);
    await deleteChannelSessions(tx, services.queues, { accountId: caller.id, installationId, channelId });
    const deleted = await deleteChannel(tx, installationId, channelId);
    if (deleted) await endOrphanedDeliveries(tx);
    return deleted;
  });
  if (!gone) throw unknownChannel();
}

/** One delivery with its payload. @throws Problem `not_found` */
export async function requireDelivery(
  { pool }: Services,
  installationId: string,
  deliveryId: string,
): Promise<Delivery & { readonly body: Buffer }> {
  const delivery = await findDelivery(pool, installationId, deliveryId, BODY_SHOWN_BYTES);
  if (!delivery) throw new Problem('not_found', 'The installation has no such delivery.');
  return delivery;
}

/** Delivers one again. One that is pending stays as it is. */
export async function replayDelivery(
  services: Services,
  caller: Caller,
  installationId: string,
  deliveryId: string,
): Promise<Delivery & { readonly body: Buffer }> {
  await requireInstallation(services, caller, installationId);
  const before = await requireDelivery(services, installationId, deliveryId);
  if (before.state === 'pending') return before;
  const of = { installationId, id: deliveryId, limit: 1 };
  const count = await inTransaction(services.pool, (tx) => replayDeliveries(tx, of));
  if (count === 0) throw new Problem('no_channel', 'Its channel is disconnected, so it cannot be delivered again.');
  return requireDelivery(services, installationId, deliveryId);
}

/** Delivers many again, oldest first, at most `REPLAY_MAX`. Answers how many. */
export async function replayManyDeliveries(
  services: Services,
  caller: Caller,
  installationId: string,
  of: { readonly state: 'delivered' | 'dead'; readonly channelId?: string | undefined },
): Promise<number> {
  await requireInstallation(services, caller, installationId);
  const { state, channelId } = of;
  const wanted = { installationId, state, limit: REPLAY_MAX, ...(channelId === undefined ? {} : { channelId }) };
  return inTransaction(services.pool, (tx) => replayDeliveries(tx, wanted));
}

/** Delivers an event again. One that is pending stays as it is. */
export async function replayInstallationEvent(
  services: Services,
  caller: Caller,
  installationId: string,
  eventId: string,
): Promise<RecordedEvent> {
  await requireInstallation(services, caller, installationId);
  const { pool, queues } = services;
  const event = await inTransaction(pool, (tx) => replayEvent(tx, queues, installationId, eventId));
  if (!event) throw new Problem('not_found', 'The installation has no such event.');
  return event;
}

const unknownChannel = () => new Problem('not_found', 'The installation has no such channel.');
