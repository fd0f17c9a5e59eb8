/** Chooses the numbers that put installations in another order: as few new ones as possible. */
import type { Installation } from '../rest/installations.ts';

export type Numbered = Pick<Installation, 'id' | 'hookOrder'>;

/** The greatest number that the REST interface accepts; the smallest is its negative (`installationChanges`). */
const NUMBER_MAX = 1_000_000;
/** Between two new numbers. Ten moves to the same place halve it before others must get new numbers. */
const STEP = 1_000;

/**
 * Plans the writes for an order. Some may fail: two installations that stay in their order relative to each other are in it after
 * each write.
 *
 * @param wanted all installations, in the order to be saved
 */
export function planHookNumbers(wanted: readonly Numbered[]): readonly Numbered[] {
  const numbers = chooseNumbers(wanted.map(({ hookOrder }) => hookOrder));
  const changes = wanted.map(({ id, hookOrder }, at) => ({
    id,
    hookOrder: numbers[at] ?? hookOrder,
    before: hookOrder,
  }));
  // Of those that move down the list, the last one goes first, and of those that move up, the first one: none passes another.
  const later = changes.filter(({ hookOrder, before }) => hookOrder > before).reverse();
  const earlier = changes.filter(({ hookOrder, before }) => hookOrder < before);
  return [...earlier, ...later].map(({ id, hookOrder }) => ({ id, hookOrder }));
}

/** Keeps as many of the numbers as an ascending order can, and spreads the others evenly between these. */
function chooseNumbers(current: readonly number[]): readonly number[] {
  const bounded = [-NUMBER_MAX - 1, ...current, NUMBER_MAX + 1];
  const kept = findKept(bounded);
  const chosen: number[] = [];
  for (const [index, at] of kept.entries()) {
    chosen.push(bounded[at] ?? 0);
    const next = kept[index + 1];
    if (next !== undefined) chosen.push(...spread(bounded, at, next));
  }
  return chosen.slice(1, -1);
}

/** Finds the longest selection of places, with the first and the last one, whose numbers leave room for the places between. */
function findKept(numbers: readonly number[]): readonly number[] {
  const last = numbers.length - 1;
  const rooms = numbers.map((number, at) => number - at);
  const isPossible = (at: number) => (rooms[at] ?? 0) >= (rooms[0] ?? 0) && (rooms[at] ?? 0) <= (rooms[last] ?? 0);
  const best: { readonly length: number; readonly previous: number }[] = [];
  for (const [at, room] of rooms.entries()) {
    let found = { length: 1, previous: -1 };
    for (let before = 0; before < at; before++) {
      const length = (best[before]?.length ?? 0) + 1;
      if (isPossible(before) && (rooms[before] ?? 0) <= room && length > found.length)
        found = { length, previous: before };
    }
    best.push(found);
  }
  const kept: number[] = [];
  for (let at = last; at >= 0; at = best[at]?.previous ?? -1) kept.unshift(at);
  return kept;
}

/** Chooses the numbers of the places between two that keep theirs. */
function spread(numbers: readonly number[], from: number, to: number): readonly number[] {
  const count = to - from - 1;
  const [isFirst, isLast] = [from === 0, to === numbers.length - 1];
  const [below, above] = [numbers[from] ?? 0, numbers[to] ?? 0];
  // At an end of the list, the room has no other use, but it is not used up at once.
  const low = isFirst && !isLast ? Math.max(below, above - STEP * (count + 1)) : below;
  const high = isLast && !isFirst ? Math.min(above, below + STEP * (count + 1)) : above;
  return Array.from({ length: count }, (_, at) => low + Math.floor(((high - low) * (at + 1)) / (count + 1)));
}
