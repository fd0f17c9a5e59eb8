/** Installing, configuring and uninstalling a plugin for an account. */
import type { ClientBase } from 'pg';
import { findPluginBySlug, lockPlugin, type Plugin } from '../../db/catalog/plugins.ts';
import { findVersion, listVersions, type Version } from '../../db/catalog/versions.ts';
import { retireInstallationAddresses } from '../../db/channels/channels.ts';
import { deleteSecret, listSecretNames, saveSecret } from '../../db/files/secrets.ts';
import { DRAFT_SEM_VER } from '../../db/installations/account-plugins.ts';
import { recordEvent } from '../../db/installations/events.ts';
import {
  changeInstallation,
  findAnyInstallation,
  findInstallation,
  type Installation,
  insertInstallation,
  lockAccountInstallations,
  lockInstallation,
  type VersionPolicy,
} from '../../db/installations/installations.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { notifyInstallationChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireNotBlocked, requireVisiblePlugin } from '../plugins/plugin-access.ts';
import type { Services } from '../services.ts';
import { resolveStatus } from './capability-diff.ts';
import { type ConfigurationInput, checkConfiguration, mergeSettings } from './configuration.ts';

export interface InstallRequest {
  readonly slug: string;
  readonly versionPolicy: VersionPolicy;
  readonly pinnedVersionId?: string | undefined;
  /** What the account was shown and consented to. */
  readonly versionId?: string | undefined;
}

/**
 * Installs a plugin. The request is the account's consent to what the chosen version asks for.
 *
 * @param quota installations an account may have
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
    await requireConsent(tx, plugin, version, request.versionId);
    const { count, lastHookOrder } = await lockAccountInstallations(tx, caller.id);
    if (count >= quota) throw overQuota(quota);
    return addInstallation(tx, services, caller, plugin, version, request, lastHookOrder + 1);
  });
  return requireInstallation(services, caller, id);
}

/**
 * A version published between the look and the click cannot ride on the consent: it may run only within what the one
 * that was shown asks for.
 */
async function requireConsent(tx: ClientBase, plugin: Plugin, version: Version, shownId: string | undefined) {
  if (shownId === undefined || shownId === version.id) return;
  const shown = await findVersion(tx, shownId);
  if (shown?.pluginId !== plugin.id) {
    const message = `versionId is no version of “${plugin.slug}”.`;
    throw new Problem('not_found', message, { errors: [{ field: 'versionId', message }] });
  }
  const more = findMissingCapabilities(version.capabilities, shown.capabilities);
  if (more.length === 0) return;
  throw new Problem(
    'not_pending',
    `${version.semVer ?? 'The draft'} asks for more than ${shown.semVer ?? 'the draft'}, which you consented to: ${more.join(', ')}. Look at it again, then install it with versionId ${version.id}.`,
  );
}

/** The version a policy stands for. @throws Problem: there is none, or not for this caller */
export async function chooseVersion(
  tx: ClientBase,
  plugin: Plugin,
  caller: Caller,
  policy: VersionPolicy,
  pinnedVersionId: string | null | undefined,
): Promise<Version> {
  if (policy === 'Draft') {
    if (plugin.ownerId !== caller.id) {
      throw new Problem('draft_owner_only', 'The policy Draft is for plugins of your own.');
    }
    const draft = (await listVersions(tx, plugin.id)).find((version) => version.status === 'draft');
    if (!draft) throw new Problem('no_draft', `“${plugin.slug}” has no draft yet; save one first.`);
    return draft;
  }
  if (policy === 'Pinned') return choosePinned(tx, plugin, pinnedVersionId);
  const latest = plugin.latestVersionId === null ? null : await findVersion(tx, plugin.latestVersionId);
  if (!latest) throw new Problem('no_published_version', `“${plugin.slug}” has no published version to follow.`);
  return latest;
}

async function choosePinned(tx: ClientBase, plugin: Plugin, versionId: string | null | undefined): Promise<Version> {
  const refuse = (message: string) =>
    new Problem('invalid_pin', message, { errors: [{ field: 'pinnedVersionId', message }] });
  if (!versionId) throw refuse('The policy Pinned needs pinnedVersionId, the id of a published version.');
  const version = await findVersion(tx, versionId);
  if (version?.pluginId !== plugin.id) throw refuse(`pinnedVersionId is no version of “${plugin.slug}”.`);
  if (version.status === 'draft') throw refuse('A draft cannot be pinned; publish it, or use the policy Draft.');
  if (version.status === 'yanked') throw refuse(`Version ${version.semVer} was yanked and cannot be pinned.`);
  return version;
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
  });
  if (id === null) throw new Problem('already_installed', `You have “${plugin.slug}” installed already.`);
  await recordEvent(tx, queues, {
    installationId: id,
    accountId: caller.id,
    pluginId: plugin.id,
    versionId: version.id,
    semVer: version.semVer ?? DRAFT_SEM_VER,
    type: 'pluginInstalled',
    data: { reason: 'install' },
  });
  await notifyInstallationChanged(tx, id);
  return id;
}

