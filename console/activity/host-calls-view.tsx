/** What the plugin reached through `host`, and what it was denied. */
import { bodyOf, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import type { components } from '../rest/schema.d.ts';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Mono } from '../shell/mono.tsx';
import { Pages } from '../shell/pages.tsx';
import { StateMark } from '../shell/state-mark.tsx';
import { visibleText } from '../style/visible-text.ts';

type HostCall = components['schemas']['AuditEntry'];
const PAGE = 100;
const TITLES = ['At', 'Call', 'Outcome', 'Took', 'Session', 'Detail'];
const TONES = { ok: 'good', denied: 'bad', failed: 'bad', timeout: 'fair', cancelled: 'quiet' } as const;

export function HostCallsView({ installationId }: { readonly installationId: string }) {
  return (
    <Pages
      of={['audit', installationId]}
      read={(cursor) => readPage(installationId, cursor)}
      every={FOLLOW_MS}
      none="It has called nothing yet. Every call it makes through host is written down here for 30 days."
    >
      {(items) => <HeadedTable label="Host calls" titles={TITLES} rows={items.map(rowOf)} numeric={['Took']} />}
    </Pages>
  );
}

function rowOf({ id, at, member, outcome, durationMs, sessionId, detail }: HostCall) {
  const cells = [
    <Moment key="at" at={at} />,
    <Mono key="call">{member}</Mono>,
    <StateMark key="outcome" tone={TONES[outcome]}>
      {outcome}
    </StateMark>,
    `${Math.round(durationMs)} ms`,
    <Mono key="session">{sessionId ?? '–'}</Mono>,
    detail === null ? '–' : visibleText(detail),
  ];
  return { key: id, cells };
}

const readPage = (id: string, cursor: string | undefined) =>
  bodyOf(
    rest.GET('/installations/{id}/audit', {
      params: { path: { id }, query: { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) } },
    }),
  );
