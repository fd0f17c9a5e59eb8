/** Finds the known name that the author probably meant. */
import { closest, distance } from 'fastest-levenshtein';

/** @param editsMax largest number of edits between the two @returns null: no known name is that near */
export function findNearName(name: string, known: readonly string[], editsMax: number): string | null {
  // Each letter that one name has more is an edit. A comparison costs the product of both lengths, and the author chooses one.
  const comparable = known.filter((each) => Math.abs(each.length - name.length) <= editsMax);
  if (comparable.length === 0) return null;
  const near = closest(name, comparable);
  return distance(name, near) <= editsMax ? near : null;
}
