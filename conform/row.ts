/** One sentence of the specification or the contract, and the check that holds a deployment against it. */
import { ensure, expect, isText, Skipped } from './expect.ts';
import type { Run } from './run.ts';

export interface Row {
  /** Checked after all others, because it changes what they look at. */
  readonly isLate: boolean;
  readonly sentence: string;
  /** Throws `Mismatch` with the evidence, or `Skipped` with the reason. */
  check(run: Run): Promise<unknown>;
}
export interface Chapter {
  readonly title: string;
  readonly rows: readonly Row[];
}

export const row = (sentence: string, check: Row['check']): Row => ({ sentence, check, isLate: false });

/** A row about hooks of further plugins, which take part in the hooks of the whole account. */
export const lateRow = (sentence: string, check: Row['check']): Row => ({ sentence, check, isLate: true });

/** A row about refusals that ask to wait. It is skipped where the run met none. */
export const refusalRow = (sentence: string, code: string, status: number): Row =>
  lateRow(sentence, async ({ own }) => {
    const answer = own.refusals.get(code);
    if (!answer) throw new Skipped(`this run was never refused with ${code}`);
    expect(answer, { status, body: { code, status, detail: isText } });
    ensure(Number(answer.headers.get('retry-after')) > 0, 'the answer has no Retry-After');
  });

/** A sentence that cannot be checked from outside, with the reason. */
export const unchecked = (sentence: string, reason: string): Row =>
  row(sentence, async () => {
    throw new Skipped(reason);
  });
