/** A table with a head, in the look of all tables; what is wider than the page scrolls in it. */
import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

interface Rows {
  readonly label: string;
  readonly titles: readonly string[];
  readonly rows: readonly { readonly key: string; readonly cells: readonly ReactNode[] }[];
}
/** Narrower than this its columns are not readable, pixels. */
const COLUMN_PX = 90;

export function HeadedTable({ label, titles, rows }: Rows) {
  return (
    <Table.ScrollContainer minWidth={titles.length * COLUMN_PX}>
      <Table aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {titles.map((title) => (
              <Table.Th key={title}>{title}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ key, cells }) => (
            <Table.Tr key={key}>
              {cells.map((cell, column) => (
                <Table.Td key={titles[column]} className="foreign">
                  {cell}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
