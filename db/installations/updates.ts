/**
 * Updates of installations as transactions. The API records the version to move to; a supervisor starts it and then makes
 * it current. After a crash, what is recorded is tried again.
 */
import type { ClientBase, Pool } from 'pg';
import { intersectCapabilities } from '../../sdk/contract/capabilities.ts';
import { lockPlugin } from '../catalog/plugins.ts';
import { deleteReplacedDrafts } from '../catalog/versions.ts';
import { isSupervisorRunning } from '../cluster/supervisors.ts';
import { allowTargetSecrets } from '../files/secrets.ts';
import { JOB_PRIORITY, type JobPriority, type Queues } from '../jobs/queues.ts';
import type { Listener } from '../postgres/listener.ts';
import {
  notifyInstallationChanged,
  notifyInstallationsChanged,
  subscribeToInstallations,
} from '../postgres/notifications.ts';
import { inTransaction, type WritingPool } from '../postgres/pool.ts';
import { changeRows, findRow, findValue, listRows, listValues, type Queryable, SWEEP_BATCH } from '../postgres/rows.ts';
import { Waker } from '../timing/waker.ts';
import {
  DRAFT_SEM_VER,
  type InstalledPlugin,
  loadInstalledPlugin,
  loadUpdateState,
  rememberHandlesSql,
  TARGET_GRANTS_SQL,
} from './account-plugins.ts';
import { mayApply } from './consent-rule.ts';
import { mergePendingUpdates, recordEvent } from './events.ts';
import { findInstallation } from './installations.ts';
import { findRollbackRefusal, type RollbackState } from './rollback-rule.ts';
import { BLOCKED_REASON_SQL, IS_TARGET_VALID_SQL, KEEPS_YANKED_SQL, mayUpdate } from './run-rule.ts';

interface Updated {
  readonly id: string;
  readonly accountId: string;
}
/** One update of an installation. A later one of the same installation has another version. */
export interface UpdateKey {
  readonly installationId: string;
  readonly versionId: string;
}
export type RollbackCause = 'crashed' | 'memory' | 'killed' | 'not_started';

const ENDED_SQL = 'target_version_id = NULL, target_since = NULL, rollback_reason = NULL';
const NOT_FAILED_SQL = 'failed_version_id = NULL, failed_reason = NULL, failed_at = NULL, rolled_back = false';
/** Maximum updates that one sweep queues; the next sweep queues the rest. */
const SWEEP_LIMIT = 1_000;

/** Records that an installation moves to a version. @param tx has locked the installation's row, and notifies of it */
export const beginUpdate = (tx: ClientBase, queues: Queues, installation: Updated, versionId: string): Promise<void> =>
  beginUpdates(tx, queues, [installation], versionId, JOB_PRIORITY.ASKED_FOR);

/** Records for several installations what `beginUpdate` does for one. @param priority of their jobs */
export async function beginUpdates(
  tx: ClientBase,
  queues: Queues,
  installations: readonly Updated[],
  versionId: string,
  priority: JobPriority,
): Promise<void> {
  await tx.query(
    // The handles of the version are remembered now: the next version may replace it before it runs.
    `UPDATE installations i SET target_version_id = v.id, target_since = clock_timestamp(), rollback_reason = NULL,
            ${NOT_FAILED_SQL}, granted_capabilities = ${rememberHandlesSql('i.granted_capabilities', 'v.capabilities')},
            pending_version_id = NULL, updated_at = clock_timestamp()
       FROM versions v WHERE v.id = $2 AND i.id = ANY ($1)`,
    [installations.map(({ id }) => id), versionId],
  );
  const jobs = installations.map(({ id, accountId }) => ({
    payload: { installationId: id },
    group: { id, accountId },
    priority,
  }));
  await queues.sendToGroups(tx, 'updates', jobs);
}

