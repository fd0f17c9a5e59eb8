/** Chooses the version that an installation runs under its version policy. */
import type { ClientBase } from 'pg';
import type { Plugin } from '../../db/catalog/plugins.ts';
import { findDraft, findVersion, type Version } from '../../db/catalog/versions.ts';
import type { VersionPolicy } from '../../db/installations/installations.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';

/**
 * Chooses the version.
 *
 * @param pinnedVersionId null: none
 * @throws Problem when the policy selects no version, or one that the caller may not install, or when another policy than Pinned has a pin
 */
export async function chooseVersion(
  tx: ClientBase,
  plugin: Plugin,
  caller: Caller,
  policy: VersionPolicy,
  pinnedVersionId: string | null | undefined,
): Promise<Version> {
  // A client that sends both means the pinned version: installing another one would grant what its user has not read.
  if (policy !== 'Pinned' && pinnedVersionId != null)
    throw invalidPin('pinnedVersionId is allowed with the policy Pinned only.');
  if (policy === 'Draft') {
    if (plugin.ownerId !== caller.id) {
      throw new Problem('draft_owner_only', 'The policy Draft is for your own plugins only.');
    }
    const draft = await findDraft(tx, plugin.id);
    if (!draft) throw new Problem('no_draft', `“${plugin.slug}” has no draft yet. Save one first.`);
    return draft;
  }
  if (policy === 'Pinned') return choosePinned(tx, plugin, pinnedVersionId);
  const latest = plugin.latestVersionId === null ? null : await findVersion(tx, plugin.latestVersionId);
  if (!latest) throw new Problem('no_published_version', `“${plugin.slug}” has no published version to follow.`);
  return latest;
}

const invalidPin = (message: string): Problem =>
  new Problem('invalid_pin', message, { errors: [{ field: 'pinnedVersionId', message }] });

async function choosePinned(tx: ClientBase, plugin: Plugin, versionId: string | null | undefined): Promise<Version> {
  if (!versionId) throw invalidPin('The policy Pinned needs pinnedVersionId, the id of a published version.');
  const version = await findVersion(tx, versionId);
  if (version?.pluginId !== plugin.id) throw invalidPin(`pinnedVersionId is not a version of “${plugin.slug}”.`);
  if (version.status === 'draft' || version.status === 'replaced')
    throw invalidPin('A draft cannot be pinned; publish it, or use the policy Draft.');
  if (version.status === 'yanked') throw invalidPin(`Version ${version.semVer} was yanked and cannot be pinned.`);
  return version;
}
