/** A table that scrolls horizontally, and shows each row as a card on phones. */
import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

interface DataTableProps {
  readonly label: string;
  readonly titles: readonly string[];
  readonly rows: readonly { readonly key: string; readonly cells: readonly ReactNode[] }[];
  /** Titles of numeric columns. */
  readonly numeric?: readonly string[];
  /** Whether to keep the table layout on phones. */
  readonly staysTable?: boolean;
}

export function DataTable({ label, titles, rows, numeric = [], staysTable = false }: DataTableProps) {
  const alignColumn = (title: string | undefined) => ({
    'data-numeric': title !== undefined && numeric.includes(title) ? '' : undefined,
  });
  // Explicit roles, because the card layout changes `display` and so removes the implicit ones.
  return (
    // biome-ignore lint/a11y/useSemanticElements: it is not a set of form fields
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className="table-box" role="group" aria-label={label} tabIndex={0} data-stacks={staysTable ? undefined : ''}>
      <Table aria-label={label} role="table" className="headed-table" style={{ '--columns': titles.length }}>
        <Table.Thead role="rowgroup">
          <Table.Tr role="row">
            {titles.map((title) => (
              <Table.Th key={title} role="columnheader" {...alignColumn(title)}>
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map(({ key, cells }) => (
            <Table.Tr key={key} role="row">
              {cells.map((cell, column) => (
                <Table.Td key={titles[column]} role="cell" data-title={titles[column]} {...alignColumn(titles[column])}>
                  <div className="foreign">{cell}</div>
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