/**
 * Begins the update to the pending version if it needs no consent any more. Call it when the grants, the configuration or the running
 * version of an installation changed, or it is no longer required.
 *
 * @param tx has locked the installation's row, and notifies of it
 * @returns whether it began
 */
export async function beginPendingUpdate(tx: ClientBase, queues: Queues, installationId: string): Promise<boolean> {
  const accountId = await findValue<string>(
    tx,
    // A yank locks the version before it ends updates to it and clears the pending version: leave both to one that has begun.
    `SELECT i.account_id FROM installations i JOIN versions n ON n.id = i.pending_version_id
      WHERE i.id = $1 AND n.status = 'published' AND n.id IS DISTINCT FROM i.failed_version_id
        FOR SHARE OF n SKIP LOCKED`,
    [installationId],
  );
  const installation = accountId === null ? null : await findInstallation(tx, accountId, installationId);
  const { pendingVersionId: id, pendingCapabilities: capabilities, pendingManifest: manifest } = installation ?? {};
  if (!installation || !id || !capabilities || !manifest) return false;
  if (!mayApply(installation, { id, capabilities, manifest })) return false;
  await beginUpdate(tx, queues, installation, id);
  return true;
}

/**
 * Ends the possible return to a previous version that has more access than the current one. Call it when the user gives a value,
 * because they trust the current version with it, and when they pin a version, because that took the access away.
 *
 * @param tx has locked the installation's row
 * @returns whether there was such a version
 */
export async function forgetWiderVersion(tx: ClientBase, installationId: string): Promise<boolean> {
  const state = await findRollbackState(tx, installationId);
  if (!state) return false;
  // `findMissingCapabilities` would count no secret that only the previous version reads.
  const covered = new Set(intersectCapabilities(state.previousGrants, state.granted));
  if (state.previousGrants.every((capability) => covered.has(capability))) return false;
  await tx.query('UPDATE installations SET previous_version_id = NULL, previous_grants = NULL WHERE id = $1', [
    installationId,
  ]);
  return true;
}

/** Lets a supervisor try the update under way now, also one that waited for its user: a sweep queues it again if the job is lost. */
export async function queueUpdate(tx: Queryable, queues: Queues, installation: Updated): Promise<void> {
  await tx.query(
    'UPDATE installations SET waiting_target_since = NULL WHERE id = $1 AND waiting_target_since IS NOT NULL',
    [installation.id],
  );
  await sendUpdate(tx, queues, installation);
}

interface Waiting extends Updated {
  readonly priority: JobPriority;
}
/** SQL: a draft, a pin and the way back from a version that crashes are what a user waits for; the rest may be a rollout. */
const WAITING_SQL = `SELECT i.id, i.account_id AS "accountId",
  CASE WHEN i.version_policy = 'Latest' AND i.rollback_reason IS NULL
       THEN ${JOB_PRIORITY.ROLLOUT} ELSE ${JOB_PRIORITY.ASKED_FOR} END AS priority`;

/** Lets a supervisor try the update under way once more, in this many seconds. */
export async function postponeUpdate(
  pool: Queryable,
  queues: Queues,
  installationId: string,
  delaySeconds: number,
): Promise<void> {
  const waiting = await findRow<Waiting>(pool, `${WAITING_SQL} FROM installations i WHERE i.id = $1`, [installationId]);
  if (waiting) await sendUpdate(pool, queues, waiting, { priority: waiting.priority, delaySeconds });
}

const sendUpdate = (
  tx: Queryable,
  queues: Queues,
  { id, accountId }: Updated,
  options: { readonly priority?: JobPriority; readonly delaySeconds?: number } = {},
): Promise<void> => queues.send(tx, 'updates', { installationId: id }, { ...options, group: { id, accountId } });

/**
 * Records that the update under way lacks configuration: no sweep queues it, because `queueUpdate` is called when its user
 * saves some.
 *
 * @param updatedAt of the installation when its configuration was read: a later change counts, not this
 */
