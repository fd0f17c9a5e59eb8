/** Log lines of plugins: written in batches, read newest first, kept for a day. */
import type { Pool } from 'pg';
import type { LogLevel } from '../../sdk/contract/protocol.ts';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import type { Listener, Subscription } from '../postgres/listener.ts';
import { maintainPartitions, type PartitionedTable } from './partitions.ts';

const HOUR_MS = 3_600_000;
/** The specification's retention. Exact for readers; on disk a line lives up to an hour longer. */
const RETENTION_HOURS = 24;
const table: PartitionedTable = {
  table: 'plugin_logs',
  widthMs: HOUR_MS,
  ahead: 3,
  retentionMs: RETENTION_HOURS * HOUR_MS,
};

/** Channel of "new lines of this installation", never with the lines. */
const WRITTEN = 'bulkhead_logs';
const COLUMNS = `id, at, level, message, data, installation_id AS "installationId", session_id AS "sessionId", source,
  invocation_id AS "invocationId", version_id AS "versionId", semver AS "semVer", truncated`;

export interface LogLine {
  /** Made in order by the writing process; sorts like the lines were written. */
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
export interface LogQuery extends LogFilter {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Makes the hours ahead and drops the hours past retention. Run at start and every few minutes. */
export const maintainLogs = (pool: Pool, now: number = Date.now()): Promise<void> =>
  maintainPartitions(pool, table, now);

/** Writes a batch in one statement, whatever its size, and wakes those who follow its installations. */
export async function insertLogs(pool: Pool, lines: readonly LogLine[]): Promise<void> {
  if (lines.length === 0) return;
  const column = <Key extends keyof LogLine>(key: Key) => lines.map((line) => line[key]);
  await pool.query(
    `WITH written AS (
       INSERT INTO plugin_logs (id, at, level, message, data, installation_id, session_id, source, invocation_id,
         version_id, semver, truncated)
       SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::text[],
         $8::text[], $9::text[], $10::text[], $11::text[], $12::boolean[])
       RETURNING installation_id)
     SELECT pg_notify('${WRITTEN}', installation_id) FROM written GROUP BY installation_id`,
    [
      column('id'),
      column('at'),
      column('level'),
      column('message'),
      column('data'),
      column('installationId'),
      column('sessionId'),
      column('source'),
      column('invocationId'),
      column('versionId'),
      column('semVer'),
      column('truncated'),
    ],
  );
}

/** One page of an installation's lines, newest first. */
export async function pageLogs(pool: Pool, query: LogQuery): Promise<Page<StoredLogLine>> {
  const found = await pool.query<StoredLogLine & { at: Date }>(
    `SELECT ${COLUMNS} FROM plugin_logs
      WHERE installation_id = $1 AND at > now() - interval '${RETENTION_HOURS} hours'
        AND ($2::text[] IS NULL OR level = ANY ($2)) AND ($3::text IS NULL OR session_id = $3)
        AND ($4::text IS NULL OR id < $4)
      ORDER BY id DESC LIMIT $5`,
    [
      query.installationId,
      query.levels?.length ? query.levels : null,
      query.sessionId ?? null,
      decodeCursor(query.cursor),
      query.limit + 1,
    ],
  );
  const rows = found.rows.map((row) => ({ ...row, at: new Date(row.at).toISOString() }));
  return toPage(rows, query.limit, (row) => row.id);
}

/** Where to go on reading forwards. */
export interface LogPosition {
  /** Lines with a greater id follow. */
  readonly after: string;
  /** Lines of it that were read already. */
  readonly without: readonly string[];
  /** Lines written before it are none of those, so that old partitions stay unread. Milliseconds since 1970. */
  readonly since: number;
}

/** The next lines of an installation, oldest first. */
export async function readLogs(
  pool: Pool,
  filter: LogFilter,
  position: LogPosition,
  limit: number,
): Promise<StoredLogLine[]> {
  const found = await pool.query<StoredLogLine & { at: Date }>(
    `SELECT ${COLUMNS} FROM plugin_logs
      WHERE installation_id = $1 AND at > now() - interval '${RETENTION_HOURS} hours' AND at > $2
        AND ($3::text[] IS NULL OR level = ANY ($3)) AND ($4::text IS NULL OR session_id = $4)
        AND id > $5 AND id <> ALL ($6::text[])
      ORDER BY id LIMIT $7`,
    [
      filter.installationId,
      new Date(position.since),
      filter.levels?.length ? filter.levels : null,
      filter.sessionId ?? null,
      position.after,
      position.without,
      limit,
    ],
  );
  return found.rows.map((row) => ({ ...row, at: new Date(row.at).toISOString() }));
}

/** The id of an installation's newest line, whatever its level; null without any. */
export async function findNewestLogId(pool: Pool, installationId: string): Promise<string | null> {
  const found = await pool.query<{ id: string }>(
    `SELECT id FROM plugin_logs WHERE installation_id = $1 AND at > now() - interval '${RETENTION_HOURS} hours'
      ORDER BY id DESC LIMIT 1`,
    [installationId],
  );
  return found.rows[0]?.id ?? null;
}

/** Subscribes to "new lines". `onEverything` follows a lost connection: notices may have been missed. */
export function subscribeToLogs(
  listener: Listener,
  onWritten: (installationId: string) => void,
  onEverything: () => void,
): Promise<Subscription> {
  return listener.listen(WRITTEN, { onNotification: onWritten, onReconnect: onEverything });
}
