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
  const { at, page, from, to } = await findTable(title, name);
  const table = [writeLine(head), `|${'---|'.repeat(head.length)}`, ...rows.map(writeLine)].join('\n');
  if (process.env.WRITE_PAGES === '1') await writeFile(at, page.slice(0, from) + table + page.slice(to));
  t.equal(table, page.slice(from, to), `docs/${name}.md is current: ${title}`);
}

/** Compares the kinds of a run that tries some of the cases: each is a row, with its reason in the last cell. */
export async function checkKinds(t: Test, title: string, reasons: ReadonlyMap<string, string>): Promise<void> {
  const { page, from, to } = await findTable(title, 'package-agreement');
  const lines = page.slice(from, to).split('\n');
  for (const [kind, why] of reasons) {
    const line = lines.find((each) => each.startsWith(writeLine([kind])));
    t.ok(line?.endsWith(writeLine([why])), `docs/package-agreement.md explains: ${kind}`);
  }
}

const writeLine = (cells: TableRow): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;

/** Where the table below a heading begins and ends. */
async function findTable(title: string, name: string) {
  const at = fileURLToPath(new URL(`../../docs/${name}.md`, import.meta.url));
  const page = await readFile(at, 'utf8');
  const start = page.indexOf(`\n## ${title}\n`);
  const from = page.indexOf('\n|', start) + 1;
  if (start < 0 || from <= 0) throw new Error(`docs/${name}.md has no table below “${title}”`);
  const end = page.indexOf('\n\n', from);
  return { at, page, from, to: end < 0 ? page.trimEnd().length : end };
}
