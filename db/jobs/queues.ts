/**
 * Declares every pg-boss queue. A job only triggers work: the state of the work is in a row of another table, which the handler
 * reads first. So a job that is lost, duplicated or late does no harm.
 */

import type { Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { z } from 'zod';
import { id } from '../../sdk/contract/payloads.ts';
import type { Listener } from '../postgres/listener.ts';
import type { Queryable } from '../postgres/rows.ts';
import { QueueWorker } from './queue-worker.ts';

interface QueueRow {
  readonly doc: string;
  readonly payload: z.ZodObject;
  /** Maximum number of jobs of one group at once in one supervisor. A group is an installation, or an author. */
  readonly perGroup: number;
  /** Maximum number of jobs at once in one supervisor; each account may take its share of them. */
  readonly concurrency: number;
  /** Workers poll at this interval for delayed jobs, and for jobs whose notification was lost. Seconds. */
  readonly pollSeconds: number;
  /** A worker records at this interval that it still runs a job. Seconds. Default: it does not. */
  readonly heartbeatSeconds?: number;
  readonly options: {
    readonly policy: 'standard' | 'short';
    /** Retries after infrastructure failures. Retries of plugin code are counted in the row. */
    readonly retryLimit: number;
    readonly retryDelay: number;
    readonly retryBackoff: boolean;
    readonly retryDelayMax: number;
    /** After this, another worker gets the job. Longer than any valid attempt. */
    readonly expireInSeconds: number;
    /** pg-boss deletes jobs that no worker took within this time; the rows remain. */
    readonly retentionSeconds: number;
    /** pg-boss deletes finished jobs after this; the rows hold the history. */
    readonly deleteAfterSeconds: number;
  };
}

const HOUR = 3_600;
const DAY = 24 * HOUR;
const defaults = { policy: 'standard', retryLimit: 20, retryDelay: 1, retryBackoff: true, retryDelayMax: 60 } as const;

/** No queue has a dead letter queue: dead letters are rows with `state = 'dead'`, which can be shown and replayed. */
export const queues = {
  introspect: {
    doc: 'Runs a freshly built bundle in a one-shot jailed child and records what it registers.',
    payload: z.object({ introspectionId: id, accountId: id, hasFetch: z.boolean() }),
    // Code that never ends takes up to 5 s of CPU time, so only two publishes of an author run at once.
    perGroup: 2,
    concurrency: 8,
    pollSeconds: 2,
    heartbeatSeconds: 3,
    // A request waits for the answer, so old jobs are useless. Lost ones are queued again long before they expire.
    options: { ...defaults, retryLimit: 1, expireInSeconds: 45, retentionSeconds: 60, deleteAfterSeconds: 60 },
  },
  events: {
    doc: 'Delivers the events of an installation that are due, one after another.',
    payload: z.object({ eventId: id, installationId: id }),
    // The events of an installation are delivered one at a time. The rows, not the jobs, define their order.
    perGroup: 1,
    concurrency: 16,
    pollSeconds: 2,
    // A job takes new events for 10 s. The last attempt then takes 30 s, at most 60 on a busy machine, plus the start of a child.
    options: { ...defaults, expireInSeconds: 120, retentionSeconds: 14 * DAY, deleteAfterSeconds: HOUR },
  },
  updates: {
    doc: 'Starts the version that an installation is being updated to, and makes it current.',
    payload: z.object({ installationId: id }),
    perGroup: 1,
    concurrency: 8,
    pollSeconds: 2,
    // A start waits at most a minute for room, then loads and answers within seconds.
    options: { ...defaults, expireInSeconds: 180, retentionSeconds: 14 * DAY, deleteAfterSeconds: HOUR },
  },
  uninstall: {
    doc: 'Waits for pluginUninstalled, then removes the installation and everything it owns.',
    payload: z.object({ installationId: id }),
    perGroup: 1,
    concurrency: 4,
    pollSeconds: 2,
    options: { ...defaults, expireInSeconds: 600, retentionSeconds: 14 * DAY, deleteAfterSeconds: HOUR },
  },
} as const satisfies Record<string, QueueRow>;
export type QueueName = keyof typeof queues;
export type Payload<Name extends QueueName> = z.infer<(typeof queues)[Name]['payload']>;

/** @param accountId account of the job's group */
type JobHandler<Name extends QueueName> = (payload: Payload<Name>, accountId?: string) => Promise<void>;

interface SendOptions {
  /** The job starts this many seconds from now. */
  readonly delaySeconds?: number;
  readonly group?: JobGroup;
  readonly priority?: JobPriority;
}
/** Jobs with the higher number go first, and of one number the oldest. Default: `ASKED_FOR`. */
export const JOB_PRIORITY = { ASKED_FOR: 0, ROLLOUT: -1 } as const;
export type JobPriority = (typeof JOB_PRIORITY)[keyof typeof JOB_PRIORITY];
/** `perGroup` limits the jobs of a group, and an account's share limits the jobs of all its groups. */
interface JobGroup {
  readonly id: string;
  readonly accountId: string;
}
interface GroupedJob<Name extends QueueName> {
  readonly payload: Payload<Name>;
  readonly group: JobGroup;
  readonly priority?: JobPriority;
}
export interface Queues {
  /** Adds a job in the caller's transaction. */
  send<Name extends QueueName>(tx: Queryable, name: Name, payload: Payload<Name>, options?: SendOptions): Promise<void>;
  /** Adds a job to each of many groups in one statement. @param step the name of its fault point */
  sendToGroups<Name extends QueueName>(
    tx: Queryable,
    name: Name,
    jobs: readonly GroupedJob<Name>[],
    step?: 'queued' | 'all-queued',
  ): Promise<void>;
  /** Starts to work on a queue. If the handler throws, the job is retried by the queue's options. */
  work<Name extends QueueName>(name: Name, handler: JobHandler<Name>): void;
  /** Stops fetching jobs and waits for running handlers, at most `graceMs`. */
  stop(graceMs?: number): Promise<void>;
}
interface QueueSettings {
  readonly pool: Pool;
  /** Wakes workers at once; without it they poll. */
  readonly listener?: Listener;
  /** `worker` also runs pg-boss's maintenance (expiry, deletion). */
  readonly role: 'producer' | 'worker';
  onError(error: Error): void;
  /** Called when a job is written, in its transaction. A test may stop the step there. */
  faultPoint?(step: string): Promise<void> | undefined;
}

const NO_JOB = '00000000-0000-0000-0000-000000000000';

/** Starts pg-boss on the process's pool, creates its tables if missing, and creates or updates every queue. */
export async function startQueues(settings: QueueSettings): Promise<Queues> {
  const isWorker = settings.role === 'worker';
  const workers = new Map<string, QueueWorker>();
  const wake = (name: string | null) => {
    for (const [queue, worker] of workers) if (name === null || name === queue) worker.wake();
  };
  const boss = new PgBoss({
    db: createAdapter(settings.pool, isWorker ? settings.listener : undefined, wake),
    useListenNotify: isWorker && settings.listener !== undefined,
    supervise: isWorker,
    schedule: false,
    superviseIntervalSeconds: 10,
    monitorIntervalSeconds: 60,
    maintenanceIntervalSeconds: HOUR,
  });
  boss.on('error', settings.onError);
  boss.on('warning', (warning) => settings.onError(new Error(warning.message)));
  await boss.start();
  for (const [name, row] of Object.entries(queues)) await createQueue(boss, name, row);
  return {
    send: async (tx, name, payload, options) => {
      await sendJob(boss, tx, name, payload, options);
      await settings.faultPoint?.(`${name}.queued`);
    },
    sendToGroups: async (tx, name, jobs, step = 'queued') => {
      await insertJobs(boss, tx, name, jobs);
      await settings.faultPoint?.(`${name}.${step}`);
    },
    work: (name, handler) => {
      const { payload, ...limits }: QueueRow = queues[name];
      const handleJob = (data: unknown, accountId: string | undefined) =>
        handler(payload.parse(data) as Payload<typeof name>, accountId);
      const { onError } = settings;
      workers.set(name, new QueueWorker({ boss, name, limits, handler: handleJob, onError }));
    },
    stop: async (graceMs = 0) => {
      await Promise.all([...workers.values()].map((worker) => worker.stop(graceMs)));
      await boss.stop({ graceful: false, close: false });
    },
  };
}

async function createQueue(boss: PgBoss, name: string, row: QueueRow): Promise<void> {
  const { policy, ...changeable } = row.options;
  await boss.createQueue(name, { policy, ...changeable, notify: true });
  await boss.updateQueue(name, { ...changeable, notify: true });
  // The update cleared pg-boss's cached metadata. Load it now: loading it at the first `send` inside a transaction takes a
  // second connection, and a burst of such sends would exhaust the pool.
  await boss.findJobs(name, { id: NO_JOB });
}

async function sendJob<Name extends QueueName>(
  boss: PgBoss,
  tx: Queryable,
  name: Name,
  payload: Payload<Name>,
  options: SendOptions = {},
): Promise<void> {
  await boss.send(name, queues[name].payload.parse(payload), {
    db: { executeSql: (text, values) => tx.query(text, values) },
    ...(options.delaySeconds === undefined ? {} : { startAfter: Math.ceil(options.delaySeconds) }),
    ...(options.group === undefined ? {} : { group: toBossGroup(options.group) }),
    priority: options.priority ?? JOB_PRIORITY.ASKED_FOR,
  });
}

async function insertJobs<Name extends QueueName>(
  boss: PgBoss,
  tx: Queryable,
  name: Name,
  jobs: readonly GroupedJob<Name>[],
): Promise<void> {
  if (jobs.length === 0) return;
  const rows = jobs.map(({ payload, group, priority = JOB_PRIORITY.ASKED_FOR }) => ({
    data: queues[name].payload.parse(payload),
    group: toBossGroup(group),
    priority,
  }));
  await boss.insert(name, rows, { db: { executeSql: (text, values) => tx.query(text, values) } });
}

/** pg-boss has no accounts. `QueueWorker` uses the tier of a group for its account. */
const toBossGroup = ({ id, accountId }: JobGroup) => ({ id, tier: accountId });

/** Lets pg-boss use the process's pool and its LISTEN connection instead of its own. */
function createAdapter(pool: Pool, listener: Listener | undefined, onQueue: (name: string | null) => void) {
  const adapter = { executeSql: (text: string, values?: unknown[]) => pool.query(text, values) };
  if (!listener) return adapter;
  return {
    ...adapter,
    listen: (channel: string) =>
      listener.listen(channel, { onNotification: (payload) => onQueue(payload), onReconnect: () => onQueue(null) }),
  };
}
