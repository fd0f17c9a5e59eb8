/**
 * Limits the temporary files of uploads to the free space of their disk, and each account to a share of it: a full disk would also
 * stop what others write there, such as webhooks that are stored while the database is unavailable.
 */
import { readFreeSpace } from '../../db/files/data-dir.ts';
import { mayTakeBytes } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import type { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';

const RETRY_AFTER_S = 5;

interface StagingSpaceOptions {
  /** Space that uploads leave free. Default: none. Megabytes. */
  readonly minFreeMegabytes?: number | undefined;
  readonly readFree?: typeof readFreeSpace;
}
/** What one upload reserves. Disposing it releases all of it. */
export interface StagingReservation extends Disposable {
  /**
   * Call it before the bytes are written.
   *
   * @param folder on the disk where they are written
   * @throws Problem `rate_limited` when the account has used up its share, `unavailable` when the disk has too little space
   */
  reserve(folder: string, bytes: number): Promise<void>;
}

export class StagingSpace {
  readonly #minFreeBytes: number;
  readonly #readFree: typeof readFreeSpace;
  readonly #reserved = new AmountsByKey();

  constructor({ minFreeMegabytes = 0, readFree = readFreeSpace }: StagingSpaceOptions = {}) {
    this.#minFreeBytes = minFreeMegabytes * MIB;
    this.#readFree = readFree;
  }

  open(accountId: string): StagingReservation {
    let own = 0;
    return {
      reserve: async (folder, bytes) => {
        await this.#reserve(accountId, folder, bytes, own);
        own += bytes;
      },
      [Symbol.dispose]: () => this.#reserved.subtract(accountId, own),
    };
  }

  /** @param written bytes that the same upload has reserved, and written, before */
  async #reserve(accountId: string, folder: string, bytes: number, written: number): Promise<void> {
    const { freeBytes } = await this.#readFree(folder);
    // Bytes of other uploads that are written already count twice. The space that this leaves is for the others that write to the disk.
    const free = freeBytes - this.#minFreeBytes - (this.#reserved.total - written);
    const held = this.#reserved.get(accountId);
    if (!mayTakeBytes(held, free, bytes)) {
      const fitsAlone = mayTakeBytes(0, free + held, bytes);
      throw fitsAlone ? createShareProblem(held, bytes) : createFullProblem(bytes);
    }
    this.#reserved.add(accountId, bytes);
  }
}

const toMebibytes = (bytes: number): number => Math.ceil(bytes / MIB);

const createShareProblem = (held: number, bytes: number): Problem =>
  createRetryProblem(
    'rate_limited',
    `Uploads of this account already take ${toMebibytes(held)} MiB of temporary files, so ${toMebibytes(bytes)} MiB more exceed its share.`,
    RETRY_AFTER_S,
  );

const createFullProblem = (bytes: number): Problem =>
  createRetryProblem(
    'unavailable',
    `The service has too little disk space for the ${toMebibytes(bytes)} MiB of temporary files of this upload.`,
    RETRY_AFTER_S,
  );
