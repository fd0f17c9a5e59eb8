/** Reads a package folder: its files and its slug. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SLUG_MAX_CHARS } from '../contract/full-names.ts';
import { MIB, PACKAGE_FILES_MAX, PACKAGE_MAX_BYTES } from '../contract/limits.ts';
import { isToolFile, isToolFolder } from '../contract/package-paths.ts';
import { replaceHiddenCharacters } from '../contract/visible-text.ts';
import { CommandError } from './failure.ts';
import type { FolderFile } from './local-tools.ts';

/** Maximum length of the name of a plugin or a skill. */
export const NAME_MAX_CHARS = 64;
const SLUG = /^[a-z0-9]+(-[a-z0-9]+)*$/;

interface PackageFolder {
  /** Absolute path. */
  readonly folder: string;
  readonly slug: string;
  /** Sorted by path. */
  readonly files: readonly FolderFile[];
  /** One sentence for each symbolic link, folder and file of output that is left out. */
  readonly warnings: readonly string[];
}

/**
 * Lists the files of a package and determines its slug.
 *
 * @param path of the folder, relative to `from`
 * @param slug default: `bulkhead.slug` of package.json, else the folder's name
 * @param outputIds files that the command writes its output to
 * @throws CommandError if there is no package, or more than a package may have
 */
export async function readPackageFolder(
  from: string,
  path: string | undefined,
  slug?: string,
  outputIds: readonly FileId[] = [],
): Promise<PackageFolder> {
  const folder = resolve(from, path ?? '.');
  const found = await stat(folder).catch(() => null);
  if (!found?.isDirectory()) {
    const message = `There is no folder ${path ?? folder}. Pass the folder with readme.md and index.ts.`;
    throw new CommandError('usage', message);
  }
  if (!(await isPackage(folder))) {
    const message = `${folder} has no readme.md and no index.ts. Pass the folder of a package, or run \`bulkhead init\`.`;
    throw new CommandError('no_package', message);
  }
  const listing: Listing = { files: [], bytes: 0, links: [], folders: [], outputs: [], outputIds };
  await listFiles(folder, '', listing);
  const { files } = listing;
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const warnings = [
    ...listing.folders.sort().map((path) => `${path}/ is left out: it has the name of a tool’s folder. ${RENAME}`),
    ...listing.outputs.sort().map((path) => `${path} is left out: this command writes its output to it.`),
    ...listing.links.sort().map((path) => `${path} is left out: it is a symbolic link. Replace it with a copy.`),
  ];
  return { folder, slug: slug ?? (await readSlug(folder)), files, warnings };
}

/** Whether the folder looks like a package. One of the two files is enough, because the check reports a missing one. */
async function isPackage(folder: string): Promise<boolean> {
  const names = (await readdir(folder)).map((name) => name.toLowerCase());
  return names.includes('readme.md') || names.includes('index.ts');
}

const RENAME = 'If it belongs to the package, rename it.';
/** Names of folders that no author expects in a package. */
const UNEXPECTED = /^(?:\.|__MACOSX$)/;

/** Identifies a file, whatever its path. */
export interface FileId {
  readonly dev: number;
  readonly ino: number;
}

interface Listing {
  readonly files: FolderFile[];
  /** Of all files together. */
  bytes: number;
  /** Symbolic links, which are not followed. */
  readonly links: string[];
  /** Folders of tools of which the author is warned. */
  readonly folders: string[];
  /** Files that the command writes its output to. */
  readonly outputs: string[];
  readonly outputIds: readonly FileId[];
}

/** Whether a file is one that the command writes its output to. */
export const isOutput = (outputIds: readonly FileId[], { dev, ino }: FileId): boolean =>
  outputIds.some((id) => id.dev === dev && id.ino === ino);

/** @param listing receives what is found @throws CommandError */
async function listFiles(folder: string, below: string, listing: Listing): Promise<void> {
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    // Also a link to such a folder, as some package managers make node_modules.
    if (isToolFolder(path)) {
      if (entry.isDirectory() && path !== 'node_modules' && !UNEXPECTED.test(entry.name)) listing.folders.push(path);
      continue;
    }
    if (entry.isDirectory()) await listFiles(folder, path, listing);
    if (isToolFile(path)) continue;
    if (entry.isFile()) await addFile(folder, path, listing);
    if (entry.isSymbolicLink()) listing.links.push(path);
  }
}

