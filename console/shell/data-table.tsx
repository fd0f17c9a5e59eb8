/** A table with a head, in the look of all tables: scrolled where it is wider than the page, on a phone a card a row. */
import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

interface Rows {
  readonly label: string;
  readonly titles: readonly string[];
  readonly rows: readonly { readonly key: string; readonly cells: readonly ReactNode[] }[];
  /** Titles of columns of figures. */
  readonly numeric?: readonly string[];
  /** Its rows belong together, as figures over time do: it scrolls on a phone, too. */
  readonly staysTable?: boolean;
}

export function DataTable({ label, titles, rows, numeric = [], staysTable = false }: Rows) {
  const sideOf = (title: string | undefined) => ({
    'data-numeric': title !== undefined && numeric.includes(title) ? '' : undefined,
  });
  // The roles are said because rows that are drawn as cards would lose them.
  return (
    // biome-ignore lint/a11y/useSemanticElements: it is no set of form fields
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className="table-box" role="group" aria-label={label} tabIndex={0} data-stacks={staysTable ? undefined : ''}>
      <Table aria-label={label} role="table" className="headed-table" style={{ '--columns': titles.length }}>
        <Table.Thead role="rowgroup">
          <Table.Tr role="row">
            {titles.map((title) => (
              <Table.Th key={title} role="columnheader" {...sideOf(title)}>
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map(({ key, cells }) => (
            <Table.Tr key={key} role="row">
              {cells.map((cell, column) => (
                <Table.Td
                  key={titles[column]}
                  role="cell"
                  className="foreign"
                  data-title={titles[column]}
                  {...sideOf(titles[column])}
                >
                  <div>{cell}</div>
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
