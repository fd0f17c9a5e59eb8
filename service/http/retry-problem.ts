/** The problem of a request that its sender may repeat after a while. */
import { Problem } from '../../sdk/contract/errors.ts';

/**
 * Names the same time in its text and in the header `retry-after`.
 *
 * @param what sentences that say what happened
 * @param retryAfter seconds
 */
export const createRetryProblem = (code: 'rate_limited' | 'unavailable', what: string, retryAfter: number): Problem =>
  new Problem(code, `${what} Retry after ${retryAfter} s.`, { retryAfter });
