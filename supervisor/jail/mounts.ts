/** Lists the host files that are mounted in a jail: the Node binary and its shared libraries. */
import { realpathSync } from 'node:fs';
import { dirname, posix } from 'node:path';

/** Path of Node inside every jail. */
export const NODE_INSIDE = '/node';

interface Report {
  readonly sharedObjects?: readonly string[];
}

/**
 * Lists the shared libraries of this process, including the loader. The jailed Node is the same binary and needs the same
 * libraries. Native addons are left out.
 *
 * @returns absolute paths as the loader reports them
 */
export function sharedLibraries(): string[] {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report;
  const before = report.excludeNetwork ?? false;
  // Listing the network interfaces is slow.
  report.excludeNetwork = true;
  const { sharedObjects = [] } = report.getReport() as Report;
  report.excludeNetwork = before;
  return sharedObjects.filter((path) => path.startsWith('/') && /\.so(\.|$)/.test(path));
}

/**
 * Builds the `bwrap` arguments that mount Node and its libraries read-only.
 *
 * @param origin the folder of the Node that loaded the libraries
 */
export function mounts(
  nodePath: string,
  libraries: readonly string[],
  origin: string = dirname(process.execPath),
): string[] {
  const binds = libraries.flatMap((path) => ['--ro-bind', realpathSync(path), placeInside(path, origin)]);
  return [...binds, '--ro-bind', realpathSync(nodePath), NODE_INSIDE];
}

/** A library found relative to Node (`$ORIGIN/../lib`) keeps its path relative to Node in the jail. */
function placeInside(path: string, origin: string): string {
  if (!path.startsWith(`${origin}/`)) return path;
  return posix.join(dirname(NODE_INSIDE), path.slice(origin.length));
}
