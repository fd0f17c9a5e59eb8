/** Metrics of the API process, labelled by route pattern and never by caller input. */
import type { Pool } from 'pg';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { type Checks, setReady } from '../../service/lifecycle/readiness.ts';
import { bucketReaders } from '../../service/storage/bucket-watch.ts';
import { diskReaders } from '../../service/telemetry/disk-use.ts';
import { openMeters } from '../../service/telemetry/meters.ts';
import { readPoolUse } from '../../service/telemetry/pool-use.ts';
import { apiMetrics } from './metric-table.ts';

export interface Metrics {
  readonly registry: Registry;
  /** @param ms from the first byte of the request to the last byte of the response */
  answered(method: string, route: string | undefined, status: number, ms: number): void;
  /** @param ms from the arrival of a webhook request to its response */
  webhookAnswered(status: number, ms: number): void;
  readyChecked(checks: Checks): void;
}
/** Sources of the values that are read at each scrape. */
interface Gauges {
  readonly pool: Pick<Pool, 'totalCount' | 'idleCount' | 'waitingCount'>;
  readonly dataDir: string;
  bundler(): { readonly busy: number; readonly waiting: number };
  intake(): { readonly waiting: number; readonly spoolBytes: number };
  /** Files of the spool that are kept for an operator, by kind. */
  keptFiles(): Promise<Readonly<Record<string, number>>>;
  isBlobStoreAvailable(): boolean;
}

export function createMetrics(gauges: Gauges): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const all = openMeters(registry, apiMetrics, {
    bulkhead_webhooks_waiting: (gauge) => gauge.set(gauges.intake().waiting),
    bulkhead_spool_bytes: (gauge) => gauge.set(gauges.intake().spoolBytes),
    bulkhead_spool_kept_files: async (gauge) => {
      for (const [kind, count] of Object.entries(await gauges.keptFiles())) gauge.set({ kind }, count);
    },
    bulkhead_bundler_busy: (gauge) => gauge.set(gauges.bundler().busy),
    bulkhead_bundler_queue: (gauge) => gauge.set(gauges.bundler().waiting),
    bulkhead_database_connections: readPoolUse(gauges.pool),
    ...diskReaders(gauges.dataDir),
    ...bucketReaders(gauges.isBlobStoreAvailable),
  });
  return {
    registry,
    readyChecked: (checks) => setReady(all.bulkhead_ready, checks),
    webhookAnswered: (status, ms) => all.bulkhead_webhook_answer_seconds.observe({ status: String(status) }, ms / 1000),
    answered: (method, route, status, ms) =>
      all.bulkhead_http_request_seconds.observe(
        { method, route: route ?? 'unknown', status: String(status) },
        ms / 1000,
      ),
  };
}
