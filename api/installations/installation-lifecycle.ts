/** Installs, configures and uninstalls plugins for an account. */
import type { ClientBase } from 'pg';
import type { z } from 'zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { findPluginBySlug, lockPlugin, type Plugin } from '../../db/catalog/plugins.ts';
import { findVersion, type Version } from '../../db/catalog/versions.ts';
import { retireInstallationAddresses } from '../../db/channels/channels.ts';
import { deleteSecret, lockSecrets, saveSecret } from '../../db/files/secrets.ts';
import { DRAFT_SEM_VER } from '../../db/installations/account-plugins.ts';
import {
  checkConfiguration,
  mergeManifests,
  resolveStatus,
  saveSettings,
} from '../../db/installations/configuration.ts';
import { listDroppedHooks } from '../../db/installations/consent-rule.ts';
import { recordEvent } from '../../db/installations/events.ts';
import {
  changeInstallation,
  type Installation,
  insertInstallation,
  lockAccountInstallations,
} from '../../db/installations/installations.ts';
import { cancelUpdate, forgetWiderVersion } from '../../db/installations/updates.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { notifyInstallationChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { listSecretCapabilities } from '../../sdk/contract/manifest.ts';
import type { EventName, events } from '../../sdk/contract/protocol.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireNotBlocked, requireVisiblePlugin } from '../plugins/plugin-access.ts';
import type { Services } from '../services.ts';
import type { configuration, newInstallation } from './installation-input.ts';
import { changeLockedInstallation, requireInstallation } from './installation-lookup.ts';
import { chooseVersion } from './version-choice.ts';

type InstallRequest = z.output<typeof newInstallation>;

/**
 * Installs a plugin. The request is the consent to the capabilities of the chosen version.
 *
 * @param quota maximum number of installations per account
 */
export async function install(
  services: Services,
  caller: Caller,
  request: InstallRequest,
  quota: number,
): Promise<Installation> {
  const found = await findPluginBySlug(services.pool, request.slug);
  requireNotBlocked(found, caller);
  const { id: pluginId } = requireVisiblePlugin(found, caller);
  const id = await inTransaction(services.pool, async (tx) => {
    const locked = await lockPlugin(tx, pluginId, 'shared');
    requireNotBlocked(locked, caller);
    const plugin = requireVisiblePlugin(locked, caller);
    const version = await chooseVersion(tx, plugin, caller, request.versionPolicy, request.pinnedVersionId);
    await requireConsent(tx, plugin, version, request);
    const { count, lastHookOrder } = await lockAccountInstallations(tx, caller.id);
    if (count >= quota) throw overQuota(quota);
    return addInstallation(tx, services, caller, plugin, version, request, lastHookOrder + 1);
  });
  return requireInstallation(services, caller, id);
}

/**
 * A version published after the user's decision may be installed only if it requests no more than the version that was
 * shown, and, where the user requires the plugin, drops none of its hooks.
 */
async function requireConsent(
  tx: ClientBase,
  plugin: Plugin,
  version: Version,
  { versionId: shownId, required: isRequired }: InstallRequest,
) {
  if (shownId === undefined || shownId === version.id) return;
  const shown = await findVersion(tx, shownId);
  if (shown?.pluginId !== plugin.id) {
    const message = `versionId is not a version of “${plugin.slug}”.`;
    throw new Problem('not_found', message, { errors: [{ field: 'versionId', message }] });
  }
  const dropped = isRequired ? listDroppedHooks(shown.capabilities, version.capabilities) : [];
  const more = findMissingCapabilities(version.capabilities, shown.capabilities);
  const [difference, capabilities] = more.length > 0 ? ['requests more than', more] : ['lacks hooks of', dropped];
  if (capabilities.length === 0) return;
  throw new Problem(
    'not_pending',
    `${version.semVer ?? 'The draft'} ${difference} ${shown.semVer ?? 'the draft'}, which you consented to: ${capabilities.join(', ')}. Read what it asks for, then install it (versionId ${version.id}).`,
  );
}

async function addInstallation(
  tx: ClientBase,
  { queues }: Services,
  caller: Caller,
  plugin: Plugin,
  version: Version,
  request: InstallRequest,
  hookOrder: number,
): Promise<string> {
  const id = await insertInstallation(tx, {
    accountId: caller.id,
    pluginId: plugin.id,
    versionPolicy: request.versionPolicy,
    pinnedVersionId: request.versionPolicy === 'Pinned' ? version.id : null,
    currentVersionId: version.id,
    grantedCapabilities: version.capabilities,
    ...resolveStatus('ready', version.manifest, { settings: {}, secretNames: [] }),
    hookOrder,
    required: request.required,
  });
  if (id === null) throw new Problem('already_installed', `You have already installed “${plugin.slug}”.`);
  const versionFields = { currentVersionId: version.id, currentSemVer: version.semVer };
  const installed = { id, accountId: caller.id, pluginId: plugin.id, ...versionFields };
  await recordInstallationEvent(tx, queues, installed, 'pluginInstalled', { reason: 'install' });
  await notifyInstallationChanged(tx, id);
  return id;
}

