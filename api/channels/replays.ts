/** Replays deliveries and events of an installation. */
import { type Delivery, findDelivery, replayDeliveries } from '../../db/channels/delivery-history.ts';
import { type RecordedEvent, replayEvent } from '../../db/installations/event-history.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireInstallation } from '../installations/installation-lookup.ts';
import type { Services } from '../services.ts';
import { BODY_SHOWN_BYTES } from './channel-resource.ts';

/** Maximum number of deliveries replayed by one call. */
const REPLAY_MAX = 10_000;

/** Returns one delivery with its payload. @throws Problem `not_found` */
export async function requireDelivery(
  { pool }: Services,
  installationId: string,
  deliveryId: string,
): Promise<Delivery & { readonly body: Buffer }> {
  const delivery = await findDelivery(pool, installationId, deliveryId, BODY_SHOWN_BYTES);
  if (!delivery) throw new Problem('not_found', 'The installation has no delivery with this id.');
  return delivery;
}

/** Replays one delivery. A pending one stays as it is. */
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

/** Replays many deliveries, oldest first, at most `REPLAY_MAX`. @returns how many */
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

/** Replays an event. A pending one stays as it is. */
export async function replayInstallationEvent(
  services: Services,
  caller: Caller,
  installationId: string,
  eventId: string,
): Promise<RecordedEvent> {
  await requireInstallation(services, caller, installationId);
  const { pool, queues } = services;
  const event = await inTransaction(pool, (tx) => replayEvent(tx, queues, installationId, eventId));
  if (!event) throw new Problem('not_found', 'The installation has no event with this id.');
  return event;
}
