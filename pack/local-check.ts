/** Checks a package on the author's machine with the service's own code, without storing anything. */
import { addAbortListener } from 'node:events';
import { rm } from 'node:fs/promises';
import { stop as stopEsbuild } from 'esbuild';
import { requireLayout, type StagedBuild } from '../api/package/builder.ts';
import { CommandError } from '../sdk/cli/failure.ts';
import type { CheckedPackage, FolderFile } from '../sdk/cli/local-tools.ts';
import { makeTemporaryFolder } from '../sdk/cli/temporary-folder.ts';
import { Problem } from '../sdk/contract/errors.ts';
import { nameFields } from '../sdk/contract/manifest.ts';
import { buildLocally } from './local-build.ts';
import { startIntrospector } from './local-introspection.ts';
import { isPluginNode, NODE_MAJOR } from './node-version.ts';

/**
 * Checks the files of a package. Its code runs in a separate process without grants, which ends with the check.
 *
 * @throws CommandError with the code and message of a publish, or the signal's reason
 */
export async function checkFolder(
  files: readonly FolderFile[],
  slug: string,
  signal: AbortSignal,
): Promise<CheckedPackage> {
  const scratch = await makeTemporaryFolder('bulkhead-check-', 'the bundle of the package');
  // Started early, because the start takes as long as the bundling.
  const introspector = startIntrospector(scratch);
  // What the build waits for ends, so that it fails at once.
  using _interrupting = addAbortListener(signal, () => void introspector.end());
  try {
    const built = await buildLocally(files, slug, scratch, introspector, signal);
    signal.throwIfAborted();
    return describeBuild(built);
  } catch (error) {
    // The interrupted build reports a fault of the package that it does not have.
    signal.throwIfAborted();
    if (error instanceof RangeError) throw new CommandError('invalid_package', NESTED);
    if (!(error instanceof Problem)) throw error;
    const note = introspector.hasLoadFailed && !isPluginNode() ? OTHER_NODE : '';
    throw toCommandError(error, note);
  } finally {
    await introspector.end();
    await stopEsbuild();
    await rm(scratch, { recursive: true, force: true });
  }
}

/** @throws CommandError with the code and message of a publish */
export function requireFolderLayout(files: readonly FolderFile[]): void {
  try {
    requireLayout(files);
  } catch (error) {
    throw error instanceof Problem ? toCommandError(error, '') : error;
  }
}

function toCommandError({ code, message, errors = [] }: Problem, note: string): CommandError {
  const noted = errors.map((each) => ({ ...each, message: `${each.message}${note}` }));
  return new CommandError(code, `${message}${note}`, { exit: 'invalidPackage', errors: noted });
}

/** Code that needs a newer Node fails here and loads in the service. */
const OTHER_NODE = ` (checked with Node ${process.versions.node}, but the service runs plugins on Node ${NODE_MAJOR}: if the code needs that, run the command with it)`;
const NESTED = 'The package holds something that is nested too deeply.';

function describeBuild(built: StagedBuild): CheckedPackage {
  const { sourceSha256, sizeBytes, capabilities, warnings } = built;
  const { name, description } = built.manifest;
  const discovered = built.discovered as object as CheckedPackage['discovered'];
  return {
    name,
    description,
    sourceSha256,
    sizeBytes,
    capabilities,
    discovered,
    ...nameFields(built.manifest),
    warnings,
  };
}
