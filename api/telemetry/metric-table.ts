/** Declares every metric of the API process. docs/metrics.md is generated from this table. */

import { readyMetrics } from '../../service/lifecycle/readiness.ts';
import { bucketMetrics } from '../../service/storage/bucket-watch.ts';
import { diskMetrics } from '../../service/telemetry/disk-use.ts';
import type { MetricTable } from '../../service/telemetry/meters.ts';
import { poolMetrics } from '../../service/telemetry/pool-use.ts';

/** Seconds. Reads take milliseconds, publishes seconds. */
const BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

export const apiMetrics = {
  bulkhead_http_request_seconds: {
    type: 'histogram',
    help: 'Time to answer a request, by route. Status 499: the client left before the answer.',
    labels: ['method', 'route', 'status'],
    buckets: BUCKETS,
  },
  bulkhead_webhook_answer_seconds: {
    type: 'histogram',
    help: 'Time to store and answer a webhook request. Status 499: the client left before the answer.',
    labels: ['status'],
    buckets: BUCKETS,
  },
  bulkhead_webhooks_waiting: {
    type: 'gauge',
    help: 'Webhook requests in memory that wait to be stored.',
    labels: [],
  },
  bulkhead_spool_bytes: {
    type: 'gauge',
    help: 'Size of the webhook requests on disk that wait for the database.',
    labels: [],
  },
  bulkhead_spool_kept_files: {
    type: 'gauge',
    help: 'Files of accepted webhook requests that were not delivered, kept for an operator: refused by the database, or damaged on the disk.',
    labels: ['kind'],
  },
  bulkhead_bundler_busy: { type: 'gauge', help: 'Builds under way.', labels: [] },
  bulkhead_bundler_queue: { type: 'gauge', help: 'Builds that wait for a thread.', labels: [] },
  ...readyMetrics,
  ...poolMetrics,
  ...diskMetrics,
  ...bucketMetrics,
} as const satisfies MetricTable;
