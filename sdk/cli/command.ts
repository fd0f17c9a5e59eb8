/** Declares the interface of a `bulkhead` command. Each file in `commands/` exports one, and `command-list.ts` lists them. */
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';

interface Argument {
  /** `<required>`, `[optional]` or `[many...]`. */
  readonly name: string;
  readonly doc: string;
}
/** Largest number of lines or items that a user may ask a command for. It holds them in memory. */
export const LISTED_MAX = 1_000_000;

export interface Option {
  /** As commander reads it: `-f, --follow`, `--policy <policy>`, `--no-list`. */
  readonly flags: string;
  readonly doc: string;
  /** Whether the option can be repeated. `ParsedArgs.list` returns all values. */
  readonly repeatable?: boolean;
  /** The only values that the option can have. */
  readonly choices?: readonly string[];
}
export interface Command {
  readonly name: string;
  /** One line for `bulkhead --help`. */
  readonly summary: string;
  readonly args?: readonly Argument[];
  readonly options?: readonly Option[];
  /** Command lines without `bulkhead`. A pipeline is written in full, with `bulkhead`. */
  readonly examples?: readonly string[];
  /** Whether it prints items as they arrive (`Output.printItem`). With `--json` it prints one object a line, not one document. */
  readonly printsItems?: boolean;
  /** Whether it runs until Ctrl-C, so that it ends when nothing reads its output any more. Other commands finish their work. */
  readonly endsWithOutput?: boolean;
  /**
   * Runs the command. Text for people goes to `context.output`; the returned value is printed with `--json`.
   *
   * @throws CommandError, or an error of the REST or session client; `failure.ts` maps it to a message and an exit code
   */
  run(context: Context, args: ParsedArgs): Promise<unknown>;
}

/** The options that every command has. */
export const listCommonOptions = ({ printsItems = false }: Command): readonly Option[] => [
  { flags: '--url <address>', doc: 'address of the service' },
  { flags: '--json', doc: printsItems ? 'print one JSON object a line' : 'print JSON' },
];

/** The parsed arguments and options of a command. */
export class ParsedArgs {
  readonly positional: readonly string[];
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(positional: readonly string[], options: Readonly<Record<string, unknown>>) {
    this.positional = positional;
    this.#options = options;
  }

  /** Returns the value of an option. @param name in camel case: `--dry-run` is `dryRun` */
  text(name: string): string | undefined {
    const value = this.#options[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** Returns the value of an option that is a whole number. @throws CommandError that names the option */
  wholeNumber(name: string, { from, to, preset }: { from: number; to: number; preset: number }): number {
    const text = this.text(name) ?? String(preset);
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= from && value <= to) return value;
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    throw new CommandError('usage', `\`${flag}\` must be a whole number from ${from} to ${to}, not “${text}”.`);
  }

  flag(name: string): boolean {
    return this.#options[name] === true;
  }

  /** Returns the value of a flag that also has a `--no-` form; undefined if neither is given. */
  toggle(name: string): boolean | undefined {
    const value = this.#options[name];
    return typeof value === 'boolean' ? value : undefined;
  }

  list(name: string): readonly string[] {
    const value = this.#options[name];
    return Array.isArray(value) ? value.map(String) : [];
  }
}
