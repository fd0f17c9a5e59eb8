/** Reads the files of a version for its owner. */
import type { Pool } from 'pg';
import { findPlugin } from '../../db/catalog/plugins.ts';
import { findDraft, findVersion, type VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import type { FileResource } from './plugin-resource.ts';

/** Maximum size of a file that is sent; longer ones are only listed. Bytes. */
const FILE_MAX_BYTES = MIB;
/** Maximum size of all texts in one response. Bytes. */
const TOTAL_MAX_BYTES = 16 * MIB;
/** In place of a version id: the saved draft, whose id changes with every save. */
const DRAFT = 'draft';

/** Finds the version of that id, or the draft, of a plugin of the caller. Operators may read those of all accounts. */
export async function requireOwnedVersion(pool: Pool, caller: Caller, params: { id: string; versionId: string }) {
  const plugin = requireOwnedPlugin(await findPlugin(pool, params.id), caller, 'read');
  const version = await (params.versionId === DRAFT ? findDraft(pool, plugin.id) : findVersion(pool, params.versionId));
  if (version?.pluginId !== plugin.id) throw new Problem('not_found', `“${plugin.slug}” has no version with this id.`);
  return { plugin, version };
}

/** Reads the text of each file; null for binary files and beyond the limits. */
export async function readVersionFiles(blobs: Blobs, files: readonly VersionFile[]): Promise<FileResource[]> {
  let total = 0;
  const shown: FileResource[] = [];
  for (const { path, sha256, sizeBytes } of files) {
    const fits = sizeBytes <= FILE_MAX_BYTES && total + sizeBytes <= TOTAL_MAX_BYTES;
    const contentText = fits ? decodeText(await blobs.read(sha256)) : null;
    if (contentText !== null) total += sizeBytes;
    shown.push({ path, contentText, sizeBytes, sha256 });
  }
  return shown;
}
