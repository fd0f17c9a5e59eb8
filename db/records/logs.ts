/** Log lines of plugins: writes batches, reads pages, reads forwards, and drops lines after a day. */

import type { Pool } from 'pg';
import type { LogLevel } from '../../sdk/contract/protocol.ts';
import type { Page } from '../postgres/cursors.ts';
import { subscribeTo } from '../postgres/notifications.ts';
import { readIdTime } from '../postgres/ordered-id.ts';
import { TAIL_BATCH_BYTES } from '../postgres/row-tail.ts';
import {
  countBytes,
  findValue,
  listRows,
  listValues,
  type PageQuery,
  readFilteredPage,
  weighJsonSql,
} from '../postgres/rows.ts';
import {
  createPartitions,
  GIVEN_TIME,
  insertIntoPartitions,
  maintainPartitions,
  type PartitionedTable,
  withoutStoredSql,
} from './partitions.ts';

const HOUR_MS = 3_600_000;
/** Readers never see an older line. On disk, a line remains up to an hour longer, until its partition is dropped. */
const RETENTION_HOURS = 24;
const table: PartitionedTable = {
  table: 'plugin_logs',
  usage: 'logs',
  widthMs: HOUR_MS,
  ahead: 3,
  retentionMs: RETENTION_HOURS * HOUR_MS,
};

/** Notification channel; the payload is the installation id. */
const NEW_LINES = 'bulkhead_logs';
const selectColumns = (message: string, data: string): string =>
  `id, at, level, ${message}, ${data}, installation_id AS "installationId", session_id AS "sessionId", source,
  invocation_id AS "invocationId", version_id AS "versionId", semver AS "semVer", truncated`;
const COLUMNS = selectColumns('message', 'data');
/** Maximum difference between a line's time and the time in its id, while no clock steps. Milliseconds. */
const CLOCK_SLACK_MS = 60_000;
/** Lines that one read of a stream looks through for those that its filter wants. */
const WINDOW = 1_000;

export interface LogLine {
  /** Sorts in the order in which its process wrote the lines. */
  readonly id: string;
  readonly at: string;
  readonly level: LogLevel;
  readonly message: string;
  /** JSON text, or null. */
  readonly data: string | null;
  readonly installationId: string;
  readonly sessionId: string | null;
  readonly source: string;
  readonly invocationId: string | null;
  readonly versionId: string | null;
  readonly semVer: string | null;
  readonly truncated: boolean;
}
export interface StoredLogLine extends Omit<LogLine, 'data'> {
  readonly data: unknown;
}
export interface LogFilter {
  readonly installationId: string;
  readonly levels?: readonly LogLevel[] | undefined;
  readonly sessionId?: string | undefined;
}
export const createLogPartitions = (pool: Pool): Promise<void> => createPartitions(pool, table);

/** Creates partitions ahead and drops those past retention. Run every few minutes. */
export const maintainLogs = (pool: Pool, at?: number): Promise<void> => maintainPartitions(pool, table, at);

/**
 * Inserts a batch in one statement and notifies the log streams of its installations.
 *
 * @param isRetry an earlier insert may have stored these lines: skips those that are stored
 */
export async function insertLogs(pool: Pool, lines: readonly LogLine[], isRetry = false): Promise<void> {
  if (lines.length === 0) return;
  const sql = `WITH written AS (
     INSERT INTO plugin_logs (id, at, level, message, data, installation_id, session_id, source, invocation_id,
       version_id, semver, truncated, account_id)
     SELECT g.id, ${GIVEN_TIME}, g.level, g.message, g.data::jsonb, g."installationId", g."sessionId", g.source, g."invocationId",
       g."versionId", g."semVer", g.truncated, (SELECT i.account_id FROM installations i WHERE i.id = g."installationId")
       FROM json_to_recordset($1::json) AS g(id text, at timestamptz, level text, message text, data text,
         "installationId" text, "sessionId" text, source text, "invocationId" text, "versionId" text, "semVer" text,
         truncated boolean)
       ${isRetry ? withoutStoredSql(table) : ''}
     RETURNING installation_id)
   SELECT pg_notify('${NEW_LINES}', installation_id) FROM written GROUP BY installation_id`;
  const times = lines.map(({ at }) => at);
  await insertIntoPartitions(pool, table, times, () => pool.query(sql, [JSON.stringify(lines)]));
}

/** `stored_bytes` counts 400 for the columns of bounded size, which are not JSON. */
const BYTES = `octet_length(message) + 400 + ${weighJsonSql('(stored_bytes - octet_length(message) - 400)')}`;

