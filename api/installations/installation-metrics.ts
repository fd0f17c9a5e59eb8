/** Reads the metrics of an installation: every point of a range, the handlers of its version, and those called in the range. */
import type { Pool } from 'pg';
import type { z } from 'zod';
import {
  type HandlerSums,
  listHandlers,
  type MetricsRange,
  type Point,
  readHandlers,
  readLastCalls,
  readPoints,
} from '../../db/records/rollups.ts';
import type { metricsResource } from './metric-resource.ts';

/** Points without activity are zero. */
export async function readInstallationMetrics(
  pool: Pool,
  installationId: string,
  range: MetricsRange,
): Promise<z.input<typeof metricsResource>> {
  // One after the other: a request holds one connection.
  const points = await readPoints(pool, installationId, range);
  const called = await readHandlers(pool, installationId, range);
  const handlers = await listHandlers(pool, installationId);
  const lastCalls = await readLastCalls(pool, installationId, range.sumsMax);
  const known = new Map(points.map((point) => [Date.parse(point.at), point]));
  const all: Point[] = [];
  for (let at = range.from; at < range.to; at += range.stepMs) all.push(known.get(at) ?? nothingAt(at));
  const lastAt = new Map(lastCalls.map(({ kind, name, at }) => [`${kind} ${name}`, at]));
  const rows = new Map<string, Omit<HandlerSums, 'lastAt'>>();
  for (const { kind, name } of handlers) rows.set(`${kind} ${name}`, { kind, name, ...neverCalled });
  for (const { lastAt: _, ...sums } of called) rows.set(`${sums.kind} ${sums.name}`, sums);
  return {
    from: new Date(range.from).toISOString(),
    to: new Date(range.to).toISOString(),
    stepSeconds: range.stepMs / 1000,
    points: all,
    handlers: [...rows].map(([key, sums]) => ({ ...sums, lastAt: lastAt.get(key) ?? null })),
  };
}

const neverCalled = { calls: 0, errors: 0, timeouts: 0, cancels: 0, p50Ms: null, p95Ms: null };
const nothingAt = (at: number): Point => ({
  at: new Date(at).toISOString(),
  calls: 0,
  errors: 0,
  timeouts: 0,
  p50Ms: null,
  p95Ms: null,
  hostCalls: 0,
  denials: 0,
  logLines: 0,
  droppedLines: 0,
  restarts: 0,
  processorMs: 0,
  memoryMaxBytes: 0,
});
