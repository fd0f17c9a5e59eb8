/** Limits the bytes of request bodies in memory: for the process, and for each account. */
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { AmountsByKey } from '../timing/amounts-by-key.ts';

const RETRY_AFTER_S = 1;

export interface ByteLimits {
  readonly processBytes: number;
  readonly accountBytes: number;
}

export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #used = new AmountsByKey();

  constructor(limits: ByteLimits) {
    this.#limits = limits;
  }

  /**
   * Reserves bytes for an account until `release`.
   *
   * @throws Problem `rate_limited` where the account has used up its share, `unavailable` where the process has
   */
  reserve(accountId: string, bytes: number): void {
    const { processBytes, accountBytes } = this.#limits;
    if (this.#used.get(accountId) + bytes > accountBytes) {
      const detail = `This account already has ${accountBytes / MIB} MiB of requests in flight. Retry after ${RETRY_AFTER_S} s.`;
      throw new Problem('rate_limited', detail, { retryAfter: RETRY_AFTER_S });
    }
    if (this.#used.total + bytes > processBytes) {
      const detail = `The service already has ${processBytes / MIB} MiB of requests in flight. Retry after ${RETRY_AFTER_S} s.`;
      throw new Problem('unavailable', detail, { retryAfter: RETRY_AFTER_S });
    }
    this.#used.add(accountId, bytes);
  }

  release(accountId: string, bytes: number): void {
    this.#used.subtract(accountId, bytes);
  }
}
