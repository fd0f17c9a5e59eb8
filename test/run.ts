/**
 * `npm test [-- file…]`: the checks and every test file. Each file is a plain program that speaks TAP; two run at a time,
 * against one PostgreSQL started here; a failing one gets up to two more runs by itself. The last line counts the assertions: `N passed, N failed`.
 *
 * The files are run by node rather than by tap's own runner because that one puts itself into the environment of every
 * child process, which a suite about processes with an empty environment cannot have.
 */
import { glob } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checks, type Outcome, runCheck, runFile } from './runner/run-file.ts';
import { SERVER_VARIABLE, startTestServer } from './runner/server.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Files at once: tests of deadlines need a free core beside them. */
const JOBS = Math.max(2, Math.floor(availableParallelism() / 2));
/** Failing files that are run again; more than these are no bad luck. */
const AGAIN_MAX = 4;
/** Further runs of one file. */
const MORE_RUNS = 2;

const requested = process.argv.slice(2).map((file) => relative(ROOT, resolve(file)));
const outcomes: Outcome[] = [];
/** Files that failed at first and passed alone. */
const unsteady: string[] = [];

const files = requested.length > 0 ? requested : await allFiles();
if (requested.length === 0) await inParallel(checks, JOBS, async (check) => report(await runCheck(check, ROOT)));
const server = await startTestServer();
// Ctrl-C ends the test files by itself; the server is in a session of its own and has a folder to remove.
process.once('SIGINT', () => void server.stop().then(() => process.exit(1)));
try {
  process.env[SERVER_VARIABLE] = server.url;
  await inParallel(files, JOBS, async (file) => report(await runFile(file, ROOT)));
  await runAgain();
} finally {
  await server.stop();
}
summarize();

async function allFiles(): Promise<string[]> {
  const found: string[] = [];
  for await (const file of glob('test/**/*.test.ts', { cwd: ROOT })) found.push(file);
  return found.sort();
}

/** One block a file, so that files running side by side do not mix their lines. */
function report(outcome: Outcome): void {
  outcomes.push(outcome);
  const mark = outcome.failed === 0 ? 'ok  ' : 'FAIL';
  const seconds = (outcome.milliseconds / 1000).toFixed(1);
  console.log(`${mark} ${outcome.name} (${outcome.passed} passed, ${outcome.failed} failed, ${seconds} s)`);
  if (outcome.failed > 0) console.log(outcome.output.replace(/^/gm, '     '));
  for (const reason of outcome.skipped) console.log(`     skipped: ${reason}`);
}

/**
 * A file that failed beside others is run again by itself: a real fault fails again, and one of a busy machine is
 * named, so that it gets mended. What counts is the last run.
 */
async function runAgain(): Promise<void> {
  const failing = outcomes.filter(({ name, failed }) => failed > 0 && files.includes(name));
  if (requested.length > 0 || failing.length > AGAIN_MAX) return;
  for (const first of failing) {
    let last = first;
    for (let run = 0; run < MORE_RUNS && last.failed > 0; run += 1) {
      console.log(`again, alone: ${first.name}`);
      outcomes.splice(outcomes.indexOf(last), 1);
      last = await runFile(first.name, ROOT);
      report(last);
    }
    if (last.failed === 0) unsteady.push(first.name);
  }
}

function summarize(): void {
  const sum = (pick: (outcome: Outcome) => number): number => outcomes.reduce((total, each) => total + pick(each), 0);
  const failed = sum((outcome) => outcome.failed);
  if (failed > 0) {
    console.log(`\nfailed: ${outcomes.flatMap((each) => (each.failed > 0 ? [each.name] : [])).join(', ')}`);
  }
  if (unsteady.length > 0) console.log(`\nunsteady, to be mended: ${unsteady.join(', ')}`);
  process.exitCode = failed === 0 ? 0 : 1;
  console.log(`${sum((outcome) => outcome.passed)} passed, ${failed} failed`);
}

async function inParallel<T>(items: readonly T[], jobs: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: jobs }, worker));
}
