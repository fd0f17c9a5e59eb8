/** Test files, or one check, run as a process of its own and counted. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Parser } from 'tap-parser';
import { describeFailure, type FailedAssertion } from './failure-report.ts';
import { readProcessorTime } from './processor-time.ts';
import { amount } from './soak.ts';

/** A process that takes longer hangs, and has not ended the file that does. Those of many files take some minutes. Milliseconds. */
const PROCESS_TIMEOUT_MS = { quick: 1_800_000, soak: 18_000_000 };
/** Between the end of a file and the end of its pipes, milliseconds. */
const PIPES_MS = 30_000;
/** The end of an output, shown when no failed assertion says what happened. Characters. */
const OUTPUT_MAX = 12_000;
/** The end of a failing file's standard error. Characters. */
const ERROR_OUTPUT_MAX = 3_000;
/** Failed assertions shown with their details. */
const SHOWN_FAILURES = 10;
/**
 * Size of V8's young generation. Its default starts at 1 MB and survives a dozen collections while a file imports: with
 * this, a file that starts a supervisor takes a tenth less processor time.
 */
const YOUNG_GENERATION = '--min-semi-space-size=16';
/** Helper threads that collect garbage would take processors from other files: without them a file takes a tenth less. */
const COLLECT_ALONE = '--single-threaded-gc';
const TEST_FLAGS = [YOUNG_GENERATION, COLLECT_ALONE, '--import', './test/runner/leak-guard.ts'];
const SHARED_PROCESS = 'test/runner/shared-process.ts';

export interface Outcome {
  readonly name: string;
  /** Assertions. */
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly string[];
  readonly milliseconds: number;
  /** CPU time of the file's process and of the processes that it waited for. */
  readonly processorMilliseconds: number;
  /** Names of the failed assertions. */
  readonly failures: readonly string[];
  /** Says why it failed. */
  readonly report: string;
}

export interface Check {
  readonly name: string;
  /** A program or a script, with its arguments. */
  readonly command: readonly [string, ...string[]];
}

const PACKAGES = 'test/node_modules';
const compiler = `${PACKAGES}/typescript-7/bin/tsc`;
/** Threads repeat each other's work: with one, the check takes half the processor time. Test files use the other processors. */
const CHECK_ONLY = ['--noEmit', '--singleThreaded'];

/** The compiler checks only what changed since the last run, or what depends on it. */
function keepState(name: string): string[] {
  return ['--incremental', '--tsBuildInfoFile', `node_modules/.cache/${name}.tsbuildinfo`];
}

/** Checks that must pass before any test runs. Each counts as one assertion. */
export const checks: readonly Check[] = [
  { name: 'lint and format', command: [`${PACKAGES}/.bin/biome`, 'check', '--error-on-warnings', '.'] },
  { name: 'types', command: [process.execPath, compiler, ...CHECK_ONLY, ...keepState('types')] },
  {
    name: 'types of the console',
    command: [process.execPath, compiler, ...CHECK_ONLY, '-p', 'console', ...keepState('types-of-console')],
  },
  { name: 'generated files', command: [process.execPath, 'docs/generate/generate.ts', '--check'] },
];

/** Runs a check. One whose script does not exist yet is skipped, saying so. */
export async function runCheck({ name, command }: Check, root: string): Promise<Outcome> {
  const script = command.find((word) => word.endsWith('.ts'));
  if (script !== undefined && !existsSync(join(root, script))) {
    const nothing = { passed: 0, failed: 0, milliseconds: 0, processorMilliseconds: 0, failures: [], report: '' };
    return { name, skipped: [`no ${script}`], ...nothing };
  }
  const { ok, output, ...times } = await run(command, root, () => undefined);
  return {
    name,
    passed: ok ? 1 : 0,
    failed: ok ? 0 : 1,
    skipped: [],
    failures: [],
    report: output,
    ...pickTimes(times),
  };
}

