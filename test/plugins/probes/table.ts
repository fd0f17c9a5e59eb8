/** The table of escapes, by group and by which walls stood, and its place in docs/security-model.md. */
import { readFileSync, writeFileSync } from 'node:fs';

export interface Escapes {
  readonly tried: number;
  readonly escaped: number;
}

const PAGE = new URL('../../../docs/security-model.md', import.meta.url);
const [START, END] = ['<!-- escapes: written by test/supervisor/jail/walls.test.ts -->\n', '\n<!-- /escapes -->'];

/** A Markdown table. @param measured by combination of walls, then by group */
export function escapesTable(measured: Readonly<Record<string, Readonly<Record<string, Escapes>>>>): string {
  const combinations = Object.keys(measured);
  const groups = [...new Set(combinations.flatMap((name) => Object.keys(measured[name] ?? {})))];
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const cell = (found: Escapes | undefined): string => (found ? `${found.escaped} of ${found.tried}` : '');
  const total = (rows: readonly Escapes[]): Escapes => ({
    tried: rows.reduce((sum, { tried }) => sum + tried, 0),
    escaped: rows.reduce((sum, { escaped }) => sum + escaped, 0),
  });
  return [
    row(['Escapes of probes', ...combinations]),
    row(['---', ...combinations.map(() => '---')]),
    ...groups.map((group) => row([group, ...combinations.map((name) => cell(measured[name]?.[group]))])),
    row(['**all**', ...combinations.map((name) => cell(total(Object.values(measured[name] ?? {}))))]),
  ].join('\n');
}

/** The current text of the page. */
export function publishedTable(): string {
  return split().table;
}

export function publishTable(table: string): void {
  const { before, after } = split();
  writeFileSync(PAGE, before + table + after);
}

function split(): { before: string; table: string; after: string } {
  const page = readFileSync(PAGE, 'utf8');
  const [start, end] = [page.indexOf(START) + START.length, page.indexOf(END)];
  if (start < START.length || end < start)
    throw new Error('docs/security-model.md has no place for the table of escapes');
  return { before: page.slice(0, start), table: page.slice(start, end), after: page.slice(end) };
}
