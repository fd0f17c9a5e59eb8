/**
 * `npm test [-- --soak] [-- --seed N] [-- file or folder…]`: the checks and every test file, or the files given and those
 * below the folders given. `--soak` runs the long version of the soak tests. The last line counts the assertions: `N passed,
 * N failed`.
 *
 * Each file is a program that prints TAP, run by node rather than by tap's own runner: that one puts itself into the
 * environment of every child process, and this suite tests processes with an empty environment.
 */
import { randomInt } from 'node:crypto';
import { globSync, readFileSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { endOnSignals } from './runner/interruption.ts';
import { prepareRun } from './runner/prepare-run.ts';
import { readProcessorTime } from './runner/processor-time.ts';
import { checks, type Outcome, runCheck, runTogether } from './runner/run-file.ts';
import { findRoom, groupFiles, inOrder, type Job, SOAK_ONLY } from './runner/schedule.ts';
import { SEED_VARIABLE, SOAK_VARIABLE } from './runner/soak.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** How many of the slowest files are listed at the end. */
const SLOWEST = 10;
/** Failed assertions named at the end, of each file. */
const NAMED_FAILURES = 5;
/** What a file with a long version imports: in a soak run, `pictures.ts` looks at every page in every look. */
const HAS_LONG_VERSION = /runner\/soak\.ts|\/pictures\.ts/;
const SEED_MAX = 2 ** 31 - 1;

const { values: options, positionals } = parseArgs({
  options: { soak: { type: 'boolean', default: false }, seed: { type: 'string' } },
  allowPositionals: true,
});
const requested = positionals.map((path) => relative(ROOT, resolve(path)));
const started = Date.now();
const outcomes: Outcome[] = [];

if (options.soak) process.env[SOAK_VARIABLE] = '1';
if (options.soak || options.seed !== undefined) {
  const seed = options.seed ?? String(randomInt(SEED_MAX));
  process.env[SEED_VARIABLE] = seed;
  console.log(`seed ${seed}: repeat with --seed ${seed}`);
}

const files = requested.length > 0 ? [...new Set(requested.flatMap(listFiles))] : findFiles();
if (files.length === 0) refuse(`No test files below ${requested.join(', ')}.`);
const preparing = prepareRun({
  isWhole: requested.length === 0,
  programs: { highAvailability: options.soak, files: requested.length > 0 ? files : undefined },
});
const interrupted = endOnSignals(preparing);
const run = await preparing;
// Leaves out the processor time of the preparations.
readProcessorTime();
try {
  const isWhole = requested.length === 0 && !options.soak;
  await inOrder(
    [
      ...(isWhole
        ? checks.map((check) => ({ name: check.name, start: async () => [await runCheck(check, ROOT)] }))
        : []),
      ...groupFiles(files).map(jobOf),
    ].map(untilInterrupted),
    (results) => results.forEach(report),
  );
} finally {
  reportStrays(await run.end());
}
summarize();

/** They count as a check of their own: nothing says which file has left them. */
function reportStrays(strays: readonly string[]): void {
  if (strays.length === 0) return;
  const failures = strays.map((command) => `left running: ${command}`);
  const none = { passed: 0, skipped: [], milliseconds: 0, processorMilliseconds: 0 };
  report({ name: 'processes', failed: failures.length, failures, report: failures.join('\n'), ...none });
}

/** Files that an interruption has ended did not fail, and no further one may begin. */
function untilInterrupted<T>({ name, start }: Job<T>): Job<T> {
  const never = new Promise<never>(() => undefined);
  const run = async (): Promise<T> => {
    const result = interrupted.aborted ? never : await start();
    return interrupted.aborted ? never : result;
  };
  return { name, start: run };
}

function jobOf(group: readonly string[]): Job<Outcome[]> {
  const [first = ''] = group;
  return { name: group.length === 1 ? first : findRoom(first), start: () => runTogether(group, ROOT) };
}

function refuse(problem: string): never {
  console.error(`${problem} Name files or folders of test/.`);
  process.exit(1);
}

/** The test files below a folder; a file as it is. */
function listFiles(path: string): string[] {
  const found = statSync(resolve(ROOT, path), { throwIfNoEntry: false }) ?? refuse(`${path} does not exist.`);
  return found.isDirectory()
    ? globSync(`${path}/**/*.test.ts`, { cwd: ROOT, exclude: ['**/node_modules/**'] })
    : [path];
}

/** All test files but those of soak runs; in a soak run these, and those that have a long version. */
function findFiles(): string[] {
  const isLong = (file: string): boolean => HAS_LONG_VERSION.test(readFileSync(resolve(ROOT, file), 'utf8'));
  return listFiles('test').filter((file) =>
    options.soak ? SOAK_ONLY.includes(file) || isLong(file) : !SOAK_ONLY.includes(file),
  );
}

/** One block a file, so that files running side by side do not mix their lines. */
function report(outcome: Outcome): void {
  outcomes.push(outcome);
  const mark = outcome.failed === 0 ? 'ok  ' : 'FAIL';
  const times = `${seconds(outcome.milliseconds)}, processor ${seconds(outcome.processorMilliseconds)}`;
  console.log(`${mark} ${outcome.name} (${outcome.passed} passed, ${outcome.failed} failed, ${times})`);
  if (outcome.failed > 0) console.log(outcome.report.replace(/^/gm, '     '));
  for (const reason of outcome.skipped) console.log(`     skipped: ${reason}`);
}

function summarize(): void {
  const sum = (pick: (outcome: Outcome) => number): number => outcomes.reduce((total, each) => total + pick(each), 0);
  const failed = sum((outcome) => outcome.failed);
  printMost('slowest', (outcome) => outcome.milliseconds);
  printMost('most processor time', (outcome) => outcome.processorMilliseconds);
  const total = elapsed(sum((outcome) => outcome.milliseconds));
  const processor = elapsed(sum((outcome) => outcome.processorMilliseconds));
  console.log(
    `${outcomes.length} files and checks in ${elapsed(Date.now() - started)} (${total} one by one; processor ${processor})`,
  );
  for (const { name, failures } of outcomes.filter((each) => each.failed > 0)) {
    console.log(`failed: ${name}`);
    for (const failure of failures.slice(0, NAMED_FAILURES)) console.log(`  ${failure}`);
  }
  process.exitCode = failed === 0 ? 0 : 1;
  console.log(`${sum((outcome) => outcome.passed)} passed, ${failed} failed`);
}

function printMost(title: string, measure: (outcome: Outcome) => number): void {
  console.log(`\n${title}:`);
  for (const outcome of outcomes.toSorted((a, b) => measure(b) - measure(a)).slice(0, SLOWEST)) {
    console.log(`  ${seconds(measure(outcome)).padStart(8)}  ${outcome.name}`);
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

function elapsed(milliseconds: number): string {
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}
