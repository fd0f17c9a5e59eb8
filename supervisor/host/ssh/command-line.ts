/** Builds the command line for an SSH host from a command, its folder, variables and input. */
import { HostError } from '../host-call.ts';

interface RemoteCommand {
  readonly command: string;
  readonly cwd: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** Bytes of standard input that follow; 0: the input is empty. */
  readonly inputBytes: number;
}

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const ENV_MAX = 100;
/** An SSH packet holds 256 KiB including its frame; a longer request would end the connection. */
const LINE_MAX_BYTES = 200_000;

/**
 * Builds a line that is safe for every POSIX shell: everything except the command itself is quoted or rejected. Variables
 * go through `env`, because servers commonly reject variables of the protocol. The line itself ends the command's
 * input: the channel's input stays open, because signals can only be sent before its end.
 *
 * @throws HostError for an invalid name, a NUL, or a line that is too long
 */
export function commandLine({ command, cwd, env, inputBytes }: RemoteCommand): string {
  const variables = Object.entries(env);
  if (variables.length > ENV_MAX) throw new HostError(`env holds more than ${ENV_MAX} variables`);
  for (const [name] of variables)
    if (!ENV_NAME.test(name))
      throw new HostError('env: a name is letters, digits and _, and does not start with a digit');
  const assigned = variables.map(([name, value]) => ` ${name}=${quoted(value)}`).join('');
  const program = `${assigned && `env${assigned} `}sh -c ${quoted(command)}`;
  const fed = inputBytes > 0 ? `head -c ${inputBytes} | ${program}` : `${program} </dev/null`;
  const line = cwd ? `cd -- ${quoted(rooted(cwd))} && ${fed}` : fed;
  if (line.includes('\0')) throw new HostError('a command, its folder and its variables must not contain U+0000');
  if (Buffer.byteLength(line) > LINE_MAX_BYTES)
    throw new HostError(`command, cwd and env together are longer than ${LINE_MAX_BYTES} bytes once quoted`);
  return line;
}

/** `-`, and names that CDPATH would look up elsewhere, must be treated like any other folder. */
const rooted = (cwd: string): string => (cwd.startsWith('/') ? cwd : `./${cwd}`);

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