export const recordWaitingUpdate = (
  pool: Queryable,
  { installationId, versionId }: UpdateKey,
  updatedAt: string,
): Promise<number> =>
  changeRows(
    pool,
    `UPDATE installations SET waiting_target_since = target_since
      WHERE id = $1 AND target_version_id = $2 AND date_trunc('milliseconds', updated_at) = $3
        AND waiting_target_since IS DISTINCT FROM target_since`,
    [installationId, versionId, updatedAt],
  );

/** Ends the update under way without a result, and forgets one that failed. @param tx has locked the installation's row, and notifies of it */
export async function cancelUpdate(tx: ClientBase, installationId: string): Promise<void> {
  await tx.query(
    `UPDATE installations SET ${ENDED_SQL}, ${NOT_FAILED_SQL}, updated_at = clock_timestamp()
      WHERE id = $1 AND (target_version_id IS NOT NULL OR failed_version_id IS NOT NULL)`,
    [installationId],
  );
}

/**
 * Ends updates under way to a version that its author yanked, except those of installations that pinned it, and rollbacks to it,
 * and asks users about it no more: for at most `SWEEP_BATCH` installations, because the session streams of all accounts wait for
 * the transaction.
 *
 * @param tx has locked the plugin's row
 */
export async function endUpdatesTo(
  tx: ClientBase,
  versionId: string,
): Promise<{ readonly hasEnded: boolean; readonly mayFollow: boolean }> {
  // Targets first: an installation that becomes required moves its target to the pending version. Not `FOR UPDATE`: writers of
  // metrics and states lock many installations as the referred rows of theirs, in another order.
  const stopped = await listValues<string>(
    tx,
    `UPDATE installations SET ${ENDED_SQL}, updated_at = clock_timestamp() WHERE id = ANY (ARRAY(
       SELECT i.id FROM installations i
        WHERE i.target_version_id = $1 AND NOT ${KEEPS_YANKED_SQL} LIMIT ${SWEEP_BATCH} FOR NO KEY UPDATE)) RETURNING id`,
    [versionId],
  );
  const asked = await listValues<string>(
    tx,
    `UPDATE installations SET pending_version_id = NULL, updated_at = clock_timestamp() WHERE id = ANY (ARRAY(
       SELECT i.id FROM installations i WHERE i.pending_version_id = $1 LIMIT $2 FOR NO KEY UPDATE)) RETURNING id`,
    [versionId, SWEEP_BATCH - stopped.length],
  );
  await notifyInstallationsChanged(tx, [...new Set([...stopped, ...asked])]);
  return { hasEnded: stopped.length > 0, mayFollow: stopped.length + asked.length === SWEEP_BATCH };
}

interface LockedUpdate {
  readonly accountId: string;
  readonly pluginId: string;
  readonly isPinned: boolean;
  readonly isRollback: boolean;
  readonly fromVersionId: string | null;
  readonly fromSemVer: string | null;
  readonly toSemVer: string | null;
}

/** Locks the row of an update that may end now. Null: it was replaced, cancelled or withdrawn, or the installation may not run. */
async function lockUpdate(tx: ClientBase, { installationId, versionId }: UpdateKey): Promise<LockedUpdate | null> {
  await tx.query('SELECT 1 FROM installations WHERE id = $1 FOR UPDATE', [installationId]);
  return findRow(
    tx,
    `SELECT i.account_id AS "accountId", i.plugin_id AS "pluginId", i.version_policy = 'Pinned' AS "isPinned",
            i.rollback_reason IS NOT NULL AS "isRollback", i.current_version_id AS "fromVersionId",
            c.semver AS "fromSemVer", v.semver AS "toSemVer"
       FROM installations i JOIN versions v ON v.id = i.target_version_id
       LEFT JOIN versions c ON c.id = i.current_version_id
      WHERE i.id = $1 AND i.target_version_id = $2 AND i.status NOT IN ('paused', 'uninstalling') AND ${IS_TARGET_VALID_SQL}`,
    [installationId, versionId],
  );
}

