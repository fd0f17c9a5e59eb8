/** Measures how much of Test262 passes in plain Node and in a plugin. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BUILD_TIME_MS, ENTRY } from '../../../api/package/bundle.ts';
import { buildInTime } from '../../../api/package/bundler-worker.ts';
import { applyEdits, findSesEdits } from '../../../api/package/ses-source.ts';
import { buildRealmEngine, type Engine, type EngineCase, frozenEngine, nodeEngine, runCases } from './engine.ts';
import { CHECKS, findChange, findReason } from './reasons.ts';
import { readCase, type SuiteFile } from './suite-files.ts';

export interface Measurement {
  /** Cases that plugins are held to. */
  readonly eligible: number;
  /** Eligible cases that pass in plain Node. All other counts are parts of it. */
  readonly inNode: number;
  /** The paths of all that fail, in plain Node or in a plugin. */
  readonly failed: ReadonlySet<string>;
  /** Fail in a plugin, by reason. */
  readonly failures: ReadonlyMap<string, readonly string[]>;
}

/** @param suite the folder of a checkout @param folder for programs */
export async function measure(suite: string, files: readonly SuiteFile[], folder: string): Promise<Measurement> {
  const realm = await buildRealmEngine(folder);
  const run = (engine: Engine, chosen: readonly SuiteFile[], acceptsFrozen: boolean) =>
    runFiles(engine, chosen, folder, (file) => {
      const program = wrap(readCase(suite, file, acceptsFrozen));
      return engine === realm ? respell(program) : program;
    });
  const inNode = await run(nodeEngine, files, false);
  const passing = files.filter(({ path }) => !inNode.has(path));
  const inPlugin = await run(realm, passing, false);
  const failing = passing.filter(({ path }) => inPlugin.has(path));
  const whereFrozen = await run(frozenEngine, failing, false);
  const needUnfrozen = failing.filter(({ path }) => whereFrozen.has(path));
  const change = await run(realm, needUnfrozen, true);
  const failures = Object.groupBy(inPlugin, ([path, error]) => {
    if (!whereFrozen.has(path)) return findReason(path, error);
    return change.has(path) ? findChange(path, change.get(path) ?? '') : CHECKS;
  });
  return {
    eligible: files.length,
    inNode: passing.length,
    failed: new Set([...inNode.keys(), ...inPlugin.keys()]),
    failures: new Map(
      Object.entries(failures).map(([reason, cases = []]) => [reason, cases.map((found) => found.join(': '))]),
    ),
  };
}

/** Runs cases through the bundler. @returns the errors of those that fail, by path */
export async function measureBundled(
  suite: string,
  files: readonly SuiteFile[],
  folder: string,
): Promise<Map<string, string>> {
  const refused = new Map<string, string>();
  const bundles = new Map<string, string>();
  for (const file of files) {
    const result = await bundleCase(readCase(suite, file, true), folder);
    if ('bundle' in result) bundles.set(file.path, result.bundle);
    else if (file.negative?.phase !== 'parse') refused.set(file.path, result.refusal);
  }
  const built = files.filter(({ path }) => bundles.has(path));
  const failed = await runFiles(await buildRealmEngine(folder), built, folder, ({ path }) => bundles.get(path) ?? '');
  return new Map([...refused, ...failed]);
}

async function bundleCase(code: string, folder: string): Promise<{ bundle: string } | { refusal: string }> {
  const files = { 'index.ts': join(folder, 'index.ts'), 'vendor/case.js': join(folder, 'case.js') };
  await writeFile(files['index.ts'], "import './vendor/case.js';");
  await writeFile(files['vendor/case.js'], code);
  const result = await buildInTime({ entry: ENTRY, files, timeMs: BUILD_TIME_MS });
  if (result.outcome === 'built') return { bundle: result.bundle };
  return { refusal: result.outcome === 'refused' ? (result.locations[0]?.message ?? '') : result.outcome };
}

async function runFiles(
  engine: Engine,
  files: readonly SuiteFile[],
  folder: string,
  read: (file: SuiteFile) => string,
): Promise<Map<string, string>> {
  const programs = join(folder, 'programs');
  await mkdir(programs, { recursive: true });
  const cases: EngineCase[] = [];
  for (const [index, file] of files.entries()) {
    const program = join(programs, `${index}.js`);
    await writeFile(program, read(file));
    cases.push({ id: file.path, file: program, isAsync: file.isAsync, negative: file.negative?.type ?? null });
  }
  return runCases(engine, cases);
}

/** As the bundler does: one strict function, so that nothing of a case is global. */
const wrap = (code: string): string => `(() => {"use strict";\n${code}\n})();`;

/** As the bundler does. Cases that are no JavaScript stay as they are. */
function respell(program: string): string {
  try {
    return applyEdits(program, findSesEdits(program));
  } catch {
    return program;
  }
}
