/** Starts the queue workers, and recovers work that a killed supervisor left behind. */

import { isOperator } from '../../db/accounts/accounts.ts';
import { startUsageUpkeep } from '../../db/accounts/usage-upkeep.ts';
import {
  endOrphanedDeliveries,
  findWaitingChannelQueues,
  makeFailedHeadsDue,
  makeGuardedHeadsDue,
  releaseHeldDeliveries,
} from '../../db/channels/delivery-queue.ts';
import { HeadSearch } from '../../db/channels/head-search.ts';
import { CHANNEL_QUEUES_PER_INSTALLATION } from '../../db/channels/queue-limits.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { endOrphanedEvents, releaseHeldEvents, requeueStrandedEvents } from '../../db/installations/events.ts';
import {
  hasNewUninstallEvent,
  removeInstallation,
  requeueRemovals,
} from '../../db/installations/installation-removal.ts';
import { resetRuntimes } from '../../db/installations/installation-runtimes.ts';
import { requeueUpdates } from '../../db/installations/updates.ts';
import {
  answerIntrospection,
  findIntrospection,
  type Introspection,
  type IntrospectionRequest,
  sweepIntrospections,
} from '../../db/jobs/introspections.ts';
import type { Payload } from '../../db/jobs/queues.ts';
import { mergeWaitingJobs } from '../../db/jobs/waiting-jobs.ts';
import type { DeliveryNotice } from '../../db/postgres/notifications.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import { repairForeignTransactions } from '../../db/sessions/foreign-transactions.ts';
import { Waker } from '../../db/timing/waker.ts';
import { openRetryingWriter } from '../../service/timing/retrying-writer.ts';
import type { Child } from '../children/child.ts';
import { ChildError } from '../children/child-errors.ts';
import type { Fleet } from '../children/fleet.ts';
import { introspect } from '../children/introspect.ts';
import type { OwnedJobs } from '../cluster/owned-jobs.ts';
import type { OwnedWork, Ownership } from '../cluster/ownership.ts';
import { type DueDeps, DueReminders } from '../host-tools/due-reminders.ts';
import { findRefusal, type Sandbox } from '../jail/sandbox.ts';
import { ChannelScheduler } from './channel-scheduler.ts';
import { deliverEvents, type EventDeps } from './event-delivery.ts';
import { UNINSTALL_EVENT_MAX_MS } from './event-retry-policy.ts';
import { answerRequestedHandshake } from './handshake.ts';
import { StoredParts } from './inbound-messages.ts';
import { updateInstallation } from './update-worker.ts';
import { createRecordPartitions, maintainTables, type UpkeepDeps } from './upkeep.ts';
import { type DeliveryDeps, deliverHead } from './webhook-delivery.ts';
import { longestWait } from './webhook-retry-policy.ts';

/** Interval of comparing rows with the queue, in case a notification was lost. Milliseconds. */
const HEAL_MS = 15_000;
/** Interval of creating and dropping partitions, far shorter than the hours created ahead, and of deleting old rows. */
const UPKEEP_MS = 5 * 60_000;

/** Maximum number of channel queues worked on at once. Each account may take its share. */
const CHANNEL_QUEUES = 32;
/** Delay before a channel queue that the database did not answer for is tried again. Milliseconds. */
const CHANNEL_RETRY_MS = 1_000;

interface JobDeps
  extends Omit<EventDeps, 'delivering' | 'writes'>,
    Omit<DeliveryDeps, 'heads' | 'storedParts' | 'writes'>,
    UpkeepDeps,
    DueDeps {
  readonly blobs: Blobs;
  readonly fleet: Fleet;
  readonly ownership: Ownership;
  readonly ownedJobs: OwnedJobs;
  readonly sandbox: Pick<Sandbox, 'jail' | 'admits' | 'missing'>;
}

interface ChangedInstallation {
  readonly accountId: string;
  readonly installationId: string;
}

