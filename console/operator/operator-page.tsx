/** The operator page: processes, plugins and queues. */
import { Skeleton, Stack, Tabs } from '@mantine/core';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { FleetTable } from './fleet-table.tsx';
import { PluginCosts } from './plugin-costs.tsx';
import { QueuesView } from './queues-view.tsx';
import { type OperatorTab, operatorTabs } from './tabs.ts';

/** Refresh interval, milliseconds. */
const FOLLOW_MS = 5_000;

export function OperatorPage() {
  const { tab = 'fleet' } = useSearch({ from: '/operator' });
  const navigate = useNavigate({ from: '/operator' });
  const show = (next: string | null) => {
    const known = operatorTabs.find(({ name }) => name === next);
    if (known) void navigate({ search: { tab: known.name }, replace: true });
  };
  const views: Record<OperatorTab, ReactNode> = { fleet: <Fleet />, plugins: <Plugins />, queues: <Queues /> };
  return (
    <Stack>
      <PageHeader title="Operation" subtitle="The processes, plugins and queues of this service." />
      <Tabs value={tab} onChange={show} keepMounted={false}>
        <Tabs.List aria-label="Parts of the operation">
          {operatorTabs.map(({ name, label }) => (
            <Tabs.Tab key={name} value={name}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {operatorTabs.map(({ name }) => (
          <Tabs.Panel key={name} value={name} pt="md">
            {views[name]}
          </Tabs.Panel>
        ))}
      </Tabs>
    </Stack>
  );
}

function Shown<T>({ of, children }: { readonly of: UseQueryResult<T>; readonly children: (data: T) => ReactNode }) {
  if (of.error) return <ErrorAlert error={of.error} reset={() => void of.refetch()} />;
  return of.data === undefined ? <Skeleton height={160} aria-label="Loading" /> : children(of.data);
}

function Fleet() {
  const found = useQuery({
    queryKey: ['operator', 'fleet'],
    queryFn: () => readBody(rest.GET('/operator/fleet')),
    refetchInterval: FOLLOW_MS,
  });
  return <Shown of={found}>{({ children }) => <FleetTable rows={children} />}</Shown>;
}

function Plugins() {
  const found = useQuery({
    queryKey: ['operator', 'plugins'],
    queryFn: () => readBody(rest.GET('/operator/plugins')),
    refetchInterval: FOLLOW_MS,
  });
  return <Shown of={found}>{({ plugins }) => <PluginCosts rows={plugins} />}</Shown>;
}

function Queues() {
  const found = useQuery({
    queryKey: ['operator', 'queues'],
    queryFn: () => readBody(rest.GET('/operator/queues')),
    refetchInterval: FOLLOW_MS,
  });
  return <Shown of={found}>{(data) => <QueuesView {...data} />}</Shown>;
}
