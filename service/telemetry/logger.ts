/** The log of a process: JSON lines with ids and without secrets, readable text on a terminal. */
import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino';
import { MIB } from '../../sdk/contract/limits.ts';
import { getLogIds } from './log-ids.ts';

/** Lines wait in memory while their reader is busy. Further lines are dropped. Bytes. */
const WAITING_MAX_BYTES = 16 * MIB;

export const REDACTED = '[redacted]';

/** Secrets that an error text of a driver, library or request may contain, in a line of JSON. */
const SECRETS: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic) +[A-Za-z0-9\-._~+/]+=*/gi, `$1 ${REDACTED}`],
  // The header ends where another could begin: a search to the end from behind each hyphen would take quadratic time.
  [/\beyJ(?:(?!\beyJ)[\w-]){8,}\.[\w-]+\.[\w-]*/g, REDACTED],
  // The password in any URL, such as DATABASE_URL.
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@"\\]{0,200}):[^\s@"]{1,500}@/gi, `$1:${REDACTED}@`],
  [
    /"(authorization|proxy-authorization|cookie|set-cookie|password|passwd|token|access_token|secret|api[-_]?key)":"(?:[^"\\]|\\.)*"/gi,
    `"$1":"${REDACTED}"`,
  ],
];

/** Replaces secrets that can be recognized by their form. */
function redact(line: string): string {
  let clean = line;
  for (const [pattern, replacement] of SECRETS) clean = clean.replace(pattern, replacement);
  return clean;
}

/** The driver adds the connection to an error of the pool: kilobytes, and the key that cancels its statements. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { client, ...described } = stdSerializers.err(error);
  return described;
}

/** @param destination for tests; default: standard output, readable text if it is a terminal */
export function openLogger(name: string, level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    name,
    mixin: () => ({ ...getLogIds() }),
    hooks: { streamWrite: redact },
    serializers: { err: describeError },
  };
  if (destination) return pino(options, destination);
  if (!process.stdout.isTTY) return pino(options, openBoundedOutput(process.stdout));
  // Loaded only for a terminal, so that other starts are faster.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
  return pino(options, pretty({ sync: true }));
}

/**
 * Replaces pino's own stream, which repeats a failed write forever at the exit: a process whose reader was killed would not end.
 *
 * @param output standard output or standard error
 */
export function openBoundedOutput(output: Writable): DestinationStream {
  // The reader has ended.
  output.on('error', () => undefined);
  return {
    write: (line) => {
      if (output.writable && output.writableLength < WAITING_MAX_BYTES) output.write(line);
    },
  };
}
