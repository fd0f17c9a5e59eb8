/** Metrics of installations, summed by the minute: supervisors add to them, the API reads them. */

import type { Pool } from 'pg';
import { registrations } from '../../sdk/contract/protocol.ts';
import { inCertainTransaction } from '../postgres/certain-transaction.ts';
import { deleteOldRows } from '../postgres/old-rows.ts';
import { findValue, listRows } from '../postgres/rows.ts';
import { estimatePercentile, SUM_BUCKETS_SQL } from './duration-histogram.ts';

export const MINUTE_MS = 60_000;

/** Calls of one handler in one minute. */
export interface CallSums {
  readonly installationId: string;
  /** ISO 8601, a whole minute. */
  readonly minute: string;
  readonly kind: string;
  readonly name: string;
  readonly calls: number;
  readonly errors: number;
  readonly timeouts: number;
  readonly cancels: number;
  readonly durationMs: number;
  readonly buckets: readonly number[];
  readonly lastAt: string;
}
/** Resource use of an installation in one minute. */
export interface UsageSums {
  readonly installationId: string;
  readonly minute: string;
  readonly hostCalls: number;
  readonly denials: number;
  readonly logLines: number;
  readonly droppedLines: number;
  readonly restarts: number;
  readonly processorMs: number;
  readonly memoryMax: number;
}

/**
 * Locks the installations, so that their rows can refer to them. Always in the order of ids, so that two supervisors cannot
 * deadlock. Without those that are being removed, whose sums go with them: a removal may take long.
 */
const LOCK_INSTALLATIONS = `JOIN (SELECT id FROM installations
                      WHERE id IN (SELECT "installationId" FROM given) AND status <> 'uninstalling'
                      ORDER BY id FOR KEY SHARE) i ON i.id = g."installationId"`;

/** Adds to the stored sums. Skips installations that are removed, or being removed. @throws Error if they were not added */
export const addCallSums = (pool: Pool, sums: readonly CallSums[]): Promise<void> =>
  addSums(
    pool,
    sums,
    `WITH given AS (SELECT * FROM json_to_recordset($1::json) AS r("installationId" text, minute timestamptz, kind text,
       name text, calls int, errors int, timeouts int, cancels int, "durationMs" float8, buckets int[], "lastAt" timestamptz))
     INSERT INTO call_minutes AS t SELECT g.* FROM given g ${LOCK_INSTALLATIONS} ORDER BY 1, 2, 3, 4
     ON CONFLICT (installation_id, minute, kind, name) DO UPDATE
       SET calls = t.calls + excluded.calls, errors = t.errors + excluded.errors,
           timeouts = t.timeouts + excluded.timeouts, cancels = t.cancels + excluded.cancels,
           duration_ms = t.duration_ms + excluded.duration_ms, last_at = greatest(t.last_at, excluded.last_at),
           buckets = (SELECT array_agg(a + b ORDER BY at)
                        FROM unnest(t.buckets, excluded.buckets) WITH ORDINALITY AS s(a, b, at))`,
  );

/** As `addCallSums`. */
export const addUsageSums = (pool: Pool, sums: readonly UsageSums[]): Promise<void> =>
  addSums(
    pool,
    sums,
    `WITH given AS (SELECT * FROM json_to_recordset($1::json) AS r("installationId" text, minute timestamptz,
       "hostCalls" int, denials int, "logLines" int, "droppedLines" int, restarts int, "processorMs" float8,
       "memoryMax" bigint))
     INSERT INTO usage_minutes AS t SELECT g.* FROM given g ${LOCK_INSTALLATIONS} ORDER BY 1, 2
     ON CONFLICT (installation_id, minute) DO UPDATE
       SET host_calls = t.host_calls + excluded.host_calls, denials = t.denials + excluded.denials,
           log_lines = t.log_lines + excluded.log_lines, dropped_lines = t.dropped_lines + excluded.dropped_lines,
           restarts = t.restarts + excluded.restarts, processor_ms = t.processor_ms + excluded.processor_ms,
           memory_max = greatest(t.memory_max, excluded.memory_max)`,
  );

/** Sums that could not be added are added later, so those that were added must not seem to have failed. */
const addSums = (pool: Pool, sums: readonly object[], sql: string): Promise<void> =>
  inCertainTransaction(pool, async (tx) => void (await tx.query(sql, [JSON.stringify(sums)])));

export async function sweepRollups(pool: Pool, retentionDays: number): Promise<void> {
  for (const table of ['call_minutes', 'usage_minutes'])
    await deleteOldRows(pool, table, 'minute', 'minute < now() - make_interval(days => $1)', [retentionDays]);
}

export interface MetricsRange {
  /** Milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
  /** Width of one point, milliseconds; a whole number of minutes. */
  readonly stepMs: number;
  /** Maximum stored sums that one statement reads, the newest first. Default: `SUMS_MAX`. */
  readonly sumsMax?: number;
}
/** Sums from `at` on, for the width of one step. */
export interface Point
  extends Pick<CallSums, 'calls' | 'errors' | 'timeouts'>,
    Omit<UsageSums, 'installationId' | 'minute' | 'memoryMax'> {
  readonly at: string;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly memoryMaxBytes: number;
}
type PointRow = Omit<Point, 'p50Ms' | 'p95Ms'> & { readonly buckets: number[] | null };