/**
 * Makes the version of an update current, grants exactly its capabilities, and records `pluginUpdated` for it. Begins the pending
 * update if that needs no more. Ends a rollback that `findRollbackRefusal` no longer allows. Call it when the version runs and has answered.
 *
 * @returns the installation as it is then; null when the update no longer counts: the version must be stopped
 */
export async function completeUpdate(
  pool: WritingPool,
  queues: Queues,
  update: UpdateKey,
): Promise<InstalledPlugin | null> {
  return inTransaction(pool, async (tx) => {
    const locked = await lockUpdate(tx, update);
    if (locked?.isRollback && (await endRefusedRollback(tx, update.installationId))) return null;
    const state = locked && (await loadUpdateState(tx, update.installationId));
    // Its user may have removed a secret that it requires while it started.
    if (!locked || !state || !mayUpdate(state)) return null;
    await allowTargetSecrets(tx, update.installationId);
    await tx.query(
      `UPDATE installations i
          SET failed_version_id = CASE WHEN i.rollback_reason IS NOT NULL THEN i.current_version_id END,
              failed_reason = i.rollback_reason, rolled_back = i.rollback_reason IS NOT NULL,
              failed_at = CASE WHEN i.rollback_reason IS NOT NULL THEN clock_timestamp() END,
              previous_version_id = CASE WHEN i.rollback_reason IS NULL
                                         THEN nullif(i.current_version_id, i.target_version_id) END,
              previous_grants = CASE WHEN i.rollback_reason IS NULL THEN i.granted_capabilities END,
              granted_capabilities = ${TARGET_GRANTS_SQL},
              pending_version_id = nullif(i.pending_version_id, i.target_version_id),
              current_version_id = i.target_version_id, status = 'ready', status_reason = NULL,
              moved_at = clock_timestamp(), updated_at = clock_timestamp(), ${ENDED_SQL}
         FROM versions v WHERE i.id = $1 AND v.id = i.target_version_id`,
      [update.installationId],
    );
    if (locked.isPinned) await forgetWiderVersion(tx, update.installationId);
    await recordUpdated(tx, queues, update, locked);
    await beginPendingUpdate(tx, queues, update.installationId);
    await deleteReplacedDrafts(tx, locked.pluginId);
    await notifyInstallationChanged(tx, update.installationId);
    return loadInstalledPlugin(tx, update.installationId);
  });
}

/**
 * Ends a rollback under way that may not begin any more: a version that asks its user for the same access was published since.
 *
 * @returns whether it ended
 */
async function endRefusedRollback(tx: ClientBase, installationId: string): Promise<boolean> {
  // No state: the user pinned the version that it returns to, so it is no previous version with more access. The pin is the consent.
  const state = await findRollbackState(tx, installationId);
  if (!state || findRollbackRefusal(state) === null) return false;
  await cancelUpdate(tx, installationId);
  await notifyInstallationChanged(tx, installationId);
  return true;
}

/** An undelivered `pluginUpdated` was for a version that is no longer current, so the new event starts where it did. */
async function recordUpdated(
  tx: ClientBase,
  queues: Queues,
  { installationId, versionId }: UpdateKey,
  { accountId, pluginId, fromVersionId, fromSemVer, toSemVer }: LockedUpdate,
): Promise<void> {
  const from = (await mergePendingUpdates(tx, installationId)) ?? {
    versionId: fromVersionId ?? versionId,
    semVer: fromSemVer ?? DRAFT_SEM_VER,
  };
  if (from.versionId === versionId) return;
  const semVer = toSemVer ?? DRAFT_SEM_VER;
  await recordEvent(tx, queues, {
    installationId,
    accountId,
    pluginId,
    versionId,
    semVer,
    type: 'pluginUpdated',
    data: { fromVersionId: from.versionId, toVersionId: versionId, fromSemVer: from.semVer, toSemVer: semVer },
  });
}