/** Sets settings and secrets; omitted ones stay unchanged. @throws Problem `quota_exceeded`, or `bad_request` */
export async function configure(
  services: Services,
  caller: Caller,
  installationId: string,
  input: z.output<typeof configuration>,
): Promise<Installation> {
  await changeLockedInstallation(services, caller, installationId, async (tx, locked) => {
    const { currentManifest, targetManifest } = locked;
    if (!currentManifest) throw new Error(`installation ${installationId} has no version`);
    const secrets = Object.entries(input.secrets ?? {});
    const given = secrets.filter(([, value]) => value !== null).map(([name]) => name);
    if (given.length > 0) requireShownVersion(locked, input.versionId);
    checkConfiguration(mergeManifests(currentManifest, targetManifest), locked, input);
    const installation = await keepFromWiderVersion(tx, locked, given);
    const shown = mergeManifests(currentManifest, installation.targetManifest);
    // All of them: `saveSettings` may delete others.
    await lockSecrets(tx, installationId);
    for (const [name, value] of secrets) {
      if (value === null) await deleteSecret(tx, installationId, name);
      else await saveSecret(tx, services.keys, installationId, name, value, listSecretCapabilities(shown, name));
    }
    await saveSettings(tx, services.queues, installation, input.settings);
  });
  await services.finishUpdate(installationId);
  return requireInstallation(services, caller, installationId);
}

/** Another version may read the value of a secret of which the user was shown that the plugin gets a handle. */
function requireShownVersion(installation: Installation, shownId: string | undefined): void {
  const { currentVersionId, targetVersionId, currentSemVer } = installation;
  if (shownId === undefined || shownId === currentVersionId || shownId === targetVersionId) return;
  throw new Problem(
    'bad_request',
    `Nothing was saved: ${currentSemVer ?? 'the draft'} runs now, and not the version that was shown to you. Check what it does with the secrets, and give them again.`,
  );
}

/**
 * A user who gives values of secrets trusts the running version with them: no crash loop returns to a version with more access, and
 * a rollback to one ends. A rollback may wait for a secret that the running version does not declare: that value is for the version
 * before.
 *
 * @param given names of the secrets
 * @returns the installation, without the update that was ended
 */
async function keepFromWiderVersion(
  tx: ClientBase,
  installation: Installation,
  given: readonly string[],
): Promise<Installation> {
  const { id, currentManifest, rollbackReason } = installation;
  const isForRunning = given.some((name) => Object.hasOwn(currentManifest?.secrets ?? {}, name));
  if (given.length === 0 || (rollbackReason !== null && !isForRunning)) return installation;
  const isWider = await forgetWiderVersion(tx, id);
  if (!isWider || rollbackReason === null) return installation;
  await cancelUpdate(tx, id);
  return { ...installation, targetVersionId: null, targetManifest: null, rollbackReason: null };
}

/** Marks an installation as uninstalling. A supervisor sends `pluginUninstalled` and then removes the installation. */
export async function uninstall(services: Services, caller: Caller, installationId: string): Promise<void> {
  await changeLockedInstallation(services, caller, installationId, (tx, installation) =>
    beginUninstall(tx, services.queues, installation, 'user'),
  );
  // Its webhook addresses are gone from now on.
  await services.listener.catchUp();
}

/**
 * Starts the removal of an installation whose row is locked.
 *
 * @param by the user, or the plugin's owner who deletes the plugin
 */
export async function beginUninstall(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  by: 'user' | 'owner',
): Promise<void> {
  const { id, accountId } = installation;
  await changeInstallation(tx, id, { status: 'uninstalling', statusReason: null });
  await retireInstallationAddresses(tx, id);
  await recordInstallationEvent(tx, queues, installation, 'pluginUninstalled', { by });
  await queues.send(tx, 'uninstall', { installationId: id }, { group: { id, accountId } });
  await notifyInstallationChanged(tx, id);
}

/** Sends `pluginInstalled` again. @returns the event's id */
export async function rerunSetup(services: Services, caller: Caller, installationId: string): Promise<string> {
  return changeLockedInstallation(services, caller, installationId, async (tx, installation) => {
    await requireRoom(tx, caller.id, 'deliveries', 1);
    return recordInstallationEvent(tx, services.queues, installation, 'pluginInstalled', { reason: 'rerun-setup' });
  });
}

type Recipient = Pick<Installation, 'id' | 'accountId' | 'pluginId' | 'currentVersionId' | 'currentSemVer'>;

/** @param tx the transaction that changes the installation. @returns the event's id */
function recordInstallationEvent<Type extends EventName>(
  tx: ClientBase,
  queues: Queues,
  { id: installationId, accountId, pluginId, currentVersionId: versionId, currentSemVer }: Recipient,
  type: Type,
  data: z.infer<(typeof events)[Type]['data']>,
): Promise<string> {
  const semVer = currentSemVer ?? DRAFT_SEM_VER;
  return recordEvent(tx, queues, { installationId, accountId, pluginId, versionId, semVer, type, data });
}

const overQuota = (quota: number) =>
  new Problem('too_many_installations', `Your account has its maximum of ${quota} installations. Uninstall one first.`);
