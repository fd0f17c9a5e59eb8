/** Errors of blob stores. */
import { isDatabaseUnavailable } from '../postgres/database-errors.ts';

/** The blob store does not respond. Retry later. The message is for the operator. */
export class BlobStoreUnavailableError extends Error {
  override readonly name = 'BlobStoreUnavailableError';
}

/** The blob store answered, and refused one request. Requests for other blobs may succeed. */
export class BlobRefusedError extends BlobStoreUnavailableError {}

/** A sweep came to its end, but there are blobs that it could not remove or look at. */
export class IncompleteSweepError extends Error {
  override readonly name = 'IncompleteSweepError';

  /** @param first of the blobs or folders */
  constructor(first: Error) {
    super(first.message, { cause: first });
  }
}

export const createRemovedError = (): BlobStoreUnavailableError =>
  new BlobStoreUnavailableError('A blob was removed as unused before it was used. Store all again.');

/** The blob store takes no blob of this size. The message is for the operator. */
export class BlobTooLargeError extends Error {
  override readonly name = 'BlobTooLargeError';
  readonly sha256: string;
  readonly maxBytes: number;

  constructor(sha256: string, sizeBytes: number, maxBytes: number) {
    super(
      `Blob ${sha256} has ${sizeBytes} bytes. In the database, a blob may have at most ${maxBytes}. Keep the blobs in files or in a bucket (BLOBS).`,
    );
    this.sha256 = sha256;
    this.maxBytes = maxBytes;
  }
}

/** Whether the blob store is unavailable for now, so that a retry may succeed. */
export const isBlobStoreUnavailable = (error: unknown): boolean =>
  error instanceof BlobStoreUnavailableError || isDatabaseUnavailable(error);
