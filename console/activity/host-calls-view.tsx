/** Lists the host calls of an installation, denied ones included. */

import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { DataTable } from '../shell/data-table.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { StatusDot } from '../shell/status-dot.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { formatMilliseconds } from '../style/format-number.ts';
import { escapeText } from '../style/untrusted-text.ts';

type HostCall = components['schemas']['AuditEntry'];
const PAGE = 100;
const TITLES = ['Time', 'Call', 'Outcome', 'Took', 'Session', 'Detail'];
const TONES = { ok: 'good', denied: 'bad', failed: 'bad', timeout: 'fair', cancelled: 'quiet' } as const;

export function HostCallsView({ installationId }: { readonly installationId: string }) {
  const path = { id: installationId };
  return (
    <PagedList
      queryKey={['audit', installationId]}
      read={(page) =>
        readBody(rest.GET('/installations/{id}/audit', { params: { path, query: { limit: PAGE, ...page } } }))
      }
      refreshMs={FOLLOW_MS}
      empty="The plugin has made no host call in the last 30 days. Its calls of host.* appear here."
    >
      {(items) => <DataTable label="Host calls" titles={TITLES} rows={items.map(renderRow)} numeric={['Took']} />}
    </PagedList>
  );
}

function renderRow({ id, at, member, outcome, durationMs, sessionId, detail }: HostCall) {
  const cells = [
    <Timestamp key="at" at={at} />,
    <Monospace key="call">{member}</Monospace>,
    <StatusDot key="outcome" tone={TONES[outcome]}>
      {outcome}
    </StatusDot>,
    formatMilliseconds(Math.round(durationMs)),
    <Monospace key="session">{sessionId ?? '–'}</Monospace>,
    detail === null ? '–' : escapeText(detail),
  ];
  return { key: id, cells };
}
