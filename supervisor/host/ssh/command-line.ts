/** Builds the command line for an SSH host from a command, its folder, its variables and the size of its input. */
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
/** An SSH packet holds at most 256 KiB, including its frame. A longer request would end the connection. */
const LINE_MAX_BYTES = 200_000;

/**
 * Builds a line that is safe for every POSIX shell: everything except the command itself is quoted or rejected. The line sets
 * variables by `env`, because most servers reject variables sent by the protocol. `head` or `/dev/null` ends the command's input:
 * the input of the SSH channel stays open, because no signal can be sent after its end.
 *
 * @throws HostError for an invalid name, a NUL, or a line that is too long
 */
export function formatCommandLine({ command, cwd, env, inputBytes }: RemoteCommand): string {
  const variables = Object.entries(env);
  if (variables.length > ENV_MAX) throw new HostError(`env holds more than ${ENV_MAX} variables`);
  for (const [name] of variables)
    if (!ENV_NAME.test(name))
      throw new HostError('env: a name is letters, digits and _, and does not start with a digit');
  // Before they are quoted: values may fill a frame.
  const variableChars = variables.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (variableChars > LINE_MAX_BYTES) throw tooLong();
  const assignments = variables.map(([name, value]) => ` ${name}=${quote(value)}`).join('');
  const program = `${assignments && `env${assignments} `}sh -c ${quote(command)}`;
  const withInput = inputBytes > 0 ? `head -c ${inputBytes} | ${program}` : `${program} </dev/null`;
  const line = cwd ? `cd -- ${quote(toExplicitPath(cwd))} && ${withInput}` : withInput;
  if (line.includes('\0')) throw new HostError('a command, its folder and its variables must not contain U+0000');
  if (Buffer.byteLength(line) > LINE_MAX_BYTES) throw tooLong();
  return line;
}

const tooLong = (): HostError =>
  new HostError(`command, cwd and env together are longer than ${LINE_MAX_BYTES} bytes once quoted`);

/** Prefixes a relative path with `./`: `cd` would take `-` for the previous folder, and look other names up in CDPATH. */
const toExplicitPath = (cwd: string): string => (cwd.startsWith('/') ? cwd : `./${cwd}`);

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
