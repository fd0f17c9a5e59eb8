/** Suggests the name that was probably meant. */
import { closest, distance } from 'fastest-levenshtein';

/** Maximum number of names that are compared. */
const COMPARED_MAX = 5_000;
/** A name is near another one if at most every third of its characters differs. */
const CHARS_PER_EDIT = 3;

/** Returns a sentence such as `Did you mean “a”?`; '' if no names are known. */
export function suggestName(name: string, known: readonly string[]): string {
  const compared = known.slice(0, COMPARED_MAX);
  if (compared.length === 0) return '';
  const nearest = closest(
    name.toLowerCase(),
    compared.map((one) => one.toLowerCase()),
  );
  return `Did you mean “${compared.find((one) => one.toLowerCase() === nearest)}”?`;
}

/** As `suggestName`, but '' also if no known name is near: the user may have meant one that is not known yet. */
export const suggestNearName = (name: string, known: readonly string[]): string =>
  suggestName(
    name,
    known.filter((one) => distance(name.toLowerCase(), one.toLowerCase()) <= name.length / CHARS_PER_EDIT),
  );
