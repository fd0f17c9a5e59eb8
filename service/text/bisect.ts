/**
 * Finds the first index for which a condition holds, as it does for all after it.
 *
 * @param length of the sorted list
 * @param holds called about log₂ of the length times
 * @returns `length` if the condition holds for none
 */
export function bisect(length: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
