/**
 * Every queue, declared once. A queue is only the ticker: the truth of its work is a row of ours, so a job that is lost,
 * doubled or late is harmless, and every handler starts by asking the row.
 */
import type { ClientBase, Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { z } from 'zod';
import { id } from '../../sdk/contract/payloads.ts';
import type { Listener } from '../postgres/listener.ts';
import { QueueWorker } from './queue-worker.ts';

interface QueueRow {
  readonly doc: string;
  readonly payload: z.ZodObject;
  /** Jobs of one group (an installation) worked on at once by one supervisor; the rest of the queue flows past them. */
  readonly perGroup: number;
  /** Jobs worked on at once by one supervisor. */
  readonly concurrency: number;
  /** The backstop of a lost NOTIFY and the grain of delayed jobs, seconds. */
  readonly pollSeconds: number;
  readonly options: {
    readonly policy: 'standard' | 'short';
    /** Repeats after a fault of ours (database gone, process killed). Retries of plugin code are counted by the row. */
    readonly retryLimit: number;
    readonly retryDelay: number;
    readonly retryBackoff: boolean;
    readonly retryDelayMax: number;
    /** Longer than the longest honest attempt: after it the job is given to another worker. */
    readonly expireInSeconds: number;
    /** Unworked jobs are dropped after this; the rows remain and are swept. */
    readonly retentionSeconds: number;
    /** Finished jobs are kept for a look; the rows hold the history. */
    readonly deleteAfterSeconds: number;
  };
}

const HOUR = 3_600;
const DAY = 24 * HOUR;
const ours = { policy: 'standard', retryLimit: 20, retryDelay: 1, retryBackoff: true, retryDelayMax: 60 } as const;

/** No queue has a dead letter queue: what is dead stays as a row with `state = 'dead'`, where it is shown and replayed. */
export const queues = {
  introspect: {
    doc: 'Runs a freshly built bundle in a one-shot jailed child and records what it registers.',
    payload: z.object({ introspectionId: id }),
    perGroup: 8,
    concurrency: 8,
    pollSeconds: 2,
    // Somebody waits for the answer: an old question is worth nothing, one repeat covers a killed supervisor.
    options: { ...ours, retryLimit: 1, expireInSeconds: 20, retentionSeconds: 60, deleteAfterSeconds: 60 },
  },
  events: {
    doc: 'One attempt to deliver one event to its installation.',
    payload: z.object({ eventId: id, installationId: id }),
    // In order of arrival per installation, as far as retries allow.
    perGroup: 1,
    concurrency: 16,
    pollSeconds: 2,
    // An attempt takes 30 s at most, besides the start of a child.
    options: { ...ours, expireInSeconds: 120, retentionSeconds: 14 * DAY, deleteAfterSeconds: HOUR },
  },
  uninstall: {
    doc: 'Waits for pluginUninstalled, then removes the installation with everything it owned.',
    payload: z.object({ installationId: id }),
    perGroup: 1,
    concurrency: 4,
    pollSeconds: 2,
    options: { ...ours, expireInSeconds: 600, retentionSeconds: 14 * DAY, deleteAfterSeconds: HOUR },
  },
} as const satisfies Record<string, QueueRow>;
export type QueueName = keyof typeof queues;
export type Payload<Name extends QueueName> = z.infer<(typeof queues)[Name]['payload']>;

export interface SendOptions {
  /** Seconds from now before which the job is not worked on. */
  readonly delaySeconds?: number;
  /** Jobs of one group share `perGroup`. */
  readonly group?: string;
}
export interface Queues {
  /** Adds a job in the caller's transaction: it exists if and when that commits. */
  send<Name extends QueueName>(
    tx: ClientBase | Pool,
    name: Name,
    payload: Payload<Name>,
    options?: SendOptions,
  ): Promise<void>;
  /** Adds many jobs of one group in one statement. */
  sendAll<Name extends QueueName>(
    tx: ClientBase | Pool,
    name: Name,
    payloads: readonly Payload<Name>[],
    options: Required<Pick<SendOptions, 'group'>>,
  ): Promise<void>;
  /** Works on a queue. A handler that throws has its job repeated by the queue's options. */
  work<Name extends QueueName>(name: Name, handler: (payload: Payload<Name>) => Promise<void>): void;
  /** Takes no more jobs and waits for running handlers, at most `graceMs`. */
  stop(graceMs?: number): Promise<void>;
}
export interface QueueSettings {
  readonly pool: Pool;
  /** Wakes workers at once; without it they poll. */
  readonly listener?: Listener;
  /** `worker` also does pg-boss's upkeep (expiry, deletion). */
  readonly role: 'producer' | 'worker';
  onError(error: Error): void;
  /** Told when a job is written, in its transaction; a test's may end the process there. */
  faultPoint?(step: string): void;
}

const NO_JOB = '00000000-0000-0000-0000-000000000000';

/** Starts pg-boss over the process's pool, makes its tables if need be and brings every declared queue up to date. */
export async function startQueues(settings: QueueSettings): Promise<Queues> {
  const works = settings.role === 'worker';
  const workers = new Map<string, QueueWorker>();
  const wake = (name: string | null) => {
    for (const [queue, worker] of workers) if (name === null || name === queue) worker.wake();
  };
  const boss = new PgBoss({
    db: overPool(settings.pool, works ? settings.listener : undefined, wake),
    useListenNotify: works && settings.listener !== undefined,
    supervise: works,
    schedule: false,
    superviseIntervalSeconds: 10,
    monitorIntervalSeconds: 60,
    maintenanceIntervalSeconds: HOUR,
  });
  boss.on('error', settings.onError);
  boss.on('warning', (warning) => settings.onError(new Error(warning.message)));
  await boss.start();
  for (const [name, row] of Object.entries(queues)) await declare(boss, name, row);
  return {
    send: async (tx, name, payload, options) => {
      await send(boss, tx, name, payload, options);
      settings.faultPoint?.(`${name}.queued`);
    },
    sendAll: async (tx, name, payloads, options) => {
      await sendAll(boss, tx, name, payloads, options.group);
      settings.faultPoint?.(`${name}.all-queued`);
    },
    work: (name, handler) => {
      const { payload, ...bounds }: QueueRow = queues[name];
      const checked = (data: unknown) => handler(payload.parse(data) as Payload<typeof name>);
      workers.set(name, new QueueWorker(boss, name, bounds, checked, settings.onError));
    },
    stop: async (graceMs = 0) => {
      await Promise.all([...workers.values()].map((worker) => worker.stop(graceMs)));
      await boss.stop({ graceful: false, close: false });
    },
  };
}

async function declare(boss: PgBoss, name: string, row: QueueRow): Promise<void> {
  const { policy, ...changeable } = row.options;
  await boss.createQueue(name, { policy, ...changeable, notify: true });
  await boss.updateQueue(name, { ...changeable, notify: true });
  // What it knows of a queue was forgotten with the update, and is read again over the pool at the next send: inside a
  // transaction that would take a second connection, and a first burst of them would wait for each other.
  await boss.findJobs(name, { id: NO_JOB });
}

async function send<Name extends QueueName>(
  boss: PgBoss,
  tx: ClientBase | Pool,
  name: Name,
  payload: Payload<Name>,
  options: SendOptions = {},
): Promise<void> {
  await boss.send(name, queues[name].payload.parse(payload), {
    db: { executeSql: (text, values) => tx.query(text, values) },
    ...(options.delaySeconds === undefined ? {} : { startAfter: Math.ceil(options.delaySeconds) }),
    ...(options.group === undefined ? {} : { group: { id: options.group } }),
  });
}

async function sendAll<Name extends QueueName>(
  boss: PgBoss,
  tx: ClientBase | Pool,
  name: Name,
  payloads: readonly Payload<Name>[],
  group: string,
): Promise<void> {
  if (payloads.length === 0) return;
  const jobs = payloads.map((payload) => ({ data: queues[name].payload.parse(payload), group: { id: group } }));
  await boss.insert(name, jobs, { db: { executeSql: (text, values) => tx.query(text, values) } });
}

/** pg-boss over our pool: no second pool, and its NOTIFY wake-ups share the process's one listening connection. */
function overPool(pool: Pool, listener: Listener | undefined, onQueue: (name: string | null) => void) {
  const adapter = { executeSql: (text: string, values?: unknown[]) => pool.query(text, values) };
  if (!listener) return adapter;
  return {
    ...adapter,
    listen: (channel: string) =>
      listener.listen(channel, { onNotification: (payload) => onQueue(payload), onReconnect: () => onQueue(null) }),
  };
}
