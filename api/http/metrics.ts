/** Numbers for operators, by route pattern: never by id, slug or anything a caller makes up. */
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';

/** Seconds. Reads take milliseconds, publishes seconds. */
const BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

export interface Metrics {
  readonly registry: Registry;
  /** @param ms from the request's first byte to the answer's last */
  answered(method: string, route: string | undefined, status: number, ms: number): void;
  /** @param ms from a webhook request's arrival to its answer */
  webhookAnswered(status: number, ms: number): void;
}

/** Makes the process's metrics. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requests = new Histogram({
    name: 'bulkhead_http_request_seconds',
    help: 'Time to answer a request, by route.',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [registry],
  });
  const webhooks = new Histogram({
    name: 'bulkhead_webhook_answer_seconds',
    help: 'Time to take in and answer a webhook request.',
    labelNames: ['status'],
    buckets: BUCKETS,
    registers: [registry],
  });
  return {
    registry,
    webhookAnswered: (status, ms) => webhooks.observe({ status: String(status) }, ms / 1000),
    answered: (method, route, status, ms) =>
      requests.observe({ method, route: route ?? 'unknown', status: String(status) }, ms / 1000),
  };
}
