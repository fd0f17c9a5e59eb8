/**
 * `bulkhead`, the command line for plugin authors.
 *
 * The files in `commands/` export each `Command`; help, `--json`, completion and docs are derived from it. Errors of
 * commands become one message on standard error and an exit code here.
 */
import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander';
import { type Command, listCommonOptions, type Option, ParsedArgs } from './command.ts';
import { commands } from './command-list.ts';
import { Context, type InputStream } from './context.ts';
import { exitCodes, type Failure, formatFaults, INTERRUPTED } from './failure.ts';
import type { LocalTools } from './local-tools.ts';
import { Output, type OutputStream } from './output.ts';
import type { FileId } from './package-folder.ts';

interface CommandLineOptions {
  /** Undefined where no one can type. */
  readonly stdin?: InputStream | undefined;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Null: the current folder was removed. */
  readonly folder: string | null;
  readonly localTools: LocalTools;
  readonly signal: AbortSignal;
  /** Aborts when nothing reads standard output any more. */
  readonly outputClosed?: AbortSignal;
  readonly version: string;
  /** The files that standard output and standard error are redirected to. */
  readonly outputIds?: readonly FileId[];
}

const EXIT_HELP = `
Exit codes
  0 done   1 refused or failed   2 invalid command line   3 invalid package
  4 not signed in   5 service unavailable   130 interrupted

Environment
  BULKHEAD_URL     address of the service  (default: the last login, or http://localhost:4000)
  BULKHEAD_TOKEN   token                   (default: the one that login stored)
  NO_COLOR         disables colours`;

const HELP_IS_TEXT = 'Help is printed as text only. Run `bulkhead help` or `bulkhead <command> --help`.';

/**
 * Runs one command.
 *
 * @param argv the words after `bulkhead`
 * @returns the exit code
 */
export async function runCommandLine(argv: readonly string[], options: CommandLineOptions): Promise<number> {
  const program = new Commander('bulkhead')
    .description('Write, check, publish and try plugins for Bulkhead.')
    .version(options.version)
    // Without this, `publish --version 1.2.0` prints the version of the command line.
    .enablePositionalOptions()
    .addHelpText('after', EXIT_HELP);
  let exitCode: number = exitCodes.ok;
  for (const command of commands) {
    addCommand(program, command, options, (code) => {
      exitCode = code;
    });
  }
  const json = wantsJson(argv);
  const advice = adviseOrder(argv);
  redirectOutput(program, options, { json, advice });
  try {
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return exitCodes.ok;
    const { printsItems = false } = commands.find(({ name }) => name === argv[0]) ?? {};
    // The message of commander is “(outputHelp)”.
    const message = error.code === 'commander.help' ? HELP_IS_TEXT : `${removePrefix(error.message)}${advice}`;
    const failure = { code: 'usage', message, exit: 'usage', errors: [] } as const;
    // Without `--json`, commander has printed it.
    if (json) printFailure(new Output({ ...options, json, printsItems }), failure);
    return exitCodes[failure.exit];
  }
}

/** Whether a command line that commander refuses asks for JSON. Words after `--` belong to another program. */
function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? argv.length : end).includes('--json');
}

const removePrefix = (message: string): string => message.replace(/^error: /, '');

/** Many programs take their options before the command. @returns what to add to the error; empty: the first word is no such option */
function adviseOrder([first = '']: readonly string[]): string {
  const [option = ''] = first.split('=');
  const isOfCommands = commands.some((command) =>
    [...(command.options ?? []), ...listCommonOptions(command)].some(({ flags }) =>
      flags.split(/[\s,]+/).includes(option),
    ),
  );
  return isOfCommands && option.startsWith('-') ? `. Write ${option} after the command.` : '';
}

/** Keeps commander from calling `process.exit` and from writing to the process's own streams. */
function redirectOutput(
  program: Commander,
  { stdout, stderr }: CommandLineOptions,
  { json, advice }: { readonly json: boolean; readonly advice: string },
): void {
  for (const each of [program, ...program.commands]) {
    each.exitOverride();
    each.configureOutput({
      writeOut: (text) => void stdout.write(text),
      // With `--json`, the message is printed as JSON.
      writeErr: (text) => void (json || stderr.write(text)),
      outputError: (text, write) => write(removePrefix(text).replace(/\n?$/, `${advice}\n`)),
    });
    each.showHelpAfterError('Run it with --help to see its options.');
  }
}

function addCommand(
  program: Commander,
  command: Command,
  options: CommandLineOptions,
  onEnd: (exitCode: number) => void,
): void {
  const sub = program.command(command.name).summary(command.summary).description(command.summary);
  for (const { name, doc } of command.args ?? []) sub.argument(name, doc);
  for (const option of [...(command.options ?? []), ...listCommonOptions(command)]) sub.addOption(createOption(option));
  const examples =
    command.examples?.map((line) => (line.includes('| bulkhead ') ? `  ${line}` : `  bulkhead ${line}`)) ?? [];
  if (examples.length > 0) sub.addHelpText('after', `\nExamples\n${examples.join('\n')}`);
  // Commander passes the positional arguments, the options and the command itself.
  sub.action(async (...parameters: unknown[]) => {
    const values = parameters.at(-2) as Record<string, unknown>;
    const positional = parameters
      .slice(0, -2)
      .flat()
      .filter((value): value is string => typeof value === 'string');
    onEnd(await runCommand(command, new ParsedArgs(positional, values), options));
  });
}

function createOption({ flags, doc, repeatable, choices }: Option): CommanderOption {
  const option = new CommanderOption(flags, doc);
  if (choices) option.choices(choices);
  if (!repeatable) return option;
  // `argParser` replaces the parser that checks the choices.
  const { parseArg: checkValue = (value: string) => value } = option;
  return option.argParser((value: string, previous: readonly string[] | undefined): string[] => [
    ...(previous ?? []),
    checkValue(value, value) as string,
  ]);
}

async function runCommand(command: Command, args: ParsedArgs, options: CommandLineOptions): Promise<number> {
  const output = new Output({ ...options, json: args.flag('json'), printsItems: command.printsItems ?? false });
  const ended = new AbortController();
  const closed = command.endsWithOutput ? options.outputClosed : undefined;
  const signal = AbortSignal.any([options.signal, ended.signal, ...(closed ? [closed] : [])]);
  const context = new Context({ ...options, signal, output, url: args.text('url') });
  try {
    output.printResult(await command.run(context, args));
    return exitCodes.ok;
  } catch (error) {
    const failure = options.signal.aborted ? INTERRUPTED : await context.explainError(error);
    // `logs -f | head -1` has printed all that was read.
    if (failure === INTERRUPTED && closed?.aborted && !options.signal.aborted) return exitCodes.ok;
    if (failure !== INTERRUPTED) printFailure(output, failure);
    return exitCodes[failure.exit];
  } finally {
    // Closes what a failed command still reads, such as `dev` the log and the keyboard: it would keep the process running.
    ended.abort();
  }
}

function printFailure(output: Output, { code, message, errors, requestId, result }: Failure): void {
  output.printResult({ error: { code, message, errors, ...(requestId ? { requestId } : {}) }, ...result });
  if (output.json) return;
  for (const line of formatFaults({ message, errors }, output.paint)) output.printNote(line);
  if (code === 'internal' && requestId) output.printNote(`Report request id ${requestId} to the operator.`);
}
