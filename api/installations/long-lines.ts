/** Cuts the long lines of a comparison, as those of minified code, around what differs. Pure. */
import { bisect } from '../../service/text/bisect.ts';
import type { DiffLine } from './line-diff.ts';

/** Longer lines are cut: 5,000 lines of this length are 2.5 MB, the largest answer. Characters. */
export const LINE_MAX_CHARS = 500;
/** Characters shown before the first one that differs, enough to find the place in the source. */
const LEAD_CHARS = 40;
/** In a long line, this many spaces are counted, not shown: code behind them would be cut off. No indentation is as deep. */
const SPACES_MAX = 40;

type Side = 'added' | 'removed';

/** A long line is shown from shortly before its first difference from the most similar long line of the other version. */
export function cutLongLines(lines: readonly DiffLine[]): DiffLine[] {
  const shortened = lines.map((line) => (isLong(line) ? { ...line, text: countSpaces(line.text) } : line));
  const listLong = (side: Side): string[] =>
    shortened
      .filter((line) => line.kind === side && isLong(line))
      .map(({ text }) => text)
      .sort();
  const [removed, added] = [listLong('removed'), listLong('added')];
  return shortened.map((line) => {
    if (!isLong(line)) return line;
    const others = line.kind === 'added' ? removed : line.kind === 'removed' ? added : [];
    return { ...line, text: cutLine(line.text, countSharedChars(line.text, others)) };
  });
}

const isLong = ({ text }: DiffLine): boolean => text.length > LINE_MAX_CHARS;

const countSpaces = (text: string): string =>
  // The pattern matches short runs, too: one that counts to 40 takes 0.2 s for half a megabyte of runs of 39.
  text.replace(/ {2,}/g, (run) => (run.length < SPACES_MAX ? run : ` … ${run.length} spaces … `));

/** @param same the number of characters at its start that the other version has, too */
function cutLine(text: string, same: number): string {
  const from = Math.max(0, Math.min(same - LEAD_CHARS, text.length - LINE_MAX_CHARS));
  const rest = text.length - from - LINE_MAX_CHARS;
  const shown = text.slice(from, from + LINE_MAX_CHARS);
  return `${from > 0 ? `${describeCut(from)} ` : ''}${shown}${rest > 0 ? ` ${describeCut(rest)}` : ''}`;
}

const describeCut = (chars: number): string => `… ${chars} characters not shown …`;

/** Counts the characters at the start of a text that one of the others begins with, too. @param sorted the others */
function countSharedChars(text: string, sorted: readonly string[]): number {
  const place = bisect(sorted.length, (index) => (sorted[index] ?? '') >= text);
  // In sorted order, the text that shares most is next to it.
  return Math.max(...[sorted[place - 1], sorted[place]].map((other = '') => countSame(text, other)));
}

function countSame(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let same = 0;
  while (same < most && one[same] === other[same]) same += 1;
  return same;
}
