/** Limits concurrent zip uploads in a process: each may use 256 MB on disk, and the same again unpacked. */
import { Problem } from '../../sdk/contract/errors.ts';

const RETRY_AFTER_S = 5;

export interface UploadLimiter {
  /** Runs `work` if a place is free. @throws Problem `rate_limited` when none is */
  pass<T>(work: () => Promise<T>): Promise<T>;
}

/** @param places maximum number of concurrent uploads */
export function createUploadLimiter(places: number): UploadLimiter {
  let taken = 0;
  return {
    async pass(work) {
      if (taken >= places) {
        const detail = `This process is receiving its maximum of ${places} uploads. Retry shortly.`;
        throw new Problem('rate_limited', detail, { retryAfter: RETRY_AFTER_S });
      }
      taken += 1;
      try {
        return await work();
      } finally {
        taken -= 1;
      }
    },
  };
}
