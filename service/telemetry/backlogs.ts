/** What waits in PostgreSQL and for how long: queues, events, deliveries, and what is dead. Bounded, and asked seldom. */

import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { queues } from '../../db/jobs/queues.ts';
import { within } from '../timing/within.ts';

/** An answer is good for this long, milliseconds: however many scrape, the database is asked this often. */
const FRESH_MS = 5_000;
/** A scrape that waits longer goes without these metrics. Milliseconds. */
const SCRAPE_TIMEOUT_MS = 2_000;
/** Rows counted at most: where there are more, the exact number changes nothing. */
export const COUNT_MAX = 10_000;

export interface Backlog {
  readonly name: string;
  readonly waiting: number;
  /** Age of the oldest one, seconds; 0 where nothing waits. */
  readonly oldestSeconds: number;
  /** What used up its attempts; null where there is no such thing. */
  readonly dead: number | null;
}

const age = 'coalesce(greatest(0, extract(epoch FROM now() - min(at))), 0)::float8';
const jobs = (name: string) => `SELECT '${name}' AS name, count(*)::int AS waiting, ${age} AS "oldestSeconds",
    NULL::int AS dead
  FROM (SELECT greatest(created_on, start_after) AS at FROM pgboss.job
         WHERE name = '${name}' AND state < 'active' AND start_after <= now() LIMIT ${COUNT_MAX}) j`;
const rows = (name: string, table: string, at: string, where: string) => `
  SELECT '${name}', count(*)::int, ${age},
    (SELECT count(*)::int FROM (SELECT 1 FROM ${table} WHERE state = 'dead' ${where} LIMIT ${COUNT_MAX}) d)
  FROM (SELECT ${at} AS at FROM ${table}
         WHERE state = 'pending' AND next_attempt_at <> 'infinity' ${where} LIMIT ${COUNT_MAX}) p`;

const BACKLOGS = [
  // The queue is only the ticker of the events' rows, which are counted themselves.
  ...Object.keys(queues)
    .filter((name) => name !== 'events')
    .map(jobs),
  rows('events', 'events', 'occurred_at', ''),
  rows('webhooks', 'deliveries', 'received_at', "AND direction = 'in'"),
  rows('replies', 'deliveries', 'received_at', "AND direction = 'out'"),
].join(' UNION ALL ');

/** Reads all of them. What waits for its user (a paused installation) does not count. */
export async function readBacklogs(pool: Pool): Promise<Backlog[]> {
  return (await pool.query<Backlog>(BACKLOGS)).rows;
}

export const backlogMetrics = {
  bulkhead_queue_depth: {
    type: 'gauge',
    help: `What waits, by queue; at most ${COUNT_MAX} are counted.`,
    labels: ['queue'],
  },
  bulkhead_queue_age_seconds: { type: 'gauge', help: 'Age of the oldest that waits, by queue.', labels: ['queue'] },
  bulkhead_dead_letters: {
    type: 'gauge',
    help: `What used up its attempts and is kept for replay; at most ${COUNT_MAX} are counted.`,
    labels: ['queue'],
  },
} as const;

/** Readers of those gauges over one answer. Without an answer in time they have no values. */
export function backlogReaders(pool: Pool): Record<keyof typeof backlogMetrics, (gauge: Gauge) => Promise<void>> {
  let asked: { at: number; answer: Promise<Backlog[]> } | null = null;
  const ask = (): Promise<Backlog[]> => {
    const now = performance.now();
    if (asked === null || now - asked.at > FRESH_MS) asked = { at: now, answer: readInTime(pool) };
    return asked.answer;
  };
  const each = (set: (gauge: Gauge, backlog: Backlog) => void) => async (gauge: Gauge) => {
    for (const backlog of await ask()) set(gauge, backlog);
  };
  return {
    bulkhead_queue_depth: each((gauge, { name, waiting }) => gauge.set({ queue: name }, waiting)),
    bulkhead_queue_age_seconds: each((gauge, { name, oldestSeconds }) => gauge.set({ queue: name }, oldestSeconds)),
    bulkhead_dead_letters: each((gauge, { name, dead }) => dead !== null && gauge.set({ queue: name }, dead)),
  };
}

/** Empty if it takes too long or fails: a scrape has to answer with the other metrics while the database is away. */
const readInTime = async (pool: Pool): Promise<Backlog[]> =>
  (await within(readBacklogs(pool), SCRAPE_TIMEOUT_MS).catch(() => undefined)) ?? [];
