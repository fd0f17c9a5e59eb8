/**
 * Begins updates of installations to a new latest version, or offers it if it needs the user's consent. Ends updates to a yanked
 * version.
 */
import type { ClientBase } from 'pg';
import { lockPlugin } from '../../db/catalog/plugins.ts';
import { findVersion, releaseYankedVersions, type Version } from '../../db/catalog/versions.ts';
import { dropsHook, mayApply } from '../../db/installations/consent-rule.ts';
import {
  changeInstallation,
  changeInstallations,
  type Installation,
  LOCKED_PAGE,
  lockInstallations,
} from '../../db/installations/installations.ts';
import {
  advanceRollout,
  beginRollout,
  beginWithdrawal,
  endWithdrawal,
  findRollout,
  findWithdrawal,
  listRollouts,
} from '../../db/installations/rollouts.ts';
import { beginUpdate, beginUpdates, cancelUpdate, endUpdatesTo } from '../../db/installations/updates.ts';
import { JOB_PRIORITY, type Queues } from '../../db/jobs/queues.ts';
import { notifyIfInstallationChanged, notifyInstallationsChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { asService } from '../../db/postgres/shares.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import type { Services } from '../services.ts';

/** A rollout that was cut off is continued within this time. Milliseconds. */
const RESUME_EVERY_MS = 60_000;

type RolloutServices = Pick<Services, 'pool' | 'queues'>;

/**
 * Ends the first updates to a version that was yanked, and records if others may be left: `endWithdrawals` goes on after the
 * transaction. Those whose update ended are offered the latest version, which may be the same as before.
 *
 * @param tx has locked the plugin's row
 */
export async function withdrawVersion(tx: ClientBase, pluginId: string, versionId: string): Promise<void> {
  const { hasEnded, mayFollow } = await endUpdatesTo(tx, versionId);
  if (hasEnded) await beginRollout(tx, pluginId);
  if (mayFollow) await beginWithdrawal(tx, versionId);
  else {
    await endWithdrawal(tx, versionId);
    await releaseYankedVersions(tx, pluginId);
  }
}

/** Ends all updates to yanked versions of a plugin. Returns at once if none is left. @param signal as of `rollOutLatestVersion` */
export async function endWithdrawals({ pool }: RolloutServices, pluginId: string, signal?: AbortSignal): Promise<void> {
  const withdrawFromBatch = async (tx: ClientBase): Promise<boolean> => {
    const plugin = await lockPlugin(tx, pluginId, 'exclusive');
    const versionId = plugin && (await findWithdrawal(tx, pluginId));
    if (!versionId) return false;
    await withdrawVersion(tx, pluginId, versionId);
    return true;
  };
  while (!signal?.aborted && (await inTransaction(pool, withdrawFromBatch)));
}

/**
 * Offers the latest version of a plugin to all installations with the policy Latest: updates those that need no consent for it; for
 * all others, it becomes pending. Each transaction offers it to a page of them, so that users wait for a page at most. Returns at
 * once if no rollout was begun, or all were offered it.
 *
 * @param signal ends it after the page under way
 */
export async function rollOutLatestVersion(
  services: RolloutServices,
  pluginId: string,
  signal?: AbortSignal,
): Promise<void> {
  await endWithdrawals(services, pluginId, signal);
  while (!signal?.aborted && (await inTransaction(services.pool, (tx) => offerToPage(tx, services.queues, pluginId))));
}

/** @returns whether a page may follow */
async function offerToPage(tx: ClientBase, queues: Queues, pluginId: string): Promise<boolean> {
  const plugin = await lockPlugin(tx, pluginId, 'exclusive');
  const after = await findRollout(tx, pluginId);
  if (!plugin || after === null) return false;
  const page = await lockInstallations(tx, pluginId, { versionPolicy: 'Latest', after });
  const latest = plugin.latestVersionId === null ? null : await findVersion(tx, plugin.latestVersionId);
  if (latest) await offerLatestToAll(tx, queues, page, latest);
  else await setPending(tx, hasPending(page), null);
  const next = page.length === LOCKED_PAGE ? (page.at(-1)?.id ?? null) : null;
  await advanceRollout(tx, pluginId, next);
  return next !== null;
}

/**
 * Continues the rollouts and withdrawals that an API was stopped in, or that an error ended: now and every minute.
 *
 * @returns stops it after the page under way
 */
export function resumeRollouts(services: RolloutServices, onError: (error: Error) => void): () => Promise<void> {
  let running: Promise<void> | null = null;
  const stopping = new AbortController();
  const resume = async () => {
    for (const pluginId of await listRollouts(services.pool))
      await rollOutLatestVersion(services, pluginId, stopping.signal).catch(onError);
  };
  const tick = () => {
    running ??= asService(resume)
      .catch(onError)
      .finally(() => {
        running = null;
      });
  };
  tick();
  const timer = setInterval(tick, RESUME_EVERY_MS).unref();
  return async () => {
    clearInterval(timer);
    stopping.abort();
    await running;
  };
}

/** A popular plugin has thousands of installations, nearly all in one of two states: each of these takes a few statements. */
async function offerLatestToAll(
  tx: ClientBase,
  queues: Queues,
  page: readonly Installation[],
  latest: Version,
): Promise<void> {
  const isOld = ({ currentVersionId, targetVersionId, failedVersionId }: Installation): boolean =>
    ![currentVersionId, targetVersionId, failedVersionId].includes(latest.id);
  const isSettled = (one: Installation): boolean =>
    one.currentVersionId === latest.id &&
    one.targetVersionId === null &&
    one.failedVersionId === null &&
    one.pendingVersionId === null;
  // It runs the latest version, which crashes, and returns to the one before.
  const isReturning = ({ currentVersionId, rollbackReason }: Installation): boolean =>
    currentVersionId === latest.id && rollbackReason !== null;
  // A version that failed here is tried again by its user only.
  const hasFailed = ({ failedVersionId }: Installation): boolean => failedVersionId === latest.id;
  const applied: Installation[] = [];
  const asked: Installation[] = [];
  const slices = new LoopSlices(latest.pluginId);
  for (const one of page.filter(isOld)) {
    // Comparing a thousand capabilities with as many takes about a millisecond.
    await slices.pauseWhenOver();
    (mayApply(one, latest) ? applied : asked).push(one);
  }
  if (applied.length > 0) {
    // One user's own update does not wait for a thousand followers.
    await beginUpdates(tx, queues, applied, latest.id, JOB_PRIORITY.ROLLOUT);
    await notifyInstallationsChanged(tx, listIds(applied));
  }
  await setPending(
    tx,
    asked.filter(({ pendingVersionId }) => pendingVersionId !== latest.id),
    latest.id,
  );
  const others = page.filter((one) => ![isOld, isSettled, isReturning, hasFailed].some((isLeft) => isLeft(one)));
  for (const installation of others) await offerVersion(tx, queues, installation, latest);
}

const listIds = (installations: readonly Installation[]): string[] => installations.map(({ id }) => id);

/**
 * Begins the update of one installation to a version if it needs no consent; otherwise the version becomes pending.
 *
 * @param installation its row is locked by the transaction
 */
export async function offerVersion(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  version: Version,
): Promise<void> {
  // An update under way has its consent.
  const isUnderWay = installation.targetVersionId === version.id;
  if (isUnderWay || mayApply(installation, version)) return moveToVersion(tx, queues, installation, version.id);
  // If the grants are older than this rule, the running version may need consent: then that version becomes pending.
  if (installation.pendingVersionId !== version.id) await setPending(tx, [installation], version.id);
}

/**
 * Ends the update under way of an installation that becomes required, if the version drops a hook: it waits for consent. A
 * rollback does not wait, because the previous version lacks what is required now.
 *
 * @param installation its row is locked by the transaction
 * @returns the installation, without the update that was ended
 */
export async function holdUpdate(tx: ClientBase, installation: Installation): Promise<Installation> {
  const { id, targetVersionId, pendingVersionId, rollbackReason, versionPolicy } = installation;
  const target = targetVersionId === null ? null : await findVersion(tx, targetVersionId);
  if (!target || versionPolicy === 'Draft' || !dropsHook(installation, target)) return installation;
  await cancelUpdate(tx, id);
  // A version that was published since is what waits for consent.
  if (rollbackReason !== null || pendingVersionId !== null) return { ...installation, targetVersionId: null };
  await setPending(tx, [installation], target.id);
  return { ...installation, targetVersionId: null, pendingVersionId: target.id };
}

/**
 * Moves one installation to a version, with consent: at once if it runs it already, otherwise when a supervisor has
 * started it.
 *
 * @param installation its row is locked by the transaction
 */
export async function moveToVersion(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  versionId: string,
): Promise<void> {
  const { id, currentVersionId, targetVersionId, pendingVersionId } = installation;
  if (currentVersionId === versionId) await cancelUpdate(tx, id);
  else if (targetVersionId !== versionId) await beginUpdate(tx, queues, installation, versionId);
  if (pendingVersionId !== null) await changeInstallation(tx, id, { pendingVersionId: null });
  await notifyIfInstallationChanged(tx, installation.id);
}

const hasPending = (installations: readonly Installation[]): Installation[] =>
  installations.filter(({ pendingVersionId }) => pendingVersionId !== null);

async function setPending(
  tx: ClientBase,
  installations: readonly Installation[],
  versionId: string | null,
): Promise<void> {
  if (installations.length === 0) return;
  const ids = listIds(installations);
  await changeInstallations(tx, ids, { pendingVersionId: versionId });
  await notifyInstallationsChanged(tx, ids);
}
