/** The folder an author works in: which of its files are the package, and what the plugin is called. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { CommandError } from './failure.ts';
import type { FolderFile } from './toolbox.ts';

/** What lies beside a package for the author's own tools. Names starting with a dot are left out as well. */
const FOLDERS_LEFT_OUT = new Set(['node_modules', 'dist', 'coverage']);
const FILES_LEFT_OUT =
  /^(package(-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.(json|lock)|tsconfig.*\.json|Thumbs\.db)$|\.d\.ts$|\.test\.[cm]?[jt]s$|\.tgz$|\.zip$/;
/** Deeper than a package may be. */
const DEPTH_MAX = 20;
const SLUG_MAX_CHARS = 64;
const SLUG = /^[a-z0-9]+(-[a-z0-9]+)*$/;

export interface PackageFolder {
  /** Absolute. */
  readonly folder: string;
  readonly slug: string;
  /** Sorted by path. */
  readonly files: readonly FolderFile[];
}

/**
 * Finds the package of a folder.
 *
 * @param slug as it was typed; else `bulkhead.slug` of package.json, else the folder's name
 * @throws CommandError: it is no folder, or no slug can be made of its name
 */
export async function openFolder(from: string, given: string | undefined, slug?: string): Promise<PackageFolder> {
  const folder = resolve(from, given ?? '.');
  const found = await stat(folder).catch(() => null);
  if (!found?.isDirectory()) {
    throw new CommandError(
      'usage',
      `There is no folder ${given ?? folder}: name the one with readme.md and index.ts.`,
      {
        exit: 'usage',
      },
    );
  }
  if (!(await isPackage(folder))) {
    const message = `${folder} holds no package (no readme.md, no index.ts): go to its folder, or run \`bulkhead init\`.`;
    throw new CommandError('no_package', message, { exit: 'usage' });
  }
  const files = await listFiles(folder, '', 0);
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { folder, slug: slug ?? (await slugHere(folder)), files };
}

/** Whether it was meant to be one: what else is wrong with it is told by the check. */
async function isPackage(folder: string): Promise<boolean> {
  const names = (await readdir(folder)).map((name) => name.toLowerCase());
  return names.includes('readme.md') || names.includes('index.ts');
}

async function listFiles(folder: string, below: string, depth: number): Promise<FolderFile[]> {
  if (depth > DEPTH_MAX) return [];
  const found: FolderFile[] = [];
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory() && !FOLDERS_LEFT_OUT.has(entry.name))
      found.push(...(await listFiles(folder, path, depth + 1)));
    // The author's tools keep their files at the top; inside assets/ a package.json is an asset.
    else if (
      entry.isFile() &&
      !(below === '' || !below.startsWith('assets') ? FILES_LEFT_OUT.test(entry.name) : false)
    ) {
      found.push({ path, at: join(folder, path) });
    }
  }
  return found;
}

/** The slug that package.json says, or one made of the folder's name. @throws CommandError where package.json is damaged */
export async function slugHere(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}');
  let said: unknown;
  try {
    said = (JSON.parse(text) as { bulkhead?: { slug?: unknown } } | null)?.bulkhead?.slug;
  } catch {
    throw new CommandError('failed', `${join(folder, 'package.json')} is no JSON: mend it, or give \`--slug\`.`);
  }
  return typeof said === 'string' ? said : slugFrom(basename(folder));
}

/** `My Plugin` → `my-plugin`. */
export function slugFrom(name: string): string {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, SLUG_MAX_CHARS)
    .replace(/^-|-$/g, '');
  return slug === '' ? 'my-plugin' : slug;
}

/** Why a text is no slug, as the end of a sentence; null when it is one. */
export function slugFault(slug: string): string | null {
  if (slug.length > SLUG_MAX_CHARS) return `is longer than ${SLUG_MAX_CHARS} characters`;
  return SLUG.test(slug) ? null : 'is no slug: use lower-case letters, digits and single hyphens, like my-plugin';
}
