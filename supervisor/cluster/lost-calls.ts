/** Problems of calls that are lost between supervisors. */
import { Problem } from '../../sdk/contract/errors.ts';
import { RETRY_AFTER_S } from './ownership-policy.ts';

export const createRetryProblem = (what: string): Problem =>
  new Problem('unavailable', `${what} Retry after ${RETRY_AFTER_S} s.`, { retryAfter: RETRY_AFTER_S });

/** Callers retry `unavailable` automatically, so a call that may have run gets `outcome_unknown`. */
export const createLossProblem = (method: string, what: string): Problem =>
  method === 'GET' || method === 'HEAD'
    ? createRetryProblem(what)
    : new Problem('outcome_unknown', `${what} The call may have taken effect: check before you repeat it.`);
