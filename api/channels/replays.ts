/** Replays deliveries and events of an installation, and decides on deliveries that wait. */
import {
  type Delivery,
  findDelivery,
  giveUpDelivery,
  makeDeliveryDue,
  replayDeliveries,
} from '../../db/channels/delivery-history.ts';
import { findEvent, type RecordedEvent, replayEvent } from '../../db/installations/event-history.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { REPLAY_MAX } from '../../sdk/contract/limits.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireInstallation } from '../installations/installation-lookup.ts';
import type { Services } from '../services.ts';
import { unknownChannel } from './channel-connections.ts';
import { BODY_SHOWN_BYTES } from './channel-resource.ts';
import { describeWait } from './delivery-wait.ts';

type ShownDelivery = Delivery & { readonly body: Buffer };

/** Returns one delivery with its payload. @throws Problem `not_found` */
export async function requireDelivery(
  { pool }: Services,
  installationId: string,
  deliveryId: string,
): Promise<ShownDelivery> {
  const delivery = await findDelivery(pool, installationId, deliveryId, BODY_SHOWN_BYTES);
  if (!delivery) throw new Problem('not_found', 'The installation has no delivery with this id.');
  return delivery;
}

interface DeliveryIds {
  readonly installationId: string;
  readonly deliveryId: string;
}

/**
 * Changes a delivery of the caller's installation.
 *
 * @param change gets the delivery before the change, and a function that reads it again
 * @returns the delivery as it is afterwards
 * @throws Problem `not_found`, and what the change throws
 */
async function changeDelivery(
  services: Services,
  caller: Caller,
  { installationId, deliveryId }: DeliveryIds,
  change: (before: ShownDelivery, read: () => Promise<ShownDelivery>) => Promise<void>,
): Promise<ShownDelivery> {
  await requireInstallation(services, caller, installationId);
  const read = () => requireDelivery(services, installationId, deliveryId);
  await change(await read(), read);
  return read();
}

/** Replays one finished delivery. @throws Problem `delivery_state` for a pending one */
export const replayDelivery = (services: Services, caller: Caller, ids: DeliveryIds): Promise<ShownDelivery> =>
  changeDelivery(services, caller, ids, async (before, read) => {
    refusePending(before);
    const filter = { installationId: ids.installationId, id: ids.deliveryId, limit: 1 };
    const count = await inTransaction(services.pool, (tx) => replayDeliveries(tx, filter));
    if (count > 0) return;
    // Another request may have replayed it meanwhile.
    refusePending(await read());
    throw new Problem('no_channel', 'Its channel is disconnected, so it cannot be delivered again.');
  });

/** @throws Problem `delivery_state` */
function refusePending(delivery: Delivery): void {
  if (delivery.state !== 'pending') return;
  throw wrongState(delivery, 'Only finished deliveries are replayed. Try it now, or give it up.');
}

/** Makes a waiting delivery due. @throws Problem `delivery_state` if another delivery or its installation blocks it, or it is attempted */
export const tryNow = (services: Services, caller: Caller, ids: DeliveryIds): Promise<ShownDelivery> =>
  changeDelivery(services, caller, ids, async (before, read) => {
    if (before.waitsFor) throw wrongState(before, 'Try that one now, or give it up.');
    const isDue = await makeDeliveryDue(services.pool, ids.installationId, ids.deliveryId);
    if (!isDue) throw wrongState(await read(), 'It cannot be tried now.');
  });

/** Makes a pending delivery dead. @throws Problem `delivery_state` for one that is finished or being attempted */
export const giveUp = (services: Services, caller: Caller, ids: DeliveryIds): Promise<ShownDelivery> =>
  changeDelivery(services, caller, ids, async (_before, read) => {
    const isGivenUp = await giveUpDelivery(services.pool, ids.installationId, ids.deliveryId);
    if (!isGivenUp) throw wrongState(await read(), 'It cannot be given up: wait for the end of the attempt.');
  });

function wrongState(delivery: Delivery, next: string): Problem {
  const { state } = delivery;
  if (state !== 'pending') return new Problem('delivery_state', `It is ${state}. Replay it to deliver it again.`);
  const why = (describeWait(delivery, Date.now()) ?? '').replace(/[^.]$/, '$&.');
  return new Problem('delivery_state', `It is pending. ${why} ${next}`);
}

/**
 * Replays many deliveries, oldest first, at most `REPLAY_MAX`.
 *
 * @returns how many
 * @throws Problem `not_found`, also for an unknown channel
 */
export async function replayManyDeliveries(
  services: Services,
  caller: Caller,
  installationId: string,
  filter: { readonly state: 'delivered' | 'dead'; readonly channelId?: string | undefined },
): Promise<number> {
  const { channels } = await requireInstallation(services, caller, installationId);
  const { state, channelId } = filter;
  if (channelId !== undefined && !channels.some(({ id }) => id === channelId)) throw unknownChannel();
  const wanted = { installationId, state, limit: REPLAY_MAX, ...(channelId === undefined ? {} : { channelId }) };
  return inTransaction(services.pool, (tx) => replayDeliveries(tx, wanted));
}

/** Replays a finished event. @throws Problem `delivery_state` for a pending one */
export async function replayInstallationEvent(
  services: Services,
  caller: Caller,
  installationId: string,
  eventId: string,
): Promise<RecordedEvent> {
  await requireInstallation(services, caller, installationId);
  const { pool, queues } = services;
  const event = await inTransaction(pool, (tx) => replayEvent(tx, queues, installationId, eventId));
  if (event) return event;
  const pending = await findEvent(pool, installationId, eventId);
  if (!pending) throw new Problem('not_found', 'The installation has no event with this id.');
  const why = pending.lastError === null ? '' : ` Its last attempt: ${pending.lastError}.`;
  throw new Problem(
    'delivery_state',
    `It is pending and is delivered by itself.${why} Only finished events are replayed.`,
  );
}
