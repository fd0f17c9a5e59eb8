/**
 * Saves drafts. A draft is built and checked like a version, replaced by every save, and used by its owner's
 * installations.
 */
import type { ClientBase } from 'pg';
import { findPlugin, type Plugin } from '../../db/catalog/plugins.ts';
import {
  type BuiltPackage,
  deleteReplacedDrafts,
  findDraft,
  findVersion,
  insertVersion,
  replaceDraft,
  type Version,
} from '../../db/catalog/versions.ts';
import { lockInstallations } from '../../db/installations/installations.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { moveToVersion } from '../installations/version-rollout.ts';
import type { PackageSource } from '../package/reader.ts';
import type { Services } from '../services.ts';
import type { Author } from './author.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import { type BuiltVersion, buildVersion } from './publishing.ts';

interface DraftSave {
  readonly pluginId: string;
  readonly source: PackageSource;
  /** Hash of the draft that the client edited. Null: the plugin had none. Undefined: the new draft replaces any. */
  readonly replaces: string | null | undefined;
}

/**
 * Saves a draft, and begins the update of its owner's installation.
 *
 * @throws Problem `draft_changed`, or like a publish
 */
export async function saveDraft(
  services: Services,
  author: Author,
  { pluginId, source, replaces }: DraftSave,
): Promise<BuiltVersion> {
  const plugin = requireOwnedPlugin(await findPlugin(services.pool, pluginId), author.caller);
  return buildVersion(services, author, plugin, source, async (tx, locked, built) => {
    const current = await findDraft(tx, plugin.id);
    // A save that is repeated because its answer was lost has replaced that draft already.
    const isExpected = [replaces, built.sourceSha256].includes(current?.sourceSha256 ?? null);
    if (replaces !== undefined && !isExpected) throw createChangedProblem(current);
    return storeDraft(tx, services, locked, built);
  });
}

function createChangedProblem(current: Version | null): Problem {
  const what =
    current === null ? 'The draft no longer exists.' : `The draft was saved elsewhere at ${current.createdAt}.`;
  return new Problem('draft_changed', `${what} To replace it anyway, save again without “replaces”.`);
}

async function storeDraft(tx: ClientBase, { queues }: Services, plugin: Plugin, built: BuiltPackage): Promise<Version> {
  const latest = plugin.latestVersionId === null ? null : await findVersion(tx, plugin.latestVersionId);
  const added = latest ? findMissingCapabilities(built.capabilities, latest.capabilities) : built.capabilities;
  await replaceDraft(tx, plugin.id);
  const draft = await insertVersion(tx, plugin.id, null, built, added);
  // Drafts are installed by their owner only.
  for (const installation of await lockInstallations(tx, plugin.id, { versionPolicy: 'Draft' }))
    await moveToVersion(tx, queues, installation, draft.id);
  await deleteReplacedDrafts(tx, plugin.id);
  return draft;
}
