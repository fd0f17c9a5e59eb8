/**
 * docs/package-agreement.md: what Bulkhead makes of every kind of case in the corpora, one table for each. The tests of the
 * corpora compare their results with it; WRITE_PAGES=1 writes the tables again. Review them before committing.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const PAGE = fileURLToPath(new URL('../../docs/package-agreement.md', import.meta.url));

/** The cells of a row; the first is the kind of case. */
export type TableRow = readonly string[];

/** @param title the heading above the table */
export async function checkTable(t: Test, title: string, head: TableRow, rows: readonly TableRow[]): Promise<void> {
  const line = (cells: TableRow) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const table = [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
  const page = await readFile(PAGE, 'utf8');
  const start = page.indexOf(`\n## ${title}\n`);
  const from = page.indexOf('\n|', start) + 1;
  if (start < 0 || from <= 0) throw new Error(`docs/package-agreement.md has no table below “${title}”`);
  const end = page.indexOf('\n\n', from);
  const to = end < 0 ? page.trimEnd().length : end;
  if (process.env.WRITE_PAGES === '1') await writeFile(PAGE, page.slice(0, from) + table + page.slice(to));
  t.equal(table, page.slice(from, to), `docs/package-agreement.md is current: ${title}`);
}
