/** Moves installations to a new latest version, or offers it if it needs the user's consent. */
import type { ClientBase } from 'pg';
import type { Plugin } from '../../db/catalog/plugins.ts';
import type { Version } from '../../db/catalog/versions.ts';
import { DRAFT_SEM_VER } from '../../db/installations/account-plugins.ts';
import { changeInstallation, type Installation, lockInstallations } from '../../db/installations/installations.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { notifyInstallationChanged } from '../../db/postgres/notifications.ts';
import { isCovered } from './capability-diff.ts';
import { resolveStatus } from './configuration.ts';
import { recordInstallationEvent } from './installation-events.ts';

/** Capabilities that are hooks start with it. */
const HOOK_PREFIX = 'middleware.';

/**
 * Moves every installation with the policy Latest where the plugin's latest version needs no consent; for
 * all others, the version becomes pending. Call it in the transaction that holds the plugin's row.
 *
 * @param latest null: no published version is left, so nothing moves
 */
export async function rollOutLatestVersion(
  tx: ClientBase,
  queues: Queues,
  plugin: Plugin,
  latest: Version | null,
): Promise<void> {
  for (const installation of await lockInstallations(tx, plugin.id, { versionPolicy: 'Latest' })) {
    if (latest) await offerVersion(tx, queues, installation, latest);
    else if (installation.pendingVersionId !== null) await setPending(tx, installation, null);
  }
}

/**
 * Moves one installation to a version if it needs no consent; otherwise the version becomes pending.
 *
 * @param installation its row is locked by the transaction
 */
export async function offerVersion(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  version: Version,
): Promise<void> {
  const runsIt = installation.currentVersionId === version.id;
  if (mayApply(installation, version)) {
    if (!runsIt) await switchVersion(tx, queues, installation, version);
    else if (installation.pendingVersionId !== null) await setPending(tx, installation, null);
    // If the grants are older than this rule, the running version may need consent: then that version becomes pending.
  } else if (installation.pendingVersionId !== version.id) {
    await setPending(tx, installation, version.id);
  }
}

/** Whether a version needs no consent: it asks for nothing new, and drops no hook of a plugin that must see everything. */
function mayApply({ grantedCapabilities, required }: Installation, { capabilities }: Version): boolean {
  const isHookDropped = grantedCapabilities.some((one) => one.startsWith(HOOK_PREFIX) && !capabilities.includes(one));
  return isCovered(grantedCapabilities, capabilities) && !(required && isHookDropped);
}

/** Moves one installation to a version and grants exactly its capabilities; others are revoked. */
export async function switchVersion(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  version: Version,
): Promise<void> {
  await changeInstallation(tx, installation.id, {
    currentVersionId: version.id,
    pendingVersionId: null,
    grantedCapabilities: version.capabilities,
    ...resolveStatus(installation.status, version.manifest, installation),
  });
  const updated = { ...installation, currentVersionId: version.id, currentSemVer: version.semVer };
  await recordInstallationEvent(tx, queues, updated, 'pluginUpdated', {
    fromVersionId: installation.currentVersionId ?? version.id,
    toVersionId: version.id,
    fromSemVer: installation.currentSemVer ?? DRAFT_SEM_VER,
    toSemVer: version.semVer ?? DRAFT_SEM_VER,
  });
  await notifyInstallationChanged(tx, installation.id);
}

async function setPending(tx: ClientBase, installation: Installation, versionId: string | null): Promise<void> {
  await changeInstallation(tx, installation.id, { pendingVersionId: versionId });
  await notifyInstallationChanged(tx, installation.id);
}