export interface Jobs {
  /** Call it when a channel has a new delivery, or one that changed. */
  wakeChannel(notice: DeliveryNotice): void;
  /** Call it when deliveries of any channel may have been released. */
  wakeAllChannels(): void;
  /** Call it when a vendor waits for a handshake. */
  handshake(id: string, accountId: string): void;
  /** Call it after a change of an installation. */
  releaseDeliveries(changed: ChangedInstallation): void;
  /** Compares rows and queues now, or again after the comparison under way, because notifications may have been lost. */
  heal(): void;
  /**
   * Starts no more work and waits for running work, at most the grace time in milliseconds. Does not stop the queues.
   */
  stop(graceMs: number): Promise<void>;
}

/** Recovers unfinished work, then starts the workers. */
export async function startJobs(deps: JobDeps): Promise<Jobs> {
  const { ownedJobs } = deps;
  // Nothing is written without them. Old rows are deleted later: a start must not wait until all are.
  await createRecordPartitions(deps);
  const writes = openRetryingWriter(deps.onError);
  const waitMax = longestWait(deps.deliveryWaits);
  const heads = new HeadSearch(waitMax);
  const storedParts = new StoredParts();
  const scheduler = new ChannelScheduler({
    concurrency: CHANNEL_QUEUES,
    perInstallation: CHANNEL_QUEUES_PER_INSTALLATION,
    retryMs: CHANNEL_RETRY_MS,
    onError: deps.onError,
    find: (channelIds) => findWaitingChannelQueues(deps.pool, deps.ownership.listShards(), channelIds, waitMax),
    work: (queue) => asAccount(queue.accountId, () => deliverHead({ ...deps, writes, heads, storedParts }, queue)),
  });
  deps.queues.work('introspect', (payload) => answerRequest(deps, payload));
  const delivering = new Map<string, boolean>();
  ownedJobs.work('events', ({ installationId }, work) =>
    deliverEvents({ ...deps, delivering, writes }, installationId, work),
  );
  const updating = new Map<string, boolean>();
  ownedJobs.work('updates', ({ installationId }, work) =>
    updateInstallation({ ...deps, updating, writes }, installationId, work),
  );
  ownedJobs.work('uninstall', ({ installationId }, work) => uninstall(deps, installationId, work));
  const work = { delivering, updating, scheduler };
  // This may be the successor of a killed supervisor, whose last heartbeats are recent.
  await heal(deps, work, { introspectionsLostAfterS: 0 });
  const healing = new Waker();
  void repeat(healing, HEAL_MS, () => heal(deps, work));
  const upkeep = new Waker();
  const onUpkeepError = (error: Error): void => {
    // After a stop, the pool is closed: the next supervisor continues.
    if (!upkeep.isClosed) deps.onError(error);
  };
  // A start must not wait for it either. If it fails, the next start goes on with it.
  void repairForeignTransactions(deps.pool).catch(onUpkeepError);
  void repeat(upkeep, UPKEEP_MS, () => maintainTables({ ...deps, onError: onUpkeepError }));
  const reminders = new DueReminders(deps);
  const stopUsageUpkeep = startUsageUpkeep(deps.pool, deps.onError);
  return {
    wakeChannel: ({ channelId, accountId, queue }) => {
      if (!deps.ownership.holds(accountId)) return;
      if (queue) scheduler.add({ channelId, accountId, setAside: false, ...queue });
      else scheduler.wake(channelId);
    },
    wakeAllChannels: () => scheduler.wake(null),
    handshake: (id, accountId) =>
      void asAccount(accountId, () => answerRequestedHandshake(deps, id, accountId)).catch(deps.onError),
    releaseDeliveries: (changed) => void release(deps, scheduler, changed).catch(deps.onError),
    heal: () => healing.wake(),
    stop: (graceMs) => {
      healing.close();
      upkeep.close();
      stopUsageUpkeep();
      writes.stop();
      return Promise.all([scheduler.stop(graceMs), reminders.stop(graceMs)]).then(() => undefined);
    },
  };
}

interface RunningWork {
  /** The installations whose events are being delivered, by id. */
  readonly delivering: ReadonlyMap<string, boolean>;
  /** The installations being updated, by id. */
  readonly updating: ReadonlyMap<string, boolean>;
  readonly scheduler: ChannelScheduler;
}

/** Never runs two at once: each would repeat what the other does. */
async function repeat(waker: Waker, intervalMs: number, work: () => Promise<void>): Promise<void> {
  for (;;) {
    await waker.wait(intervalMs);
    if (waker.isClosed) return;
    await work();
  }
}

