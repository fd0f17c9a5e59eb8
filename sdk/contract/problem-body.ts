/** A problem as both HTTP processes send it: RFC 9457, and never a word of an internal error. */
import { type Problem, type ProblemCode, type ProblemLocation, problems } from './errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';

export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
  readonly requestId: string;
  readonly errors?: readonly ProblemLocation[];
}

/** The body of a problem. */
export function problemBody(problem: Problem, requestId: string): ProblemBody {
  const { status, title } = problems[problem.code];
  return {
    type: `urn:bulkhead:problem:${problem.code}`,
    title,
    status,
    code: problem.code,
    detail: problem.message,
    requestId,
    ...(problem.errors ? { errors: problem.errors } : {}),
  };
}

/** SQLSTATEs and socket errors that mean the database cannot be asked now, rather than that we asked wrongly. */
const AWAY =
  /^(08|53|57P0|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH)|^Connection terminated|timeout exceeded when trying to connect/;

/** Whether an error says that the database is away: the caller may try again shortly. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && AWAY.test(String(error.code))) || AWAY.test(error.message);
}
