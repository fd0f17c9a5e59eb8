/** Ends the request of a long removal before a proxy does. */
import { Problem } from '../../sdk/contract/errors.ts';

/** Many proxies close a connection after 60 s without an answer. Milliseconds. */
const REMOVAL_MS = 45_000;
const RETRY_AFTER_S = 1;

/**
 * @param remove ends when its signal is aborted, and continues when it is repeated
 * @throws Problem `unavailable` when the removal takes longer
 */
export async function removeInTime<T>(
  remove: (signal: AbortSignal) => Promise<T>,
  timeoutMs: number = REMOVAL_MS,
): Promise<T> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    return await remove(signal);
  } catch (error) {
    if (!signal.aborted || error !== signal.reason) throw error;
    const detail = `The removal has so many sessions to delete that it takes longer than ${timeoutMs / 1000} s. Repeat the request: it continues with those that are left.`;
    throw new Problem('unavailable', detail, { retryAfter: RETRY_AFTER_S });
  }
}
