/** Overviews for operators, in the command line and the console: child processes, plugin costs, dead letters. */

import type { Pool } from 'pg';
import type { Runtime } from '../installations/installation-runtimes.ts';
import { describeFailedUpdate, type FailedUpdate } from '../installations/installation-state.ts';
import { BLOCKED_REASON_SQL, RECEIVES_EVENTS_SQL } from '../installations/run-rule.ts';
import { listRows } from '../postgres/rows.ts';
import { SUM_BUCKETS_SQL } from './duration-histogram.ts';
import { estimatePercentiles } from './rollups.ts';

interface FleetRow extends Omit<Runtime, 'inspected'> {
  readonly slug: string;
  readonly account: string;
  readonly semVer: string | null;
  /** One sentence about the last update, if it failed: an older version runs. */
  readonly failedUpdate: string | null;
}

/**
 * Lists children by memory use, highest first.
 *
 * @param state null: all children except stopped ones, and those whose last update failed
 */
export async function listFleet(pool: Pool, state: string | null, limit: number): Promise<FleetRow[]> {
  const rows = await listRows<Omit<FleetRow, 'failedUpdate'> & { readonly failedUpdate: FailedUpdate | null }>(
    pool,
    `SELECT r.installation_id AS "installationId", p.slug, a.name AS account, v.semver AS "semVer", r.state, r.restarts,
            r.rss_bytes::float8 AS "rssBytes", r.started_at AS "startedAt", r.last_exit AS "lastExit",
            CASE WHEN i.failed_reason IS NOT NULL THEN jsonb_build_object(
              'semVer', f.semver, 'reason', i.failed_reason, 'rolledBack', i.rolled_back) END AS "failedUpdate"
       FROM installation_runtime r JOIN installations i ON i.id = r.installation_id
       JOIN plugins p ON p.id = i.plugin_id JOIN accounts a ON a.id = i.account_id
       LEFT JOIN versions v ON v.id = i.current_version_id LEFT JOIN versions f ON f.id = i.failed_version_id
      WHERE CASE WHEN $1::text IS NULL THEN r.state <> 'stopped' OR i.failed_reason IS NOT NULL ELSE r.state = $1 END
      ORDER BY r.rss_bytes DESC NULLS LAST, r.restarts DESC LIMIT $2`,
    [state, limit],
  );
  return rows.map((row) => ({ ...row, failedUpdate: row.failedUpdate && describeFailedUpdate(row.failedUpdate) }));
}

interface PluginCost {
  readonly slug: string;
  readonly displayName: string;
  readonly author: string;
  readonly verified: boolean;
  readonly blockedReason: string | null;
  readonly installations: number;
  readonly calls: number;
  /** Errors and timeouts. */
  readonly failures: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly restarts: number;
  readonly processorMs: number;
}

const MATCHES_SEARCH = `strpos(lower(concat_ws(' ', p.slug, p.display_name, a.name)), lower($3)) > 0`;
/** An array, so that PostgreSQL reads the minutes of these installations by primary key, not those of all. */
const OF_FOUND_PLUGINS = `AND m.installation_id = ANY (ARRAY(
    SELECT i.id FROM installations i JOIN plugins p ON p.id = i.plugin_id JOIN accounts a ON a.id = p.owner_id
     WHERE ${MATCHES_SEARCH}))`;

/**
 * Lists plugins by error rate, highest first; then blocked ones, then by calls and restarts. Those that nobody called come
 * last.
 *
 * @param search part of the slug, the name or the author's name; null: all
 */
export async function listPluginCosts(
  pool: Pool,
  hours: number,
  search: string | null,
  limit: number,
): Promise<PluginCost[]> {
  const within = `minute >= now() - make_interval(hours => $1) ${search === null ? '' : OF_FOUND_PLUGINS}`;
  const { rows } = await pool.query<Omit<PluginCost, 'p50Ms' | 'p95Ms'> & { buckets: number[] | null }>(
    `WITH c AS (SELECT i.plugin_id, sum(calls)::float8 AS calls, sum(errors + timeouts)::float8 AS failures,
                       ${SUM_BUCKETS_SQL} AS buckets
                  FROM call_minutes m JOIN installations i ON i.id = m.installation_id WHERE ${within} GROUP BY 1),
          u AS (SELECT i.plugin_id, sum(restarts)::float8 AS restarts, sum(processor_ms) AS processor
                  FROM usage_minutes m JOIN installations i ON i.id = m.installation_id WHERE ${within} GROUP BY 1)
     SELECT p.slug, p.display_name AS "displayName", a.name AS author, a.verified_at IS NOT NULL AS verified,
            p.blocked_reason AS "blockedReason", coalesce(n.installs, 0)::int AS installations,
            coalesce(c.calls, 0) AS calls, coalesce(c.failures, 0) AS failures, c.buckets,
            coalesce(u.restarts, 0) AS restarts, coalesce(u.processor, 0) AS "processorMs"
       FROM plugins p JOIN accounts a ON a.id = p.owner_id LEFT JOIN install_counts n ON n.plugin_id = p.id
       LEFT JOIN c ON c.plugin_id = p.id LEFT JOIN u ON u.plugin_id = p.id
      WHERE p.deleted_at IS NULL AND ($3::text IS NULL OR ${MATCHES_SEARCH})
      ORDER BY coalesce(c.failures / nullif(c.calls, 0), 0) DESC, p.blocked_reason IS NULL, c.calls DESC NULLS LAST,
               u.restarts DESC NULLS LAST, p.slug LIMIT $2`,
    [hours, limit, search],
  );
  return rows.map(({ buckets, ...row }) => ({ ...row, ...estimatePercentiles(buckets) }));
}

