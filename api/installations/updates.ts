/** Changes which version an installation runs: by policy, by pin, or by accepting an update. */
import type { ClientBase } from 'pg';
import type { z } from 'zod';
import { lockPlugin, type Plugin } from '../../db/catalog/plugins.ts';
import { findVersion, type Version } from '../../db/catalog/versions.ts';
import { resolveStatus } from '../../db/installations/configuration.ts';
import { dropsHook } from '../../db/installations/consent-rule.ts';
import {
  changeInstallation,
  findInstallation,
  type Installation,
  lockInstallation,
} from '../../db/installations/installations.ts';
import { isActive } from '../../db/installations/run-rule.ts';
import {
  beginPendingUpdate,
  beginUpdate,
  cancelUpdate,
  forgetWiderVersion,
  queueUpdate,
} from '../../db/installations/updates.ts';
import { notifyIfInstallationChanged, notifyRestartRequested } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import type { Services } from '../services.ts';
import type { installationChanges } from './installation-input.ts';
import { changeLockedInstallation, requireInstallation } from './installation-lookup.ts';
import { chooseVersion } from './version-choice.ts';
import { holdUpdate, moveToVersion, offerVersion } from './version-rollout.ts';

/**
 * Changes policy, pin, hook order, or whether the installation is required. A version with more capabilities waits for
 * `acceptUpdate`.
 */
export async function changePolicy(
  services: Services,
  caller: Caller,
  installationId: string,
  change: z.output<typeof installationChanges>,
): Promise<Installation> {
  return withPlugin(services, caller, installationId, async (tx, before, plugin) => {
    const { hookOrder = before.hookOrder, required = before.required } = change;
    let installation: Installation = { ...before, required };
    if (hookOrder !== before.hookOrder || required !== before.required) {
      await changeInstallation(tx, installation.id, { hookOrder, required });
    }
    if (required && !before.required) installation = await holdUpdate(tx, installation);
    const policy = change.versionPolicy ?? installation.versionPolicy;
    const pinned = change.pinnedVersionId ?? undefined;
    if (change.versionPolicy === undefined && pinned === undefined) {
      if (before.required && !required) await beginPendingUpdate(tx, services.queues, installationId);
      return;
    }
    const pin = policy === 'Pinned' ? (pinned ?? installation.pinnedVersionId) : pinned;
    const version = await chooseVersion(tx, plugin, caller, policy, pin);
    const pinnedVersionId = policy === 'Pinned' ? version.id : null;
    if (policy !== before.versionPolicy || pinnedVersionId !== before.pinnedVersionId)
      await changeInstallation(tx, installation.id, { versionPolicy: policy, pinnedVersionId });
    if (policy === 'Pinned') await forgetWiderVersion(tx, installation.id);
    if (installation.targetVersionId !== version.id) await cancelUpdate(tx, installation.id);
    // A draft is the caller's code, so saving it was the consent.
    const { queues } = services;
    if (policy === 'Draft') await moveToVersion(tx, queues, installation, version.id);
    else await offerVersion(tx, queues, installation, version);
  });
}

/** Accepts the pending version only: after a newer publish, the user must consent to that version. */
export async function acceptUpdate(
  services: Services,
  caller: Caller,
  installationId: string,
  versionId: string,
): Promise<Installation> {
  return withPlugin(services, caller, installationId, async (tx, installation) => {
    const version = installation.pendingVersionId === versionId ? await findVersion(tx, versionId) : null;
    if (version?.status === 'yanked') throw withdrawn(version);
    if (version?.status !== 'published') throw notPending(installation);
    await beginUpdate(tx, services.queues, installation, version.id);
  });
}

