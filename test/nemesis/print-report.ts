/** The tables that a run ends with: the faults, and the invariants. */
import type { NemesisReport } from './run-nemesis.ts';

export function formatReport({ struck, findings }: NemesisReport): string {
  const counts = new Map<string, number>();
  for (const { name } of struck) counts.set(name, (counts.get(name) ?? 0) + 1);
  const rows = [...counts].sort(([one], [other]) => one.localeCompare(other));
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const wide = Math.max(...findings.map(({ invariant }) => invariant.length));
  return [
    '',
    `${struck.length} faults:`,
    ...rows.map(([name, count]) => `  ${name.padEnd(width)}  ${String(count).padStart(4)}`),
    '',
    'invariants:',
    ...findings.flatMap(({ invariant, isKept, figures, violations }) => [
      `  ${isKept ? 'ok  ' : 'FAIL'}  ${invariant.padEnd(wide)}  ${figures}`,
      ...violations.map((violation) => `          ${violation}`),
    ]),
  ].join('\n');
}
