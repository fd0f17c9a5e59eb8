/** The audit log: every host call and denial, without its content. */

import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { type PageQuery, readPage } from '../postgres/rows.ts';
import {
  createPartitions,
  GIVEN_TIME,
  insertIntoPartitions,
  maintainPartitions,
  type PartitionedTable,
  withoutStoredSql,
} from './partitions.ts';

const DAY_MS = 86_400_000;
/** Long enough to investigate an incident weeks later, and limited because entries are personal data. */
const RETENTION_DAYS = 30;
const table: PartitionedTable = {
  table: 'audit',
  usage: 'audit',
  widthMs: DAY_MS,
  ahead: 2,
  retentionMs: RETENTION_DAYS * DAY_MS,
};

export type AuditOutcome = 'ok' | 'denied' | 'failed' | 'timeout' | 'cancelled';
export interface AuditEntry {
  readonly id: string;
  readonly at: string;
  readonly installationId: string;
  readonly sessionId: string | null;
  readonly invocationId: string | null;
  readonly member: string;
  readonly outcome: AuditOutcome;
  readonly durationMs: number;
  /** Hex SHA-256 of the arguments' JSON: shows which calls were equal. */
  readonly argumentsSha256: string | null;
  readonly detail: string | null;
}

export const createAuditPartitions = (pool: Pool): Promise<void> => createPartitions(pool, table);

/** Creates partitions ahead and drops those past retention. Run every few minutes. */
export const maintainAudit = (pool: Pool, at?: number): Promise<void> => maintainPartitions(pool, table, at);

/** @param isRetry an earlier insert may have stored these entries: skips those that are stored */
export async function insertAudit(pool: Pool, entries: readonly AuditEntry[], isRetry = false): Promise<void> {
  if (entries.length === 0) return;
  const sql = `INSERT INTO audit (id, at, installation_id, session_id, invocation_id, member, outcome, duration_ms,
     arguments_sha256, detail, account_id)
   SELECT g.id, ${GIVEN_TIME}, g."installationId", g."sessionId", g."invocationId", g.member, g.outcome, g."durationMs",
     g."argumentsSha256", g.detail, (SELECT i.account_id FROM installations i WHERE i.id = g."installationId")
     FROM json_to_recordset($1::json) AS g(id text, at timestamptz, "installationId" text, "sessionId" text,
       "invocationId" text, member text, outcome text, "durationMs" real, "argumentsSha256" text, detail text)
       ${isRetry ? withoutStoredSql(table) : ''}`;
  const times = entries.map(({ at }) => at);
  await insertIntoPartitions(pool, table, times, () => pool.query(sql, [JSON.stringify(entries)]));
}

/** Newest first. */
export const pageAudit = (
  pool: Pool,
  query: PageQuery & { readonly installationId: string },
): Promise<Page<AuditEntry>> =>
  readPage(
    pool,
    `SELECT id, at, installation_id AS "installationId", session_id AS "sessionId", invocation_id AS "invocationId",
       member, outcome, duration_ms AS "durationMs", arguments_sha256 AS "argumentsSha256", detail
       FROM audit WHERE installation_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [query.installationId],
    query,
  );