/**
 * Records that the version of an update did not start. After a failed rollback the current version goes on as before, and its
 * next end begins another one: on a busy machine the previous version may have been too slow.
 *
 * @returns whether the update still counted
 */
export async function failUpdate(pool: WritingPool, update: UpdateKey, reason: string): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    if (!(await lockUpdate(tx, update))) return false;
    await tx.query(
      `UPDATE installations
          SET failed_version_id = CASE WHEN rollback_reason IS NULL THEN target_version_id END,
              failed_reason = CASE WHEN rollback_reason IS NULL THEN $2 END,
              failed_at = CASE WHEN rollback_reason IS NULL THEN clock_timestamp() END, rolled_back = false, ${ENDED_SQL}
        WHERE id = $1`,
      [update.installationId, reason],
    );
    await notifyInstallationChanged(tx, update.installationId);
    return true;
  });
}

/**
 * Locks an installation whose version crash-loops and reads what decides on a rollback. Null: the version is not current, another
 * update is under way, or no version ran before.
 */
async function lockRollback(
  tx: ClientBase,
  { installationId, versionId }: UpdateKey,
): Promise<(RollbackState & Updated) | null> {
  const pluginId = await findValue<string>(tx, 'SELECT plugin_id FROM installations WHERE id = $1', [installationId]);
  // A yank that has begun ends first. A later one ends this rollback.
  if (pluginId === null || !(await lockPlugin(tx, pluginId, 'shared'))) return null;
  const isEligible = await findValue<boolean>(
    tx,
    `SELECT true FROM installations
      WHERE id = $1 AND current_version_id = $2 AND target_version_id IS NULL AND status IN ('ready', 'failed')
        FOR UPDATE`,
    [installationId, versionId],
  );
  return isEligible ? findRollbackState(tx, installationId) : null;
}

/** Reads what decides on a rollback. Null: no version ran before. @param tx has locked the installation's row */
const findRollbackState = (tx: ClientBase, installationId: string): Promise<(RollbackState & Updated) | null> =>
  findRow(
    tx,
    `SELECT i.id, i.account_id AS "accountId", i.required,
            i.version_policy = 'Pinned' AND i.pinned_version_id = i.current_version_id AS "isPinned",
            i.granted_capabilities AS granted, n.capabilities AS "pendingCapabilities", c.semver AS "semVer",
            coalesce(i.previous_grants, v.capabilities) AS "previousGrants", v.semver AS "previousSemVer",
            v.status AS "previousStatus"
       FROM installations i JOIN versions c ON c.id = i.current_version_id JOIN versions v ON v.id = i.previous_version_id
       LEFT JOIN versions n ON n.id = i.pending_version_id
      WHERE i.id = $1`,
    [installationId],
  );

export type RollbackStart =
  | { readonly kind: 'begun' }
  /** `why` is a part of a sentence for the user. */
  | { readonly kind: 'refused'; readonly why: string }
  /** No version ran before, the version is no longer current, or another update is under way. */
  | { readonly kind: 'not_due' };

/**
 * Begins the return to the previous version, if nothing else is under way and `findRollbackRefusal` allows it. Counts it for the
 * author. Otherwise the installation keeps the version that crashes.
 *
 * @param reason shown to the user
 */
export async function beginRollback(
  pool: WritingPool,
  queues: Queues,
  update: UpdateKey,
  { reason, cause }: { readonly reason: string; readonly cause: RollbackCause },
): Promise<RollbackStart> {
  return inTransaction(pool, async (tx): Promise<RollbackStart> => {
    const installation = await lockRollback(tx, update);
    if (!installation) return { kind: 'not_due' };
    const why = findRollbackRefusal(installation);
    if (why !== null) return { kind: 'refused', why };
    await tx.query(
      `UPDATE installations SET target_version_id = previous_version_id, target_since = clock_timestamp(),
              rollback_reason = $2
        WHERE id = $1`,
      [installation.id, reason],
    );
    await tx.query(
      `INSERT INTO version_rollbacks AS r (version_id, cause, count, last_at) VALUES ($1, $2, 1, clock_timestamp())
       ON CONFLICT (version_id, cause) DO UPDATE SET count = r.count + 1, last_at = excluded.last_at`,
      [update.versionId, cause],
    );
    await queueUpdate(tx, queues, installation);
    await notifyInstallationChanged(tx, installation.id);
    return { kind: 'begun' };
  });
}

