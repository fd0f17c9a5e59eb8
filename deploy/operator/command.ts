/** The interface of an operator command. Reads its options and formats its output. */
import type { Pool } from 'pg';
import { replaceHiddenCharacters } from '../../sdk/contract/visible-text.ts';
import type { SharedSettings } from '../../service/settings/settings.ts';

/** The result of a command: a sentence or table for people, fields for programs. */
export interface Outcome {
  readonly sentence: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
interface Option {
  readonly type: 'string' | 'boolean';
  /** Shown in the usage after the option's name. */
  readonly value?: string;
  /** Its values, if others match nothing. */
  readonly choices?: readonly string[];
  /** The command refuses to run without it, so the synopsis shows it. */
  readonly isRequired?: true;
  readonly doc: string;
}
export interface ParsedArgs {
  readonly subjects: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
}
export interface CommandDatabase {
  readonly pool: Pool;
  readonly url: string;
}
/** The context of a running command. */
export interface CommandContext {
  readonly settings: SharedSettings;
  /**
   * The database of the running service, or of an embedded PostgreSQL started for this command. Its tables may be those of an
   * older release: for commands that only read.
   */
  database(): Promise<CommandDatabase>;
  /**
   * Like `database`, for commands that write. Refuses the tables of an older release: to migrate them under its running service
   * is for an upgrade to decide.
   */
  currentDatabase(): Promise<CommandDatabase>;
  /** Writes a line of progress to standard error, unless `--json` is set. */
  printProgress(line: string): void;
}
export interface OperatorCommand {
  /** Names of the arguments. One that ends in `…` takes any number of them. */
  readonly subjects: readonly string[];
  /** One line of the usage. */
  readonly doc: string;
  readonly options?: Readonly<Record<string, Option>>;
  run(args: ParsedArgs, context: CommandContext): Promise<Outcome>;
}

/** A wrong command line; the usage is printed after it. */
export class UsageError extends Error {}

/** Replaces hidden characters, so that a name cannot control the terminal or break its line. */
export const makePrintable = (text: string): string => replaceHiddenCharacters(text, 'line', () => '\ufffd');

/** Maximum width of a cell, so that a row stays a line. Characters. */
const CELL_MAX = 60;

/** Formats a table: a heading of the rows' keys, one line per row, columns as wide as needed. */
export function formatTable(rows: readonly Readonly<Record<string, unknown>>[], empty: string): string {
  const [first] = rows;
  if (first === undefined) return empty;
  const heading = Object.keys(first);
  const cells = [heading, ...rows.map((row) => Object.values(row))].map((row) => row.map(formatCell));
  const widths = heading.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function formatCell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = makePrintable(value instanceof Date ? value.toISOString() : String(value));
  return text.length > CELL_MAX ? `${text.slice(0, CELL_MAX - 1)}…` : text;
}

/** Default and maximum number of lines of a long list. */
const LINES = 100;
const LINES_MAX = 10_000;
export const linesOption = {
  type: 'string',
  value: 'number',
  doc: `maximum number of lines; ${LINES} by default`,
} as const;

/** Returns the value of `linesOption`, which a command names `limit`. @throws UsageError */
export const readLines = (args: ParsedArgs): number => readNumber(args, 'limit', LINES, LINES_MAX);

/** Of a command whose lists may be longer than the most lines that it prints. */
export const afterOption = {
  type: 'string',
  value: 'cursor',
  doc: 'the lines after those of a list that was cut, as its end says',
} as const;

/** Printed at the end of a list that was cut. */
export const formatNext = (cursor: string): string => `More exist: add --after ${cursor}`;

/** A list that `linesOption` may cut. */
interface CutList<Row> {
  readonly rows: readonly Row[];
  /** Printed after the list. */
  readonly rest: string;
}

/** Reads one row more than the list may have, to know whether others exist. @throws UsageError */
export async function readCutList<Row>(
  args: ParsedArgs,
  read: (limit: number) => Promise<readonly Row[]>,
): Promise<CutList<Row>> {
  const limit = readLines(args);
  const rows = await read(limit + 1);
  const remedy =
    limit === LINES_MAX
      ? ': list fewer with the other options of this command.'
      : `: set --limit, at most ${LINES_MAX}.`;
  return { rows: rows.slice(0, limit), rest: rows.length > limit ? `\nMore exist${remedy}` : '' };
}

/** Returns the value of a number option. @throws UsageError */
export function readNumber<Fallback extends number | null>(
  args: ParsedArgs,
  name: string,
  fallback: Fallback,
  max: number,
): number | Fallback {
  const text = args.options[name];
  if (typeof text !== 'string') return fallback;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= max) return value;
  throw new UsageError(`--${name} must be a whole number from 1 to ${max}.`);
}

export const readText = ({ options }: ParsedArgs, name: string): string | null => {
  const text = options[name];
  return typeof text === 'string' ? text : null;
};
