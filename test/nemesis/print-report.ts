/** The tables that a run ends with: the faults, how long accounts were blocked, what was refused, and the invariants. */
import { readShare } from './invariants.ts';
import type { FaultRecord } from './records.ts';
import type { NemesisReport } from './run-nemesis.ts';

export function formatReport({ struck, takeovers, refusals, findings }: NemesisReport): string {
  const counts = new Map<string, number>();
  for (const { name } of struck) counts.set(name, (counts.get(name) ?? 0) + 1);
  const wide = Math.max(...findings.map(({ invariant }) => invariant.length));
  return [
    '',
    `${struck.length} faults:`,
    ...formatCounts(counts),
    '',
    'from the fault to the next answer (drain: from the last answer), of each account that moved, beside no other fault:',
    ...takeovers.map(({ fault, pauses }) => {
      const [p50, p99, longest] = [0.5, 0.99, 1].map((share) => `${readShare(pauses, share)} ms`);
      return `  ${String(pauses.length).padStart(4)}  ${fault}: p50 ${p50}, p99 ${p99}, longest ${longest}`;
    }),
    '',
    'refused calls:',
    ...formatCounts(refusals),
    '',
    'invariants:',
    ...findings.flatMap(({ invariant, isKept, isJudged, figures, violations }) => [
      `  ${isKept ? (isJudged ? 'ok  ' : 'none') : 'FAIL'}  ${invariant.padEnd(wide)}  ${figures}`,
      ...violations.map((violation) => `          ${violation}`),
    ]),
  ].join('\n');
}

/** A line for each fault. Its times are written as in the ids of deliveries: milliseconds since 1970, in hexadecimal. */
export function formatTimeline(struck: readonly FaultRecord[]): string[] {
  const format = (at: number): string => at.toString(16).padStart(12, '0').replace(/.{4}$/, '-$&');
  return struck.map(({ name, victim, at, endedAt }) => `${format(at)} to ${format(endedAt)}: ${name}, ${victim}`);
}

function formatCounts(counts: ReadonlyMap<string, number>): string[] {
  const rows = [...counts].sort(([one], [other]) => one.localeCompare(other));
  return rows.map(([text, count]) => `  ${String(count).padStart(4)}  ${text}`);
}
