/**
 * docs/package-agreement.md and docs/language-agreement.md: what Bulkhead makes of every kind of case in the corpora, one table
 * for each. The tests of the corpora compare their results with it; WRITE_PAGES=1 writes the tables again. Review them before
 * committing.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

/** The cells of a row; the first is the kind of case. */
export type TableRow = readonly string[];

/** @param title the heading above the table @param name of the page */
export async function checkTable(
  t: Test,
  title: string,
  head: TableRow,
  rows: readonly TableRow[],
  name = 'package-agreement',
): Promise<void> {
  const at = fileURLToPath(new URL(`../../docs/${name}.md`, import.meta.url));
  const line = (cells: TableRow) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const table = [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
  const page = await readFile(at, 'utf8');
  const start = page.indexOf(`\n## ${title}\n`);
  const from = page.indexOf('\n|', start) + 1;
  if (start < 0 || from <= 0) throw new Error(`docs/${name}.md has no table below “${title}”`);
  const end = page.indexOf('\n\n', from);
  const to = end < 0 ? page.trimEnd().length : end;
  if (process.env.WRITE_PAGES === '1') await writeFile(at, page.slice(0, from) + table + page.slice(to));
  t.equal(table, page.slice(from, to), `docs/${name}.md is current: ${title}`);
}