interface DeadLetter {
  readonly id: string;
  readonly kind: 'delivery' | 'event';
  readonly installationId: string;
  readonly slug: string | null;
  readonly what: string;
  readonly attempts: number;
  readonly at: string;
  readonly lastError: string | null;
}

/** Lists deliveries and events that used up their attempts, newest first. @param installationId null: all */
export const listDeadLetters = (pool: Pool, installationId: string | null, limit: number): Promise<DeadLetter[]> =>
  listRows(
    pool,
    `SELECT l.*, p.slug FROM (
       (SELECT id, 'delivery' AS kind, installation_id AS "installationId", direction || ' ' || method AS what, attempts,
               received_at AS at, last_error AS "lastError" FROM deliveries
         WHERE state = 'dead' AND ($1::text IS NULL OR installation_id = $1) ORDER BY id DESC LIMIT $2)
       UNION ALL
       (SELECT id, 'event', installation_id, type, attempts, occurred_at, last_error FROM events
         WHERE state = 'dead' AND ($1::text IS NULL OR installation_id = $1) ORDER BY id DESC LIMIT $2)) l
       LEFT JOIN installations i ON i.id = l."installationId" LEFT JOIN plugins p ON p.id = i.plugin_id
      ORDER BY l.at DESC LIMIT $2`,
    [installationId, limit],
  );

export interface WaitingQueue {
  readonly queue: 'webhooks' | 'replies' | 'events';
  readonly installationId: string;
  readonly slug: string | null;
  readonly account: string;
  readonly channel: string | null;
  /** Whether its entries failed, so that others pass them until their next attempts. */
  readonly setAside: boolean;
  readonly waiting: number;
  /** ISO 8601: the arrival of its oldest entry. */
  readonly since: string;
  /** The entry that the others wait for; of those set aside, the one that is attempted next. */
  readonly headId: string;
  readonly attempts: number;
  readonly lastError: string | null;
  /** Why the head is not done. */
  readonly heldBy: 'supervisor' | 'operator' | 'installation' | 'retry' | 'owner' | 'handover' | 'nobody';
  /**
   * The supervisor that attempts it or will, the operator's reason, the installation's status or what its version lacks, or the
   * time of the next attempt. Null: no supervisor owns the account, because its owner changes or none runs.
   */
  readonly holder: string | null;
}

/** Two queues for each channel and direction, one of them for what is set aside, and one for the events of each installation. */
const WAITING = `
  SELECT CASE direction WHEN 'in' THEN 'webhooks' ELSE 'replies' END AS queue, installation_id, channel_id, account_id, id,
         received_at AS at, position::text AS place, attempts, last_error, next_attempt_at, claimed_by, set_aside
    FROM deliveries WHERE state = 'pending'
  UNION ALL
  SELECT 'events', installation_id, NULL, account_id, id, occurred_at, id, attempts, last_error, next_attempt_at, claimed_by, false
    FROM events WHERE state = 'pending'`;

/** Lists queues with waiting entries and what holds each, longest wait first. @param installationId null: all */
export const listWaitingQueues = (pool: Pool, installationId: string | null, limit: number): Promise<WaitingQueue[]> =>
  listRows(
    pool,
    `WITH w AS (${WAITING}),
          heads AS (SELECT DISTINCT ON (queue, installation_id, channel_id, set_aside) w.*,
                           count(*) OVER same::int AS waiting, min(at) OVER same AS since
                      FROM w WHERE $1::text IS NULL OR installation_id = $1
                    WINDOW same AS (PARTITION BY queue, installation_id, channel_id, set_aside)
                     ORDER BY queue, installation_id, channel_id, set_aside,
                              CASE WHEN set_aside THEN next_attempt_at END, at, place)
     SELECT h.queue, h.installation_id AS "installationId", p.slug, a.name AS account, c.name AS channel,
            h.set_aside AS "setAside", h.waiting, h.since, h.id AS "headId", h.attempts, h.last_error AS "lastError",
            held.by AS "heldBy",
            CASE held.by
                 WHEN 'operator' THEN held.reason
                 WHEN 'installation' THEN
                   CASE WHEN ${RECEIVES_EVENTS_SQL} THEN coalesce(h.last_error, i.status) ELSE concat_ws(': ', i.status, i.status_reason) END
                 WHEN 'retry' THEN to_char(h.next_attempt_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                 WHEN 'supervisor' THEN concat('supervisor ', s.id, ' at ', s.address)
                 WHEN 'owner' THEN concat('supervisor ', s.id, ' at ', s.address) END AS holder
       FROM heads h JOIN accounts a ON a.id = h.account_id LEFT JOIN installations i ON i.id = h.installation_id
       LEFT JOIN plugins p ON p.id = i.plugin_id LEFT JOIN channels c ON c.id = h.channel_id
       LEFT JOIN shards o ON o.id = account_shard(h.account_id)
       LEFT JOIN supervisors s ON s.id = o.owner AND s.expires_at > now()
       CROSS JOIN LATERAL (
         SELECT reason, CASE WHEN s.id IS NOT NULL AND o.epoch = h.claimed_by THEN 'supervisor'
                     WHEN reason IS NOT NULL THEN 'operator'
                     WHEN h.next_attempt_at = 'infinity' OR NOT ${RECEIVES_EVENTS_SQL} THEN 'installation'
                     WHEN h.next_attempt_at > now() THEN 'retry'
                     WHEN s.id IS NOT NULL THEN 'owner'
                     WHEN EXISTS (SELECT 1 FROM supervisors l WHERE l.expires_at > now()) THEN 'handover'
                     ELSE 'nobody' END AS by
           FROM (SELECT ${BLOCKED_REASON_SQL} AS reason) r) held
      ORDER BY h.since LIMIT $2`,
    [installationId, limit],
  );
