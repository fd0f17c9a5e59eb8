/** Maps every error of a command to a code, a message and an exit code. */
import { tmpdir } from 'node:os';
import { formatLocation, type ProblemLocation } from '../contract/errors.ts';
import { getOwn } from '../contract/get-own.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { BulkheadError, ConnectionLostError, isOutage, readErrorCode } from '../session/transport.ts';
import type { Paint } from './output.ts';
import { indentLines } from './terminal-text.ts';

/** `bulkhead --help` and docs/cli.md list these. */
export const exitCodes = {
  ok: 0,
  /** The command was refused or failed. */
  failed: 1,
  /** The command line is not valid. */
  usage: 2,
  /** The package is not valid. */
  invalidPackage: 3,
  /** There is no token, or it is not valid. */
  notSignedIn: 4,
  /** The service is unreachable or overloaded. */
  unavailable: 5,
  /** Ctrl-C. */
  interrupted: 130,
} as const;
type ExitName = keyof typeof exitCodes;

/** An error with a message for the user that says what to do. */
export class CommandError extends Error {
  /** For programs. The service's own codes are in sdk/contract/errors.ts. */
  readonly code: string;
  readonly exit: ExitName;
  readonly errors: readonly ProblemLocation[];
  /** The partial result of the command, for `--json`. */
  readonly result: object;

  constructor(
    code: string,
    message: string,
    { exit = findExit(code), errors = [], result = {} }: CommandErrorOptions = {},
  ) {
    super(message);
    this.code = code;
    this.exit = exit;
    this.errors = errors;
    this.result = result;
  }
}
interface CommandErrorOptions {
  readonly exit?: ExitName;
  readonly errors?: readonly ProblemLocation[];
  readonly result?: object;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly exit: ExitName;
  readonly errors: readonly ProblemLocation[];
  /** Identifies the request in the service's log. */
  readonly requestId?: string | null;
  readonly result?: object;
}

export const INTERRUPTED: Failure = { code: 'interrupted', message: 'Interrupted.', exit: 'interrupted', errors: [] };

const EXITS: Readonly<Record<string, ExitName>> = {
  usage: 'usage',
  confirmation_required: 'usage',
  no_package: 'usage',
  unauthenticated: 'notSignedIn',
  invalid_package: 'invalidPackage',
  text_files_only: 'invalidPackage',
  unavailable: 'unavailable',
  bundler_busy: 'unavailable',
  rate_limited: 'unavailable',
};
/** The service chooses the code, which may be the name of a member of every object. */
const findExit = (code: string): ExitName => getOwn(EXITS, code) ?? 'failed';
/** Hints for the next command line. The service cannot give them, because it does not know the command. */
const HINTS: Readonly<Record<string, string>> = {
  slug_taken: 'Pass it with `--slug`.',
  version_exists: 'Omit `--version` to use the next free number.',
  unavailable: 'Try again in a few seconds; `bulkhead status` says whether a plugin must be fixed first.',
  rate_limited: 'Try again in a minute.',
  no_published_version: 'Run `bulkhead publish`.',
  already_installed:
    'Run `bulkhead status` to see it. `--pin <semver>` and `--latest` move it to another version; `bulkhead configure` changes its settings and whether it is required.',
  no_draft: 'Run `bulkhead dev` in the folder of the package.',
};

/**
 * @param url address of the service
 * @param isTokenOfEnvironment whether requests have the token of `BULKHEAD_TOKEN`
 */
export function toFailure(error: unknown, url: string, isTokenOfEnvironment = false): Failure {
  if (error instanceof CommandError) return error;
  if (error instanceof BulkheadError) {
    const { message, requestId, errors } = error;
    // While the service restarts, a proxy before it answers, without a code of Bulkhead.
    const code = isOutage(error) && error.code === 'internal' ? 'unavailable' : error.code;
    const described =
      code === 'unauthenticated' ? describeToken(url, isTokenOfEnvironment) : describeProblem(code, message);
    return { code, message: described, exit: findExit(code), errors, requestId };
  }
  if (error instanceof ConnectionLostError) {
    const message = `${error.message} Run \`bulkhead status\` before you try again.`;
    return { code: 'connection_lost', message, exit: 'unavailable', errors: [] };
  }
  if (isUnreachable(error)) return createUnreachableError(url, null, error);
  if (error instanceof Error && error.name === 'AbortError') return INTERRUPTED;
  if (isDiskFull(error)) {
    // The system does not say which file was written. All others are explained where they are written.
    const message = `The disk of ${tmpdir()} is full: make room there, or set TMPDIR to a folder that has room.`;
    return { code: 'failed', message, exit: 'failed', errors: [] };
  }
  return {
    code: 'failed',
    message: error instanceof Error ? error.message : String(error),
    exit: 'failed',
    errors: [],
  };
}