/** A kind of crash loop that returned installations of a version to the previous version. */
export interface VersionRollback {
  readonly versionId: string;
  /** Null: a draft. */
  readonly semVer: string | null;
  readonly cause: RollbackCause;
  readonly count: number;
  readonly lastAt: string;
}

export const listRollbacks = (pool: Queryable, pluginId: string): Promise<VersionRollback[]> =>
  listRows(
    pool,
    `SELECT r.version_id AS "versionId", v.semver AS "semVer", r.cause, r.count, r.last_at AS "lastAt"
       FROM version_rollbacks r JOIN versions v ON v.id = r.version_id WHERE v.plugin_id = $1
      ORDER BY r.last_at DESC, r.version_id, r.cause`,
    [pluginId],
  );

/**
 * Queues the updates under way that no job waits for: after a kill, an unblock, or a start that found no room. Not those that
 * wait for their user.
 *
 * @param atWork installations that the caller is updating now
 */
export async function requeueUpdates(pool: Pool, queues: Queues, atWork: ReadonlySet<string>): Promise<number> {
  const waiting = await listRows<Waiting>(
    pool,
    `${WAITING_SQL} FROM installations i JOIN plugins p ON p.id = i.plugin_id
      WHERE i.target_version_id IS NOT NULL AND i.status NOT IN ('paused', 'uninstalling') AND ${BLOCKED_REASON_SQL} IS NULL
        AND (i.waiting_target_since = i.target_since) IS NOT TRUE AND NOT i.id = ANY ($1)
        -- One from a time when the clock of the database was ahead comes too late. Others wait for at most a minute: pg-boss retries them.
        AND NOT EXISTS (SELECT 1 FROM pgboss.job j
                         WHERE j.name = 'updates' AND j.state < 'active' AND j.data ->> 'installationId' = i.id
                           AND j.start_after <= now() + interval '2 minutes')
      ORDER BY i.target_since LIMIT ${SWEEP_LIMIT}`,
    [[...atWork]],
  );
  for (const { priority, ...installation } of waiting) await sendUpdate(pool, queues, installation, { priority });
  return waiting.length;
}

/** Poll interval: covers notifications lost during a reconnect. Milliseconds. */
const POLL_MS = 2_000;

/**
 * Waits until no update of an installation is under way, or the one under way cannot end now: it waits for its user, or no
 * supervisor runs.
 */
export async function waitForUpdate(
  { pool, listener }: { readonly pool: Pool; readonly listener: Listener },
  installationId: string,
  timeoutMs: number,
): Promise<void> {
  if (!(await isUpdateRunning(pool, installationId))) return;
  const giveUpAt = performance.now() + timeoutMs;
  const waker = new Waker();
  const subscription = await subscribeToInstallations(
    listener,
    (change) => {
      if (change.installationId === installationId) waker.wake();
    },
    () => waker.wake(),
  );
  try {
    for (let left = timeoutMs; left > 0; left = giveUpAt - performance.now()) {
      if (!(await isUpdateRunning(pool, installationId))) return;
      await waker.wait(Math.min(left, POLL_MS));
    }
  } finally {
    await subscription.close();
  }
}

async function isUpdateRunning(pool: Pool, installationId: string): Promise<boolean> {
  const target = await loadUpdateState(pool, installationId);
  return target !== null && mayUpdate(target) && (await isSupervisorRunning(pool));
}
