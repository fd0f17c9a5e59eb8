/** Decides when an event is attempted again, and when it is dead. Pure functions. */
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import type { LinkResult } from '../calls/chain.ts';
import {
  type Attempted,
  type AttemptVerdict,
  describeFailure,
  isInterrupted,
  retryFailure,
} from './webhook-retry-policy.ts';

/** First delay, doubled each time. Seconds. */
const BACKOFF_FIRST_S = 5;
/** With its random share, no longer than `EVENT_WAIT_MAX_S`. */
const BACKOFF_MAX_S = 600;
/** Maximum time from uninstall to removal: enough for three attempts with their delays. Milliseconds. */
export const UNINSTALL_EVENT_MAX_MS = 5 * 60_000;

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
): AttemptVerdict {
  // Events cannot be cancelled, so a cancel counts as success.
  if (result.kind === 'answered' || result.kind === 'cancelled') return { kind: 'delivered' };
  const error = describeFailure(result);
  if (isInterrupted(result, interruptions)) return { kind: 'retry', afterSeconds: 0, error, as: 'interruption' };
  const failures = attempt - interruptions;
  if (failures >= events[type].attempts) return { kind: 'dead', error };
  const wait = Math.min(BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MAX_S);
  return retryFailure(wait, error, chance);
}
