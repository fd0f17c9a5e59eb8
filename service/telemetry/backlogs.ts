/** Metrics of the work that waits in PostgreSQL: queues, events and deliveries, and dead letters. */

import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { queues } from '../../db/jobs/queues.ts';
import { listRows } from '../../db/postgres/rows.ts';
import { within } from '../timing/within.ts';

/** Results are cached for this long, to limit the queries of frequent scrapes. Milliseconds. */
const FRESH_MS = 5_000;
/** A scrape that waits longer omits these metrics. Milliseconds. */
const SCRAPE_TIMEOUT_MS = 2_000;
/** Rows counted at most, to limit the cost of a query. */
const COUNT_MAX = 10_000;

interface Backlog {
  readonly name: string;
  readonly waiting: number;
  /** Age of the oldest one, seconds; 0 without any. */
  readonly oldestSeconds: number;
  /** Dead letters; null: this queue cannot have any. */
  readonly dead: number | null;
}

const AGE_SQL = 'coalesce(greatest(0, extract(epoch FROM now() - min(at))), 0)::float8';
const selectJobs = (name: string) => `SELECT '${name}' AS name, count(*)::int AS waiting, ${AGE_SQL} AS "oldestSeconds",
    NULL::int AS dead
  FROM (SELECT greatest(created_on, start_after) AS at FROM pgboss.job
         WHERE name = '${name}' AND state < 'active' AND start_after <= now() LIMIT ${COUNT_MAX}) j`;
/** @param waits further condition of waiting rows */
const selectRows = (name: string, table: string, at: string, where: string, waits = '') => `
  SELECT '${name}', count(*)::int, ${AGE_SQL},
    (SELECT count(*)::int FROM (SELECT 1 FROM ${table} WHERE state = 'dead' ${where} LIMIT ${COUNT_MAX}) d)
  FROM (SELECT ${at} AS at FROM ${table}
         WHERE state = 'pending' AND next_attempt_at <> 'infinity' ${where} ${waits} LIMIT ${COUNT_MAX}) p`;

const BACKLOGS = [
  // The jobs of this queue only trigger rows of the events table, which are counted below.
  ...Object.keys(queues)
    .filter((name) => name !== 'events')
    .map(selectJobs),
  selectRows('events', 'events', 'occurred_at', ''),
  selectRows('webhooks', 'deliveries', 'received_at', "AND direction = 'in'", 'AND NOT set_aside'),
  selectRows('replies', 'deliveries', 'received_at', "AND direction = 'out'", 'AND NOT set_aside'),
].join(' UNION ALL ');

/** Reads all backlogs. Work that waits for its user (a paused installation) or is set aside does not count. */
export const readBacklogs = (pool: Pool): Promise<Backlog[]> => listRows(pool, BACKLOGS);

export const backlogMetrics = {
  bulkhead_queue_depth: {
    type: 'gauge',
    help: `Waiting jobs, events and deliveries, by queue, without deliveries set aside and work of paused installations; at most ${COUNT_MAX} are counted.`,
    labels: ['queue'],
  },
  bulkhead_queue_age_seconds: { type: 'gauge', help: 'Age of the oldest waiting one, by queue.', labels: ['queue'] },
  bulkhead_dead_letters: {
    type: 'gauge',
    help: `Dead letters kept for replay, by queue; at most ${COUNT_MAX} are counted.`,
    labels: ['queue'],
  },
} as const;

/**
 * Creates the collect functions of these gauges, which share one query. Without a result in time, the gauges have no
 * values.
 */
export function backlogReaders(pool: Pool): Record<keyof typeof backlogMetrics, (gauge: Gauge) => Promise<void>> {
  let cache: { at: number; answer: Promise<Backlog[]> } | null = null;
  const readCached = (): Promise<Backlog[]> => {
    const now = performance.now();
    if (cache === null || now - cache.at > FRESH_MS) cache = { at: now, answer: readInTime(pool) };
    return cache.answer;
  };
  const createReader = (set: (gauge: Gauge, backlog: Backlog) => void) => async (gauge: Gauge) => {
    for (const backlog of await readCached()) set(gauge, backlog);
  };
  return {
    bulkhead_queue_depth: createReader((gauge, { name, waiting }) => gauge.set({ queue: name }, waiting)),
    bulkhead_queue_age_seconds: createReader((gauge, { name, oldestSeconds }) =>
      gauge.set({ queue: name }, oldestSeconds),
    ),
    bulkhead_dead_letters: createReader((gauge, { name, dead }) => dead !== null && gauge.set({ queue: name }, dead)),
  };
}

/** Empty if the query takes too long or fails, so that a scrape still returns the other metrics. */
const readInTime = async (pool: Pool): Promise<Backlog[]> =>
  (await within(readBacklogs(pool), SCRAPE_TIMEOUT_MS).catch(() => undefined)) ?? [];
