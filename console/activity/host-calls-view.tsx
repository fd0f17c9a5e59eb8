/** What the plugin reached through `host`, and what it was denied. */
import { Badge, Table } from '@mantine/core';
import { bodyOf, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { Moment } from '../shell/moment.tsx';
import { Pages } from '../shell/pages.tsx';
import { visibleText } from '../style/visible-text.ts';

const PAGE = 100;
const COLOURS = { ok: 'teal', denied: 'red', failed: 'red', timeout: 'yellow', cancelled: 'gray' } as const;

export function HostCallsView({ installationId }: { readonly installationId: string }) {
  return (
    <Pages
      of={['audit', installationId]}
      read={(cursor) => readPage(installationId, cursor)}
      every={FOLLOW_MS}
      none="It has called nothing yet. Every call it makes through host is written down here for 30 days."
    >
      {(items) => (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label="Host calls">
            <Table.Thead>
              <Table.Tr>
                {['At', 'Call', 'Outcome', 'Took', 'Session', 'Detail'].map((title) => (
                  <Table.Th key={title}>{title}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {items.map((call) => (
                <Table.Tr key={call.id}>
                  <Table.Td>
                    <Moment at={call.at} />
                  </Table.Td>
                  <Table.Td ff="monospace">{call.member}</Table.Td>
                  <Table.Td>
                    <Badge variant="light" color={COLOURS[call.outcome]}>
                      {call.outcome}
                    </Badge>
                  </Table.Td>
                  <Table.Td>{Math.round(call.durationMs)} ms</Table.Td>
                  <Table.Td ff="monospace">{call.sessionId ?? '–'}</Table.Td>
                  <Table.Td className="foreign">{call.detail === null ? '–' : visibleText(call.detail)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Pages>
  );
}

const readPage = (id: string, cursor: string | undefined) =>
  bodyOf(
    rest.GET('/installations/{id}/audit', {
      params: { path: { id }, query: { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) } },
    }),
  );
