/** Errors of blob stores. */
import { isDatabaseUnavailable } from '../postgres/database-errors.ts';

/** The blob store does not respond. Retry later. The message is for the operator. */
export class BlobStoreUnavailableError extends Error {
  override readonly name = 'BlobStoreUnavailableError';
}

/** Whether the blob store is unavailable for now, so that a retry may succeed. */
export const isBlobStoreUnavailable = (error: unknown): boolean =>
  error instanceof BlobStoreUnavailableError || isDatabaseUnavailable(error);
