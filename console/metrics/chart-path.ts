/** Values over time as paths of a drawing that is 100 wide and 100 high. */
const SIZE = 100;
/** Tops that read well, times a power of ten. */
const ROUND = [1, 2, 4, 5, 10];

type Values = readonly (number | null)[];

/** The end of the scale: a round number, no lower than any value. */
export function findScaleTop(values: Values): number {
  const highest = Math.max(1, ...values.filter((value) => value !== null));
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * (ROUND.find((round) => round * power >= highest) ?? SIZE);
}

/** Where values stand side by side, without a gap. */
function splitRuns(values: Values, top: number): string[][] {
  const step = SIZE / Math.max(1, values.length - 1);
  const runs: string[][] = [];
  let isOpen = false;
  for (const [index, value] of values.entries()) {
    if (value === null) {
      isOpen = false;
      continue;
    }
    if (!isOpen) runs.push([]);
    isOpen = true;
    runs.at(-1)?.push(`${(index * step).toFixed(2)} ${(SIZE - (value / top) * SIZE).toFixed(2)}`);
  }
  return runs;
}

/** A line through the points that have a value; a gap where one has none. */
export const drawLine = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length > 1)
    .map((run) => `M${run.join('L')}`)
    .join('');

/** Points that stand alone: lines of no length, which a round pen shows as dots. */
export const drawDots = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length === 1)
    .map((run) => `M${run[0]}h0`)
    .join('');

/** What is under that line. */
export const drawArea = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length > 1)
    .map((run) => `M${run.join('L')}V${SIZE}H${run[0]?.split(' ')[0]}Z`)
    .join('');
