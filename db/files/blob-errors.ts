/** Errors of blob stores. */
import { isDatabaseUnavailable } from '../postgres/database-errors.ts';

/** The store does not answer now. The message is for the operator. Retry. */
export class BlobStoreUnavailableError extends Error {
  override readonly name = 'BlobStoreUnavailableError';
}

/** Whether a blob cannot be read now, but can be later. */
export const isBlobStoreUnavailable = (error: unknown): boolean =>
  error instanceof BlobStoreUnavailableError || isDatabaseUnavailable(error);