/** There is one for each handler and minute in which it ran: enough for two weeks of 14 handlers that are called in every minute. */
const SUMS_MAX = 300_000;
/** Maximum number of handlers in the result: more than the versions of a plugin register. */
const HANDLERS_MAX = 10_000;
const selectNewest = (table: 'call_minutes' | 'usage_minutes', condition: string, sumsMax = SUMS_MAX): string =>
  `(SELECT * FROM ${table} WHERE ${condition} ORDER BY minute DESC LIMIT ${sumsMax}) AS newest`;
const WITHIN = 'installation_id = $1 AND minute >= $2 AND minute < $3';
/** Points begin at whole steps since 1970, as those of the range do. */
const BIN = "date_bin(make_interval(secs => $4), minute, '1970-01-01Z')";
const sumSql = (column: string): string => `coalesce(sum(${column}), 0)::float8`;

/** Reads the points of a range, oldest first, without empty ones. */
export async function readPoints(
  pool: Pool,
  installationId: string,
  { from, to, stepMs, sumsMax }: MetricsRange,
): Promise<Point[]> {
  const found = await pool.query<PointRow>(
    `WITH c AS (SELECT ${BIN} AS at, ${sumSql('calls')} AS calls, ${sumSql('errors')} AS errors,
                       ${sumSql('timeouts')} AS timeouts, ${SUM_BUCKETS_SQL} AS buckets FROM ${selectNewest('call_minutes', WITHIN, sumsMax)} GROUP BY 1),
          u AS (SELECT ${BIN} AS at, ${sumSql('host_calls')} AS "hostCalls", ${sumSql('denials')} AS denials,
                       ${sumSql('log_lines')} AS "logLines", ${sumSql('dropped_lines')} AS "droppedLines",
                       ${sumSql('restarts')} AS restarts, ${sumSql('processor_ms')} AS "processorMs",
                       max(memory_max)::float8 AS "memoryMaxBytes" FROM ${selectNewest('usage_minutes', WITHIN, sumsMax)}
                      GROUP BY 1)
     SELECT at, coalesce(calls, 0) AS calls, coalesce(errors, 0) AS errors, coalesce(timeouts, 0) AS timeouts,
            coalesce("hostCalls", 0) AS "hostCalls", coalesce(denials, 0) AS denials,
            coalesce("logLines", 0) AS "logLines", coalesce("droppedLines", 0) AS "droppedLines",
            coalesce(restarts, 0) AS restarts, coalesce("processorMs", 0) AS "processorMs",
            coalesce("memoryMaxBytes", 0) AS "memoryMaxBytes", buckets
       FROM c FULL JOIN u USING (at) ORDER BY at`,
    [installationId, new Date(from), new Date(to), stepMs / 1000],
  );
  return found.rows.map(({ buckets, ...sums }) => ({ ...sums, ...estimatePercentiles(buckets) }));
}

/** The calls of one handler over a range. */
export interface HandlerSums extends Omit<CallSums, 'installationId' | 'minute' | 'durationMs' | 'buckets'> {
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
}

/** Reads the handlers that were called within a range, by kind and name. */
export async function readHandlers(
  pool: Pool,
  installationId: string,
  { from, to, sumsMax }: Omit<MetricsRange, 'stepMs'>,
): Promise<HandlerSums[]> {
  const found = await pool.query<HandlerSums & { buckets: number[] }>(
    `SELECT kind, name, ${sumSql('calls')} AS calls, ${sumSql('errors')} AS errors, ${sumSql('timeouts')} AS timeouts,
            ${sumSql('cancels')} AS cancels, max(last_at) AS "lastAt", ${SUM_BUCKETS_SQL} AS buckets
       FROM ${selectNewest('call_minutes', WITHIN, sumsMax)}
      GROUP BY kind, name ORDER BY kind, name LIMIT ${HANDLERS_MAX}`,
    [installationId, new Date(from), new Date(to)],
  );
  return found.rows.map(({ buckets, ...sums }) => ({ ...sums, ...estimatePercentiles(buckets) }));
}

export const estimatePercentiles = (buckets: readonly number[] | null) => ({
  p50Ms: estimatePercentile(buckets, 0.5),
  p95Ms: estimatePercentile(buckets, 0.95),
});

interface Handler {
  readonly kind: string;
  readonly name: string;
}

/** Lists the handlers that an installation's version registers. */
export async function listHandlers(pool: Pool, installationId: string): Promise<Handler[]> {
  const found = await findValue(
    pool,
    'SELECT v.registrations FROM installations i JOIN versions v ON v.id = i.current_version_id WHERE i.id = $1',
    [installationId],
  );
  const parsed = registrations.safeParse(found);
  if (!parsed.success) return [];
  const { hooks, events, channel, tools, commands, providers } = parsed.data;
  const channelHandlers = Object.entries(channel).flatMap(([name, registered]) => (registered === true ? [name] : []));
  const namesByKind = {
    hook: hooks,
    event: events,
    channel: channelHandlers,
    tools: Object.keys(tools),
    commands: Object.keys(commands),
    providers: Object.keys(providers),
  };
  return Object.entries(namesByKind).flatMap(([kind, names]) => names.map((name) => ({ kind, name })));
}

/** Reads when each handler was called last, within the retention. */
export const readLastCalls = (
  pool: Pool,
  installationId: string,
  sumsMax?: number,
): Promise<(Handler & { readonly at: string })[]> =>
  listRows(
    pool,
    `SELECT kind, name, max(last_at) AS at FROM ${selectNewest('call_minutes', 'installation_id = $1', sumsMax)}
      GROUP BY kind, name ORDER BY kind, name LIMIT ${HANDLERS_MAX}`,
    [installationId],
  );