/** Retries the failed update. A version that drops a hook of a required plugin waits for consent instead. */
export async function retryUpdate(services: Services, caller: Caller, installationId: string): Promise<Installation> {
  return withPlugin(services, caller, installationId, async (tx, installation) => {
    const { failedVersionId, versionPolicy, pendingVersionId } = installation;
    const version = failedVersionId === null ? null : await findVersion(tx, failedVersionId);
    if (!version) throw new Problem('not_pending', 'No update has failed, so there is nothing to try again.');
    if (version.status === 'yanked' || version.status === 'replaced') throw withdrawn(version);
    // It may have become required since.
    if (installation.required && versionPolicy !== 'Draft' && dropsHook(installation, version)) {
      await cancelUpdate(tx, installationId);
      await offerVersion(tx, services.queues, installation, version);
    } else await moveToVersion(tx, services.queues, installation, version.id);
    // A version that was published since still waits for consent.
    if (pendingVersionId !== null && pendingVersionId !== version.id)
      await changeInstallation(tx, installationId, { pendingVersionId });
  });
}

/** Stops an installation until `resume`. */
export async function pause(services: Services, caller: Caller, installationId: string): Promise<Installation> {
  await changeLockedInstallation(services, caller, installationId, async (tx, { status }) => {
    if (status !== 'paused') await changeInstallation(tx, installationId, { status: 'paused', statusReason: null });
  });
  return requireInstallation(services, caller, installationId);
}

/** Resumes a paused installation, which may then need configuration, and lets a failed one start again. */
export async function resume(services: Services, caller: Caller, installationId: string): Promise<Installation> {
  await changeLockedInstallation(services, caller, installationId, async (tx, installation) => {
    const { status, currentManifest, targetVersionId } = installation;
    if ((status !== 'paused' && status !== 'failed') || !currentManifest) return;
    await changeInstallation(tx, installationId, resolveStatus('ready', currentManifest, installation));
    if (targetVersionId !== null) await queueUpdate(tx, services.queues, installation);
  });
  await services.finishUpdate(installationId);
  return requireInstallation(services, caller, installationId);
}

/** Restarts an installation that may run, and forgets its failures. @throws Problem `not_running` for others */
export async function restart(services: Services, caller: Caller, installationId: string): Promise<Installation> {
  await changeLockedInstallation(services, caller, installationId, async (tx, installation) => {
    const { status, blockedReason, currentManifest } = installation;
    if (!isActive(installation) || blockedReason !== null || !currentManifest) {
      const why = blockedReason === null ? status.replaceAll('_', ' ') : 'blocked by the operator';
      throw new Problem('not_running', `The installation cannot be restarted because it is not running: ${why}.`);
    }
    await changeInstallation(tx, installationId, resolveStatus('ready', currentManifest, installation));
    await notifyRestartRequested(tx, installationId);
  });
  return requireInstallation(services, caller, installationId);
}

const withdrawn = ({ semVer }: Version): Problem =>
  new Problem('not_pending', `Its author has withdrawn ${semVer ?? 'the draft'}. Wait for the next version.`);

function notPending({ pendingVersionId, pendingSemVer }: Installation): Problem {
  if (pendingVersionId === null) return new Problem('not_pending', 'No update is pending.');
  return new Problem(
    'not_pending',
    `The pending update is ${pendingSemVer ?? 'a draft'}, not the version that you accepted. Read what it asks for, then accept it (versionId ${pendingVersionId}).`,
  );
}

/**
 * Locks the plugin's row, then the installation's, runs a change and waits for its update. The latest version of the plugin cannot
 * change meanwhile.
 */
async function withPlugin(
  services: Services,
  caller: Caller,
  installationId: string,
  change: (tx: ClientBase, installation: Installation, plugin: Plugin) => Promise<void>,
): Promise<Installation> {
  await inTransaction(services.pool, async (tx) => {
    const known = await findInstallation(tx, caller.id, installationId);
    const plugin = known ? await lockPlugin(tx, known.pluginId, 'shared') : null;
    const installation = await lockInstallation(tx, caller.id, installationId);
    if (!installation || !plugin) throw new Problem('not_found', 'You have no installation with this id.');
    await change(tx, installation, plugin);
    await notifyIfInstallationChanged(tx, installationId);
  });
  await services.finishUpdate(installationId);
  return requireInstallation(services, caller, installationId);
}