async function heal(
  deps: JobDeps,
  { delivering, updating, scheduler }: RunningWork,
  { introspectionsLostAfterS }: { readonly introspectionsLostAfterS?: number } = {},
): Promise<void> {
  const { pool, queues, ownership } = deps;
  const own = { shards: ownership.listShards(), delivering: new Set(delivering.keys()) };
  scheduler.wake(null);
  const steps: readonly (() => Promise<unknown>)[] = [
    () => resetRuntimes(pool),
    // First, because each sweep below looks for the waiting jobs of an installation among those of all.
    () => mergeWaitingJobs(pool),
    () => requeueStrandedEvents(pool, queues, own),
    () => releaseHeldEvents(pool, queues, null),
    () => release(deps, scheduler, null),
    () => requeueRemovals(pool, queues),
    () => requeueUpdates(pool, queues, new Set(updating.keys())),
    () => endOrphanedDeliveries(pool, null),
    () => endOrphanedEvents(pool),
    () => sweepIntrospections(pool, queues, introspectionsLostAfterS),
  ];
  // One that fails, for example because of the rows of one account, must not stop the others.
  for (const step of steps) await step().catch(deps.onError);
}

/** @param changed null: any installation may have changed */
async function release(
  { pool }: JobDeps,
  scheduler: ChannelScheduler,
  changed: ChangedInstallation | null,
): Promise<void> {
  const wake = (channelIds: readonly string[]): void => {
    for (const channelId of channelIds) scheduler.wake(channelId);
  };
  wake(await releaseHeldDeliveries(pool, changed?.installationId ?? null));
  if (changed === null) return;
  wake(await makeFailedHeadsDue(pool, changed.installationId));
  wake(await makeGuardedHeadsDue(pool, changed));
}

async function answerRequest(
  deps: JobDeps,
  { introspectionId, accountId, hasFetch }: Payload<'introspect'>,
): Promise<void> {
  const question = await findIntrospection(deps.pool, introspectionId);
  if (!question) return;
  const refused = findRefusal(deps.sandbox, await isOperator(deps.pool, accountId));
  const onStart = (child: Child) => deps.fleet.scheduleDraft(child, { versionId: introspectionId, accountId });
  const answer =
    refused === null
      ? await runIntrospection(deps, { ...question, hasFetch }, onStart)
      : ({ ok: false, message: refused, unavailable: true } as const);
  await answerIntrospection(deps.pool, introspectionId, answer);
}

async function runIntrospection(
  deps: JobDeps,
  { bundleSha256, sourceName, hasFetch }: IntrospectionRequest,
  onStart: (child: Child) => void,
): Promise<Introspection> {
  try {
    const bundle = await deps.blobs.read(bundleSha256);
    const { registrations, places, schemaFaults } = await introspect(
      deps.sandbox.jail,
      bundle.toString('utf8'),
      sourceName,
      { hasFetch, onStart },
    );
    return { ok: true, registrations, places: { ...places }, schemaFaults: [...schemaFaults] };
  } catch (error) {
    // Killed from outside, as by a machine that is out of memory, or stopped with this supervisor.
    const isInterrupted = error instanceof ChildError && error.interrupted;
    if (!(error instanceof ChildError) || isInterrupted) {
      deps.onError(error as Error);
      return { ok: false, message: 'The package could not be checked. Retry shortly.', unavailable: true };
    }
    return { ok: false, message: error.message, ...(error.pluginStack ? { stack: error.pluginStack } : {}) };
  }
}

/**
 * Removes an installation. If `pluginUninstalled` is still pending, the end of that event, or the recovery after
 * `UNINSTALL_EVENT_MAX_MS`, queues this job again.
 */
async function uninstall(deps: JobDeps, installationId: string, { fence }: OwnedWork): Promise<void> {
  if (await hasNewUninstallEvent(deps.pool, installationId, UNINSTALL_EVENT_MAX_MS)) return;
  await deps.fleet.retire(installationId);
  await removeInstallation({ pool: deps.pool, fence }, deps.queues, installationId);
}
