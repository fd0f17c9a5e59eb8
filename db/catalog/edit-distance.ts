/** Edit distance with transpositions (optimal string alignment), also against the beginning of a word. */

/** One edit is allowed for this many letters. */
const CHARS_PER_EDIT = 4;
const EDITS_MAX = 2;

/** Edits after which a word still counts as misspelt; 0: the word is too short to guess. */
export function maxEdits(word: string): number {
  return Math.min(EDITS_MAX, Math.floor([...word].length / CHARS_PER_EDIT));
}

/**
 * Counts the insertions, deletions, substitutions and transpositions between two words, up to `EDITS_MAX`. Computes only cells of
 * the matrix that can be that small: those at most `EDITS_MAX` beside its diagonal.
 *
 * @param isPrefix compares `typed` with the beginning of `word` that fits best
 * @returns Infinity: more than `EDITS_MAX`
 */
export function countEdits(typed: string, word: string, isPrefix: boolean): number {
  const from = [...typed];
  const to = [...word];
  const missing = from.length - to.length;
  if (missing > EDITS_MAX || (!isPrefix && -missing > EDITS_MAX)) return Number.POSITIVE_INFINITY;
  // Rows of the matrix by column. Columns that are not computed are absent.
  let beforeLast: number[] = [];
  let last = Array.from({ length: Math.min(to.length, EDITS_MAX) + 1 }, (_, column) => column);
  let fewest = 0;
  const read = (row: readonly number[], column: number) => row[column] ?? Number.POSITIVE_INFINITY;
  for (const [index, letter] of from.entries()) {
    const row = index + 1;
    const next: number[] = [];
    fewest = Number.POSITIVE_INFINITY;
    for (let column = Math.max(0, row - EDITS_MAX); column <= Math.min(to.length, row + EDITS_MAX); column += 1) {
      const other = to[column - 1];
      const deletion = read(last, column) + 1;
      const insertion = read(next, column - 1) + 1;
      const substitution = read(last, column - 1) + (letter === other ? 0 : 1);
      const isSwapped = row > 1 && column > 1 && letter === to[column - 2] && from[row - 2] === other;
      const transposition = isSwapped ? read(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY;
      const edits = Math.min(deletion, insertion, substitution, transposition);
      next[column] = edits;
      fewest = Math.min(fewest, edits);
    }
    // No later row has fewer edits.
    if (fewest > EDITS_MAX) return Number.POSITIVE_INFINITY;
    beforeLast = last;
    last = next;
  }
  const edits = isPrefix ? fewest : read(last, to.length);
  return edits > EDITS_MAX ? Number.POSITIVE_INFINITY : edits;
}
