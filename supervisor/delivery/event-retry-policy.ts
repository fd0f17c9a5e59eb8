/** When an event is tried again, and when no more. Pure. */
import type { AttemptResult } from '../../db/jobs/interruptions.ts';
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import type { LinkResult } from '../calls/chain.ts';
import { type Attempted, isInterrupted } from './webhook-retry-policy.ts';

/** First wait, doubled each time, seconds. */
const BACKOFF_FIRST_S = 5;
const BACKOFF_MAX_S = 600;
/** So that what failed together is not tried together: ± this share. */
const JITTER = 0.2;
/** From the uninstall to the removal at the latest, milliseconds: three attempts with their waits fit well. */
export const LAST_WORD_MS = 5 * 60_000;

type EventVerdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly afterSeconds: number; readonly error: string; readonly as: AttemptResult }
  | { readonly kind: 'dead'; readonly error: string };

/**
 * What follows from an attempt.
 *
 * @param attempted its attempts, this one among them, and how many of those were cut short
 * @param chance a number from 0 to 1
 */
export function judgeAttempt(
  type: EventName,
  { attempt, interruptions }: Attempted,
  result: LinkResult,
  chance: number,
): EventVerdict {
  // An event tells of what has happened: there is nothing to veto, so a cancel is an answer.
  if (result.kind === 'answered' || result.kind === 'cancelled') return { kind: 'delivered' };
  const error = `${result.kind}: ${result.message}`;
  if (isInterrupted(result, interruptions)) return { kind: 'retry', afterSeconds: 0, error, as: 'interruption' };
  const failures = attempt - interruptions;
  if (failures >= events[type].attempts) return { kind: 'dead', error };
  const wait = Math.min(BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MAX_S);
  return { kind: 'retry', afterSeconds: wait * (1 + JITTER * (2 * chance - 1)), error, as: 'failure' };
}
