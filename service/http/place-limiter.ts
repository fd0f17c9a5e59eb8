/** Limits how much of one kind of work, such as uploads, a process does at once, and each account to a share of it. */
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { createRetryProblem } from './retry-problem.ts';

interface PlaceLimiterOptions {
  /** Maximum number at once. */
  readonly places: number;
  /** Completes "This process is", such as `receiving` and `uploads`. */
  readonly verb: string;
  readonly works: string;
  readonly retryAfterS: number;
}

export class PlaceLimiter {
  readonly #options: PlaceLimiterOptions;
  readonly #taken = new AmountsByKey();

  constructor(options: PlaceLimiterOptions) {
    this.#options = options;
  }

  /** Runs `work` if the account's share has a free place. @throws Problem `rate_limited` when it has none */
  async run<T>(accountId: string, work: () => Promise<T>): Promise<T> {
    const { places, verb, works, retryAfterS } = this.#options;
    const own = this.#taken.get(accountId);
    if (mayTakePlace(own, places - this.#taken.total)) return this.#taken.during(accountId, work);
    const what = `This process is ${verb} ${this.#taken.total} ${works}, ${own} of them from this account.`;
    throw createRetryProblem('rate_limited', what, retryAfterS);
  }
}
