/**
 * Runs in a Piscina thread: one build at a time, in an esbuild process of this thread, which a bad package may kill.
 */

import * as esbuild from 'esbuild';
import { mapPosition, NAMESPACE } from '../../db/records/source-maps.ts';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';
import { yieldThread } from '../../service/lifecycle/priority.ts';
import { rewordBuildMessage } from './build-messages.ts';
import { BuildTime } from './build-time.ts';
import { type ModulePaths, packageModules } from './bundle-modules.ts';
import { REPORTS_MAX, type SourceMaps } from './code-file.ts';
import { withoutWarnings } from './esbuild-warnings.ts';
import { listRealmGlobals } from './load-hints.ts';
import { applyEdits, findSesEdits } from './ses-source.ts';
import { moveColumns } from './source-map-columns.ts';

/** Stops an idle esbuild after this time, to release its memory. Milliseconds. */
const IDLE_MS = 30_000;
yieldThread();

export interface BuildTask {
  readonly entry: string;
  readonly files: ModulePaths;
  /** Whether the realm has `fetch`. Default: no. */
  readonly hasFetch?: boolean;
  /** Time limit of the build; on a busy machine it takes up to `WAIT_FACTOR` times as long. Milliseconds. */
  readonly timeMs: number;
}
export type BuildResult =
  | {
      readonly outcome: 'built';
      readonly bundle: string;
      readonly sourceMap: string;
      /** Sentences for the author. */
      readonly warnings: readonly string[];
    }
  | { readonly outcome: 'refused'; readonly locations: readonly ProblemLocation[] }
  /** `starved`: the build had a processor for less than its time. */
  | { readonly outcome: 'died' | 'late' | 'starved' };

let idle: NodeJS.Timeout | undefined;

/**
 * Builds one package, in a thread of its own: when esbuild has been idle, it is stopped, and a build that anything else runs in it at
 * that moment never settles. Never throws because of a package's content.
 */
export async function build(task: BuildTask): Promise<BuildResult> {
  clearTimeout(idle);
  try {
    return await buildInTime(task);
  } finally {
    idle = setTimeout(() => void esbuild.stop(), IDLE_MS).unref();
  }
}

/** Builds one package and leaves esbuild running. Never throws because of a package's content. */
export async function buildInTime(task: BuildTask): Promise<BuildResult> {
  const time = new BuildTime(task.timeMs);
  const sourceMaps: SourceMaps = new Map();
  try {
    const built = await time.limit(runEsbuild(task, time, sourceMaps));
    if (built !== undefined) return finish(built, time);
  } catch (error) {
    if (!time.isOver) return await describeFailure(error, sourceMaps);
  }
  await esbuild.stop();
  return { outcome: time.isStarved ? 'starved' : 'late' };
}

async function describeFailure(error: unknown, sourceMaps: SourceMaps): Promise<BuildResult> {
  if (isBuildFailure(error))
    return { outcome: 'refused', locations: error.errors.map((message) => toLocation(message, sourceMaps)) };
  // Stop the dead process explicitly, so that the next build starts a new one.
  await esbuild.stop();
  return { outcome: 'died' };
}

const runEsbuild = ({ entry, files, hasFetch = false }: BuildTask, time: BuildTime, sourceMaps: SourceMaps) =>
  esbuild.build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    outfile: 'bundle.js',
    format: 'iife',
    platform: 'neutral',
    target: 'es2024',
    charset: 'utf8',
    // Template literals become strings, which can be escaped for ses without changing their meaning.
    supported: { 'template-literal': false },
    // Properties of the global object: `typeof require` must not find esbuild's substitute, and every eval is an indirect one,
    // which the realm evaluates. Calls in the author's own code were refused before.
    define: { require: 'globalThis.require', eval: 'globalThis.eval' },
    legalComments: 'none',
    sourcemap: 'external',
    sourcesContent: false,
    // An explicit text keeps esbuild from reading a tsconfig.json of the package or the host.
    tsconfigRaw: '{}',
    absWorkingDir: '/',
    ...withoutWarnings,
    plugins: [packageModules(files, listRealmGlobals(hasFetch), time, sourceMaps)],
  });

function finish(built: Awaited<ReturnType<typeof runEsbuild>>, time: BuildTime): BuildResult {
  const text = (ending: string) => built.outputFiles.find((file) => file.path.endsWith(ending))?.text ?? '';
  const source = text('bundle.js');
  // esbuild's own warnings are about style; those of the package's plugin are for the author.
  const warnings = built.warnings
    .filter(({ pluginName }) => pluginName !== '')
    .slice(0, REPORTS_MAX)
    .map(({ text: sentence }) => sentence);
  try {
    const edits = time.run(source, () => findSesEdits(source));
    const sourceMap = moveColumns(text('.js.map'), source, edits);
    return { outcome: 'built', bundle: applyEdits(source, edits), sourceMap, warnings };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { outcome: 'refused', locations: [{ message: 'The code is nested too deeply to be read' }] };
  }
}

function isBuildFailure(error: unknown): error is esbuild.BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors) && error.errors.length > 0;
}

function toLocation(message: esbuild.Message, sourceMaps: SourceMaps): ProblemLocation {
  const { location } = message;
  const text = rewordBuildMessage(message.text);
  if (!location) return { message: text };
  const path = location.file.startsWith(`${NAMESPACE}:`) ? location.file.slice(NAMESPACE.length + 1) : location.file;
  if (location.line === 0) return { path, message: text };
  // The plugin's own places are in the source, and count characters.
  if (location.lineText === '') return { path, line: location.line, column: location.column + 1, message: text };
  // esbuild counts columns in UTF-8 bytes from 0; editors count characters from 1.
  const column = Buffer.from(location.lineText).subarray(0, location.column).toString('utf8').length;
  const sourceMap = sourceMaps.get(path);
  // The file did not compile, or needs no compilation, so esbuild read the source itself.
  if (sourceMap === undefined) return { path, line: location.line, column: column + 1, message: text };
  return { path, ...mapPosition(sourceMap, { line: location.line, column }), message: text };
}
