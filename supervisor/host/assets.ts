/** `host.assets`: the files below `assets/` of the version that makes the call. They do not count against the size of its bundle. */
import { isUtf8 } from 'node:buffer';
import type { Pool } from 'pg';
import { findFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { HostError, type HostHandlers } from './host-call.ts';

type Calls = 'assets.read' | 'assets.readText';
const FOLDER = 'assets/';
const NO_SUCH = `the package has no asset with this path; give the path below ${FOLDER} exactly as it was published`;

/** Finds a file of the package by its path; null: there is none. */
export type FindFile = (path: string) => Promise<{ readonly sizeBytes: number; load(): Promise<Uint8Array> } | null>;

/** @param path below `assets/`; only the exact published path matches, so it cannot lead elsewhere */
export async function readAsset(find: FindFile, path: string): Promise<Uint8Array<ArrayBuffer>> {
  const file = await find(`${FOLDER}${path}`);
  if (!file) throw new HostError(NO_SUCH);
  if (file.sizeBytes > limits.assetBytes) {
    const most = `a call reads ${limits.assetBytes} at most: split the file`;
    throw new HostError(`${FOLDER}${path} has ${file.sizeBytes} bytes; ${most}`);
  }
  return new Uint8Array(await file.load());
}

export async function readAssetText(find: FindFile, path: string): Promise<string> {
  const bytes = await readAsset(find, path);
  if (!isUtf8(bytes)) throw new HostError(`${FOLDER}${path} is not UTF-8 text; read it with host.assets.read`);
  return Buffer.from(bytes).toString('utf8');
}

export function assetCalls(pool: Pool, blobs: Blobs): Pick<HostHandlers, Calls> {
  const finderOf =
    (versionId: string): FindFile =>
    async (path) => {
      const file = isStorable(path) ? await findFile(pool, versionId, path) : null;
      return file && { sizeBytes: file.sizeBytes, load: () => blobs.read(file.sha256) };
    };
  return {
    // Not of the current version: while that starts, or if it does not start, the code of an earlier one runs.
    'assets.read': ({ loaded }, { path }) => readAsset(finderOf(loaded.versionId), path),
    'assets.readText': ({ loaded }, { path }) => readAssetText(finderOf(loaded.versionId), path),
  };
}
