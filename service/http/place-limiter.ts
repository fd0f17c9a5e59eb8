/** Limits concurrent zip uploads in a process: each may use 256 MB on disk, and the same again unpacked. */
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { AmountsByKey } from '../../service/timing/amounts-by-key.ts';

const RETRY_AFTER_S = 5;

export interface UploadLimiter {
  /** Runs `work` if the account's share has a free place. @throws Problem `rate_limited` when it has none */
  pass<T>(accountId: string, work: () => Promise<T>): Promise<T>;
}

/** @param places maximum number of concurrent uploads */
export function createUploadLimiter(places: number): UploadLimiter {
  const taken = new AmountsByKey();
  return {
    pass(accountId, work) {
      const own = taken.get(accountId);
      if (mayTakePlace(own, places - taken.total)) return taken.during(accountId, work);
      const detail = `This process is receiving ${taken.total} uploads, ${own} of them from this account. Retry after ${RETRY_AFTER_S} s.`;
      return Promise.reject(new Problem('rate_limited', detail, { retryAfter: RETRY_AFTER_S }));
    },
  };
}
