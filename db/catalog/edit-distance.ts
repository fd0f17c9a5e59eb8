/** Edit distance with transpositions (optimal string alignment), also against the beginning of a word. */

/** One edit is allowed for this many letters. */
const CHARS_PER_EDIT = 4;
const EDITS_MAX = 2;

/** Edits after which a word still counts as misspelt; 0: the word is too short to guess. */
export function maxEdits(word: string): number {
  return Math.min(EDITS_MAX, Math.floor([...word].length / CHARS_PER_EDIT));
}

/**
 * Counts the insertions, deletions, substitutions and transpositions between two words.
 *
 * @param isPrefix compares `typed` with the beginning of `word` that fits best
 */
export function countEdits(typed: string, word: string, isPrefix: boolean): number {
  const from = [...typed];
  const to = [...word];
  let beforeLast: number[] = [];
  let last = to.map((_, column) => column + 1);
  last.unshift(0);
  for (const [row, letter] of from.entries()) {
    const next = [row + 1];
    for (const [column, other] of to.entries()) {
      const deletion = (last[column + 1] ?? 0) + 1;
      const insertion = (next[column] ?? 0) + 1;
      const substitution = (last[column] ?? 0) + (letter === other ? 0 : 1);
      const isSwapped = row > 0 && column > 0 && letter === to[column - 1] && from[row - 1] === other;
      const transposition = isSwapped ? (beforeLast[column - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(deletion, insertion, substitution, transposition));
    }
    beforeLast = last;
    last = next;
  }
  return isPrefix ? Math.min(...last) : (last.at(-1) ?? 0);
}