/** Newest first. */
export const pageLogs = (pool: Pool, query: LogFilter & PageQuery): Promise<Page<StoredLogLine>> =>
  readFilteredPage<StoredLogLine>(
    pool,
    {
      columns: COLUMNS,
      table: 'l',
      rows: 'SELECT * FROM plugin_logs WHERE installation_id = $1',
      isWanted: `($2::text[] IS NULL OR level = ANY ($2)) AND ($3::text IS NULL OR session_id = $3)`,
      isKept: `at > now() - interval '${RETENTION_HOURS} hours'`,
      bytes: BYTES,
    },
    [query.installationId, query.levels?.length ? query.levels : null, query.sessionId ?? null],
    query,
  );

/** Where to continue reading forwards. */
interface LogPosition {
  /**
   * Read lines with a greater id. Lines older than it are skipped, so that old partitions are not read, but none of the last
   * `CLOCK_SLACK_MS`: their ids may be from before the clocks stepped back.
   */
  readonly after: string;
  /** Skip these lines, which were read already. */
  readonly without: readonly string[];
}

/** A line that a read has looked at. The others have neither message nor data. */
interface ScannedLogLine extends LogLine {
  readonly isWanted: boolean;
  /** Stored bytes of the wanted lines up to this one. */
  readonly bytesSoFar: number;
}
interface LogWindow {
  readonly lines: readonly ScannedLogLine[];
  /** Stored bytes of the wanted lines. */
  readonly bytes: number;
  /** Whether lines may follow. */
  readonly hasMore: boolean;
}

const WANTED_COLUMNS = selectColumns(
  'CASE WHEN is_wanted THEN message END AS message',
  'CASE WHEN is_wanted THEN data::text END AS data',
);

/**
 * Keeps a read of lines after an id out of the older partitions. The ids of the last `CLOCK_SLACK_MS` may be from before the
 * clocks stepped back.
 *
 * @param earliest parameter with the result of `earliestAfter`
 */
const isRecentSql = (earliest: string): string =>
  `at > now() - interval '${RETENTION_HOURS} hours' AND at > least(${earliest}, now() - interval '${CLOCK_SLACK_MS} ms')`;

const earliestAfter = (id: string): Date => new Date(Math.max(0, readIdTime(id) - CLOCK_SLACK_MS));

/**
 * Oldest first, with the lines that the filter leaves out, so that the next read does not look at them again. Ends early where
 * the wanted lines are large.
 */
export async function readLogs(
  pool: Pool,
  { installationId, levels = [], sessionId }: LogFilter,
  position: LogPosition,
  limit: number,
): Promise<LogWindow> {
  const window = levels.length > 0 || sessionId !== undefined ? WINDOW : limit;
  const lines = await listRows<ScannedLogLine>(
    pool,
    `SELECT ${WANTED_COLUMNS}, is_wanted AS "isWanted", bytes_so_far AS "bytesSoFar" FROM (
       SELECT *, count(*) FILTER (WHERE is_wanted) OVER (ORDER BY id) AS wanted,
              (sum(bytes) OVER (ORDER BY id))::int AS bytes_so_far FROM (
         SELECT *, CASE WHEN is_wanted THEN stored_bytes ELSE 0 END AS bytes FROM (
          SELECT *, ($3::text[] IS NULL OR level = ANY ($3)) AND ($4::text IS NULL OR session_id IS NOT DISTINCT FROM $4) AS is_wanted
            FROM plugin_logs
           WHERE installation_id = $1 AND ${isRecentSql('$2')} AND id > $5 AND id <> ALL ($6::text[])
           ORDER BY id LIMIT $7) AS scanned) AS sized) AS counted
      WHERE wanted <= $8 AND bytes_so_far - bytes < ${TAIL_BATCH_BYTES} ORDER BY id`,
    [
      installationId,
      earliestAfter(position.after),
      levels.length > 0 ? levels : null,
      sessionId ?? null,
      position.after,
      position.without,
      window,
      limit,
    ],
  );
  const bytes = countBytes(lines);
  const wanted = lines.filter(({ isWanted }) => isWanted).length;
  return { lines, bytes, hasMore: lines.length === window || wanted === limit || bytes >= TAIL_BATCH_BYTES };
}

export const findNewestLogId = (pool: Pool, installationId: string): Promise<string | null> =>
  findValue(
    pool,
    `SELECT id FROM plugin_logs WHERE installation_id = $1 AND at > now() - interval '${RETENTION_HOURS} hours'
      ORDER BY id DESC LIMIT 1`,
    [installationId],
  );

/** Lists the greatest ids after one up to another. */
export const listLogIds = (
  pool: Pool,
  { installationId, after, upTo }: { readonly installationId: string; readonly after: string; readonly upTo: string },
  limit: number,
): Promise<string[]> =>
  listValues(
    pool,
    `SELECT id FROM plugin_logs WHERE installation_id = $1 AND ${isRecentSql('$5')} AND id > $2 AND id <= $3
      ORDER BY id DESC LIMIT $4`,
    [installationId, after, upTo, limit, earliestAfter(after)],
  );

/** The notification carries the installation. */
export const subscribeToLogs = subscribeTo(NEW_LINES);
