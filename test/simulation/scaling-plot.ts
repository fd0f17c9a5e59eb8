/** Draws how cost grows with the number of supervisors, as an SVG for `docs/scaling.md`. */
import type { ScalingPoint } from './scaling.ts';

const WIDTH = 720;
const HEIGHT = 360;
const LEFT = 64;
const TOP = 24;
const PLOT_WIDTH = 440;
const PLOT_HEIGHT = 280;
/** Decades of the vertical axis, which starts at 1. */
const DECADES = 6;

interface Series {
  readonly name: string;
  readonly color: string;
  /** Null: nothing is drawn. */
  readonly value: (point: ScalingPoint) => number | null;
}
const SERIES: readonly Series[] = [
  { name: 'rows read a second, with faults', color: '#b4450e', value: (point) => point.faultyRows },
  { name: 'rows read a second, in calm', color: '#e39a5b', value: (point) => point.idleRows },
  { name: 'statements a second, with faults', color: '#1c5d99', value: (point) => point.faultyStatements },
  { name: 'statements a second, in calm', color: '#7fb2de', value: (point) => point.idleStatements },
  { name: 'recovery, p99, milliseconds', color: '#4a7c3a', value: (point) => point.recoveryP99Ms },
];

const round = (value: number): number => Math.round(value * 10) / 10;
const toY = (value: number): number => round(TOP + PLOT_HEIGHT * (1 - Math.log10(Math.max(1, value)) / DECADES));

/** Both axes are logarithmic. */
export function drawScaling(points: readonly ScalingPoint[], title: string): string {
  const largest = Math.log10(points.at(-1)?.supervisors ?? 10);
  const toX = ({ supervisors }: ScalingPoint): number => round(LEFT + (PLOT_WIDTH * Math.log10(supervisors)) / largest);
  const decades = Array.from({ length: DECADES + 1 }, (_, power) => power);
  const grid = decades.map((power) => {
    const y = toY(10 ** power);
    const line = `<line x1="${LEFT}" y1="${y}" x2="${LEFT + PLOT_WIDTH}" y2="${y}" stroke="#ddd"/>`;
    return `${line}<text x="${LEFT - 8}" y="${y + 4}" text-anchor="end">${(10 ** power).toLocaleString('en')}</text>`;
  });
  const ticks = points.map(
    (point) => `<text x="${toX(point)}" y="${TOP + PLOT_HEIGHT + 18}" text-anchor="middle">${point.supervisors}</text>`,
  );
  const lines = SERIES.map(({ color, value }) => {
    const path = points.flatMap((point) => {
      const measured = value(point);
      return measured === null ? [] : [`${toX(point)},${toY(measured)}`];
    });
    return `<polyline points="${path.join(' ')}" fill="none" stroke="${color}" stroke-width="2"/>`;
  });
  const legend = SERIES.map(({ name, color }, index) => {
    const y = TOP + 16 + index * 22;
    const x = LEFT + PLOT_WIDTH + 16;
    return `<rect x="${x}" y="${y - 9}" width="12" height="4" fill="${color}"/><text x="${x + 18}" y="${y - 3}">${name}</text>`;
  });
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" font-family="sans-serif" font-size="11" fill="#333">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...grid,
    ...ticks,
    `<text x="${LEFT + PLOT_WIDTH / 2}" y="${TOP + PLOT_HEIGHT + 40}" text-anchor="middle">supervisors</text>`,
    ...lines,
    ...legend,
    '</svg>',
  ].join('\n')}\n`;
}
