/**
 * `bulkhead`, the author's command line.
 *
 * Shape: `commands/<name>.ts` exports one `Command` (command.ts) and is listed in table.ts; help, `--json`, completion
 * and docs follow from that row. A command gets a `Context` (context.ts: `output`, `rest()`, `sessions()`, `signal`,
 * `folder`, `toolbox`) and a `Given` (arguments and options). It says things with `output.say` (people only), streams
 * with `output.item(value, line)`, and returns what `--json` prints. It throws `CommandError` (failure.ts) or lets errors
 * of the clients through; here they become one sentence on standard error and an exit code.
 */
import type { Readable } from 'node:stream';
import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander';
import { COMMON_OPTIONS, type Command, Given } from './command.ts';
import { Context } from './context.ts';
import { exitCodes, type Failure, failureOf, placed } from './failure.ts';
import { Output, type Sink } from './output.ts';
import { commands } from './table.ts';
import type { Toolbox } from './toolbox.ts';

export interface Surroundings {
  /** Absent: nobody types. */
  readonly stdin?: Readable | undefined;
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly toolbox: Toolbox;
  readonly signal: AbortSignal;
  readonly version: string;
}

const EXIT_HELP = `
Exit codes
  0 done   1 refused or failed   2 typed wrongly   3 the package has faults
  4 not signed in   5 the service is away   130 interrupted

Environment
  BULKHEAD_URL     the service          (else that of the last login, else http://localhost:4000)
  BULKHEAD_TOKEN   a token              (else the one kept by login)
  NO_COLOR         no colours, also on a terminal`;

/**
 * Runs one command.
 *
 * @param argv what was typed after `bulkhead`
 * @returns the exit code
 */
export async function runCommandLine(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const program = new Commander('bulkhead')
    .description('Write, check, publish and try plugins for Bulkhead.')
    .version(surroundings.version)
    // `publish --version 1.2.0` is no question for ours.
    .enablePositionalOptions()
    .addHelpText('after', EXIT_HELP);
  let code: number = exitCodes.ok;
  for (const command of commands) {
    addCommand(program, command, surroundings, (ended) => {
      code = ended;
    });
  }
  quiet(program, surroundings);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    throw error;
  }
}

/** No `process.exit` inside: the tests run it in their own process. */
function quiet(program: Commander, { stdout, stderr }: Surroundings): void {
  for (const each of [program, ...program.commands]) {
    each.exitOverride();
    each.configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, '').replace(/\n?$/, '\n')),
    });
    each.showHelpAfterError('Run it with --help to see how.');
  }
}

function addCommand(
  program: Commander,
  command: Command,
  surroundings: Surroundings,
  onEnd: (code: number) => void,
): void {
  const sub = program.command(command.name).summary(command.summary).description(command.summary);
  for (const { name, doc } of command.args ?? []) sub.argument(name, doc);
  for (const { flags, doc, many } of [...(command.options ?? []), ...COMMON_OPTIONS]) {
    const option = new CommanderOption(flags, doc);
    sub.addOption(many ? option.argParser(collect) : option);
  }
  const examples = command.examples?.map((line) => `  bulkhead ${line}`) ?? [];
  if (examples.length > 0) sub.addHelpText('after', `\nExamples\n${examples.join('\n')}`);
  sub.action(async (...all: unknown[]) => {
    // Commander hands over the arguments, the options and itself.
    const options = all.at(-2) as Record<string, unknown>;
    const args = all
      .slice(0, -2)
      .flat()
      .filter((one): one is string => typeof one === 'string');
    onEnd(await run(command, new Given(args, options), surroundings));
  });
}

const collect = (value: string, before: readonly string[] | undefined): string[] => [...(before ?? []), value];

async function run(command: Command, given: Given, surroundings: Surroundings): Promise<number> {
  const output = new Output({ ...surroundings, json: given.flag('json') });
  const context = new Context({ ...surroundings, output, url: given.text('url') });
  try {
    output.answer(await command.run(context, given));
    return exitCodes.ok;
  } catch (error) {
    const url = await context.url().catch(() => '');
    const failure = surroundings.signal.aborted ? INTERRUPTED : failureOf(error, url);
    if (failure !== INTERRUPTED) tell(output, failure);
    return exitCodes[failure.exit];
  }
}

const INTERRUPTED: Failure = { code: 'interrupted', message: 'Interrupted.', exit: 'interrupted', errors: [] };

function tell(output: Output, { code, message, errors, requestId }: Failure): void {
  const named = requestId ? { requestId } : {};
  output.answer({ error: { code, message, errors, ...named } });
  if (output.json) return;
  const mark = output.paint.red('error');
  // The message of several faults is the first of them and a count; here each has its line.
  if (errors.length > 1) for (const error of errors) output.note(`${mark} ${placed(error)}`);
  else output.note(`${mark} ${message}`);
  if (code === 'internal' && requestId) output.note(`Name request ${requestId} to whoever runs the service.`);
}
