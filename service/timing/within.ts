/** Waits for a promise, but no longer than a time limit. */

/** Resolves with the value, or with undefined after the time limit. The work continues; a late rejection is ignored. */
export async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise: timeout, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), Math.max(0, ms));
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
