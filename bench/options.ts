/** Reads the numbers of a benchmark's command line. */

/** Prints what is wrong and ends the process if the text is no positive number: with NaN, every comparison with a goal would hold. */
export function readPositiveNumber(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && value < Number.POSITIVE_INFINITY) return value;
  console.error(`${name} ${text}: give a positive number.`);
  process.exit(1);
}
