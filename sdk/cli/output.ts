/** Prints text for people, or JSON for programs with `--json`. */
import { createColors } from 'picocolors';

export type Paint = ReturnType<typeof createColors>;
export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
}
interface OutputOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly json: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const BAR_CHARS = 30;

export class Output {
  readonly json: boolean;
  /** Colours, on a terminal without `NO_COLOR` only. */
  readonly paint: Paint;
  /** Whether a user can see progress and answer questions. */
  readonly isTerminal: boolean;
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;

  constructor({ stdout, stderr, json, env }: OutputOptions) {
    this.json = json;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isTerminal = stdout.isTTY === true && !json;
    this.paint = createColors(this.isTerminal && !env.NO_COLOR && env.TERM !== 'dumb');
  }

  /** Prints a line for people; nothing with `--json`. */
  printLine(line = ''): void {
    if (!this.json) this.#stdout.write(`${line}\n`);
  }

  /** Prints a line about the command's progress to standard error. */
  printNote(line: string): void {
    this.#stderr.write(`${line}\n`);
  }

  /** Prints one item of a stream: a line for people, one line of JSON with `--json`. */
  printItem(value: unknown, line: string): void {
    this.#stdout.write(this.json ? `${JSON.stringify(value)}\n` : `${line}\n`);
  }

  /** Prints the result of a command with `--json`. */
  printResult(value: unknown): void {
    if (this.json && value !== undefined) this.#stdout.write(`${JSON.stringify(value, null, 2)}\n`);
  }

  /** Writes text as it is, with and without `--json`. */
  write(text: string): void {
    this.#stdout.write(text);
  }

  /** Updates a progress bar on standard error. @param fraction from 0 to 1 */
  showProgress(label: string, fraction: number): void {
    if (!this.isTerminal || this.#stderr.isTTY !== true) return;
    const filled = Math.round(Math.min(1, fraction) * BAR_CHARS);
    const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)}`;
    const end = fraction >= 1 ? '\n' : '';
    this.#stderr.write(`\r${label} ${this.paint.cyan(bar)} ${Math.round(fraction * 100)} %${end}`);
  }
}
