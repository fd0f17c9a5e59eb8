/** The tables of docs/language-agreement.md. */
import type { Measurement } from './measurement.ts';
import { CHANGES, CHECKS, reasons } from './reasons.ts';

type Cells = readonly string[];

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(2)} %`;

const count = ({ failures }: Measurement, reason: string): number => failures.get(reason)?.length ?? 0;

function countPassing(found: Measurement) {
  const asWritten = reasons.reduce((left, { name }) => left - count(found, name), found.inNode);
  const unchanged = found.inNode - count(found, CHECKS) - count(found, CHANGES);
  return { asWritten, withChecks: asWritten + count(found, CHECKS), unchanged };
}

/** The share of the cases that leave the intrinsics alone. */
export function shareUnchanged(found: Measurement): number {
  const { asWritten, unchanged } = countPassing(found);
  return asWritten / unchanged;
}

export function listTotals(found: Measurement): Cells[] {
  const { asWritten, withChecks, unchanged } = countPassing(found);
  return [
    ['run, a third of those that are eligible', String(found.eligible), ''],
    ['pass in plain Node', String(found.inNode), '100 %'],
    ['of these, pass in a plugin, as written', String(asWritten), percent(asWritten, found.inNode)],
    [
      'of these, pass in a plugin, as written or with checks that expect frozen properties',
      String(withChecks),
      percent(withChecks, found.inNode),
    ],
    ['pass in plain Node and do not need unfrozen intrinsics', String(unchanged), '100 %'],
    ['of these, pass in a plugin, as written', String(asWritten), percent(asWritten, unchanged)],
  ];
}

export const listReasons = (found: Measurement): Cells[] =>
  reasons.map(({ name, explanation }) => [
    name,
    String(count(found, name)),
    percent(count(found, name), found.inNode),
    explanation,
  ]);

export function listExclusions(files: readonly { readonly excluded: string | null }[]): Cells[] {
  const counts = new Map<string, number>();
  for (const { excluded } of files) if (excluded !== null) counts.set(excluded, (counts.get(excluded) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([reason, count]) => [reason, String(count)]);
}
