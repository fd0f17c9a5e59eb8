/** Converts values over time to SVG paths in a viewBox of 100 by 100. */
const SIZE = 100;
/** Readable maximum values of a scale, as factors of a power of ten. */
const ROUND = [1, 2, 4, 5, 10];

type Values = readonly (number | null)[];

/** Returns the maximum of the scale: a round number, at least the greatest value. */
export function findScaleTop(values: Values): number {
  const highest = Math.max(1, ...values.filter((value) => value !== null));
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * (ROUND.find((round) => round * power >= highest) ?? SIZE);
}

/** Returns the runs of adjacent values, without gaps. */
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

/** Returns a line through the points with values, with gaps where they are missing. */
export const drawLine = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length > 1)
    .map((run) => `M${run.join('L')}`)
    .join('');

/** Returns isolated points as lines without length, which a round pen draws as dots. */
export const drawDots = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length === 1)
    .map((run) => `M${run[0]}h0`)
    .join('');

/** Returns the area below the line. */
export const drawArea = (values: Values, top: number): string =>
  splitRuns(values, top)
    .filter((run) => run.length > 1)
    .map((run) => `M${run.join('L')}V${SIZE}H${run[0]?.split(' ')[0]}Z`)
    .join('');
