/** What of the host is to be seen inside a jail: the Node binary and the shared libraries it is linked with. */
import { realpathSync } from 'node:fs';
import { dirname, posix } from 'node:path';

/** Where Node is inside every jail. */
export const NODE_INSIDE = '/node';

interface Report {
  readonly sharedObjects?: readonly string[];
}

/**
 * The shared libraries this very process was started with, its loader among them; the jailed Node is the same file, so
 * it needs the same. Native addons are left out.
 *
 * @returns absolute paths as the loader knows them
 */
export function sharedLibraries(): string[] {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report;
  const before = report.excludeNetwork ?? false;
  // Looking up every network interface is slow and none of our business.
  report.excludeNetwork = true;
  const { sharedObjects = [] } = report.getReport() as Report;
  report.excludeNetwork = before;
  return sharedObjects.filter((path) => path.startsWith('/') && /\.so(\.|$)/.test(path));
}

/**
 * `bwrap` arguments that mount these files read-only.
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

/** A library that Node finds from its own folder (`$ORIGIN/../lib`) has the same place relative to Node in the jail. */
function placeInside(path: string, origin: string): string {
  if (!path.startsWith(`${origin}/`)) return path;
  return posix.join(dirname(NODE_INSIDE), path.slice(origin.length));
}
