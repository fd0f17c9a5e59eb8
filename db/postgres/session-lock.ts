/** Advisory locks that a connection holds until it ends, for work on other connections. */
import type { ClientBase } from 'pg';

interface LockLoss {
  /** Completes "The connection that kept". */
  readonly kept: string;
  /** What may have happened since, what was not done, and what to do. Follows "so". */
  readonly consequence: string;
}

/**
 * Asks whether a connection still holds its locks: they end with it.
 *
 * @throws Error of `createError` if it was lost
 */
export async function requireSessionLock(
  client: Pick<ClientBase, 'query'>,
  { kept, consequence }: LockLoss,
  createError = (message: string): Error => new Error(message),
): Promise<void> {
  await client.query('SELECT 1').catch((error: Error) => {
    throw createError(`The connection that kept ${kept} was lost (${error.message}), so ${consequence}`);
  });
}
