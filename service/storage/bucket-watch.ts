/** Follows whether the bucket of the blobs answers, for the log and the metrics, and compares its mark before it is used. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Gauge } from 'prom-client';
import { ClusterMismatchError } from '../../db/cluster/cluster-record.ts';
import { BlobStoreUnavailableError } from '../../db/files/blob-errors.ts';
import type { ObjectStore } from '../../db/files/s3.ts';
import { RepeatedErrors } from '../telemetry/repeated-errors.ts';

/** Interval between checks whether the bucket is back. Milliseconds. */
const CHECK_EVERY_MS = 15_000;

export const bucketMetrics = {
  bulkhead_blob_store_available: {
    type: 'gauge',
    help: '0 from a request that the bucket of BLOBS did not answer or refused, until the bucket can be read again; otherwise 1, also without a bucket.',
    labels: [],
  },
} as const;

/** Creates the collect function of the gauge. */
export const bucketReaders = (isAvailable: () => boolean) => ({
  bulkhead_blob_store_available: (gauge: Gauge) => gauge.set(isAvailable() ? 1 : 0),
});

interface BucketWatchOptions {
  readonly logger: Pick<FastifyBaseLogger, 'error' | 'warn'>;
  /** Why the mark could not be read at the start. Null: it was read. */
  readonly unread: BlobStoreUnavailableError | null;
  /** Compares the mark. @throws Error, whose message is for the operator */
  compareMark(): Promise<void>;
  /** Milliseconds. */
  readonly checkEveryMs?: number;
}

export class BucketWatch {
  readonly #options: BucketWatchOptions;
  readonly #closing = new AbortController();
  readonly #errors: RepeatedErrors;
  #isAvailable = true;
  #isCompared: boolean;

  constructor(options: BucketWatchOptions) {
    this.#options = options;
    const { logger, unread } = options;
    this.#errors = new RepeatedErrors({ report: (error, count) => logger.error({ err: error, count }, error.message) });
    this.#isCompared = unread === null;
    if (unread !== null) this.#reportFailure(unread);
  }

  readonly isAvailable = (): boolean => this.#isAvailable;

  readonly watch = (objects: ObjectStore): ObjectStore => ({
    address: objects.address,
    put: (key, content) => this.#use(() => objects.put(key, content)),
    get: (key, maxBytes) => this.#use(() => objects.get(key, maxBytes)),
    getPiece: (key, start, bytes) => this.#use(() => objects.getPiece(key, start, bytes)),
    delete: (key) => this.#use(() => objects.delete(key)),
  });

  close(): void {
    this.#closing.abort();
    this.#errors.close();
  }

  async #use<T>(send: () => Promise<T>): Promise<T> {
    try {
      // Objects of another cluster must not be removed as unused, and their absence is no damage.
      if (!this.#isCompared) await this.#compareMark();
      return await send();
    } catch (error) {
      if (error instanceof BlobStoreUnavailableError) this.#reportFailure(error);
      throw error;
    }
  }

  async #compareMark(): Promise<void> {
    try {
      await this.#options.compareMark();
    } catch (error) {
      // Such as the mark of another cluster: until the operator corrects it, the blobs of this one are unavailable.
      if (!(error instanceof ClusterMismatchError)) throw error;
      this.#isCompared = false;
      throw new BlobStoreUnavailableError(error.message, { cause: error });
    }
    this.#isCompared = true;
  }

  #reportFailure(error: BlobStoreUnavailableError): void {
    if (this.#closing.signal.aborted) return;
    this.#errors.add(error);
    if (!this.#isAvailable) return;
    this.#isAvailable = false;
    void this.#waitUntilBack();
  }

  async #waitUntilBack(): Promise<void> {
    const { logger, checkEveryMs = CHECK_EVERY_MS } = this.#options;
    const { signal } = this.#closing;
    const startedAt = performance.now();
    do {
      await sleep(checkEveryMs, null, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
    } while (!(await this.#isBack()));
    this.#isAvailable = true;
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    logger.warn(`The blob store can be read again after ${seconds} s.`);
  }

  #isBack(): Promise<boolean> {
    return this.#compareMark().then(
      () => true,
      (error: unknown) => {
        // Errors of the database are reported by the pool's users.
        if (error instanceof BlobStoreUnavailableError) this.#reportFailure(error);
        return false;
      },
    );
  }
}