/** Runs test files one after the other in one process. */
export async function runTogether(files: readonly string[], root: string): Promise<Outcome[]> {
  const byFile = new Map(files.map((file) => [file, new Results()]));
  const times = new Map<string, Times>();
  const finished: string[] = [];
  const parser = new Parser({ omitVersion: true });
  parser.on('child', (child) => countAssertions(child, byFile.get(child.name) ?? new Results()));
  parser.on('assert', (result) => {
    const isOfFile = byFile.has(result.name);
    // An error outside all tests, such as in a teardown, is a result of the process. It may say which test left it.
    const { test = '' } = (result.diag ?? {}) as { readonly test?: string };
    const results = resultsOf(isOfFile ? result.name : byFile.has(test) ? test : running());
    if (!result.ok && (!isOfFile || results.failures.length === 0)) results.failures.push(result);
    if (!isOfFile) return;
    finished.push(result.name);
    times.set(result.name, { milliseconds: result.time ?? 0, processorMilliseconds: 0 });
  });
  parser.on('comment', (comment) => {
    const processorMilliseconds = Number(/^# processor time (\d+)/.exec(comment)?.[1] ?? Number.NaN);
    const file = finished.at(-1) ?? '';
    const { milliseconds } = times.get(file) ?? NO_TIME;
    if (!Number.isNaN(processorMilliseconds)) times.set(file, { milliseconds, processorMilliseconds });
  });
  const list = { TEST_FILES: files.join('\n') };
  const ended = await runParsed([...TEST_FLAGS, SHARED_PROCESS, files[0] ?? ''], root, parser, list);
  const isComplete = finished.length === files.length;
  const hasFailures = [...byFile.values()].some(({ failures }) => failures.length > 0);
  // Why the process ended badly, if no failure explains it, is reported by the file that ran last: any of them may be to blame.
  const last = running();
  const others =
    files.length > 1 ? `\nIts process ran ${files.join(' ')}: run each alone to see which one it was.` : '';
  const output = ended.output + others;
  return files.map((file) => {
    const isExplained = file !== last || (isComplete && hasFailures);
    const ownEnd = isExplained
      ? { ...ended, ok: true, output: 'It did not run: its process had ended.' }
      : { ...ended, output };
    return { ...describeResults(file, resultsOf(file), ownEnd), ...timesOf(file) };
  });

  /** Those of the process for a file that ended it. */
  function timesOf(file: string): Times {
    return times.get(file) ?? (file === last ? pickTimes(ended) : NO_TIME);
  }

  function resultsOf(file: string): Results {
    const known = byFile.get(file);
    if (!known) throw new Error(`${SHARED_PROCESS} ran ${file}, which it was not given.`);
    return known;
  }

  /** The file that runs, or that ran last. */
  function running(): string {
    return files[Math.min(finished.length, files.length - 1)] ?? '';
  }
}

type Times = Pick<Outcome, 'milliseconds' | 'processorMilliseconds'>;
const NO_TIME: Times = { milliseconds: 0, processorMilliseconds: 0 };

class Results {
  passed = 0;
  readonly failures: FailedAssertion[] = [];
  readonly skipped: string[] = [];
}

async function runParsed(
  words: readonly string[],
  root: string,
  parser: Parser,
  settings: Readonly<Record<string, string>>,
): Promise<Run> {
  const ended = await run([process.execPath, ...words], root, (chunk) => parser.write(chunk), settings);
  await new Promise<void>((resolve) => {
    parser.once('complete', () => resolve());
    parser.end();
  });
  return ended;
}

/** A file that ends badly without a failed assertion (a crash, a leak, a hang) counts as one failure. */
function describeResults(name: string, { passed, failures, skipped }: Results, ended: Run): Omit<Outcome, keyof Times> {
  const endedBadly = failures.length === 0 && (!ended.ok || passed + skipped.length === 0);
  // The file is the outermost test.
  const named = failures.map(({ fullname, diag }) => ({ fullname: fullname.replace(`${name} > `, ''), diag }));
  return {
    name,
    passed,
    failed: endedBadly ? 1 : failures.length,
    skipped: skipped.map((reason) => reason.replace(`${name} > `, '')),
    failures: named.map(({ fullname }) => fullname),
    report: endedBadly ? ended.output : reportFailures(named, ended.errorOutput),
  };
}

function reportFailures(failures: readonly FailedAssertion[], errorOutput: string): string {
  const hidden = failures.length - SHOWN_FAILURES;
  return [
    ...failures.slice(0, SHOWN_FAILURES).map(describeFailure),
    ...(hidden > 0 ? [`and ${hidden} more`] : []),
    ...(errorOutput === '' ? [] : [`standard error ends with:\n${errorOutput}`]),
  ].join('\n');
}

interface Assertion {
  readonly ok: boolean;
  readonly skip: string | boolean;
  readonly todo: string | boolean;
  readonly fullname: string;
  readonly diag: unknown;
}

/** Counts leaves only: a test that holds assertions is not one itself. */
function countAssertions(parser: Parser, results: Results): void {
  let child: Parser | undefined;
  parser.on('child', (next: Parser) => {
    child = next;
    countAssertions(next, results);
  });
  parser.on('assert', (result: Assertion) => {
    const hadChild = child !== undefined && child.count > 0;
    // A failing test whose assertions all passed (a thrown error, a timeout) is a failure of its own.
    if (!hadChild || (!result.ok && child?.fail === 0)) addResult(results, result);
    child = undefined;
  });
}

function addResult(results: Results, result: Assertion): void {
  const { ok, skip, todo, fullname } = result;
  if (skip || todo) results.skipped.push(`${fullname} (${skip || todo})`);
  else if (ok) results.passed++;
  else results.failures.push(result);
}

interface Run {
  readonly ok: boolean;
  /** The end of what it wrote, TAP and the rest in the order they came. */
  readonly output: string;
  /** The end of its standard error. */
  readonly errorOutput: string;
  readonly milliseconds: number;
  readonly processorMilliseconds: number;
}

const pickTimes = ({ milliseconds, processorMilliseconds }: Pick<Run, 'milliseconds' | 'processorMilliseconds'>) => ({
  milliseconds,
  processorMilliseconds,
});

function run(
  [program, ...words]: readonly [string, ...string[]],
  cwd: string,
  onOutput: (chunk: string) => void,
  settings: Readonly<Record<string, string>> = {},
) {
  const started = Date.now();
  const env = { ...process.env, ...settings, NO_COLOR: '1' };
  const child = spawn(program, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errorOutput = '';
  let processorMilliseconds = 0;
  const keep = (chunk: string): void => {
    output = (output + chunk).slice(-OUTPUT_MAX);
  };
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    keep(chunk);
    onOutput(chunk);
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    keep(chunk);
    errorOutput = (errorOutput + chunk).slice(-ERROR_OUTPUT_MAX);
  });
  const patience = amount(PROCESS_TIMEOUT_MS);
  const timer = setTimeout(() => {
    keep(`\nended after ${patience / 1000} seconds\n`);
    child.kill('SIGKILL');
  }, patience);
  return new Promise<Run>((resolve) => {
    const done = (ok: boolean): void => {
      clearTimeout(timer);
      resolve({ ok, output, errorOutput, milliseconds: Date.now() - started, processorMilliseconds });
    };
    child.on('error', (error) => {
      keep(String(error));
      done(false);
    });
    child.on('close', (code) => done(code === 0));
    // A leaked grandchild may hold the pipes open for ever: then what came until now has to do, and it is a failure.
    child.on('exit', () => {
      processorMilliseconds = readProcessorTime();
      setTimeout(() => {
        keep('\nended, but something it started still holds its output\n');
        done(false);
      }, PIPES_MS).unref();
    });
  });
}
