/** Finds the known name that the author probably meant. */
import { closest, distance } from 'fastest-levenshtein';

/** With more edits, another name is hardly what was meant. */
const EDITS_MAX = 3;
/** A third of a short name may be wrong: with three edits, any name of three letters is near any other. */
const CHARS_PER_EDIT = 3;

const countEditsMax = (name: string): number => Math.min(EDITS_MAX, Math.ceil(name.length / CHARS_PER_EDIT));

/**
 * @param editsMax largest number of edits between the two. Default: what `name` allows by its length
 * @returns null: no known name is that near
 */
export function findNearName(name: string, known: readonly string[], editsMax = countEditsMax(name)): string | null {
  // Each letter that one name has more is an edit. A comparison costs the product of both lengths, and the author chooses one.
  const comparable = known.filter((each) => Math.abs(each.length - name.length) <= editsMax);
  if (comparable.length === 0) return null;
  const near = closest(name, comparable);
  return distance(name, near) <= editsMax ? near : null;
}
