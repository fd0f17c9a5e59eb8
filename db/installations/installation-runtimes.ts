/** The last reported state of each child process, for display only. */
import type { Pool } from 'pg';
import { isEpochHeldSql } from '../cluster/shards.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';

export const runtimeStates = ['starting', 'running', 'draining', 'backoff', 'failed', 'stopped'] as const;
export type RuntimeState = (typeof runtimeStates)[number];
export interface LastExit {
  readonly at: string;
  readonly reason: string;
  readonly code?: number | null;
  readonly signal?: string | null;
}
export interface Runtime {
  readonly installationId: string;
  readonly state: RuntimeState;
  readonly restarts: number;
  readonly lastExit: LastExit | null;
  readonly startedAt: string | null;
  readonly rssBytes: number | null;
  /** Its owner has a debugger attached, so deadlines may be suspended. */
  readonly inspected: boolean;
}
export interface OwnedRuntime extends Runtime {
  /** Epoch of the shard of its account. */
  readonly epoch: number;
}

/**
 * Writes many states in one statement. Skips installations that are removed or being removed, because the states of others must
 * not wait for a removal, and those of accounts that have another owner by now.
 */
export async function saveRuntimes(pool: Pool, runtimes: readonly OwnedRuntime[]): Promise<void> {
  if (runtimes.length === 0) return;
  await pool.query(
    `INSERT INTO installation_runtime (installation_id, state, restarts, last_exit, started_at, rss_bytes,
       inspected, lease)
     SELECT r.*
       FROM json_to_recordset($1::json) AS r("installationId" text, state text, restarts int, "lastExit" jsonb,
         "startedAt" timestamptz, "rssBytes" bigint, inspected boolean, epoch int)
       JOIN installations i ON i.id = r."installationId" AND i.status <> 'uninstalling'
       JOIN shards s ON s.id = account_shard(i.account_id) AND s.epoch = r.epoch
      -- Others lock several installations or states in this order, too.
      ORDER BY i.id
        FOR KEY SHARE OF i
     ON CONFLICT (installation_id) DO UPDATE
       SET state = excluded.state, restarts = excluded.restarts, last_exit = excluded.last_exit,
           started_at = excluded.started_at, rss_bytes = excluded.rss_bytes, inspected = excluded.inspected,
           lease = excluded.lease, updated_at = now()`,
    [JSON.stringify(runtimes)],
  );
}

/** Marks the children of supervisors that are gone as stopped. */
export async function resetRuntimes(pool: Pool): Promise<void> {
  await pool.query(
    `WITH left_over AS MATERIALIZED (
       SELECT installation_id AS id FROM installation_runtime
        WHERE state <> 'stopped' AND (lease IS NULL OR NOT ${isEpochHeldSql('lease')}) ORDER BY installation_id FOR UPDATE)
     UPDATE installation_runtime SET state = 'stopped', started_at = NULL, rss_bytes = NULL, inspected = false,
            updated_at = now()
       FROM left_over WHERE installation_id = left_over.id`,
  );
}

/**
 * Marks an installation as failed, or as ready again. Other states, such as a pause by the user, stay.
 *
 * @param reason shown to the user; null: ready again
 */
export function markFailed(pool: WritingPool, installationId: string, reason: string | null): Promise<void> {
  const [before, after] = reason === null ? ['failed', 'ready'] : ['ready', 'failed'];
  return inTransaction(pool, async (tx) => {
    const sql = 'UPDATE installations SET status = $2, status_reason = $3 WHERE id = $1 AND status = $4';
    await tx.query(sql, [installationId, after, reason, before]);
  });
}
