/** Every handler of the version that runs: when it was called last, how often, and how long it takes. */
import { Table } from '@mantine/core';
import { Moment } from '../shell/moment.tsx';
import { Nothing } from '../shell/nothing.tsx';
import type { Metrics } from './metrics-view.tsx';
import { milliseconds } from './points-table.tsx';

const TITLES = ['Handler', 'Last called', 'Calls', 'Errors', 'Timeouts', 'Vetoes', '95 % within'];

export function HandlersTable({ handlers }: { readonly handlers: Metrics['handlers'] }) {
  if (handlers.length === 0) return <Nothing>This version has no code that is called.</Nothing>;
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table aria-label="Handlers">
        <Table.Thead>
          <Table.Tr>
            {TITLES.map((title) => (
              <Table.Th key={title}>{title}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {handlers.map(({ kind, name, lastAt, calls, errors, timeouts, cancels, p95Ms }) => (
            <Table.Tr key={`${kind} ${name}`}>
              <Table.Td ff="monospace">{kind === 'hook' ? name : `${kind}.${name}`}</Table.Td>
              <Table.Td>
                <Moment at={lastAt} none="never" />
              </Table.Td>
              <Table.Td>{calls}</Table.Td>
              <Table.Td>{errors}</Table.Td>
              <Table.Td>{timeouts}</Table.Td>
              <Table.Td>{cancels}</Table.Td>
              <Table.Td>{milliseconds(p95Ms)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
