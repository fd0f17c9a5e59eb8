/** Checks every row of the chapters, a bounded number at once. */
import { describeError, Mismatch, Skipped } from './expect.ts';
import type { Chapter, Row } from './row.ts';
import type { Run } from './run.ts';

/** Rows wait for the deployment most of the time. More at once keep the one plugin that most of them ask CPU-bound. */
const ROWS_AT_ONCE = 12;
/** A row that takes longer hangs. On a machine that other tests saturate, one that waits for three crashes took over a minute. Milliseconds. */
const ROW_WITHIN_MS = 180_000;

export type Verdict = 'held' | 'failed' | 'skipped';
export interface Result {
  readonly chapter: string;
  readonly sentence: string;
  readonly verdict: Verdict;
  /** Why the row failed or was skipped. */
  readonly reason: string | null;
  readonly ms: number;
}

/**
 * Checks the rows and resolves with their results, in the order of the chapters.
 *
 * @param interrupted rows that have not begun when it aborts are skipped. Those under way end, because what they create is
 *   known afterwards only
 */
export async function checkRows(run: Run, chapters: readonly Chapter[], interrupted: AbortSignal): Promise<Result[]> {
  const rows = chapters.flatMap(({ title, rows }) => rows.map((row) => ({ chapter: title, row })));
  const results: Result[] = new Array(rows.length);
  for (const isLate of [false, true]) {
    const queue = [...rows.entries()].filter(([, { row }]) => row.isLate === isLate).values();
    const work = async (): Promise<void> => {
      for (const [index, { chapter, row }] of queue) results[index] = await checkRow(run, chapter, row, interrupted);
    };
    await Promise.all(Array.from({ length: ROWS_AT_ONCE }, work));
  }
  return results;
}

async function checkRow(run: Run, chapter: string, row: Row, interrupted: AbortSignal): Promise<Result> {
  const started = performance.now();
  const finish = (verdict: Verdict, reason: string | null): Result => {
    const ms = Math.round(performance.now() - started);
    return { chapter, sentence: row.sentence, verdict, reason, ms };
  };
  try {
    if (interrupted.aborted) throw new Skipped('the check was interrupted');
    await within(run, ROW_WITHIN_MS, row.check(run));
    return finish('held', null);
  } catch (error) {
    if (error instanceof Skipped) return finish('skipped', error.message);
    if (error instanceof Mismatch) return finish('failed', error.message);
    return finish('failed', describeError(error));
  }
}

/** By the clock of the run, which stands while rate limits hold it back. */
function within(run: Run, ms: number, work: Promise<unknown>): Promise<unknown> {
  const { promise, reject } = Promise.withResolvers<never>();
  const end = run.now() + ms;
  let timer: NodeJS.Timeout;
  const check = (): void => {
    const left = end - run.now();
    if (left <= 0) reject(new Mismatch(`no answer within ${ms / 1000} s`));
    else timer = setTimeout(check, left);
  };
  check();
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
