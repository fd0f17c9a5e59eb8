/** Limits the memory of request bodies, and of responses that are read whole: the bytes of the process, and each account's share of them. */
import { mayTakeBytes } from '../../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../../db/timing/amounts-by-key.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { HostError } from '../host-call.ts';

/**
 * Without a limit, slow servers could make each installation hold 94 MiB for as long as a call may take: of each of its 16 requests a
 * body of 2 MiB, its text too where the plugin gave one, and 1.9 MiB of the response. The texts are not counted.
 */
const PROCESS_BYTES = 256 * MIB;

export class BodyMemory {
  readonly #held = new AmountsByKey();
  readonly #processBytes: number;

  constructor(processBytes = PROCESS_BYTES) {
    this.#processBytes = processBytes;
  }

  /** @returns a function that frees the bytes; call it once @throws HostError beyond the account's share */
  hold(accountId: string, bytes: number): () => void {
    if (bytes > 0 && !mayTakeBytes(this.#held.get(accountId), this.#processBytes - this.#held.total, bytes))
      throw new HostError(
        'too many requests with large bodies or responses are running; try again when some have ended',
      );
    this.#held.add(accountId, bytes);
    return () => this.#held.subtract(accountId, bytes);
  }

  /** @param work calls `take` with the bytes that it holds until its end @throws HostError beyond the account's share */
  async during<T>(accountId: string, work: (take: (bytes: number) => void) => Promise<T>): Promise<T> {
    let taken = 0;
    const take = (bytes: number): void => {
      this.hold(accountId, bytes);
      taken += bytes;
    };
    try {
      return await work(take);
    } finally {
      this.#held.subtract(accountId, taken);
    }
  }
}
