/** When a delivery is tried again, and when no more. Pure. */

import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { type AttemptResult, INTERRUPTIONS_MAX } from '../../db/jobs/interruptions.ts';
import type { LinkResult } from '../calls/chain.ts';

/** Waits after the failed attempts 1 to 5, seconds; the sixth failure is the last. A channel queue is held for 78 minutes at most. */
const WAITS_S = [5, 15, 60, 600, 3_600] as const;
export const DELIVERY_ATTEMPTS = WAITS_S.length + 1;
/** So that what failed together is not tried together: ± this share. */
const JITTER = 0.2;
/** Before a plugin that could not be asked just now is asked again, seconds. */
export const TRANSIENT_WAIT_S = 2;
/** Before another look at a plugin that does not run on this machine, seconds; another supervisor may run it. */
export const REFUSED_WAIT_S = 60;

export type DeliveryVerdict =
  | { readonly kind: 'delivered'; readonly error?: undefined }
  | { readonly kind: 'retry'; readonly afterSeconds: number; readonly error: string; readonly as: AttemptResult }
  | { readonly kind: 'dead'; readonly error: string };

/**
 * Whether the plugin had no chance: its child was starting again, or busy, or the supervisor was about to stop. One that
 * failed for good had its chances.
 */
export const isTransient = (result: LinkResult, { status }: Pick<InstalledPlugin, 'status'>): boolean =>
  result.kind === 'unavailable' && status !== 'failed';

export interface Attempted {
  /** Counts from 1. */
  readonly attempt: number;
  readonly interruptions: number;
}

/** Whether somebody outside killed the plugin's process meanwhile, and not too often yet. */
export const isInterrupted = (result: LinkResult, interruptions: number): boolean =>
  'interrupted' in result && result.interrupted === true && interruptions < INTERRUPTIONS_MAX;

/** Whether it was cut short so often that nobody judged it any more: it seems to end the supervisor itself. */
export const isUsedUp = ({ attempt, interruptions }: Attempted, attemptsMax: number): boolean =>
  attempt - interruptions > attemptsMax;

/**
 * What follows from an attempt.
 *
 * @param delivery its attempts, this one among them, and how many of those were cut short
 * @param chance a number from 0 to 1
 */
export function judgeDelivery(
  { attempt, interruptions }: Attempted,
  result: LinkResult,
  plugin: Pick<InstalledPlugin, 'status'>,
  chance: number,
): DeliveryVerdict {
  if (result.kind === 'answered') return { kind: 'delivered' };
  const error = result.kind === 'cancelled' ? `cancelled: ${result.reason}` : `${result.kind}: ${result.message}`;
  if (isTransient(result, plugin)) return { kind: 'retry', afterSeconds: TRANSIENT_WAIT_S, error, as: 'nothing' };
  if (isInterrupted(result, interruptions)) return { kind: 'retry', afterSeconds: 0, error, as: 'interruption' };
  const wait = WAITS_S[attempt - interruptions - 1];
  if (wait === undefined) return { kind: 'dead', error };
  return { kind: 'retry', afterSeconds: wait * (1 + JITTER * (2 * chance - 1)), error, as: 'failure' };
}
