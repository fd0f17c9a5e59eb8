/** The log lines that a page holds: the newest ones, within bounds. */
import type { components } from '../../sdk/rest/schema.d.ts';

export type LogLine = components['schemas']['LogLine'];

/** Lines that stay in memory. */
export const LINES_MAX = 100_000;
const MIB = 2 ** 20;
/**
 * The JSON of the lines that stay in memory: a line may have 24 KiB, and so many lines of that size would end the page. As many
 * lines as `LINES_MAX` fit if they have 671 characters on average. MiB of characters.
 */
export const TEXT_MAX_MIB = 64;

export interface HeldLines {
  /** Oldest first. */
  readonly lines: readonly LogLine[];
  /** Characters of JSON that the lines have. */
  readonly chars: number;
  /** Whether no older lines fit, or some were dropped, so that lines are missing before the first one. */
  readonly isFull: boolean;
}
export const NO_LINES: HeldLines = { lines: [], chars: 0, isFull: false };

const countChars = (line: LogLine): number => JSON.stringify(line).length;

/** Adds newer lines at the end, and drops the oldest ones that do not fit. */
export const appendLines = (held: HeldLines, newer: readonly LogLine[]): HeldLines =>
  dropOldest(held, [...held.lines, ...newer], newer);

/** Adds older lines at the start, and drops the oldest ones that do not fit. */
export const prependLines = (held: HeldLines, older: readonly LogLine[]): HeldLines =>
  dropOldest(held, [...older, ...held.lines], older);

function dropOldest(held: HeldLines, lines: readonly LogLine[], added: readonly LogLine[]): HeldLines {
  let chars = added.reduce((sum, line) => sum + countChars(line), held.chars);
  let dropped = 0;
  for (const line of lines) {
    if (lines.length - dropped <= LINES_MAX && chars <= TEXT_MAX_MIB * MIB) break;
    chars -= countChars(line);
    dropped += 1;
  }
  return { lines: lines.slice(dropped), chars, isFull: held.isFull || dropped > 0 || lines.length >= LINES_MAX };
}
