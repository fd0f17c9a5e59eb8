/** The log of a process: JSON lines with the ids of what they are about, for people on a terminal, and without secrets. */
import { createRequire } from 'node:module';
import { type DestinationStream, type Logger, pino } from 'pino';
import { logIds } from './log-ids.ts';

/** What stands for a secret. */
export const REDACTED = '[redacted]';

/** In a line of JSON: what a driver, a library or a request may have put into an error's text. */
const SECRETS: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic) +[A-Za-z0-9\-._~+/]+=*/gi, `$1 ${REDACTED}`],
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, REDACTED],
  // The password in any address that has one, such as DATABASE_URL.
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@"\\]{0,200}):[^\s@"]{1,500}@/gi, `$1:${REDACTED}@`],
  [
    /"(authorization|proxy-authorization|cookie|set-cookie|password|passwd|token|access_token|secret|api[-_]?key)":"(?:[^"\\]|\\.)*"/gi,
    `"$1":"${REDACTED}"`,
  ],
];

/** A line without the secrets that can be known by their form. */
export function redact(line: string): string {
  let clean = line;
  for (const [pattern, replacement] of SECRETS) clean = clean.replace(pattern, replacement);
  return clean;
}

/** @param destination for tests; standard output, for people where it is a terminal */
export function openLogger(name: string, level: string, destination?: DestinationStream): Logger {
  const options = { level, name, mixin: () => ({ ...logIds() }), hooks: { streamWrite: redact } };
  if (destination) return pino(options, destination);
  if (!process.stdout.isTTY) return pino(options);
  // Loaded only for people who watch, so that every other start is shorter.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
  return pino(options, pretty({ sync: true }));
}
