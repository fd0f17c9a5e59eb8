/** One word of the operator's command line: what it takes, what it says, and what it does. */
import type { Pool } from 'pg';
import type { SharedSettings } from '../../service/settings/settings.ts';

/** What a command did: a sentence or a table for people, fields for programs. */
export interface Outcome {
  readonly sentence: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
interface Option {
  readonly type: 'string' | 'boolean';
  /** Shown in the usage after its name. */
  readonly value?: string;
  readonly doc: string;
}
export interface Given {
  readonly subjects: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
}
/** What a command works with. */
export interface Place {
  readonly settings: SharedSettings;
  /** The tables, brought to this release; of the running service, or of an embedded PostgreSQL started for the moment. */
  database(): Promise<{ readonly pool: Pool; readonly url: string }>;
  /** A line of progress on standard error, which `--json` leaves out. */
  say(line: string): void;
}
export interface OperatorCommand {
  /** The names of what it is about; one ending in `…` may be given any number of times, in brackets it is optional. */
  readonly subjects: readonly string[];
  /** One line. */
  readonly doc: string;
  readonly options?: Readonly<Record<string, Option>>;
  run(given: Given, place: Place): Promise<Outcome>;
}

/** What the operator did wrong; the usage follows it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Names come from elsewhere: none may steer the terminal or break its line. */
export const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');

/** Cells wider than this are cut, characters: a row stays a line. */
const CELL_MAX = 60;

/** A table for people: a heading, a line each, columns as wide as they need to be. */
export function tableOf(heading: readonly string[], rows: readonly (readonly unknown[])[], empty: string): string {
  if (rows.length === 0) return empty;
  const cells = [heading, ...rows].map((row) => row.map(cellOf));
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

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = printable(value instanceof Date ? value.toISOString() : String(value));
  return text.length > CELL_MAX ? `${text.slice(0, CELL_MAX - 1)}…` : text;
}

/** The whole number an option gives. @throws UsageError */
export function numberOf(given: Given, name: string, fallback: number, max: number): number {
  const text = given.options[name];
  if (typeof text !== 'string') return fallback;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= max) return value;
  throw new UsageError(`--${name} must be a whole number from 1 to ${max}.`);
}

export const textOf = ({ options }: Given, name: string): string | null => {
  const text = options[name];
  return typeof text === 'string' ? text : null;
};
