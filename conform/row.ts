/** One sentence of the specification or the contract, and the check whether a deployment keeps it. */
import { ensure, expect, isText, Skipped } from './expect.ts';
import type { Run } from './run.ts';

export interface Row {
  /** Whether the row is checked after all others: it affects what they check, or needs what they did. */
  readonly isLate: boolean;
  readonly sentence: string;
  /** @throws Mismatch with the evidence, or Skipped with the reason */
  check(run: Run): Promise<unknown>;
}
export interface Chapter {
  readonly title: string;
  readonly rows: readonly Row[];
}

export const row = (sentence: string, check: Row['check']): Row => ({ sentence, check, isLate: false });

/** A row that is checked after all others, such as one that installs a plugin whose hooks run for the whole account. */
export const lateRow = (sentence: string, check: Row['check']): Row => ({ sentence, check, isLate: true });

/** A row about a refusal with `Retry-After`. Skipped if no request of the run was refused with this code. */
export const refusalRow = (sentence: string, code: string, status: number): Row =>
  lateRow(sentence, async ({ own }) => {
    const refusal = own.refusals.get(code);
    if (!refusal) throw new Skipped(`this run was never refused with ${code}`);
    expect(refusal, { status, body: { code, status, detail: isText } });
    ensure(Number(refusal.headers.get('retry-after')) > 0, 'the response has no Retry-After');
  });

/** A sentence that cannot be checked from outside. Always skipped, with the reason. */
export const unchecked = (sentence: string, reason: string): Row =>
  row(sentence, async () => {
    throw new Skipped(reason);
  });
