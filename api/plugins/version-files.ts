/** Reads the files of a version for its owner. */
import type { Pool } from 'pg';
import { findDraft, findVersion, type Version, type VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import type { FileResource } from './plugin-resource.ts';

/** Maximum size of a file that is sent; longer ones are only listed. Bytes. */
const FILE_MAX_BYTES = MIB;
/** Maximum size of all texts in one response. Bytes. */
const TOTAL_MAX_BYTES = 16 * MIB;
/** In place of a version id: the saved draft, whose id changes with every save. */
const DRAFT = 'draft';

/** Finds the version of that id, or the plugin's draft. */
export const findVersionOrDraft = (pool: Pool, pluginId: string, versionId: string): Promise<Version | null> =>
  versionId === DRAFT ? findDraft(pool, pluginId) : findVersion(pool, versionId);

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
