/** The files of a version as they are sent to its owner. */
import type { Pool } from 'pg';
import { findVersion, listVersions, type Version, type VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import type { FileResource } from './plugin-resource.ts';

/** A longer file is named but not sent: nobody reads it in an editor. Bytes. */
const FILE_MAX_BYTES = MIB;
/** All text of one answer together. Bytes. */
const TOTAL_MAX_BYTES = 16 * MIB;
/** Stands for the id of the saved draft, which changes with every save. */
const DRAFT = 'draft';

/** The version of that id, or the plugin's draft. */
export async function findVersionOrDraft(pool: Pool, pluginId: string, versionId: string): Promise<Version | null> {
  if (versionId !== DRAFT) return findVersion(pool, versionId);
  return (await listVersions(pool, pluginId)).find(({ status }) => status === 'draft') ?? null;
}

/** Reads the text of each file; null where it is no text or over the bounds. */
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
