/** The one line that a host is sent for a command with its folder, variables and input. */
import { HostError } from '../host-call.ts';

export interface RemoteCommand {
  readonly command: string;
  readonly cwd: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** Bytes of standard input that will follow; 0: none, and the command finds it at its end. */
  readonly inputBytes: number;
}

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const ENV_MAX = 100;
/** An SSH packet holds 256 KiB with its frame; a longer request would end the connection. */
const LINE_MAX_BYTES = 200_000;

/**
 * The line, safe for any POSIX shell at the other end: what is not the command itself is quoted or refused.
 *
 * Servers commonly refuse variables sent by the protocol, so they go through `env`. The channel's input is never ended
 * by us, because a signal can be sent only before that: the line itself ends the command's input.
 *
 * @throws HostError for a name that is none, a NUL, or too long a line
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
  if (line.includes('\0')) throw new HostError('a command, its folder and its variables hold no NUL');
  if (Buffer.byteLength(line) > LINE_MAX_BYTES)
    throw new HostError(`command, cwd and env together are longer than ${LINE_MAX_BYTES} bytes once quoted`);
  return line;
}

/** `-`, and what CDPATH would look up elsewhere, are folders like any other. */
const rooted = (cwd: string): string => (cwd.startsWith('/') ? cwd : `./${cwd}`);

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
