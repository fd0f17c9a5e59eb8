/** Decides when an event is attempted again, and when it is dead. Pure. */
import type { AttemptResult } from '../../db/jobs/interruptions.ts';
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import type { LinkResult } from '../calls/chain.ts';
import { type Attempted, isInterrupted } from './webhook-retry-policy.ts';

/** First delay, doubled each time. Seconds. */
const BACKOFF_FIRST_S = 5;
const BACKOFF_MAX_S = 600;
/** Random share added to or subtracted from a delay, so that failed events are not all retried at once. */
const JITTER = 0.2;
/** Maximum time from uninstall to removal: enough for three attempts with their delays. Milliseconds. */
export const LAST_WORD_MS = 5 * 60_000;

type EventVerdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly afterSeconds: number; readonly error: string; readonly as: AttemptResult }
  | { readonly kind: 'dead'; readonly error: string };

/**
 * Decides what follows an attempt.
 *
 * @param attempted number of attempts including this one, and how many were interrupted
 * @param chance a number from 0 to 1
 */
export function judgeAttempt(
  type: EventName,
  { attempt, interruptions }: Attempted,
  result: LinkResult,
  chance: number,
): EventVerdict {
  // Events cannot be cancelled, so a cancel counts as success.
  if (result.kind === 'answered' || result.kind === 'cancelled') return { kind: 'delivered' };
  const error = `${result.kind}: ${result.message}`;
  if (isInterrupted(result, interruptions)) return { kind: 'retry', afterSeconds: 0, error, as: 'interruption' };
  const failures = attempt - interruptions;
  if (failures >= events[type].attempts) return { kind: 'dead', error };
  const wait = Math.min(BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MAX_S);
  return { kind: 'retry', afterSeconds: wait * (1 + JITTER * (2 * chance - 1)), error, as: 'failure' };
}
