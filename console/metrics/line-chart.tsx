/** Lines over time, drawn as they are: no library for a few paths. Screen readers get the table beside it. */
import { Group, Text } from '@mantine/core';

export interface Line {
  readonly label: string;
  /** A colour of the theme. */
  readonly colour: string;
  /** One a point of time; null: nothing to say there. */
  readonly values: readonly (number | null)[];
}
interface Drawn {
  readonly title: string;
  readonly unit?: string;
  /** ISO 8601. */
  readonly times: readonly string[];
  readonly lines: readonly Line[];
}

const WIDTH = 600;
const HEIGHT = 120;
const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' });
const NUMBER = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export function LineChart({ title, unit = '', times, lines }: Drawn) {
  const values = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const top = Math.max(1, ...values);
  const summary = lines.map(({ label, values }) => `${label}: ${latest(values, unit)}`).join(', ');
  return (
    <figure style={{ margin: 0 }}>
      <Group justify="space-between" component="figcaption">
        <Text size="sm" fw={600}>
          {title}
        </Text>
        <Group gap="sm">
          {lines.map(({ label, colour }) => (
            <Group key={label} gap={4}>
              <span aria-hidden style={{ width: 12, height: 3, background: colourOf(colour) }} />
              <Text size="xs">{label}</Text>
            </Group>
          ))}
        </Group>
      </Group>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}. Now ${summary}. The highest is ${NUMBER.format(top)} ${unit}`}
        style={{ width: '100%', height: HEIGHT, borderBottom: '1px solid currentColor' }}
      >
        {lines.map(({ label, colour, values }) => (
          <path
            key={label}
            d={pathOf(values, top)}
            fill="none"
            stroke={colourOf(colour)}
            strokeWidth={2}
            vectorEffect="non-scaling-stroke"
          />
        ))}
      </svg>
      <Group justify="space-between" aria-hidden>
        <Text size="xs">{momentOf(times.at(0))}</Text>
        <Text size="xs">
          up to {NUMBER.format(top)} {unit}
        </Text>
        <Text size="xs">{momentOf(times.at(-1))}</Text>
      </Group>
    </figure>
  );
}

const colourOf = (name: string): string => `var(--mantine-color-${name}-filled)`;
const momentOf = (at: string | undefined): string => (at === undefined ? '' : CLOCK.format(new Date(at)));

function latest(values: Line['values'], unit: string): string {
  const value = values.findLast((value) => value !== null);
  return value === undefined || value === null ? 'nothing' : `${NUMBER.format(value)} ${unit}`.trim();
}

/** A line through the points that have a value; a gap where one has none, a dash where a point stands alone. */
export function pathOf(values: Line['values'], top: number): string {
  const step = WIDTH / Math.max(1, values.length - 1);
  let isDrawing = false;
  const parts: string[] = [];
  for (const [index, value] of values.entries()) {
    if (value === null) {
      isDrawing = false;
      continue;
    }
    const at = `${(index * step).toFixed(1)} ${(HEIGHT - (value / top) * (HEIGHT - 4) - 1).toFixed(1)}`;
    parts.push(isDrawing ? `L${at}` : `M${at}h2`);
    isDrawing = true;
  }
  return parts.join('');
}
