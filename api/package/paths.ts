/** Finds conflicts between the paths of a package. */
import { DistinctPaths, type PackagePath } from '../../sdk/contract/package-paths.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';

/** Files that operating systems add automatically; not part of the package. */
export function isSystemFile(path: string): boolean {
  const segments = path.split('/');
  const name = segments.at(-1) ?? '';
  return segments.includes('__MACOSX') || name === '.DS_Store' || name === 'Thumbs.db' || name.startsWith('._');
}

/**
 * Finds the first conflict between paths: paths that are equal on some file system, or a path that is both file and folder.
 *
 * @param loopKey whose turns of the event loop it uses
 * @returns the later path and the reason, or null
 */
export async function findClash(
  paths: readonly PackagePath[],
  loopKey: string,
): Promise<{ path: string; fault: string } | null> {
  const distinct = new DistinctPaths();
  const slices = new LoopSlices(loopKey);
  for (const one of paths) {
    await slices.pauseWhenOver();
    const fault = distinct.add(one);
    if (fault) return { path: one.path, fault };
  }
  return null;
}

/** Returns the single folder that contains every path, with its `/`; empty without one. */
export function findWrapperFolder(paths: readonly string[]): string {
  const [first] = paths;
  const end = first?.indexOf('/') ?? -1;
  if (first === undefined || end < 0) return '';
  const wrapper = first.slice(0, end + 1);
  return paths.every((path) => path.startsWith(wrapper)) ? wrapper : '';
}
