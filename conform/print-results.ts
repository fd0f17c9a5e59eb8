/** Prints the results of a run as a table: sentence, verdict, reason. */
import type { Result, Verdict } from './check-rows.ts';

const MARKS: Readonly<Record<Verdict, string>> = { held: 'held   ', failed: 'FAILED ', skipped: 'skipped' };

export function formatResults(results: readonly Result[]): string {
  const lines: string[] = [];
  for (const [chapter, rows] of Map.groupBy(results, (result) => result.chapter)) {
    lines.push('', chapter);
    for (const { sentence, verdict, reason } of rows) {
      lines.push(`  ${MARKS[verdict]}  ${sentence}`);
      if (reason !== null) lines.push(`           ${reason}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

/** One line: how many rows held, failed and were skipped. */
export function summarizeResults(results: readonly Result[]): string {
  const count = (verdict: Verdict) => results.filter((result) => result.verdict === verdict).length;
  return `${results.length} rows: ${count('held')} held, ${count('failed')} failed, ${count('skipped')} skipped`;
}
