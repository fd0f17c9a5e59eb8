/** Bundles a package, in the service's threads or in the author's command line. */
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB, limits } from '../../sdk/contract/limits.ts';
import type { BuildResult, BuildTask } from './bundler-worker.ts';
import { invalidAll, invalidAt } from './invalid-package.ts';
import type { Package } from './package-files.ts';

export const ENTRY = 'index.ts';
/** Maximum duration of a build. Milliseconds. */
export const BUILD_TIME_MS = 20_000;
const RETRY_AFTER_S = 2;
/** The bundle travels to the child in one frame, as JSON, with settings and registrations. Bytes. */
export const BUNDLE_MAX_BYTES = limits.frameBytes - 512 * KIB;

/** Runs `build` of bundler-worker.ts. */
export type RunBuild = (task: BuildTask) => Promise<BuildResult>;
export interface Bundle {
  /** A classic script: one function expression that is called. The evaluation makes it strict. */
  readonly text: string;
  /** Stays on the host. */
  readonly sourceMap: string;
  /** Sentences for the author about code that works, but maybe not as meant. */
  readonly warnings: readonly string[];
}

export interface CodePackage extends Package {
  /** Whether the package declares hosts, so that its realm has `fetch`. */
  readonly hasFetch: boolean;
}

/** Builds the package's `index.ts`. @throws Problem `invalid_package` with locations, or `bundler_busy` */
export async function bundlePackage(run: RunBuild, of: CodePackage): Promise<Bundle> {
  const files = Object.fromEntries(of.files.map((file) => [file.path, file.stagedAt]));
  const task: BuildTask = { entry: ENTRY, files, hasFetch: of.hasFetch, timeMs: BUILD_TIME_MS };
  let result = await run(task);
  // Retry once: if the builder was killed from outside, the second run succeeds; if this package killed it, it dies
  // again.
  if (result.outcome === 'died') result = await run(task);
  if (result.outcome === 'refused') throw invalidAll(result.locations);
  if (result.outcome === 'starved') throw bundlerBusy('The machine is too busy to build the package in time.');
  if (result.outcome !== 'built') throw buildFailed(result.outcome);
  const bytes = Buffer.byteLength(JSON.stringify(result.bundle));
  if (bytes > BUNDLE_MAX_BYTES) {
    const message = `The bundle of the package has ${bytes} bytes; the maximum is ${BUNDLE_MAX_BYTES}. Put data into files below assets/, which host.assets reads.`;
    throw invalidAt({ path: ENTRY, message });
  }
  return { text: result.bundle, sourceMap: result.sourceMap, warnings: result.warnings };
}

const WHY_FAILED = {
  died: 'it is nested too deeply, or its build needs too much memory',
  late: `its build takes longer than ${BUILD_TIME_MS / 1_000} s`,
};

/** A build that cannot be made now. @param why a sentence */
export const bundlerBusy = (why: string): Problem =>
  new Problem('bundler_busy', `${why} Retry the same request shortly.`, { retryAfter: RETRY_AFTER_S });

/** A build that kills its builder, or never ends. */
export const buildFailed = (outcome: keyof typeof WHY_FAILED): Problem =>
  invalidAt({ path: ENTRY, message: `The code could not be built: ${WHY_FAILED[outcome]}.` });
