/** Every plugin process: how much memory it needs, how often it was started anew, how it ended last. */
import type { components } from '../rest/schema.d.ts';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Mono } from '../shell/mono.tsx';
import { Nothing } from '../shell/nothing.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { StateMark, type Tone } from '../shell/state-mark.tsx';
import { visibleText } from '../style/visible-text.ts';

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
  if (rows.length === 0) return <Nothing>No plugin process is there. One starts with the next call.</Nothing>;
  const shown = rows.map((row) => ({
    key: row.installationId,
    cells: [
      <PageLink key="page" to="/installations/$id" params={{ id: row.installationId }}>
        {row.slug}
      </PageLink>,
      <Mono key="version">{row.semVer ?? 'draft'}</Mono>,
      row.account,
      <StateMark key="state" tone={TONES[row.state] ?? 'quiet'}>
        {row.state}
      </StateMark>,
      row.rssBytes === null ? '–' : `${Math.round(row.rssBytes / MIB)} MiB`,
      row.restarts,
      <Moment key="since" at={row.startedAt} />,
      row.lastExit === null ? '–' : visibleText(row.lastExit),
    ],
  }));
  return <HeadedTable label="Plugin processes" titles={TITLES} rows={shown} numeric={['Memory', 'Restarts']} />;
}
