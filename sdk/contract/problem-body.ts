/** Builds the body of a problem (RFC 9457) for both HTTP processes, without internal errors. */
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
