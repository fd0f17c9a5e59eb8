/** How many zips a process takes at once: each may hold a quarter of a gigabyte on disk, and as much again unpacked. */
import { Problem } from '../../sdk/contract/errors.ts';

const RETRY_AFTER_S = 5;

export interface UploadLimiter {
  /** Runs `work` if a place is free. @throws Problem `rate_limited` when none is */
  pass<T>(work: () => Promise<T>): Promise<T>;
}

/** @param places uploads at once */
export function createUploadLimiter(places: number): UploadLimiter {
  let taken = 0;
  return {
    async pass(work) {
      if (taken >= places) {
        const detail = `This process takes ${places} uploads at once, and all are under way. Try again shortly.`;
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
