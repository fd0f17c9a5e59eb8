/** Metrics of a process's database connections. */
import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { countWaiting, countWaitingForShare } from '../../db/postgres/pool.ts';

export const poolMetrics = {
  bulkhead_database_connections: {
    type: 'gauge',
    help: 'Database connections of the process: busy, idle, requests waiting for one, and requests of the only account that waits, because it uses its share of the connections (`waiting_for_share`).',
    labels: ['state'],
  },
} as const;

export const readPoolUse = (pool: Pick<Pool, 'totalCount' | 'idleCount' | 'waitingCount'>) => (gauge: Gauge) => {
  gauge.set({ state: 'busy' }, pool.totalCount - pool.idleCount);
  gauge.set({ state: 'idle' }, pool.idleCount);
  const forShare = countWaitingForShare(pool);
  gauge.set({ state: 'waiting' }, countWaiting(pool) - forShare);
  gauge.set({ state: 'waiting_for_share' }, forShare);
};
