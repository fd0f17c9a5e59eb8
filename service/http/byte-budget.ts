/** Limits bytes in memory, such as of request bodies: for the process, and for each account. */
import { mayTakeBytes } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { createRetryProblem } from './retry-problem.ts';

const RETRY_AFTER_S = 1;

export interface ByteLimits {
  readonly processBytes: number;
  /** An account gets less where the process is nearly full, so that a few accounts do not fill it. */
  readonly accountBytes: number;
}

export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #contents: string;
  readonly #used = new AmountsByKey();

  /** @param contents what the bytes are, for error texts */
  constructor(limits: ByteLimits, contents = 'requests in flight') {
    this.#limits = limits;
    this.#contents = contents;
  }

  /**
   * Reserves bytes for an account until `release`.
   *
   * @throws Problem `rate_limited` where the account has used up its share, `unavailable` where the process is nearly full
   */
  reserve(accountId: string, bytes: number): void {
    const { processBytes, accountBytes } = this.#limits;
    const held = this.#used.get(accountId);
    if (held + bytes > accountBytes) {
      const what = `This account already has ${accountBytes / MIB} MiB of ${this.#contents}.`;
      throw createRetryProblem('rate_limited', what, RETRY_AFTER_S);
    }
    if (!mayTakeBytes(held, processBytes - this.#used.total, bytes)) {
      const what = `The service is close to its ${processBytes / MIB} MiB of ${this.#contents}.`;
      throw createRetryProblem('unavailable', what, RETRY_AFTER_S);
    }
    this.#used.add(accountId, bytes);
  }

  /** Counts bytes that are there already, whatever the limits. */
  add(accountId: string, bytes: number): void {
    this.#used.add(accountId, bytes);
  }

  /** Whether an account has reserved bytes. */
  isUsedBy(accountId: string): boolean {
    return this.#used.get(accountId) > 0;
  }

  release(accountId: string, bytes: number): void {
    this.#used.subtract(accountId, bytes);
  }
}
