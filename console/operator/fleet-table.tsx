/** Every plugin process: how much memory it needs, how often it was started anew, how it ended last. */
import type { components } from '../rest/schema.d.ts';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Nothing } from '../shell/nothing.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { visibleText } from '../style/visible-text.ts';

const TITLES = ['Plugin', 'Version', 'Account', 'State', 'Memory', 'Restarts', 'Since', 'Last end'];
const MIB = 2 ** 20;

export function FleetTable({ rows }: { readonly rows: components['schemas']['Fleet']['children'] }) {
  if (rows.length === 0) return <Nothing>No plugin process is there. One starts with the next call.</Nothing>;
  const shown = rows.map((row) => ({
    key: row.installationId,
    cells: [
      <PageLink key="page" to="/installations/$id" params={{ id: row.installationId }}>
        {row.slug}
      </PageLink>,
      row.semVer ?? 'draft',
      row.account,
      row.state,
      row.rssBytes === null ? '–' : `${Math.round(row.rssBytes / MIB)} MiB`,
      row.restarts,
      <Moment key="since" at={row.startedAt} />,
      row.lastExit === null ? '–' : visibleText(row.lastExit),
    ],
  }));
  return <HeadedTable label="Plugin processes" titles={TITLES} rows={shown} />;
}
