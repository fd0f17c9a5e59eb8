/** Lists all plugin processes. */
import type { components } from '../rest/schema.d.ts';
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';

const TITLES = ['Plugin', 'Version', 'Account', 'State', 'Memory', 'Restarts', 'Since', 'Last end'];
const TONES: Readonly<Record<string, Tone>> = {
  running: 'good',
  starting: 'fair',
  draining: 'fair',
  backoff: 'bad',
  failed: 'bad',
};
const MIB = 2 ** 20;

export function FleetTable({ rows }: { readonly rows: components['schemas']['Fleet']['children'] }) {
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
    ],
  }));
  return <DataTable label="Plugin processes" titles={TITLES} rows={shown} numeric={['Memory', 'Restarts']} />;
}
