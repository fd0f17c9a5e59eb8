/** Limits the memory of responses that are read whole: the bytes of the process, and each account's share of them. */
import { mayTakeBytes } from '../../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { HostError } from '../host-call.ts';

/** Without a limit, slow servers could make each installation hold 30 MiB for as long as a call may take. */
const PROCESS_BYTES = 256 * MIB;

export class ArrivingBytes {
  readonly #held = new AmountsByKey();
  readonly #processBytes: number;

  constructor(processBytes = PROCESS_BYTES) {
    this.#processBytes = processBytes;
  }

  /** @param work calls `take` with the bytes that it holds until its end @throws HostError beyond the account's share */
  async during<T>(accountId: string, work: (take: (bytes: number) => void) => Promise<T>): Promise<T> {
    let taken = 0;
    const take = (bytes: number): void => {
      if (!mayTakeBytes(this.#held.get(accountId), this.#processBytes - this.#held.total, bytes))
        throw new HostError('too many responses arrive at once; try again when some have ended');
      this.#held.add(accountId, bytes);
      taken += bytes;
    };
    try {
      return await work(take);
    } finally {
      this.#held.subtract(accountId, taken);
    }
  }
}
