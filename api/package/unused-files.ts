/** Finds files of a package that nothing uses: usually a folder with the wrong name, or a file of the author's tools. */
import { readFile } from 'node:fs/promises';
import { posix } from 'node:path';
import { findNearName } from '../../service/text/near-name.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import { ENTRY } from './bundle.ts';
import { findModule, isCode, SOURCE_MAX_BYTES } from './bundle-modules.ts';
import type { Package } from './package-files.ts';

/** Folders of the package format. */
const FOLDERS = ['commands', 'skills', 'assets'];
/** Files named in one warning. */
const NAMED_MAX = 3;
/** Files that common tools put beside the code. They are expected in a package, and harmless. */
const COMPANION =
  /^(licen[cs]e|notice|authors|changelog|contributing|security|readme)(\.\w+)?$|\.d\.ts$|\.(test|spec)\.[jt]s$|^(package|package-lock|tsconfig[\w.-]*|biome|deno)\.jsonc?$|^\.(gitignore|gitattributes|editorconfig|npmignore|prettierrc)$/i;
/**
 * Maximum size of the files that are searched for imports. More than the code of a package, because a string may name a file of
 * any size that no import loads. Bytes.
 */
const READ_MAX_BYTES = 2 * SOURCE_MAX_BYTES;
/** A string with a relative path. Finds more than imports, which only spares a warning. */
const RELATIVE = /['"](\.{1,2}\/[^'"\n]*)['"]/g;

/**
 * Returns one sentence per kind of unused file.
 *
 * @param loopKey whose turns of the event loop it uses
 */
export async function findUnusedFiles(of: Package, loopKey: string): Promise<string[]> {
  const slices = new LoopSlices(loopKey);
  const imported = await findImported(of, slices);
  const beside = new Map<string, string[]>();
  for (const { path } of of.files) {
    await slices.pauseWhenOver();
    const isCompanion = COMPANION.test(posix.basename(path)) && !isHidden(path);
    if (isCompanion || imported.has(path) || isUsed(path)) continue;
    const kind = describeUse(path);
    const paths = beside.get(kind);
    if (paths) paths.push(path);
    else beside.set(kind, [path]);
  }
  return [...beside].map(([kind, paths]) => `${listPaths(paths)} ${kind}`);
}

const isUsed = (path: string): boolean =>
  path === 'readme.md' ||
  /^commands\/[^/]+\.md$/.test(path) ||
  /^skills\/[^/]+\//.test(path) ||
  path.startsWith('assets/');

const isHidden = (path: string): boolean => /(^|\/)(\.[^/]+|node_modules)\//.test(path);

/** The end of the sentence about files of one kind. */
function describeUse(path: string): string {
  const [folder = '', ...rest] = path.split('/');
  if (rest.length === 0) return isCode(path) ? NOT_IMPORTED : NOT_READ;
  if (isHidden(path)) return 'belongs to your tools. Leave it out of the package.';
  if (folder === 'commands') return 'is not a command: commands are files commands/<name>.md, without folders.';
  if (folder === 'skills') return 'is not a skill: a skill is a folder skills/<name>/ with a SKILL.md.';
  const near = findNearName(folder.toLowerCase(), FOLDERS);
  if (near !== null) return `is used by nothing. Did you mean the folder ${near}/?`;
  return isCode(path) ? NOT_IMPORTED : NOT_READ;
}
const NOT_IMPORTED = 'is imported by nothing. Import it, or leave it out of the package.';
const NOT_READ = 'is used by nothing. Put it below assets/, or leave it out of the package.';

function listPaths(paths: readonly string[]): string {
  const more = paths.length - NAMED_MAX;
  return (
    paths.slice(0, NAMED_MAX).join(', ') + (more > 0 ? ` and ${more} more: each` : paths.length > 1 ? ': each' : '')
  );
}

/** The files that index.ts names, directly or through others; those with types only are among them. */
async function findImported({ files }: Package, slices: LoopSlices): Promise<Set<string>> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const stagedAt = Object.fromEntries(files.map((file) => [file.path, file.stagedAt]));
  const imported = new Set([ENTRY]);
  let readBytes = 0;
  for (const path of imported) {
    const file = byPath.get(path);
    if (file === undefined || !isCode(path) || path.endsWith('.json')) continue;
    if (readBytes + file.sizeBytes > READ_MAX_BYTES) continue;
    readBytes += file.sizeBytes;
    const source = await readFile(file.stagedAt, 'latin1');
    for (const [, target = ''] of source.matchAll(RELATIVE)) {
      await slices.pauseWhenOver();
      const found = findModule(stagedAt, posix.join(posix.dirname(path), Buffer.from(target, 'latin1').toString()));
      if (found !== undefined) imported.add(found);
    }
  }
  return imported;
}
