/** Records an event of a session for every plugin that listens to it. */
import type { ClientBase, Pool } from 'pg';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { recordEvent } from '../../db/installations/events.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { EventName, events } from '../../sdk/contract/protocol.ts';

type SessionEvent = Extract<EventName, `session${string}`>;

/**
 * Refuses an operation whose event would have to wait in a full queue. Not for deletions, which make room.
 *
 * @throws Problem `quota_exceeded`
 */
export async function requireRoomForEvent(
  pool: Pool,
  accountId: string,
  plugins: readonly InstalledPlugin[],
  type: SessionEvent,
): Promise<void> {
  if (plugins.some(({ registrations }) => registrations.events.includes(type)))
    await requireRoom(pool, accountId, 'deliveries', 1);
}

/** @param tx the transaction that makes the event true */
export async function recordSessionEvent<Type extends SessionEvent>(
  tx: ClientBase,
  queues: Queues,
  plugins: readonly InstalledPlugin[],
  type: Type,
  data: z.infer<(typeof events)[Type]['data']>,
): Promise<void> {
  for (const plugin of plugins) {
    if (!plugin.registrations.events.includes(type)) continue;
    const { installationId, accountId, pluginId, versionId, semVer } = plugin;
    await recordEvent(tx, queues, { installationId, accountId, pluginId, versionId, semVer, type, data });
  }
}
