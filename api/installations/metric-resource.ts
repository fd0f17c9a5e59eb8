/** Requests and representations of an installation's metrics. */

import { z } from 'zod';
import { type MetricsRange, MINUTE_MS } from '../../db/records/rollups.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { timestamp } from '../../service/http/schemas.ts';

/** Maximum number of points: more than a chart can show. */
const POINTS_MAX = 1_500;
const POINTS_DEFAULT = 60;
const SPAN_DEFAULT_MS = 60 * MINUTE_MS;
const STEP_MAX_S = 31 * 86_400;

/** A range must stay within the years that a timestamp can name when it is rounded to whole steps. */
const [TIME_MIN, TIME_MAX] = [Date.parse('1970-01-02T00:00:00Z'), Date.parse('3000-01-01T00:00:00Z')];

const time = z.iso
  .datetime({ offset: true, error: 'must be a timestamp such as 2026-11-21T12:00:00Z' })
  .refine((text) => Date.parse(text) >= TIME_MIN && Date.parse(text) <= TIME_MAX, 'must be between 1970 and 3000');

export const metricsQuery = z.object({
  from: time.optional().describe('Default: an hour before `to`.'),
  to: time.optional().describe('Default: now. Not part of the range.'),
  step: z.coerce
    .number({ error: 'must be a whole number' })
    .int('must be a whole number')
    .min(60, 'must be at least 60')
    .max(STEP_MAX_S, `must be at most ${STEP_MAX_S}`)
    .multipleOf(60, 'must be whole minutes')
    .optional()
    .describe('Seconds per point, in whole minutes. Default: about 60 points.'),
});

const count = z.number().int().nonnegative();
const milliseconds = z.number().nonnegative().nullable();
const duration = {
  p50Ms: milliseconds.describe('Median duration, estimated from a histogram. Null without calls.'),
  p95Ms: milliseconds,
};

export const metricsResource = z
  .strictObject({
    from: timestamp,
    to: timestamp,
    stepSeconds: count,
    points: z.array(
      z.strictObject({
        at: timestamp,
        calls: count,
        errors: count.describe('Failed calls, including those of an unavailable plugin.'),
        timeouts: count,
        ...duration,
        hostCalls: count,
        denials: count,
        logLines: count,
        droppedLines: count,
        restarts: count,
        processorMs: z.number().nonnegative(),
        memoryMaxBytes: count,
      }),
    ),
    handlers: z.array(
      z.strictObject({
        kind: z.string().describe('hook, event, channel, tools, commands or providers.'),
        name: z
          .string()
          .describe(
            '`(other)`: the handlers of this kind after the first 100 of the installation, or the first 500 of its account, in a minute.',
          ),
        calls: count,
        errors: count,
        timeouts: count,
        cancels: count,
        ...duration,
        lastAt: timestamp.nullable().describe('Time of the last call within the retention; null: none.'),
      }),
    ),
  })
  .meta({ id: 'InstallationMetrics' });

/** Computes the range of a query in whole steps. @throws Problem `bad_request` */
export function resolveRange(query: z.output<typeof metricsQuery>, now: number): MetricsRange {
  const end = query.to === undefined ? now : Date.parse(query.to);
  const start = query.from === undefined ? end - SPAN_DEFAULT_MS : Date.parse(query.from);
  if (start >= end) throw new Problem('bad_request', '`from` must be before `to`.');
  const chosen = Math.max(1, Math.ceil((end - start) / POINTS_DEFAULT / MINUTE_MS)) * MINUTE_MS;
  const stepMs = query.step === undefined ? chosen : query.step * 1000;
  const range = { from: Math.floor(start / stepMs) * stepMs, to: Math.ceil(end / stepMs) * stepMs, stepMs };
  if ((range.to - range.from) / stepMs > POINTS_MAX) {
    throw new Problem(
      'bad_request',
      `The range has more than ${POINTS_MAX} points. Use a shorter range or a longer step.`,
    );
  }
  return range;
}
