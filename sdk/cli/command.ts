/** What a command of `bulkhead` is: one file in `commands/` exports one of these, and `table.ts` lists it. */
import type { Context } from './context.ts';

export interface Argument {
  /** `<required>`, `[optional]` or `[many...]`. */
  readonly name: string;
  readonly doc: string;
}
export interface Option {
  /** As commander reads it: `-f, --follow`, `--policy <policy>`, `--no-list`. */
  readonly flags: string;
  readonly doc: string;
  /** May be given again and again; `given.list` has all of them. */
  readonly many?: boolean;
}
export interface Command {
  readonly name: string;
  /** One line for `bulkhead --help`. */
  readonly summary: string;
  readonly args?: readonly Argument[];
  readonly options?: readonly Option[];
  /** Lines as one would type them, without `bulkhead`. */
  readonly examples?: readonly string[];
  /**
   * Does it. People read what it says through `context.output`; what it returns is printed with `--json`.
   *
   * @throws CommandError and what REST and session client throw: `failure.ts` turns each into a sentence and an exit code
   */
  run(context: Context, given: Given): Promise<unknown>;
}

/** What every command takes beside its own. */
export const COMMON_OPTIONS: readonly Option[] = [
  { flags: '--url <address>', doc: 'the service to talk to' },
  { flags: '--json', doc: 'answer in JSON, for programs' },
];

/** What was typed after the command's name. */
export class Given {
  /** By position; an argument that may be left out is missing here then. */
  readonly args: readonly string[];
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(args: readonly string[], options: Readonly<Record<string, unknown>>) {
    this.args = args;
    this.#options = options;
  }

  /** @param name in camel case: `--dry-run` is `dryRun` */
  text(name: string): string | undefined {
    const value = this.#options[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** For `--no-list`, `list` is true unless that was given. */
  flag(name: string): boolean {
    return this.#options[name] === true;
  }

  list(name: string): readonly string[] {
    const value = this.#options[name];
    return Array.isArray(value) ? value.map(String) : [];
  }
}