/** Stops at the limits of a package before any file is read: the folder may be that of a whole repository. @throws CommandError */
async function addFile(folder: string, path: string, listing: Listing): Promise<void> {
  const at = join(folder, path);
  // A file that was removed meanwhile is reported when it is read.
  const found = await stat(at).catch(() => null);
  // It changes with each printed line: a publish would refuse the folder as changed, and `dev` would never stop saving.
  if (found && isOutput(listing.outputIds, found)) {
    listing.outputs.push(path);
    return;
  }
  listing.files.push({ path, at });
  if (listing.files.length > PACKAGE_FILES_MAX) throw createLimitError(folder, `${PACKAGE_FILES_MAX} files`);
  listing.bytes += found?.size ?? 0;
  if (listing.bytes > PACKAGE_MAX_BYTES) throw createLimitError(folder, `${PACKAGE_MAX_BYTES / MIB} MB of files`);
}

const createLimitError = (folder: string, limit: string): CommandError =>
  new CommandError(
    'invalid_package',
    `${folder} has more than ${limit}, the most that a package may have. Pass the folder of a package, or move other files out of it.`,
  );

/** Returns the slug of package.json, or one made from the folder's name. @throws CommandError if package.json is not JSON */
export async function readSlug(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}');
  let slug: unknown;
  try {
    slug = (parseJsonFile(text) as { bulkhead?: { slug?: unknown } } | null)?.bulkhead?.slug;
  } catch {
    throw new CommandError('failed', `${join(folder, 'package.json')} is not valid JSON. Fix it, or pass \`--slug\`.`);
  }
  if (slug === undefined) return readFolderSlug(folder);
  if (typeof slug === 'string') return slug;
  const message = `bulkhead.slug in ${join(folder, 'package.json')} must be text, such as "my-plugin", not ${JSON.stringify(slug)}.`;
  throw new CommandError('usage', message);
}

/** Parses the text of a JSON file, with or without a byte order mark, which editors of Windows write. @throws SyntaxError */
export const parseJsonFile = (text: string): unknown => JSON.parse(text.replace(/^\uFEFF/, ''));

/** Makes a slug from the folder's name. @throws CommandError if the name has letters that a slug cannot have, or gives no slug */
function readFolderSlug(folder: string): string {
  const name = basename(folder).normalize();
  const slug = /(?![A-Za-z])\p{L}/u.test(name) ? null : toSlug(name);
  if (slug !== null) return slug;
  throw new CommandError(
    'usage',
    `${describeNoSlug(name)} Pass one, such as \`--slug rain-forecast\`, or set bulkhead.slug in package.json.`,
  );
}

export const describeNoSlug = (name: string): string =>
  `No slug can be made from the name “${name}”: slugs have lower-case letters from a to z, digits and hyphens.`;

/**
 * `My Plugin` → `my-plugin`, `Größe` → `grosse`.
 *
 * @returns null if the name has letters of another script, or nothing that a slug can have: other names would give the same slug
 */
export function toSlug(name: string): string | null {
  if (/(?!\p{Script=Latin})\p{L}/u.test(name)) return null;
  const slug = name
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, SLUG_MAX_CHARS)
    .replace(/^-|-$/g, '');
  return slug === '' ? null : slug;
}

/** Converts a text into one line without hidden characters. */
export const toDisplayText = (text: string, max: number): string =>
  replaceHiddenCharacters(text.normalize(), 'line', () => ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, max)
    .toWellFormed()
    .trim();

/** Returns why a slug is not valid, as the end of a sentence; null if it is valid. */
export function findSlugFault(slug: string): string | null {
  if (slug.length > SLUG_MAX_CHARS) return `is longer than ${SLUG_MAX_CHARS} characters`;
  return SLUG.test(slug) ? null : 'is not a slug: use lower-case letters, digits and single hyphens, such as my-plugin';
}
