/** Prints text for people, or JSON for programs with `--json`. */
import { randomUUID } from 'node:crypto';
import { createColors } from 'picocolors';
import { escapeUnsafe } from './terminal-text.ts';

const COLORS = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan'] as const;
type Color = (typeof COLORS)[number];
export type Paint = Readonly<Record<Color, (text: string) => string>>;
export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
}
interface OutputOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly json: boolean;
  /** Whether the command prints items, so that each JSON text is one line. */
  readonly printsItems: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const BAR_CHARS = 30;
const ESCAPE = '\u001b';

export class Output {
  readonly json: boolean;
  /** Colours text, on a terminal without `NO_COLOR` only. */
  readonly paint: Paint;
  /** Whether standard output is a terminal and `--json` is not set. */
  readonly isTerminal: boolean;
  /** Stands for the escape character in the program's own colours, so that `#toSafeText` can make all other escapes visible. */
  readonly #mark = randomUUID();
  readonly #indent: number;
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;

  constructor({ stdout, stderr, json, printsItems, env }: OutputOptions) {
    this.json = json;
    this.#indent = printsItems ? 0 : 2;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isTerminal = stdout.isTTY === true && !json;
    this.paint = createPaint(this.isTerminal && !env.NO_COLOR && env.TERM !== 'dumb', this.#mark);
  }

  /** Prints a line for people; nothing with `--json`. */
  printLine(line = ''): void {
    if (!this.json) this.#stdout.write(`${this.#toSafeText(line)}\n`);
  }

  /** Prints a warning for people; nothing with `--json`. */
  printWarning(text: string): void {
    this.printLine(`${this.paint.yellow('warning')} ${text}`);
  }

  /** Prints a line about the command's progress to standard error. */
  printNote(line: string): void {
    this.#stderr.write(`${this.#toSafeText(line)}\n`);
  }

  /** Prints one item of a stream: a line for people, one line of JSON with `--json`. */
  printItem(value: unknown, line: string): void {
    this.#stdout.write(`${this.json ? escapeUnsafe(JSON.stringify(value)) : this.#toSafeText(line)}\n`);
  }

  /** Prints the result of a command with `--json`. */
  printResult(value: unknown): void {
    if (this.json && value !== undefined)
      this.#stdout.write(`${escapeUnsafe(JSON.stringify(value, null, this.#indent))}\n`);
  }

  /** Writes text for programs unchanged, with and without `--json`. */
  write(text: string): void {
    this.#stdout.write(text);
  }

  /** Updates a progress bar on standard error. @param fraction from 0 to 1 */
  showProgress(label: string, fraction: number): void {
    if (!this.isTerminal || this.#stderr.isTTY !== true) return;
    const filled = Math.round(Math.min(1, fraction) * BAR_CHARS);
    const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)}`;
    const end = fraction >= 1 ? '\n' : '';
    const line = this.#toSafeText(`${label} ${this.paint.cyan(bar)} ${Math.round(fraction * 100)} %`);
    this.#stderr.write(`\r${line}${end}`);
  }

  /** Makes escape sequences visible, except the program's own colours: most of the printed text comes from plugins. */
  #toSafeText(text: string): string {
    return escapeUnsafe(text).replaceAll(this.#mark, ESCAPE);
  }
}

function createPaint(isColored: boolean, mark: string): Paint {
  const colors = createColors(isColored);
  const paintWith =
    (name: Color) =>
    (text: string): string => {
      const [open = '', close = ''] = colors[name]('|').split('|');
      return `${open.replace(ESCAPE, mark)}${text}${close.replace(ESCAPE, mark)}`;
    };
  return Object.fromEntries(COLORS.map((name) => [name, paintWith(name)])) as Paint;
}
