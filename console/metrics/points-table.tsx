/** The same figures as the charts, to be read: only times at which something happened, newest first. */
import { Table } from '@mantine/core';
import { shortMoment } from '../shell/moment.tsx';
import type { Metrics } from './metrics-view.tsx';

const TITLES = [
  'From',
  'Calls',
  'Errors',
  'Timeouts',
  'Half within',
  '95 % within',
  'Host calls',
  'Denied',
  'Restarts',
];
/** Rows shown at most: a day by the minute would be 1,440. */
const ROWS_MAX = 100;

export const milliseconds = (ms: number | null): string => (ms === null ? '–' : `${Math.round(ms * 10) / 10} ms`);

export function PointsTable({ points }: { readonly points: Metrics['points'] }) {
  const busy = points.filter(({ calls, hostCalls, restarts }) => calls + hostCalls + restarts > 0);
  return (
    <details>
      <summary>As a table</summary>
      <Table.ScrollContainer minWidth={640}>
        <Table aria-label="Figures over time">
          <Table.Thead>
            <Table.Tr>
              {TITLES.map((title) => (
                <Table.Th key={title}>{title}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {busy
              .slice(-ROWS_MAX)
              .reverse()
              .map((point) => (
                <Table.Tr key={point.at}>
                  <Table.Td>{shortMoment(point.at)}</Table.Td>
                  <Table.Td>{point.calls}</Table.Td>
                  <Table.Td>{point.errors}</Table.Td>
                  <Table.Td>{point.timeouts}</Table.Td>
                  <Table.Td>{milliseconds(point.p50Ms)}</Table.Td>
                  <Table.Td>{milliseconds(point.p95Ms)}</Table.Td>
                  <Table.Td>{point.hostCalls}</Table.Td>
                  <Table.Td>{point.denials}</Table.Td>
                  <Table.Td>{point.restarts}</Table.Td>
                </Table.Tr>
              ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </details>
  );
}
