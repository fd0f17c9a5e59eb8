/** What an installation did over time: calls, errors, latency and use, and each of its handlers. */
import { Group, NativeSelect, SimpleGrid, Skeleton, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { bodyOf, rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';
import { Nothing } from '../shell/nothing.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { Part } from '../shell/part.tsx';
import { HandlersTable } from './handlers-table.tsx';
import { LineChart } from './line-chart.tsx';
import { PointsTable } from './points-table.tsx';

export type Metrics = components['schemas']['InstallationMetrics'];

/** Rollups are written every ten seconds, milliseconds. */
const FOLLOW_MS = 10_000;
const HOUR_MS = 3_600_000;
const MIB = 2 ** 20;
const spans = [
  { value: '1', label: 'The last hour' },
  { value: '24', label: 'The last day' },
  { value: '168', label: 'The last week' },
];

export function MetricsView({ installationId: id }: { readonly installationId: string }) {
  const [hours, setHours] = useState('1');
  const found = useQuery({
    queryKey: ['metrics', id, hours],
    queryFn: () => {
      const from = new Date(Date.now() - Number(hours) * HOUR_MS).toISOString();
      return bodyOf(rest.GET('/installations/{id}/metrics', { params: { path: { id }, query: { from } } }));
    },
    refetchInterval: FOLLOW_MS,
  });
  if (found.error) return <PageFailure error={found.error} reset={() => void found.refetch()} />;
  return (
    <Stack>
      <Group justify="flex-end">
        <NativeSelect
          label="Time"
          data={spans}
          value={hours}
          onChange={({ currentTarget }) => setHours(currentTarget.value)}
        />
      </Group>
      {found.data ? <Shown metrics={found.data} /> : <Skeleton height={240} aria-label="Loading" />}
    </Stack>
  );
}

function Shown({ metrics }: { readonly metrics: Metrics }) {
  const { points, handlers } = metrics;
  const isEmpty = points.every(
    ({ calls, hostCalls, logLines, restarts }) => calls + hostCalls + logLines + restarts === 0,
  );
  return (
    <>
      {isEmpty ? (
        <Nothing>Nothing happened in this time. A call shows here about ten seconds after it was made.</Nothing>
      ) : (
        <Part title="Over time">
          <Charts points={points} />
          <PointsTable points={points} />
        </Part>
      )}
      <Part title="Handlers">
        <HandlersTable handlers={handlers} />
      </Part>
    </>
  );
}

function Charts({ points }: { readonly points: Metrics['points'] }) {
  const times = points.map(({ at }) => at);
  const of = (pick: (point: Metrics['points'][number]) => number | null) => points.map(pick);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <LineChart
        title="Calls"
        times={times}
        lines={[
          { label: 'calls', colour: 'blue', values: of(({ calls }) => calls) },
          { label: 'errors', colour: 'red', values: of(({ errors }) => errors) },
          { label: 'timeouts', colour: 'orange', values: of(({ timeouts }) => timeouts) },
        ]}
      />
      <LineChart
        title="Latency"
        unit="ms"
        times={times}
        lines={[
          { label: 'half', colour: 'teal', values: of(({ p50Ms }) => p50Ms) },
          { label: '95 %', colour: 'violet', values: of(({ p95Ms }) => p95Ms) },
        ]}
      />
      <LineChart
        title="Host calls and log lines"
        times={times}
        lines={[
          { label: 'host calls', colour: 'blue', values: of(({ hostCalls }) => hostCalls) },
          { label: 'denied', colour: 'red', values: of(({ denials }) => denials) },
          { label: 'log lines', colour: 'gray', values: of(({ logLines }) => logLines) },
        ]}
      />
      <LineChart
        title="Memory"
        unit="MiB"
        times={times}
        lines={[
          { label: 'highest', colour: 'grape', values: of(({ memoryMaxBytes }) => memoryMaxBytes / MIB || null) },
        ]}
      />
    </SimpleGrid>
  );
}
