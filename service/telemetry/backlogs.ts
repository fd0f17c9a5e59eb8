/** Metrics of the work that waits in PostgreSQL: queues, events and deliveries, and dead letters. */

import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { isQueuedSql } from '../../db/channels/delivery-queue.ts';
import { BLOCKED_REASON_SQL, RECEIVES_EVENTS_SQL } from '../../db/installations/run-rule.ts';
import { withPendingSql } from '../../db/jobs/pending.ts';
import { queuedAtSql } from '../../db/jobs/queued-time.ts';
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
const countDead = (table: string, where: string) =>
  `(SELECT count(*)::int FROM (SELECT 1 FROM ${table} WHERE state = 'dead' ${where} LIMIT ${COUNT_MAX}) d)`;

/** Condition: work of the installation is attempted. */
const RECEIVES_SQL = `${RECEIVES_EVENTS_SQL} AND ${BLOCKED_REASON_SQL} IS NULL`;
// LIMIT makes each look-up one probe: a join would read all channels and installations.
const SELECT_EVENTS = `(${withPendingSql('events', 'installation_id')}
  SELECT 'events', count(*)::int, ${AGE_SQL}, ${countDead('events', '')}
    FROM (SELECT e.at FROM wanted w
            CROSS JOIN LATERAL (SELECT i.released_at FROM installations i JOIN plugins p ON p.id = i.plugin_id
                                 WHERE i.id = w.id AND ${RECEIVES_SQL} LIMIT 1) receiver
            CROSS JOIN LATERAL (SELECT ${queuedAtSql('e', 'receiver.released_at', 'occurred_at')} AS at FROM events e
                                 WHERE e.installation_id = w.id AND e.state = 'pending' LIMIT ${COUNT_MAX}) e
           LIMIT ${COUNT_MAX}) e)`;
const selectDirection = (name: string, direction: string) => `
  SELECT '${name}', count(*)::int, ${AGE_SQL}, ${countDead('deliveries', `AND direction = ${direction}`)}
    FROM (SELECT d.at FROM receivers r
            CROSS JOIN LATERAL (SELECT ${queuedAtSql('d', 'r.released_at')} AS at FROM deliveries d
                                 WHERE ${isQueuedSql('d', 'r.id', direction, false)} LIMIT ${COUNT_MAX}) d
           -- Where the version has no handler for them, the first one is held, and the others wait behind it.
           WHERE NOT EXISTS (SELECT 1 FROM deliveries h
                              WHERE h.installation_id = r.installation_id AND h.next_attempt_at = 'infinity'
                                AND ${isQueuedSql('h', 'r.id', direction, false)})
           LIMIT ${COUNT_MAX}) d`;
const SELECT_DELIVERIES = `(${withPendingSql('deliveries', 'channel_id')},
  receivers AS MATERIALIZED (
    SELECT w.id, receiver.installation_id, receiver.released_at FROM wanted w
     CROSS JOIN LATERAL (SELECT c.installation_id, i.released_at FROM channels c JOIN installations i ON i.id = c.installation_id
                           JOIN plugins p ON p.id = i.plugin_id
                          WHERE c.id = w.id AND ${RECEIVES_SQL} LIMIT 1) receiver)
  ${selectDirection('webhooks', "'in'")} UNION ALL ${selectDirection('replies', "'out'")})`;

const BACKLOGS = [
  // The jobs of this queue only trigger rows of the events table, which are counted below.
  ...Object.keys(queues)
    .filter((name) => name !== 'events')
    .map(selectJobs),
  SELECT_EVENTS,
  SELECT_DELIVERIES,
].join(' UNION ALL ');

/** Reads all backlogs. Work that is set aside, or whose installation may not run, does not count. */
export const readBacklogs = (pool: Pool): Promise<Backlog[]> => listRows(pool, BACKLOGS);

export const backlogMetrics = {
  bulkhead_queue_depth: {
    type: 'gauge',
    help: `Waiting jobs, events and deliveries, by queue, without deliveries set aside and work whose installation may not run (paused, not configured, blocked, account suspended); at most ${COUNT_MAX} are counted.`,
    labels: ['queue'],
  },
  bulkhead_queue_age_seconds: {
    type: 'gauge',
    help: 'Age of the oldest waiting one, by queue: since its arrival, its replay, or the time at which its installation could run again.',
    labels: ['queue'],
  },
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
