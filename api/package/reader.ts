/** Reads a package from a zip or a list of text files. Both give the same Package and hash. */
import type { Staging } from '../../db/files/staging.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { invalidAt, invalidPackage } from './invalid-package.ts';
import { escapePath, FILES_MAX, hashFileTree, type Package, type PackageFile } from './package-files.ts';
import { comparePathBytes, findClash, isSystemFile, validatePath } from './paths.ts';
import { readZip } from './zip-reader.ts';

/** A file in the body of a file-list publish. */
interface TextFile {
  readonly path: string;
  readonly contentText: string;
}
export type PackageSource =
  | { readonly kind: 'zip'; readonly path: string }
  | { readonly kind: 'files'; readonly files: readonly TextFile[] };

/**
 * Reads a package into a staging directory.
 *
 * @throws Problem `invalid_package` or `text_files_only` that names the entry
 */
export async function readPackage(source: PackageSource, staging: Staging): Promise<Package> {
  const files = source.kind === 'zip' ? await readZip(source.path, staging) : await readList(source.files, staging);
  if (files.length === 0) throw invalidPackage('The package is empty. It needs at least readme.md and index.ts.');
  files.sort(comparePathBytes);
  return {
    files,
    sourceSha256: hashFileTree(files),
    sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  };
}

async function readList(list: readonly TextFile[], staging: Staging): Promise<PackageFile[]> {
  if (list.length > FILES_MAX)
    throw invalidPackage(`The package has ${list.length} files; the maximum is ${FILES_MAX}.`);
  for (const { path, contentText } of list) {
    const fault = validatePath(path);
    if (fault) throw invalidAt({ path: escapePath(path), message: `The path ${fault}.` });
    if (contentText.includes('\0') || !contentText.isWellFormed()) throw notText(path);
  }
  const clash = findClash(list.map(({ path }) => ({ path, isFolder: false })));
  if (clash) throw invalidAt({ path: clash.path, message: `The path ${clash.fault}.` });
  const files: PackageFile[] = [];
  for (const { path, contentText } of list.filter((file) => !isSystemFile(file.path))) {
    files.push({ path, ...(await staging.add([Buffer.from(contentText, 'utf8')])) });
  }
  return files;
}

function notText(path: string): Problem {
  const message = 'holds what is not text (NUL or half a surrogate pair); binary assets need the zip upload';
  return new Problem('text_files_only', `${path}: ${message}`, { errors: [{ path, message }] });
}
