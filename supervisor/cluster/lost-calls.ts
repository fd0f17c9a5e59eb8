/** Problems of calls that are lost between supervisors. */
import { Problem } from '../../sdk/contract/errors.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';
import { RETRY_AFTER_S } from './ownership-policy.ts';

/** The owner of the account cannot take the call now. */
export const createOwnerProblem = (what: string): Problem => createRetryProblem('unavailable', what, RETRY_AFTER_S);

/** Callers retry `unavailable` automatically, so a call that may have run gets `outcome_unknown`. */
export const createLossProblem = (method: string, what: string): Problem =>
  method === 'GET' || method === 'HEAD'
    ? createOwnerProblem(what)
    : new Problem('outcome_unknown', `${what} The call may have taken effect: check before you repeat it.`);
