/** Delivers the events of an installation in their order: claims a row, calls the child, and records the result. */

import { DRAFT_SEM_VER, type InstalledPlugin, loadInstalledPlugin } from '../../db/installations/account-plugins.ts';
import {
  type ClaimedEvent,
  claimNextEvent,
  type EventPostponement,
  finishEvent,
  postponeEvent,
  releaseHeldEvents,
} from '../../db/installations/events.ts';
import { describeInactive } from '../../db/installations/run-rule.ts';
import type { Fence } from '../../db/postgres/pool.ts';
import { events } from '../../sdk/contract/protocol.ts';
import { pickStack } from '../calls/plugin-call.ts';
import type { Fleet } from '../children/fleet.ts';
import type { OwnedWork, Ownership } from '../cluster/ownership.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { eventCall } from './event-call.ts';
import { judgeAttempt } from './event-retry-policy.ts';
import { isTransient, isUsedUp, REFUSED_WAIT_S, TRANSIENT_WAIT_S } from './webhook-retry-policy.ts';

export interface EventDeps
  extends Pick<SessionServices, 'pool' | 'queues' | 'invoker' | 'logs' | 'metrics' | 'writes' | 'faultPoint'> {
  readonly fleet: Pick<Fleet, 'findRefusal'>;
  readonly ownership: Pick<Ownership, 'begin' | 'listShards'>;
  /**
   * The installations whose events this supervisor is delivering, by id. True: another job arrived meanwhile, perhaps for an event
   * that the last query did not find yet.
   */
  readonly delivering: Map<string, boolean>;
}

/** After this time, another job delivers the remaining events of an installation, because others wait for a worker. Milliseconds. */
const TURN_MS = 10_000;

/** An attempt, under the ownership whose epoch claims and fences it. */
type AttemptDeps = EventDeps & { readonly fence: Fence };

/** Handles one job of the `events` queue. The job only says that an event may be due. */
export async function deliverEvents(given: EventDeps, installationId: string, work: OwnedWork): Promise<void> {
  const { delivering, pool, queues } = given;
  const deps = { ...given, fence: work.fence };
  if (delivering.has(installationId)) return void delivering.set(installationId, true);
  let last: ClaimedEvent | null = null;
  try {
    const endsAt = performance.now() + TURN_MS;
    const isOver = (): boolean => work.isLeaving() || performance.now() >= endsAt;
    do {
      delivering.set(installationId, false);
      last = await claimNextEvent(pool, installationId, work.fence);
      if (last) await deliver(deps, last);
      // After an empty claim also when the time is over: a job that arrived during it has ended, and only this one looks for its event.
    } while (last ? !isOver() : delivering.get(installationId) === true);
  } finally {
    delivering.delete(installationId);
  }
  if (!last) return;
  // Only now: another supervisor may hand this job over before the database has answered, and it would end at once.
  const { id: eventId, accountId } = last;
  await queues.send(pool, 'events', { eventId, installationId }, { group: { id: installationId, accountId } });
}

async function deliver(deps: AttemptDeps, event: ClaimedEvent): Promise<void> {
  await deps.faultPoint('event.claimed');
  if (isUsedUp(event, events[event.type].attempts))
    return finish(deps, event, 'dead', 'the supervisor ended during each attempt');
  const plugin = await loadInstalledPlugin(deps.pool, event.installationId);
  const reason = plugin ? skipReason(event, plugin) : 'the installation is gone';
  if (!plugin || reason !== null) return finish(deps, event, 'skipped', reason);
  const held = holdReason(plugin);
  if (held !== null) return holdUntilReady(deps, event, held);
  const refused = deps.fleet.findRefusal(plugin);
  if (refused !== null) return postpone(deps, event, { afterSeconds: REFUSED_WAIT_S, error: refused, as: 'nothing' });
  await attempt(deps, event, plugin);
}

function skipReason(event: ClaimedEvent, plugin: InstalledPlugin): string | null {
  if (!plugin.registrations.events.includes(event.type)) return 'the version has no handler for it';
  if (plugin.status === 'uninstalling' && event.type !== 'pluginUninstalled')
    return 'the installation is being removed';
  if (event.type === 'pluginUpdated' && event.versionId !== plugin.versionId) return 'a later update replaced it';
  return null;
}

function holdReason(plugin: InstalledPlugin): string | null {
  // The last event arrives while the installation is removed.
  const isRemoved = plugin.status === 'uninstalling' && plugin.blockedReason === null;
  return isRemoved ? null : describeInactive(plugin);
}

async function holdUntilReady({ pool, queues, fence }: AttemptDeps, event: ClaimedEvent, why: string): Promise<void> {
  await postponeEvent(pool, queues, event, { epoch: fence.epoch, afterSeconds: null, error: why, as: 'nothing' });
  // If the installation became ready between the check and the postponement, nothing else releases the event.
  await releaseHeldEvents(pool, queues, event.installationId);
}

async function attempt(deps: AttemptDeps, event: ClaimedEvent, plugin: InstalledPlugin): Promise<void> {
  const { id, type, occurredAt, installationId, pluginId, data } = event;
  const envelope = eventCall({
    id,
    type,
    occurredAt,
    attempt: event.attempt,
    installationId,
    pluginId,
    data,
    versionId: event.versionId ?? plugin.versionId,
    semVer: event.semVer ?? DRAFT_SEM_VER,
  });
  // Names the version to call, because an update may be made or rolled back before the call has a child.
  const call = type === 'pluginUpdated' ? { ...envelope, versionId: plugin.versionId } : envelope;
  const started = performance.now();
  const result = await deps.invoker.invoke(plugin, call);
  deps.metrics.targetRan(call.target, plugin, result.kind, performance.now() - started);
  await deps.faultPoint('event.answered');
  if (isTransient(result, plugin) && result.kind === 'unavailable')
    return postpone(deps, event, { afterSeconds: TRANSIENT_WAIT_S, error: result.message, as: 'nothing' });
  const verdict = judgeAttempt(event.type, event, result, Math.random());
  deps.metrics.eventAttempted(event.type, verdict.kind);
  if (verdict.kind === 'delivered') return finish(deps, event, 'delivered', null);
  const text = `events.${event.type}, attempt ${event.attempt}: ${verdict.error}`;
  deps.logs.system(plugin, 'error', text, {
    invocationId: call.invocationId,
    data: { eventId: event.id, next: verdict.kind, ...pickStack(result) },
  });
  if (verdict.kind === 'dead') return finish(deps, event, 'dead', verdict.error);
  await postpone(deps, event, verdict);
}

const postpone = (
  { pool, queues, fence, writes }: AttemptDeps,
  event: ClaimedEvent,
  postponement: Omit<EventPostponement, 'epoch'>,
): Promise<void> => writes.write(() => postponeEvent(pool, queues, event, { epoch: fence.epoch, ...postponement }));

async function finish(
  deps: AttemptDeps,
  event: ClaimedEvent,
  state: 'delivered' | 'skipped' | 'dead',
  error: string | null,
): Promise<void> {
  await deps.writes.write(() => finishEvent(deps.pool, event.id, deps.fence.epoch, state, error));
  if (state === 'dead') deps.metrics.deliveryDied('events');
  await deps.faultPoint('event.finished');
  if (event.type !== 'pluginUninstalled') return;
  // The removal of the installation waits for this event.
  const { installationId, accountId } = event;
  await deps.queues.send(deps.pool, 'uninstall', { installationId }, { group: { id: installationId, accountId } });
}
