/** Lists and delists plugins, yanks versions and deletes plugins for their owner. */
import type { ClientBase } from 'pg';
import type { z } from 'zod';
import { lockAccount } from '../../db/accounts/accounts.ts';
import {
  countPlugins,
  deletePlugin,
  findPlugin,
  insertPlugin,
  lockPlugin,
  type Plugin,
  renamePlugin,
  setVisibility,
  sweepDeletedPlugins,
} from '../../db/catalog/plugins.ts';
import { findVersion, listVersionNumbers, markYanked, type Version } from '../../db/catalog/versions.ts';
import { lockInstallations } from '../../db/installations/installations.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { beginUninstall } from '../installations/installation-lifecycle.ts';
import { endWithdrawals, withdrawVersion } from '../installations/version-rollout.ts';
import type { Services } from '../services.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import type { newPlugin } from './plugin-input.ts';
import { rollOut, updateLatestVersion } from './publishing.ts';

/** @param quota maximum number of plugins per account */
export function createPlugin(
  services: Services,
  caller: Caller,
  plugin: z.output<typeof newPlugin>,
  quota: number,
): Promise<Plugin> {
  return inTransaction(services.pool, async (tx) => {
    await lockAccount(tx, caller.id);
    if ((await countPlugins(tx, caller.id)) >= quota)
      throw new Problem(
        'too_many',
        `Your account has its maximum of ${quota} plugins. Delete one that has no published version first, or ask the operator to raise PLUGINS_PER_ACCOUNT.`,
      );
    const made = await insertPlugin(tx, { ...plugin, ownerId: caller.id });
    if (!made)
      throw new Problem('slug_taken', `The slug “${plugin.slug}” is in use or reserved. Choose another.`, {
        errors: [{ field: 'slug', message: 'is in use' }],
      });
    return made;
  });
}

/** Names and describes a plugin until its first version does. */
export async function changeNames(
  services: Services,
  caller: Caller,
  pluginId: string,
  names: { displayName?: string | undefined; description?: string | undefined },
): Promise<Plugin> {
  return changePlugin(services, caller, pluginId, async (tx, plugin) => {
    if (plugin.latestVersionId !== null) {
      const detail = `“${plugin.slug}” has a published version, whose readme.md names and describes the plugin. Publish a version with another name or description.`;
      throw new Problem('published_version_exists', detail);
    }
    await renamePlugin(tx, plugin.id, names);
  });
}

/** Shows a plugin in the catalog. Idempotent. */
export async function listPlugin(services: Services, caller: Caller, pluginId: string): Promise<Plugin> {
  return changePlugin(services, caller, pluginId, async (tx, plugin) => {
    if (plugin.latestVersionId === null) {
      throw new Problem('no_published_version', 'Publish a version first; then the plugin can be listed.');
    }
    await setVisibility(tx, plugin.id, 'listed', null);
  });
}

/**
 * Takes a plugin out of the catalog. Installations keep working and show the message. A plugin that was never listed
 * stays private.
 */
export async function delistPlugin(
  services: Services,
  caller: Caller,
  pluginId: string,
  deprecationMessage: string | null,
): Promise<Plugin> {
  return changePlugin(services, caller, pluginId, async (tx, plugin) => {
    if (plugin.visibility !== 'private') await setVisibility(tx, plugin.id, 'delisted', deprecationMessage);
  });
}

/** Yanks a version, moves the installations that follow it and removes its files if none uses it. Idempotent. */
export async function yankVersion(
  services: Services,
  caller: Caller,
  pluginId: string,
  versionId: string,
): Promise<Version> {
  const yanked = await inTransaction(services.pool, async (tx) => {
    const plugin = requireOwnedPlugin(await lockPlugin(tx, pluginId, 'exclusive'), caller);
    const versions = await listVersionNumbers(tx, plugin.id);
    const isOwn = versions.some(({ id }) => id === versionId);
    const version = isOwn ? await findVersion(tx, versionId) : null;
    if (!version) throw new Problem('not_found', `“${plugin.slug}” has no version with this id.`);
    if (version.status === 'yanked') return version;
    if (versions.filter(({ status }) => status === 'published').length === 1) {
      throw new Problem('last_version', `${version.semVer} is the last version; publish another before you yank it.`);
    }
    await markYanked(tx, version.id);
    const left = versions.map((one) => (one.id === version.id ? { ...one, status: 'yanked' as const } : one));
    await updateLatestVersion(tx, plugin, left);
    await withdrawVersion(tx, plugin.id, version.id);
    const released = await findVersion(tx, version.id);
    if (!released) throw new Error(`Version ${version.id} was deleted while it was yanked.`);
    return released;
  });
  // An outage fails the request: a supervisor of an earlier release could still start the version. The repeated request goes on.
  await endWithdrawals(services, pluginId);
  await rollOut(services, pluginId);
  return yanked;
}

/**
 * Deletes a plugin without published versions. Installations of its draft are uninstalled as if by their users. If one is
 * required, the plugin is not deleted: its hooks may be checks, and the user must decide to go on without them.
 */
export async function removePlugin(services: Services, caller: Caller, pluginId: string): Promise<void> {
  await inTransaction(services.pool, async (tx) => {
    const plugin = requireOwnedPlugin(await lockPlugin(tx, pluginId, 'exclusive'), caller);
    if (plugin.latestVersionId !== null) {
      const detail = `“${plugin.slug}” has a published version, which other accounts may use. Delist it instead.`;
      throw new Problem('published_version_exists', detail);
    }
    // What was never published, only its owner can have installed.
    const installations = await lockInstallations(tx, plugin.id);
    if (installations.some(({ required }) => required)) {
      const detail = `This account requires “${plugin.slug}”, so nothing passes without it. Uninstall it, or set required to false, then delete the plugin.`;
      throw new Problem('required_installation', detail);
    }
    for (const installation of installations) await beginUninstall(tx, services.queues, installation, 'owner');
    await deletePlugin(tx, plugin.id);
    await sweepDeletedPlugins(tx);
  });
  services.onDeleted?.();
}

async function changePlugin(
  { pool }: Services,
  caller: Caller,
  pluginId: string,
  change: (tx: ClientBase, plugin: Plugin) => Promise<void>,
): Promise<Plugin> {
  return inTransaction(pool, async (tx) => {
    await change(tx, requireOwnedPlugin(await lockPlugin(tx, pluginId, 'exclusive'), caller));
    return requireOwnedPlugin(await findPlugin(tx, pluginId), caller);
  });
}
