/** Connects and disconnects channels and replaces their addresses. */
import type { z } from 'zod';
import { findVersion } from '../../db/catalog/versions.ts';
import { type Channel, insertChannel, replaceAddress } from '../../db/channels/channels.ts';
import { endOrphanedDeliveries } from '../../db/channels/delivery-queue.ts';
import { deleteChannelWithSessions, setChannelAgent } from '../../db/sessions/conversations.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { removeInTime } from '../../service/http/removal-time.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { changeLockedInstallation, requireInstallation } from '../installations/installation-lookup.ts';
import type { Discovered } from '../package/discovery.ts';
import type { Services } from '../services.ts';
import type { newChannel } from './channel-input.ts';

/** Maximum channels of one installation: limits the queues that supervisors poll every second. */
const CHANNELS_MAX = 100;

/** Connects a channel of an installation whose version receives webhooks. */
export function connectChannel(
  services: Services,
  caller: Caller,
  installationId: string,
  { name, agentId, agentName }: z.output<typeof newChannel>,
): Promise<Channel> {
  return changeLockedInstallation(services, caller, installationId, async (tx, installation) => {
    const version = installation.currentVersionId ? await findVersion(tx, installation.currentVersionId) : null;
    if ((version?.discovered as Discovered | undefined)?.channel?.receive !== true)
      throw new Problem('no_channel', `“${installation.slug}” receives no webhooks: it registers no channel.receive.`);
    if (installation.channels.length >= CHANNELS_MAX)
      throw new Problem(
        'too_many',
        `The installation has its maximum of ${CHANNELS_MAX} channels. Disconnect one first.`,
      );
    const channel = await insertChannel(tx, { installationId, accountId: caller.id, name });
    if (agentId === undefined) return channel;
    await setChannelAgent(tx, channel.id, { id: agentId, name: agentName ?? null });
    return { ...channel, agentId };
  });
}

/** Gives a channel a new address. The old one answers 410 afterwards. */
export async function replaceChannelAddress(
  services: Services,
  caller: Caller,
  installationId: string,
  channelId: string,
): Promise<Channel> {
  // Locked, because an uninstall retires the addresses of the installation: a new one must not follow.
  const channel = await changeLockedInstallation(services, caller, installationId, (tx) =>
    replaceAddress(tx, installationId, channelId),
  );
  if (!channel) throw unknownChannel();
  await services.listener.catchUp();
  return channel;
}

/** Disconnects a channel and removes its sessions. Pending deliveries become dead and stay readable. */
export async function disconnectChannel(
  services: Services,
  caller: Caller,
  installationId: string,
  channelId: string,
): Promise<void> {
  await requireInstallation(services, caller, installationId);
  const { pool, queues } = services;
  const scope = { accountId: caller.id, installationId, channelId };
  const isDeleted = await removeInTime((signal) => deleteChannelWithSessions(pool, queues, scope, signal));
  if (!isDeleted) throw unknownChannel();
  // After the commit, because there may be any number. A supervisor ends what is left.
  await endOrphanedDeliveries(services.pool, channelId);
  await services.listener.catchUp();
}

export const unknownChannel = () => new Problem('not_found', 'The installation has no channel with this id.');
