/**
 * Saves drafts. A draft is built and checked like a version, replaced by every save, and used by its owner's
 * installations.
 */
import type { ClientBase } from 'pg';
import { findPlugin, lockPlugin, type Plugin } from '../../db/catalog/plugins.ts';
import {
  type BuiltPackage,
  deleteDraft,
  findVersion,
  insertVersion,
  listVersions,
  type Version,
} from '../../db/catalog/versions.ts';
import {
  changeInstallation,
  detachInstallations,
  type Installation,
  lockInstallation,
  lockInstallations,
} from '../../db/installations/installations.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { offerVersion, switchVersion } from '../installations/version-rollout.ts';
import type { PackageSource } from '../package/reader.ts';
import type { Services } from '../services.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import { withBuild } from './publishing.ts';

interface SavedDraft {
  readonly draft: Version;
  /** Warnings about likely mistakes. */
  readonly warnings: readonly string[];
}

/** Saves a draft. @throws Problem like a publish */
export async function saveDraft(
  services: Services,
  caller: Caller,
  pluginId: string,
  source: PackageSource,
): Promise<SavedDraft> {
  const plugin = requireOwnedPlugin(await findPlugin(services.pool, pluginId), caller);
  return withBuild(services, source, plugin, (built) =>
    inTransaction(services.pool, async (tx) => {
      const locked = requireOwnedPlugin(await lockPlugin(tx, plugin.id, 'exclusive'), caller);
      return { draft: await replaceDraft(tx, services, locked, built), warnings: built.warnings };
    }),
  );
}

async function replaceDraft(
  tx: ClientBase,
  { queues }: Services,
  plugin: Plugin,
  built: BuiltPackage,
): Promise<Version> {
  const before = (await listVersions(tx, plugin.id)).find(({ status }) => status === 'draft') ?? null;
  const latest = plugin.latestVersionId === null ? null : await findVersion(tx, plugin.latestVersionId);
  const added = latest ? findMissingCapabilities(built.capabilities, latest.capabilities) : built.capabilities;
  // Besides the policy Draft: installations that left it and still have the draft as current version.
  const running = before ? await lockInstallations(tx, plugin.id, { currentVersionId: before.id }) : [];
  const following = await lockInstallations(tx, plugin.id, { versionPolicy: 'Draft' });
  // A plugin has one draft row at a time, and no row may refer to the old one when it is deleted.
  const leaving = before ? await detachInstallations(tx, before.id) : [];
  await deleteDraft(tx, plugin.id);
  const draft = await insertVersion(tx, plugin.id, null, built, added);
  // Installations being uninstalled run `pluginUninstalled` with the new draft. They get no pluginUpdated event.
  for (const id of leaving) await changeInstallation(tx, id, { currentVersionId: draft.id });
  const all = new Map([...running, ...following].map((installation) => [installation.id, installation]));
  for (const installation of all.values()) await moveToDraft(tx, queues, installation, draft);
  return draft;
}

/**
 * Moves an installation to the new draft. A pending consent remains, unless the new draft's capabilities are all
 * granted.
 */
async function moveToDraft(tx: ClientBase, queues: Queues, installation: Installation, draft: Version): Promise<void> {
  await switchVersion(tx, queues, installation, draft);
  const { accountId, id, pendingVersionId } = installation;
  const pending = pendingVersionId === null ? null : await findVersion(tx, pendingVersionId);
  const moved = pending && (await lockInstallation(tx, accountId, id));
  if (moved) await offerVersion(tx, queues, moved, pending);
}
