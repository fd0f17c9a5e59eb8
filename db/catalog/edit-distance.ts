/** How differently two words are spelled. */

/** Letters of a word that may be wrong, for every so many it has. */
const CHARS_PER_ERROR = 4;
/** Far from every word beyond this: a longer text is not a misspelt word. Also what one comparison costs at most. */
const ERRORS_MAX = 2;

/** Wrong letters that a word may have and still be taken for another; 0: it is too short to guess at. */
export function maxEdits(word: string): number {
  return Math.min(ERRORS_MAX, Math.floor([...word].length / CHARS_PER_ERROR));
}

/**
 * Letters to put in, take out, change or swap with their neighbour until one word is the other.
 *
 * @param begun the first may be only the beginning of the second: its end is nearest to whatever part of it fits best
 */
export function countEdits(typed: string, word: string, begun: boolean): number {
  const [from, to] = [[...typed], [...word]];
  let beforeLast: number[] = [];
  let last = to.map((_, column) => column + 1);
  last.unshift(0);
  for (const [row, letter] of from.entries()) {
    const next = [row + 1];
    for (const [column, other] of to.entries()) {
      const [above, left, across] = [last[column + 1] ?? 0, next[column] ?? 0, last[column] ?? 0];
      let errors = Math.min(above + 1, left + 1, across + (letter === other ? 0 : 1));
      const swapped = row > 0 && column > 0 && letter === to[column - 1] && from[row - 1] === other;
      if (swapped) errors = Math.min(errors, (beforeLast[column - 1] ?? 0) + 1);
      next.push(errors);
    }
    [beforeLast, last] = [last, next];
  }
  return begun ? Math.min(...last) : (last.at(-1) ?? 0);
}
