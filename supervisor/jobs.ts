/** The queue workers, and the healing of whatever a killed supervisor left behind. */
import type { Pool } from 'pg';
import { maintainAudit } from '../db/audit.ts';
import type { Blobs } from '../db/blobs.ts';
import { releaseHeldEvents, requeueStrandedEvents } from '../db/events.ts';
import {
  answerIntrospection,
  findIntrospection,
  type Introspection,
  type IntrospectionRequest,
  sweepIntrospections,
} from '../db/introspections.ts';
import { maintainLogs } from '../db/logs.ts';
import { findLastWord, removeInstallation, requeueRemovals } from '../db/removals.ts';
import { resetRuntimes } from '../db/runtimes.ts';
import { ChildError } from './child/errors.ts';
import { deliverEvent, type EventDeps } from './events/delivery.ts';
import { LAST_WORD_MS } from './events/policy.ts';
import type { Fleet } from './fleet.ts';
import { introspect } from './introspection.ts';
import type { Jail } from './jail.ts';

/** How often the rows are compared with the queue, milliseconds. Notices make this a backstop. */
const HEAL_MS = 15_000;
/** How often partitions are made and dropped: many times within the hours they are made ahead. */
const UPKEEP_MS = 5 * 60_000;

export interface JobDeps extends Omit<EventDeps, 'atWork'> {
  readonly blobs: Blobs;
  readonly fleet: Fleet;
  readonly jail: Jail;
  onError(error: Error): void;
}

/** Heals, then starts the workers. Answers what stops the timers; the workers stop with the queues. */
export async function startJobs(deps: JobDeps): Promise<() => void> {
  await upkeep(deps.pool);
  await resetRuntimes(deps.pool);
  deps.queues.work('introspect', ({ introspectionId }) => answer(deps, introspectionId));
  const atWork = new Set<string>();
  deps.queues.work('events', ({ eventId }) => deliverEvent({ ...deps, atWork }, eventId));
  deps.queues.work('uninstall', ({ installationId }) => uninstall(deps, installationId));
  await sweepIntrospections(deps.pool, deps.queues);
  await heal(deps, atWork);
  const timers = [
    setInterval(() => heal(deps, atWork).catch(deps.onError), HEAL_MS),
    setInterval(() => upkeep(deps.pool).catch(deps.onError), UPKEEP_MS),
  ];
  return () => timers.forEach(clearInterval);
}

async function heal({ pool, queues, lease }: JobDeps, atWork: ReadonlySet<string>): Promise<void> {
  await requeueStrandedEvents(pool, queues, { lease, atWork });
  await releaseHeldEvents(pool, queues, null);
  await requeueRemovals(pool, queues);
}

async function upkeep(pool: Pool): Promise<void> {
  await maintainLogs(pool);
  await maintainAudit(pool);
}

async function answer(deps: JobDeps, introspectionId: string): Promise<void> {
  const question = await findIntrospection(deps.pool, introspectionId);
  if (question) await answerIntrospection(deps.pool, introspectionId, await look(deps, question));
}

async function look(deps: JobDeps, { bundleSha256, sourceName }: IntrospectionRequest): Promise<Introspection> {
  try {
    const bundle = await deps.blobs.read(bundleSha256);
    const { registrations, places } = await introspect(deps.jail, bundle.toString('utf8'), sourceName);
    return { ok: true, registrations, places: { ...places } };
  } catch (error) {
    if (!(error instanceof ChildError)) {
      deps.onError(error as Error);
      return { ok: false, message: 'The package could not be checked. Try again shortly.', unavailable: true };
    }
    return { ok: false, message: error.message, ...(error.pluginStack ? { stack: error.pluginStack } : {}) };
  }
}

/**
 * Removes an installation, unless its plugin's last word is still to be said: then the end of that event, or the healing
 * after `LAST_WORD_MS`, brings this job again.
 */
async function uninstall(deps: JobDeps, installationId: string): Promise<void> {
  const since = await findLastWord(deps.pool, installationId);
  if (since && Date.now() - since.getTime() < LAST_WORD_MS) return;
  await deps.fleet.retire(installationId);
  await removeInstallation(deps.pool, installationId);
}
