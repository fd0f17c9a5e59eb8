/** Formats the arguments of `console`: `%s` and the other placeholders, and tables. */
import { DEPTH, inspect } from './inspection.ts';
import { text, UNPRINTABLE } from './text.ts';

const PLACEHOLDER = /%[sdifjoOc%]/g;
/** Levels that Node shows of an object for `%o`. */
const DETAIL_DEPTH = 4;

/** Formats values as `console.log` does. */
export function formatValues(values: readonly unknown[]): string {
  const [format, ...rest] = values;
  if (typeof format !== 'string') return values.map(show).join(' ');
  if (rest.length === 0) return format;
  let used = 0;
  const filled = format.replaceAll(PLACEHOLDER, (placeholder) => {
    if (placeholder === '%%') return '%';
    if (used >= rest.length) return placeholder;
    used += 1;
    try {
      return fillPlaceholder(placeholder, rest[used - 1]);
    } catch {
      return UNPRINTABLE;
    }
  });
  return [filled, ...rest.slice(used).map(show)].join(' ');
}

const show = (value: unknown): string => (typeof value === 'string' ? value : inspect(value));

function fillPlaceholder(placeholder: string, value: unknown): string {
  switch (placeholder) {
    case '%s':
      return formatText(value);
    case '%d':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : inspect(Number(value));
    case '%i':
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value === 'symbol' ? 'NaN' : inspect(Number.parseInt(String(value), 10));
    case '%f':
      return typeof value === 'symbol' ? 'NaN' : inspect(Number.parseFloat(String(value)));
    case '%j':
      return formatJson(value);
    case '%o':
      return inspect(value, DETAIL_DEPTH);
    case '%O':
      return inspect(value, DEPTH);
    // `%c` takes a style, which a log does not have.
    default:
      return '';
  }
}

/** Only classes that describe themselves are asked. */
function formatText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? inspect(value, 0) : show(value);
  const describe: unknown = Reflect.get(value, 'toString');
  const isBuiltIn = [Object, Array, Date, Error, RegExp].some(({ prototype }) => describe === prototype.toString);
  return isBuiltIn || typeof describe !== 'function' ? inspect(value, 0) : String(value);
}

function formatJson(value: unknown): string {
  try {
    return String(JSON.stringify(value));
  } catch (error) {
    if (error instanceof TypeError && /circular/.test(error.message)) return '[Circular]';
    throw error;
  }
}

/** Rows and columns of a table that are shown. */
const ROWS_MAX = 200;
const COLUMNS_MAX = 50;

/** A table of the fields of rows, as Node draws it. @param columns the fields to show; otherwise all */
export function formatTable(rows: unknown, columns: unknown): string {
  if (typeof rows !== 'object' || rows === null) return text(rows);
  const index = rows instanceof Map || rows instanceof Set ? '(iteration index)' : '(index)';
  const table = new Table(index, Array.isArray(columns) ? columns.map(String) : null);
  if (rows instanceof Map) {
    let count = 0;
    for (const [key, value] of [...rows].slice(0, ROWS_MAX)) {
      table.addCells(String(count), { Key: showCell(key), Values: showCell(value) });
      count += 1;
    }
    return table.draw();
  }
  const entries = Object.entries(rows instanceof Set ? [...rows] : rows).slice(0, ROWS_MAX);
  for (const [key, row] of entries) table.addRow(key, row);
  return table.draw();
}

const showCell = (value: unknown): string => inspect(value, 0);

class Table {
  readonly #index: string;
  readonly #chosen: readonly string[] | null;
  readonly #columns = new Set<string>();
  readonly #rows: { readonly key: string; readonly cells: ReadonlyMap<string, string> }[] = [];
  #hasValues = false;

  constructor(index: string, chosen: readonly string[] | null) {
    this.#index = index;
    this.#chosen = chosen;
    for (const column of chosen ?? []) this.#columns.add(column);
  }

  addRow(key: string, row: unknown): void {
    if (typeof row !== 'object' || row === null) {
      this.#hasValues = true;
      this.#rows.push({ key, cells: new Map([['\0', showCell(row)]]) });
      return;
    }
    const fields = Object.entries(row).filter(([name]) => this.#chosen?.includes(name) ?? true);
    this.addCells(key, Object.fromEntries(fields.map(([name, value]) => [name, showCell(value)])));
  }

  addCells(key: string, cells: Readonly<Record<string, string>>): void {
    for (const column of Object.keys(cells)) if (this.#columns.size < COLUMNS_MAX) this.#columns.add(column);
    this.#rows.push({ key, cells: new Map(Object.entries(cells)) });
  }

  draw(): string {
    const columns = [...this.#columns, ...(this.#hasValues ? ['\0'] : [])];
    const head = [this.#index, ...columns.map((column) => (column === '\0' ? 'Values' : column))];
    const lines = this.#rows.map(({ key, cells }) => [key, ...columns.map((column) => cells.get(column) ?? '')]);
    const widths = head.map((_, at) => Math.max(...[head, ...lines].map((line) => line[at]?.length ?? 0)) + 2);
    const drawLine = (line: readonly string[]): string =>
      `│${line.map((cell, at) => ` ${cell}`.padEnd(widths[at] ?? 0)).join('│')}│`;
    const drawRule = (left: string, middle: string, right: string): string =>
      `${left}${widths.map((width) => '─'.repeat(width)).join(middle)}${right}`;
    return [
      drawRule('┌', '┬', '┐'),
      drawLine(head),
      drawRule('├', '┼', '┤'),
      ...lines.map(drawLine),
      drawRule('└', '┴', '┘'),
    ].join('\n');
  }
}
