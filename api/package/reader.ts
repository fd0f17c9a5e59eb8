/** Reads a package from a zip or a list of text files. Both give the same Package and hash. */
import type { Staging } from '../../db/files/staging.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { hashFileTree, sortByPathBytes } from '../../sdk/contract/file-tree.ts';
import { validatePath } from '../../sdk/contract/package-paths.ts';
import { LoopSlices, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { requireFileCount } from './file-list.ts';
import { invalidAt, invalidPackage } from './invalid-package.ts';
import { escapePath, type Package, type PackageFile } from './package-files.ts';
import { findClash, isSystemFile } from './paths.ts';
import { readZip, type ZipSource } from './zip-reader.ts';

/** A file in the body of a file-list publish. */
interface TextFile {
  readonly path: string;
  readonly contentText: string;
}
export type PackageSource =
  | (ZipSource & { readonly kind: 'zip' })
  | { readonly kind: 'files'; readonly files: readonly TextFile[] };

/**
 * @param loopKey whose turns of the event loop it uses, such as the author's account
 * @throws Problem `invalid_package` or `text_files_only` that names the entry
 */
export async function readPackage(source: PackageSource, staging: Staging, loopKey: string): Promise<Package> {
  const read =
    source.kind === 'zip' ? await readZip(source, staging, loopKey) : await readList(source.files, staging, loopKey);
  if (read.length === 0) throw invalidPackage('The package is empty. It needs at least readme.md and index.ts.');
  // Sorting 10,000 files takes some 20 ms, and so does hashing their paths.
  await waitForLoopTurn(loopKey);
  const files = sortByPathBytes(read);
  await waitForLoopTurn(loopKey);
  return {
    files,
    sourceSha256: hashFileTree(files),
    sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  };
}

async function readList(list: readonly TextFile[], staging: Staging, loopKey: string): Promise<PackageFile[]> {
  requireFileCount(list.length);
  const slices = new LoopSlices(loopKey);
  for (const { path, contentText } of list) {
    await slices.pauseWhenOver();
    const fault = validatePath(path);
    if (fault) throw invalidAt({ path: escapePath(path), message: `The path ${fault}.` });
    if (contentText.includes('\0') || !contentText.isWellFormed()) throw notText(path);
  }
  const clash = await findClash(
    list.map(({ path }) => ({ path, isFolder: false })),
    loopKey,
  );
  if (clash) throw invalidAt({ path: clash.path, message: `The path ${clash.fault}.` });
  const files: PackageFile[] = [];
  for (const { path, contentText } of list) {
    await slices.pauseWhenOver();
    if (isSystemFile(path)) continue;
    files.push({ path, ...(await staging.add([Buffer.from(contentText, 'utf8')])) });
  }
  return files;
}

function notText(path: string): Problem {
  const message = 'holds what is not text (NUL or half a surrogate pair); binary assets need the zip upload';
  return new Problem('text_files_only', `${path}: ${message}`, { errors: [{ path, message }] });
}
