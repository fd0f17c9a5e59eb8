/** Records an event of a session for every plugin that listens to it. */
import type { ClientBase, Pool } from 'pg';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { identifyEvent, insertEvents } from '../../db/installations/events.ts';
import { findSubscribers, type SessionEvent } from '../../db/installations/subscribers.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { events } from '../../sdk/contract/protocol.ts';

/**
 * Refuses an operation whose event does not fit into the account's quota. Not called for deletions: they make room, and record
 * no event instead.
 *
 * @throws Problem `quota_exceeded`
 */
export async function requireRoomForEvent(pool: Pool, accountId: string, type: SessionEvent): Promise<void> {
  const subscribers = await findSubscribers(pool, accountId, type);
  if (subscribers.length > 0) await requireRoom(pool, accountId, 'deliveries', 1);
}

/** @param tx the transaction of the change that the event reports */
export async function recordSessionEvent<Type extends SessionEvent>(
  tx: ClientBase,
  queues: Queues,
  accountId: string,
  type: Type,
  data: z.infer<(typeof events)[Type]['data']>,
): Promise<void> {
  const subscribers = await findSubscribers(tx, accountId, type);
  if (subscribers.length === 0) return;
  const recorded = subscribers.map((subscriber) => identifyEvent({ ...subscriber, accountId, type, data }));
  await insertEvents(tx, recorded);
  const jobs = recorded.map(({ id: eventId, installationId }) => ({
    payload: { eventId, installationId },
    group: { id: installationId, accountId },
  }));
  await queues.sendToGroups(tx, 'events', jobs);
}