/** Sets the given settings and secrets; those not named stay as they are. */
export async function configure(
  services: Services,
  caller: Caller,
  installationId: string,
  input: ConfigurationInput,
): Promise<Installation> {
  await changeLockedInstallation(services, caller, installationId, async (tx, installation) => {
    const manifest = installation.currentManifest;
    if (!manifest) throw new Error(`installation ${installationId} has no version`);
    checkConfiguration(manifest, installation, input);
    for (const [name, value] of Object.entries(input.secrets ?? {})) {
      if (value === null) await deleteSecret(tx, installationId, name);
      else await saveSecret(tx, services.keys, installationId, name, value);
    }
    const settings = mergeSettings(installation.settings, input.settings);
    const secretNames = await listSecretNames(tx, installationId);
    const settled = resolveStatus(installation.status, manifest, { settings, secretNames });
    await changeInstallation(tx, installationId, { settings, ...settled });
  });
  return requireInstallation(services, caller, installationId);
}

/** Marks an installation as going. A supervisor tells the plugin, removes what it owned, and then the row. */
export async function uninstall(services: Services, caller: Caller, installationId: string): Promise<void> {
  await changeLockedInstallation(services, caller, installationId, (tx, installation) =>
    beginUninstall(tx, services.queues, installation, 'user'),
  );
}

/**
 * Begins the removal of an installation whose row the transaction has locked.
 *
 * @param by who wanted it: its user, or the plugin's owner by deleting the plugin
 */
export async function beginUninstall(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  by: 'user' | 'owner',
): Promise<void> {
  const { id, accountId, pluginId, currentVersionId, currentSemVer } = installation;
  await changeInstallation(tx, id, { status: 'uninstalling', statusReason: null });
  await retireInstallationAddresses(tx, id);
  await recordEvent(tx, queues, {
    ...{ installationId: id, accountId, pluginId, versionId: currentVersionId },
    semVer: currentSemVer ?? DRAFT_SEM_VER,
    type: 'pluginUninstalled',
    data: { by },
  });
  await queues.send(tx, 'uninstall', { installationId: id }, { group: id });
  await notifyInstallationChanged(tx, id);
}

/** Sends `pluginInstalled` again. @returns the event's id */
export async function rerunSetup(services: Services, caller: Caller, installationId: string): Promise<string> {
  return changeLockedInstallation(services, caller, installationId, (tx, installation) =>
    recordEvent(tx, services.queues, {
      installationId,
      accountId: caller.id,
      pluginId: installation.pluginId,
      versionId: installation.currentVersionId,
      semVer: installation.currentSemVer ?? DRAFT_SEM_VER,
      type: 'pluginInstalled',
      data: { reason: 'rerun-setup' },
    }),
  );
}

/** Runs a change with the installation's row locked and tells supervisors with its commit. */
export async function changeLockedInstallation<T>(
  services: Services,
  caller: Caller,
  installationId: string,
  change: (tx: ClientBase, installation: Installation) => Promise<T>,
): Promise<T> {
  return inTransaction(services.pool, async (tx) => {
    const installation = await lockInstallation(tx, caller.id, installationId);
    if (!installation) throw unknownInstallation();
    const result = await change(tx, installation);
    await notifyInstallationChanged(tx, installationId);
    return result;
  });
}

/**
 * The caller's installation.
 *
 * @param access `read`: an operator's request may read everybody's
 * @throws Problem `not_found`, for another account's too
 */
export async function requireInstallation(
  services: Pick<Services, 'pool'>,
  caller: Caller,
  id: string,
  access: 'read' | 'change' = 'change',
): Promise<Installation> {
  const find = access === 'read' ? findReadableInstallation : findOwn;
  const installation = await find(services, caller, id);
  if (!installation) throw unknownInstallation();
  return installation;
}

/** An installation that the caller may read: its own, or anybody's for an operator. */
export function findReadableInstallation(
  services: Pick<Services, 'pool'>,
  caller: Caller,
  id: string,
): Promise<Installation | null> {
  return caller.operator ? findAnyInstallation(services.pool, id) : findOwn(services, caller, id);
}

const findOwn = ({ pool }: Pick<Services, 'pool'>, caller: Caller, id: string) => findInstallation(pool, caller.id, id);
const unknownInstallation = () => new Problem('not_found', 'You have no such installation.');
const overQuota = (quota: number) =>
  new Problem('rate_limited', `Your account has ${quota} installations, the most it may have. Uninstall one first.`);