/** Formats a failure as lines: one for each fault of a package, or its message. */
export function formatFaults({ message, errors }: Pick<Failure, 'message' | 'errors'>, paint: Paint): string[] {
  // With several faults, `message` has only the first one and their number.
  const texts = errors.length > 1 ? errors.map(formatLocation) : [message];
  return texts.map((text) => `${paint.red('error')} ${indentLines(text)}`);
}

/** The service's own advice to repeat a request: “Retry after 12 s.”, “Send it again later.” */
const ADVISES_REPEAT = /\b(?:retry|again)\b/i;

/** @param isOfEnvironment then a token that `login` stores would not be used */
function describeToken(url: string, isOfEnvironment: boolean): string {
  if (!isOfEnvironment) return `Your token for ${url} is not valid or has expired. Run \`bulkhead login\`.`;
  return `The token in BULKHEAD_TOKEN is not valid for ${url} or has expired. Replace it, or unset BULKHEAD_TOKEN and run \`bulkhead login\`.`;
}

/**
 * @param address of the session API. `isOwn`: from BULKHEAD_SESSION_URL
 * @param service that the token is for
 */
export function describeSessionApiRefusal(
  { url, isOwn }: { readonly url: string; readonly isOwn: boolean },
  service: string,
  isTokenOfEnvironment: boolean,
): string {
  const source = isOwn ? 'the address in BULKHEAD_SESSION_URL' : `the address that ${service} publishes`;
  const token = isTokenOfEnvironment ? 'the token in BULKHEAD_TOKEN' : `your token for ${service}`;
  const address = isOwn ? ' If it belongs to another service, correct the address or unset it.' : '';
  const advice = isTokenOfEnvironment
    ? 'Replace the token, or unset BULKHEAD_TOKEN and run `bulkhead login`.'
    : 'Run `bulkhead login`.';
  return `The session API at ${url}, ${source}, refused ${token}.${address} ${advice}`;
}

function describeProblem(code: string, message: string): string {
  if (findExit(code) === 'unavailable' && ADVISES_REPEAT.test(message)) return message;
  const hint = getOwn(HINTS, code);
  return hint === undefined ? message : `${message.replace(/(?<![.!?])$/, '.')} ${hint}`;
}

/**
 * @param waitedMs null if the connection failed at once
 * @param error of the connection
 */
export function createUnreachableError(url: string, waitedMs: number | null, error?: unknown): CommandError {
  const within = waitedMs === null ? '' : ` within ${waitedMs / 1_000} s`;
  const code = error instanceof Error ? readErrorCode(error) : '';
  const reason = waitedMs === null && code !== '' ? ` (${code})` : '';
  const plain = url.startsWith('https:') ? `, which begins with http:// if the service has no TLS` : '';
  const message = `No service responds at ${url}${within}${reason}. Start it with \`npm start\`, or pass its address with \`--url\`${plain}.`;
  return new CommandError('away', message, { exit: 'unavailable' });
}

/**
 * @param url of the session API
 * @param service that publishes this address. Null: it is that of `BULKHEAD_SESSION_URL`
 */
export function createSessionApiError(url: string, service: string | null, error: unknown): CommandError {
  const code = readErrorCode(error);
  const source =
    service === null
      ? 'the address in BULKHEAD_SESSION_URL. Correct it, or unset it to use the address that the service publishes.'
      : `the address that ${service} publishes. Try again in a minute, or set BULKHEAD_SESSION_URL to the address at which you reach it.`;
  const message = `No session API responds at ${url}${code === '' ? '' : ` (${code})`}, ${source}`;
  return new CommandError('away', message, { exit: 'unavailable' });
}

/** Whether a read or a stream that failed may succeed when it is tried again. */
export const isTransient = (error: unknown): boolean =>
  !(error instanceof BulkheadError) || error.status >= 500 || error.status === 429;

/** `fetch` throws a TypeError with the network error as its cause. */
export function isUnreachable(error: unknown): error is TypeError {
  if (!(error instanceof TypeError)) return false;
  return error.message === 'fetch failed' || (error.cause instanceof Error && 'code' in error.cause);
}
