/** Runs the scheduler of channel queues with simulated work: one account with a long backlog beside many that send now and then. */
import { setImmediate as turn } from 'node:timers/promises';
import type { OwnedChannelQueue } from '../../db/channels/delivery-queue.ts';
import { ChannelScheduler } from '../../supervisor/delivery/channel-scheduler.ts';
import { seededRandom } from '../runner/random.ts';
import { EventClock } from './event-clock.ts';

/** The values of the product's workers. */
const CONCURRENCY = 32;
const PER_INSTALLATION = 4;

export interface QueueOptions {
  readonly seed: number;
  readonly quietAccounts: number;
  /** Channels of the busy account, each of an installation with four. */
  readonly busyChannels: number;
  readonly backlogOfChannel: number;
  /** Longest attempt. Milliseconds. */
  readonly attemptMaxMs: number;
  readonly runMs: number;
}
export interface QueueResult {
  /** From the arrival of a quiet account's delivery to its attempt. Sorted, milliseconds. */
  readonly quietWaits: readonly number[];
  readonly busyDone: number;
}

export async function simulateQueues(options: QueueOptions): Promise<QueueResult> {
  const { quietAccounts, busyChannels, backlogOfChannel, attemptMaxMs, runMs } = options;
  const random = seededRandom(options.seed);
  const clock = new EventClock();
  const arrivedAt = new Map<string, number>();
  const left = new Map<string, number>();
  const quietWaits: number[] = [];
  let busyDone = 0;
  const scheduler = new ChannelScheduler({
    concurrency: CONCURRENCY,
    perInstallation: PER_INSTALLATION,
    retryMs: 1_000,
    find: async () => [],
    onError: (error) => {
      throw error;
    },
    work: ({ channelId }) => {
      const arrived = arrivedAt.get(channelId);
      if (arrived !== undefined) quietWaits.push(clock.now - arrived);
      arrivedAt.delete(channelId);
      const waiting = (left.get(channelId) ?? 1) - 1;
      left.set(channelId, waiting);
      if (arrived === undefined) busyDone += 1;
      const { promise, resolve } = Promise.withResolvers<{ isNextDue: boolean; wakeAfterMs: null }>();
      const ms = random.integer(1, attemptMaxMs);
      clock.after(ms, () => resolve({ isNextDue: waiting > 0, wakeAfterMs: null }));
      return promise;
    },
  });
  const nameQueue = (accountId: string, installationId: string, channelId: string): OwnedChannelQueue => ({
    channelId,
    installationId,
    accountId,
    direction: 'in',
    setAside: false,
  });
  for (let channel = 0; channel < busyChannels; channel += 1) {
    left.set(`busy ${channel}`, backlogOfChannel);
    scheduler.add(nameQueue('busy', `busy ${channel >> 2}`, `busy ${channel}`));
  }
  for (let account = 0; account < quietAccounts; account += 1) {
    const channelId = `quiet ${account}`;
    clock.after(random.integer(0, runMs), () => {
      arrivedAt.set(channelId, clock.now);
      left.set(channelId, 1);
      scheduler.add(nameQueue(channelId, channelId, channelId));
    });
  }
  // Code that waits for an event continues before the next event.
  while (clock.step(runMs + attemptMaxMs)) await turn();
  await scheduler.stop(0);
  return { quietWaits: quietWaits.toSorted((one, other) => one - other), busyDone };
}
