/** Suggests the name that was probably meant. */
import { closest } from 'fastest-levenshtein';

/** Maximum number of names that are compared. */
const COMPARED_MAX = 5_000;

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
