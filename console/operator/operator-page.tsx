/** The operator page: processes, plugins, accounts and queues. */
import { Code, Skeleton, Stack, TextInput } from '@mantine/core';
import { useDebouncedValue, useInputState } from '@mantine/hooks';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { useAnnouncedResult } from '../shell/announcements.ts';
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { TabViews } from '../shell/tab-views.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { AccountsView } from './accounts-view.tsx';
import { describePlugins, PluginCosts } from './plugin-costs.tsx';
import { QueuesView } from './queues-view.tsx';
import { LimitNote, ROWS_MAX } from './row-limit.tsx';
import { operatorTabs } from './tabs.ts';

/** After the last key, milliseconds. */
const SEARCH_AFTER_MS = 250;
/** Refresh interval, milliseconds. */
const FOLLOW_MS = 5_000;
/** The costs are sums of minutes over a day, which take a second with 2,000 busy installations. Milliseconds. */
const COSTS_MS = 60_000;

export function OperatorPage() {
  const { tab = 'fleet' } = useSearch({ from: '/operator' });
  const navigate = useNavigate({ from: '/operator' });
  return (
    <Stack>
      <PageHeader title="Administration" subtitle="The processes, plugins, accounts and queues of this service." />
      <TabViews
        label="Parts of the administration"
        tabs={operatorTabs}
        selected={tab}
        onSelect={(next) => void navigate({ search: { tab: next }, replace: true, resetScroll: false })}
        views={{ fleet: <Fleet />, plugins: <Plugins />, accounts: <AccountsView />, queues: <Queues /> }}
      />
    </Stack>
  );
}

function Loaded<T>({ of, children }: { readonly of: UseQueryResult<T>; readonly children: (data: T) => ReactNode }) {
  const error = useReadError(of);
  const alert = error ? <ErrorAlert error={error} reset={() => void of.refetch()} /> : null;
  if (of.data === undefined) return alert ?? <Skeleton height={160} aria-label="Loading" />;
  return (
    <Stack>
      {alert}
      {children(of.data)}
    </Stack>
  );
}

function Fleet() {
  const found = useQuery({
    queryKey: ['operator', 'fleet'],
    queryFn: () => readBody(rest.GET('/operator/fleet')),
    refetchInterval: FOLLOW_MS,
  });
  return (
    <Loaded of={found}>
      {({ children }) => (
        <>
          <LimitNote rows={children}>
            Only {ROWS_MAX} processes are listed, those that use the most memory. To list others, such as failed ones,
            run <Code>npm run -s operator -- fleet --state failed</Code>
          </LimitNote>
          <FleetTable rows={children} />
        </>
      )}
    </Loaded>
  );
}

function Plugins() {
  const [typed, setTyped] = useInputState('');
  const [search] = useDebouncedValue(typed.trim(), SEARCH_AFTER_MS);
  const found = useQuery({
    queryKey: ['operator', 'plugins', search],
    queryFn: () => readBody(rest.GET('/operator/plugins', { params: { query: search === '' ? {} : { search } } })),
    refetchInterval: COSTS_MS,
  });
  useAnnouncedResult(search, found.data ? describePlugins(found.data.plugins.length, search) : null);
  return (
    <Stack>
      <TextInput label="Find a plugin or an author" maw={360} value={typed} onChange={setTyped} />
      <Loaded of={found}>
        {({ plugins }) => (
          <>
            <LimitNote rows={plugins}>
              Only {ROWS_MAX} plugins are listed, those with the highest error rate. Enter a part of a name to find
              others.
            </LimitNote>
            <PluginCosts rows={plugins} search={search} />
          </>
        )}
      </Loaded>
    </Stack>
  );
}

function Queues() {
  const found = useQuery({
    queryKey: ['operator', 'queues'],
    queryFn: () => readBody(rest.GET('/operator/queues')),
    refetchInterval: FOLLOW_MS,
  });
  return <Loaded of={found}>{(data) => <QueuesView {...data} />}</Loaded>;
}

const TITLES = ['Plugin', 'Version', 'Account', 'State', 'Memory', 'Restarts', 'Since', 'Last end', 'Failed update'];
const TONES: Readonly<Record<string, Tone>> = {
  running: 'good',
  starting: 'fair',
  draining: 'fair',
  backoff: 'bad',
  failed: 'bad',
};
const MIB = 2 ** 20;

function FleetTable({ rows }: { readonly rows: components['schemas']['Fleet']['children'] }) {
  if (rows.length === 0)
    return <EmptyState>No plugin process is running. The next call of a plugin starts one.</EmptyState>;
  const shown = rows.map((row) => ({
    key: row.installationId,
    cells: [
      <PageLink key="page" to="/installations/$id" params={{ id: row.installationId }}>
        {row.slug}
      </PageLink>,
      <Monospace key="version">{row.semVer ?? 'draft'}</Monospace>,
      row.account,
      <StatusDot key="state" tone={TONES[row.state] ?? 'quiet'}>
        {row.state}
      </StatusDot>,
      row.rssBytes === null ? '–' : `${Math.round(row.rssBytes / MIB)} MiB`,
      row.restarts,
      <Timestamp key="since" at={row.startedAt} />,
      row.lastExit === null ? '–' : escapeText(row.lastExit),
      row.failedUpdate === null ? '–' : escapeText(row.failedUpdate),
    ],
  }));
  return <DataTable label="Plugin processes" titles={TITLES} rows={shown} numeric={['Memory', 'Restarts']} />;
}
