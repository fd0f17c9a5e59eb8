/** What the command line says and to whom: people, or with `--json` a program. */
import { createColors } from 'picocolors';

export type Paint = ReturnType<typeof createColors>;
/** The parts of a process's stream that are used. */
export interface Sink {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}
export interface OutputOptions {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly json: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export class Output {
  readonly json: boolean;
  /** Colours for `say`; on a terminal only, and never with `NO_COLOR`. */
  readonly paint: Paint;
  /** Whether a person sits there, whom one may ask and show progress. */
  readonly isTerminal: boolean;
  readonly #stdout: Sink;
  readonly #stderr: Sink;

  constructor({ stdout, stderr, json, env }: OutputOptions) {
    this.json = json;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isTerminal = stdout.isTTY === true && !json;
    this.paint = createColors(this.isTerminal && !env.NO_COLOR && env.TERM !== 'dumb');
  }

  /** A line of the answer; left out with `--json`. */
  say(line = ''): void {
    if (!this.json) this.#stdout.write(`${line}\n`);
  }

  /** A line about the work itself (what is waited for, a hint), on standard error, so that pipes carry answers only. */
  note(line: string): void {
    this.#stderr.write(`${line}\n`);
  }

  /** One of many answers that come one after another: a line for people, one line of JSON each with `--json`. */
  item(value: unknown, line: string): void {
    this.#stdout.write(this.json ? `${JSON.stringify(value)}\n` : `${line}\n`);
  }

  /** The one answer of a command with `--json`; `undefined` says nothing. */
  answer(value: unknown): void {
    if (this.json && value !== undefined) this.#stdout.write(`${JSON.stringify(value, null, 2)}\n`);
  }

  /** The answer itself, whatever was asked for: a script, a text to pipe. */
  raw(text: string): void {
    this.#stdout.write(text);
  }

  /** A bar on a terminal's standard error; the same line again and again. `part` from 0 to 1. */
  progress(what: string, part: number): void {
    if (!this.isTerminal || this.#stderr.isTTY !== true) return;
    const full = Math.round(Math.min(1, part) * BAR_CHARS);
    const bar = `${'█'.repeat(full)}${'░'.repeat(BAR_CHARS - full)}`;
    this.#stderr.write(`\r${what} ${this.paint.cyan(bar)} ${Math.round(part * 100)} %${part >= 1 ? '\n' : ''}`);
  }
}

const BAR_CHARS = 30;
