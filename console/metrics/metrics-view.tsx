/** Shows the metrics of an installation over time and per handler. */
import { Card, Group, NativeSelect, SimpleGrid, Skeleton, Stack } from '@mantine/core';
import { useInputState } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, readServiceTime, rest } from '../rest/client.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { DataTable } from '../shell/data-table.tsx';
import { DescriptionList } from '../shell/description-list.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { formatMilliseconds, formatNumber, NUMBER_LANGUAGE } from '../style/format-number.ts';
import { IconChartLine } from '../style/icons.tsx';
import { type Line, LineChart } from './line-chart.tsx';
import { PointsTable } from './points-table.tsx';

export type Metrics = components['schemas']['InstallationMetrics'];

/** The service stores metrics every ten seconds. Milliseconds. */
const FOLLOW_MS = 10_000;
const HOUR_MS = 3_600_000;
const MIB = 2 ** 20;
const SHARE = new Intl.NumberFormat(NUMBER_LANGUAGE, { style: 'percent', maximumFractionDigits: 1 });
/** Width of a point for each hour of the period, seconds. */
const STEP_S = 60;
const spans = [
  { value: '1', label: 'The last hour' },
  { value: '24', label: 'The last day' },
  { value: '168', label: 'The last week' },
];

export function MetricsView({ installationId: id }: { readonly installationId: string }) {
  const [hours, setHours] = useInputState('1');
  const found = useQuery({
    queryKey: ['metrics', id, hours],
    queryFn: () => {
      const from = new Date(readServiceTime() - Number(hours) * HOUR_MS).toISOString();
      const query = { from, step: Number(hours) * STEP_S };
      return readBody(rest.GET('/installations/{id}/metrics', { params: { path: { id }, query } }));
    },
    refetchInterval: FOLLOW_MS,
  });
  const error = useReadError(found);
  return (
    <Stack>
      <Group justify="flex-end">
        <NativeSelect aria-label="Period" data={spans} value={hours} onChange={setHours} />
      </Group>
      {error && !found.data ? <ErrorAlert error={error} reset={() => void found.refetch()} /> : null}
      {found.data ? <MetricsPanels metrics={found.data} /> : null}
      {found.isPending && !error ? <Skeleton height={240} aria-label="Loading" /> : null}
    </Stack>
  );
}

function MetricsPanels({ metrics }: { readonly metrics: Metrics }) {
  const { points, handlers } = metrics;
  const isEmpty = points.every(
    ({ calls, hostCalls, logLines, restarts }) => calls + hostCalls + logLines + restarts === 0,
  );
  return (
    <>
      {isEmpty ? (
        <EmptyState icon={IconChartLine}>
          There was no activity in this period. Calls appear here after about ten seconds.
        </EmptyState>
      ) : (
        <>
          <DescriptionList look="figures" rows={sumPoints(points)} />
          <Charts points={points} />
          <PointsTable points={points} />
        </>
      )}
      <Section title="Handlers">
        <HandlersTable handlers={handlers} />
      </Section>
    </>
  );
}

function sumPoints(points: Metrics['points']): [string, string][] {
  const sum = (pick: (point: Point) => number) => points.reduce((total, point) => total + pick(point), 0);
  const calls = sum((point) => point.calls);
  const failed = sum(({ errors, timeouts }) => errors + timeouts);
  const slowest = Math.max(...points.map(({ p95Ms }) => p95Ms ?? 0));
  return [
    ['Calls', formatNumber(calls)],
    ['Failed', calls === 0 ? '–' : SHARE.format(failed / calls)],
    ['Highest p95', formatMilliseconds(slowest === 0 ? null : slowest)],
    ['Host calls', formatNumber(sum(({ hostCalls }) => hostCalls))],
    ['Restarts', formatNumber(sum(({ restarts }) => restarts))],
  ];
}

type Point = Metrics['points'][number];
interface Chart {
  readonly title: string;
  readonly unit?: string;
  readonly lines: readonly (Omit<Line, 'values'> & { readonly of: (point: Point) => number | null })[];
}
const charts: readonly Chart[] = [
  {
    title: 'Calls',
    lines: [
      { label: 'calls', colour: 'blue', of: ({ calls }) => calls },
      { label: 'errors', colour: 'red', of: ({ errors }) => errors },
      { label: 'timeouts', colour: 'orange', of: ({ timeouts }) => timeouts },
    ],
  },
  {
    title: 'Latency',
    unit: 'ms',
    lines: [
      { label: 'p50', colour: 'teal', of: ({ p50Ms }) => p50Ms },
      { label: 'p95', colour: 'violet', of: ({ p95Ms }) => p95Ms },
    ],
  },
  {
    title: 'Host calls and log lines',
    lines: [
      { label: 'host calls', colour: 'blue', of: ({ hostCalls }) => hostCalls },
      { label: 'denied', colour: 'red', of: ({ denials }) => denials },
      { label: 'log lines', colour: 'gray', of: ({ logLines }) => logLines },
    ],
  },
  {
    title: 'Memory',
    unit: 'MiB',
    lines: [{ label: 'highest', colour: 'grape', of: ({ memoryMaxBytes }) => memoryMaxBytes / MIB || null }],
  },
];

function Charts({ points }: { readonly points: readonly Point[] }) {
  const times = points.map(({ at }) => at);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      {charts.map(({ lines, ...chart }) => (
        <Card withBorder className="part" key={chart.title}>
          <LineChart
            {...chart}
            times={times}
            lines={lines.map(({ of, ...line }) => ({ ...line, values: points.map(of) }))}
          />
        </Card>
      ))}
    </SimpleGrid>
  );
}

const TITLES = ['Handler', 'Last called', 'Calls', 'Errors', 'Timeouts', 'Cancelled', 'p95'];

function HandlersTable({ handlers }: { readonly handlers: Metrics['handlers'] }) {
  if (handlers.length === 0) return <EmptyState>This version has no handlers.</EmptyState>;
  const rows = handlers.map(({ kind, name, lastAt, calls, errors, timeouts, cancels, p95Ms }) => ({
    key: `${kind} ${name}`,
    cells: [
      <Monospace key="name">{kind === 'hook' ? name : `${kind}.${name}`}</Monospace>,
      <Timestamp key="last" at={lastAt} none="never" />,
      calls,
      errors,
      timeouts,
      cancels,
      formatMilliseconds(p95Ms),
    ],
  }));
  return <DataTable label="Handlers" titles={TITLES} rows={rows} numeric={TITLES.slice(2)} />;
}
