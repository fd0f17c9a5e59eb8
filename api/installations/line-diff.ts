/** Compares two texts line by line, with bounds that hold for any text. Pure. */

/** One line of a comparison. `gap`: lines that are the same and not shown; `text` says how many. */
export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed' | 'gap';
  readonly text: string;
}

/** Unchanged lines shown beside a change. */
const CONTEXT_LINES = 3;
/** Texts that differ in more lines are shown as one replaced by the other, because the time grows with the square of the edits. */
const EDITS_MAX = 400;

type Edit = Pick<DiffLine, 'text'> & { readonly kind: 'same' | 'added' | 'removed' };

export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [splitLines(before), splitLines(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let same = 0;
  while (same < old.length - start && same < now.length - start && old.at(-1 - same) === now.at(-1 - same)) same += 1;
  const middle = compareMiddle(old.slice(start, old.length - same), now.slice(start, now.length - same));
  const keep = (lines: readonly string[]): Edit[] => lines.map((text) => ({ kind: 'same', text }));
  return foldSame([...keep(old.slice(0, start)), ...middle, ...keep(old.slice(old.length - same))]);
}

/** An empty text has no lines. */
const splitLines = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

/** Myers' greedy algorithm: finds the fewest edits by the furthest points that each number of edits reaches. */
function compareMiddle(old: readonly string[], now: readonly string[]): Edit[] {
  const reached: Int32Array[] = [];
  const furthest = new Int32Array(2 * EDITS_MAX + 3);
  for (let edits = 0; edits <= Math.min(EDITS_MAX, old.length + now.length); edits += 1) {
    reached.push(furthest.slice());
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = startOn(furthest, diagonal, edits);
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x += 1;
      furthest[at(diagonal)] = x;
      if (x >= old.length && x - diagonal >= now.length) return traceEdits(reached, old, now);
    }
  }
  const removed = old.map((text): Edit => ({ kind: 'removed', text }));
  return [...removed, ...now.map((text): Edit => ({ kind: 'added', text }))];
}

const at = (diagonal: number): number => diagonal + EDITS_MAX + 1;
const read = (furthest: Int32Array, diagonal: number): number => furthest[at(diagonal)] ?? 0;
const isAddition = (furthest: Int32Array, diagonal: number, edits: number): boolean =>
  diagonal === -edits || (diagonal !== edits && read(furthest, diagonal - 1) < read(furthest, diagonal + 1));
const startOn = (furthest: Int32Array, diagonal: number, edits: number): number =>
  isAddition(furthest, diagonal, edits) ? read(furthest, diagonal + 1) : read(furthest, diagonal - 1) + 1;

/** Walks back from the end of both texts. */
function traceEdits(reached: readonly Int32Array[], old: readonly string[], now: readonly string[]): Edit[] {
  const found: Edit[] = [];
  let [x, y] = [old.length, now.length];
  for (let edits = reached.length - 1; edits >= 0; edits -= 1) {
    const furthest = reached[edits] as Int32Array;
    const diagonal = x - y;
    const isAdded = isAddition(furthest, diagonal, edits);
    const from = edits === 0 ? 0 : read(furthest, isAdded ? diagonal + 1 : diagonal - 1);
    const fromY = edits === 0 ? 0 : from - (isAdded ? diagonal + 1 : diagonal - 1);
    while (x > from && y > fromY) {
      x -= 1;
      y -= 1;
      found.push({ kind: 'same', text: old[x] ?? '' });
    }
    if (edits === 0) break;
    found.push(isAdded ? { kind: 'added', text: now[fromY] ?? '' } : { kind: 'removed', text: old[from] ?? '' });
    [x, y] = [from, fromY];
  }
  return found.reverse();
}

/** Replaces unchanged lines away from every change by a gap. */
function foldSame(edits: readonly Edit[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let hidden = 0;
  const closeGap = (): void => {
    if (hidden > 0) lines.push({ kind: 'gap', text: `${hidden} unchanged` });
    hidden = 0;
  };
  const isNearChange = markNearChanges(edits);
  for (const [index, edit] of edits.entries()) {
    if (!isNearChange[index]) {
      hidden += 1;
      continue;
    }
    closeGap();
    lines.push(edit);
  }
  closeGap();
  return lines;
}

function markNearChanges(edits: readonly Edit[]): boolean[] {
  const near = edits.map(() => false);
  for (const [index, { kind }] of edits.entries()) {
    if (kind === 'same') continue;
    for (let other = index - CONTEXT_LINES; other <= index + CONTEXT_LINES; other += 1)
      if (other >= 0 && other < near.length) near[other] = true;
  }
  return near;
}
