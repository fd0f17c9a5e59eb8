/** A line chart in SVG. Screen readers use the table of the same data. */
import { Group, Text } from '@mantine/core';
import { type PointerEvent, type SVGProps, useState } from 'react';
import { formatNumber } from '../style/format-number.ts';
import { drawArea, drawDots, drawLine, findScaleTop } from './chart-path.ts';

export interface Line {
  readonly label: string;
  /** Name of a theme colour. */
  readonly colour: string;
  /** One value per time; null: no value. */
  readonly values: readonly (number | null)[];
}
interface LineChartProps {
  readonly title: string;
  readonly unit?: string;
  /** ISO 8601. */
  readonly times: readonly string[];
  readonly lines: readonly Line[];
}

const HOUR = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: 'numeric', minute: '2-digit' });
const GRID = [0, 0.5, 1];
/** Beyond this fraction of the width, the tooltip is placed to the left of the point. */
const RIGHT_SIDE = 0.6;
const PERCENT = 100;
const PEN: SVGProps<SVGPathElement> = {
  fill: 'none',
  stroke: 'currentColor',
  vectorEffect: 'non-scaling-stroke',
  strokeLinejoin: 'round',
  strokeLinecap: 'round',
};

export function LineChart({ title, unit = '', times, lines }: LineChartProps) {
  const top = findScaleTop(lines.flatMap(({ values }) => values));
  const summary = lines.map(({ label, values }) => `${label}: ${latest(values, unit)}`).join(', ');
  const ends = [times.at(0), times.at(Math.floor(times.length / 2)), times.at(-1)];
  return (
    <figure className="chart">
      <Legend title={title} unit={unit} lines={lines} />
      <div className="chart-area">
        <div className="chart-scale" aria-hidden>
          {GRID.toReversed().map((part) => (
            <span key={part}>{formatNumber(top * part)}</span>
          ))}
        </div>
        <Plot label={`${title}. Latest values: ${summary}.`} times={times} lines={lines} top={top} unit={unit} />
        <div className="chart-times" aria-hidden>
          {ends.map((at, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a short chart has the same time twice
            <span key={index}>{formatMoment(at, times)}</span>
          ))}
        </div>
      </div>
    </figure>
  );
}

function Legend({ title, unit, lines }: Pick<LineChartProps, 'title' | 'unit' | 'lines'>) {
  return (
    <Group justify="space-between" component="figcaption" gap="xs">
      <Text size="sm" fw={600}>
        {title}{' '}
        {unit ? (
          <Text span size="xs" c="dimmed" fw={400}>
            {unit}
          </Text>
        ) : null}
      </Text>
      <Group gap="sm">
        {lines.map(({ label, colour }) => (
          <Group key={label} gap={5}>
            <span aria-hidden className="chart-key" style={{ background: formatColour(colour) }} />
            <Text size="xs" c="dimmed">
              {label}
            </Text>
          </Group>
        ))}
      </Group>
    </Group>
  );
}

interface PlotProps extends Pick<LineChartProps, 'times' | 'lines'> {
  readonly label: string;
  readonly top: number;
  readonly unit: string;
}

function Plot({ label, times, lines, top, unit }: PlotProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const point = ({ currentTarget, clientX }: PointerEvent) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    const at = Math.round(((clientX - left) / width) * (times.length - 1));
    setPointed(Math.min(Math.max(at, 0), times.length - 1));
  };
  return (
    <div className="chart-plot" onPointerMove={point} onPointerLeave={() => setPointed(null)}>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={label}>
        {GRID.map((part) => (
          <line key={part} className="chart-grid" x1={0} x2={100} y1={part * 100} y2={part * 100} />
        ))}
        {/* Reversed, so that the first line is drawn on top. */}
        {lines.toReversed().map(({ label, colour, values }) => (
          <g key={label} color={formatColour(colour)}>
            {label === lines[0]?.label ? <path d={drawArea(values, top)} fill="currentColor" opacity={0.1} /> : null}
            <path d={drawLine(values, top)} {...PEN} strokeWidth={1.75} />
            <path d={drawDots(values, top)} {...PEN} strokeWidth={5} />
          </g>
        ))}
      </svg>
      {pointed === null ? null : <ChartTooltip at={pointed} times={times} lines={lines} unit={unit} />}
    </div>
  );
}

function ChartTooltip({ at, times, lines, unit }: Omit<PlotProps, 'label' | 'top'> & { readonly at: number }) {
  const part = at / Math.max(1, times.length - 1);
  const left = `${part * PERCENT}%`;
  const side = part > RIGHT_SIDE ? 'translateX(calc(-100% - 10px))' : 'translateX(10px)';
  return (
    <div aria-hidden>
      <div className="chart-cursor" style={{ left }} />
      <div className="chart-tooltip" style={{ left, transform: side }}>
        <Text size="xs" c="dimmed">
          {formatMoment(times[at], times)}
        </Text>
        {lines.map(({ label, colour, values }) => (
          <Group key={label} gap={6} wrap="nowrap">
            <span className="chart-key" style={{ background: formatColour(colour) }} />
            {label} {latest(values.slice(at, at + 1), unit)}
          </Group>
        ))}
      </div>
    </div>
  );
}

/** Three to one to the background in both schemes, as WCAG 2.2, criterion 1.4.11 wants. */
const formatColour = (name: string): string =>
  `light-dark(var(--mantine-color-${name}-8), var(--mantine-color-${name}-5))`;

function formatMoment(at: string | undefined, times: readonly string[]): string {
  const [first, last] = [times.at(0), times.at(-1)];
  if (at === undefined || first === undefined || last === undefined) return '';
  const isOneDay = new Date(first).toDateString() === new Date(last).toDateString();
  return (isOneDay ? HOUR : DAY).format(new Date(at));
}

function latest(values: Line['values'], unit: string): string {
  const value = values.findLast((value) => value !== null);
  return value === undefined || value === null ? '–' : `${formatNumber(value)} ${unit}`.trim();
}
