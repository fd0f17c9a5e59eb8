/** Every way a command ends that is not success: an exit code, one sentence, and what to do next. */
import type { ProblemLocation } from '../contract/errors.ts';
import { BulkheadError, ConnectionLostError } from '../session/transport.ts';
import { adviceFor } from './advice.ts';

/** Documented in `bulkhead --help` and in docs/cli.md. */
export const exitCodes = {
  ok: 0,
  /** Refused or failed, for a reason that the message says. */
  failed: 1,
  /** Typed wrongly. */
  usage: 2,
  /** The package has faults. */
  invalidPackage: 3,
  /** Nobody is signed in, or the token is no longer good. */
  notSignedIn: 4,
  /** The service cannot be reached, or asked to come back later. */
  away: 5,
  /** Ctrl-C. */
  interrupted: 130,
} as const;
export type ExitName = keyof typeof exitCodes;

/** A command's own refusal: `message` is one sentence that says what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  /** For programs, as `problems` in sdk/contract/errors.ts has them. */
  readonly code: string;
  readonly exit: ExitName;
  readonly errors: readonly ProblemLocation[];

  constructor(
    code: string,
    message: string,
    { exit = 'failed', errors = [] }: { exit?: ExitName; errors?: readonly ProblemLocation[] } = {},
  ) {
    super(message);
    this.code = code;
    this.exit = exit;
    this.errors = errors;
  }
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly exit: ExitName;
  readonly errors: readonly ProblemLocation[];
  /** To name to an operator. */
  readonly requestId?: string | null;
}

/** Codes of network errors under `fetch`, after which nothing was there to answer. */
const EXITS: Readonly<Record<string, ExitName>> = {
  unauthenticated: 'notSignedIn',
  invalid_package: 'invalidPackage',
  text_files_only: 'invalidPackage',
  unavailable: 'away',
  bundler_busy: 'away',
  rate_limited: 'away',
};

/** @param url the service that was asked */
export function failureOf(error: unknown, url: string): Failure {
  if (error instanceof CommandError) return error;
  if (error instanceof BulkheadError) {
    const { code, requestId, errors } = error;
    return { code, message: adviceFor(code, error.message, url), exit: EXITS[code] ?? 'failed', errors, requestId };
  }
  if (error instanceof ConnectionLostError) {
    return {
      code: 'connection_lost',
      message: adviceFor('connection_lost', error.message, url),
      exit: 'away',
      errors: [],
    };
  }
  if (isAway(error)) return { code: 'away', message: adviceFor('away', '', url), exit: 'away', errors: [] };
  if (error instanceof Error && error.name === 'AbortError') {
    return { code: 'interrupted', message: 'Interrupted.', exit: 'interrupted', errors: [] };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'failed', message, exit: 'failed', errors: [] };
}

/** `fetch` says TypeError and puts the reason below. */
function isAway(error: unknown): boolean {
  if (!(error instanceof TypeError)) return false;
  return error.message === 'fetch failed' || (error.cause instanceof Error && 'code' in error.cause);
}

/** `index.ts:3:7: message`, as compilers say it and editors open it. */
export function placed({ path, line, column, field, message }: ProblemLocation): string {
  const place = [path, line, column].filter((part) => part !== undefined).join(':');
  return [place, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
