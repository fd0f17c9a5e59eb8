/** Finds the known name that the author probably meant. */
import { closest, distance } from 'fastest-levenshtein';

/** @param editsMax largest number of edits between the two @returns null: no known name is that near */
export function findNearName(name: string, known: readonly string[], editsMax: number): string | null {
  if (known.length === 0) return null;
  const near = closest(name, known);
  return distance(name, near) <= editsMax ? near : null;
}
