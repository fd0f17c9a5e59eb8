/** The tables of docs/language-agreement.md. */
import type { Measurement } from './measurement.ts';
import { reasons } from './reasons.ts';

type Cells = readonly string[];

export const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(2)} %`;

/** Cases that fail for another reason than that intrinsics are frozen. */
export const countOthers = ({ failures }: Measurement): number =>
  Object.entries(failures)
    .filter(([reason]) => reason !== reasons[0]?.name)
    .reduce((sum, [, cases]) => sum + cases.length, 0);

export function listTotals(found: Measurement): Cells[] {
  const { eligible, inNode, asWritten, inPlugin } = found;
  const changing = found.failures[reasons[0]?.name ?? '']?.length ?? 0;
  return [
    ['run, a third of those that are eligible', String(eligible), ''],
    ['pass in plain Node', String(inNode), ''],
    ['of these, pass in a plugin, as written', String(asWritten), percent(asWritten, inNode)],
    ['and where a check expects frozen properties', String(inPlugin), percent(inPlugin, inNode)],
    ['and without cases that change an intrinsic', String(inPlugin), percent(inPlugin, inNode - changing)],
  ];
}

export const listReasons = ({ failures, inNode }: Measurement): Cells[] =>
  reasons.map(({ name, explanation }) => {
    const count = failures[name]?.length ?? 0;
    return [name, String(count), percent(count, inNode), explanation];
  });

export function listExclusions(files: readonly { readonly excluded: string | null }[]): Cells[] {
  const counts = new Map<string, number>();
  for (const { excluded } of files) if (excluded !== null) counts.set(excluded, (counts.get(excluded) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([reason, count]) => [reason, String(count)]);
}
