/** Metrics of a process's database connections. */
import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { countWaiting } from '../../db/postgres/pool.ts';

export const poolMetrics = {
  bulkhead_database_connections: {
    type: 'gauge',
    help: 'Database connections of the process: busy, idle, and requests waiting for one.',
    labels: ['state'],
  },
} as const;

export const readPoolUse = (pool: Pick<Pool, 'totalCount' | 'idleCount' | 'waitingCount'>) => (gauge: Gauge) => {
  gauge.set({ state: 'busy' }, pool.totalCount - pool.idleCount);
  gauge.set({ state: 'idle' }, pool.idleCount);
  gauge.set({ state: 'waiting' }, countWaiting(pool));
};
