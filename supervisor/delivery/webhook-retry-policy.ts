/** Decides when a delivery is attempted again, and when it is dead. Pure functions. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { type AttemptResult, INTERRUPTIONS_MAX } from '../../db/jobs/interruptions.ts';
import type { LinkResult } from '../calls/chain.ts';

/** After this many failures a delivery is set aside: others pass it, and it is retried on its own schedule. */
const SET_ASIDE_AFTER = 2;
/** The same for a replayed delivery: it has failed before, or was delivered, and new deliveries must not wait for it. */
const REPLAYED_SET_ASIDE_AFTER = 1;
/** Up to this share of a delay is added or subtracted at random, so that failed attempts are not all retried at once. */
const JITTER = 0.2;
/** Delay if the plugin was temporarily unavailable. Seconds. */
export const TRANSIENT_WAIT_S = 2;
/** Delay if this supervisor may not run the plugin, and another one may, or if a required plugin does not run before it is changed. Seconds. */
export const REFUSED_WAIT_S = 60;

/** The longest wait that follows an attempt, in seconds. @param waits delays after failed attempts, seconds */
export const longestWait = (waits: readonly number[]): number => Math.max(REFUSED_WAIT_S, ...waits) * (1 + JITTER);

/** The outcome of an attempt at a delivery or an event. */
export type AttemptVerdict =
  | { readonly kind: 'delivered'; readonly error?: undefined }
  | {
      readonly kind: 'retry';
      readonly afterSeconds: number;
      readonly error: string;
      readonly as: AttemptResult;
      /** Whether others pass the delivery from now on; absent: nothing changes. */
      readonly setAside?: boolean;
    }
  | { readonly kind: 'dead'; readonly error: string };

/** A plugin that an attempt needs: that of the channel or event, or a required one. */
export interface NeededPlugin extends Pick<InstalledPlugin, 'status'> {
  /** Whether the plugin cannot run, for another reason than its failures. Default: false. */
  readonly isStopped?: boolean;
  /** Delay if the plugin is temporarily unavailable. Default: `TRANSIENT_WAIT_S`. Seconds. */
  readonly transientWaitS?: number;
}

/**
 * The delay of a delivery whose required plugin could not be called: half of the time for which it waits. Each attempt runs the handler
 * and the plugins before that one again. Seconds.
 */
export const guardWait = (waitedSeconds: number): number =>
  Math.min(Math.max(waitedSeconds / 2, TRANSIENT_WAIT_S), REFUSED_WAIT_S);

/**
 * Whether the plugin could not run: its child was restarting or busy, or the supervisor was stopping. False for a
 * plugin that has failed permanently.
 */
export const isTransient = (result: LinkResult, { status, isStopped = false }: NeededPlugin): boolean =>
  result.kind === 'unavailable' && (isStopped || status !== 'failed');

export interface Attempted {
  /** Counts from 1. */
  readonly attempt: number;
  readonly interruptions: number;
}

/** Whether the handler was interrupted through no fault of the plugin, and fewer than `INTERRUPTIONS_MAX` attempts were interrupted before. */
export const isInterrupted = (result: LinkResult, interruptions: number): boolean =>
  'interrupted' in result && result.interrupted === true && interruptions < INTERRUPTIONS_MAX;

/**
 * Whether more attempts have started than may fail, because further interruptions count as failures: the delivery probably
 * crashes the supervisor. With fewer interruptions, `attemptsMax` was reduced since the last attempt; one more attempt is due.
 */
export const isUsedUp = ({ attempt, interruptions }: Attempted, attemptsMax: number): boolean =>
  interruptions >= INTERRUPTIONS_MAX && attempt - interruptions > attemptsMax;

/** Describes why an attempt failed. */
export function describeFailure(result: Exclude<LinkResult, { kind: 'answered' }>): string {
  if (result.kind === 'cancelled') return `cancelled: ${result.reason}`;
  return result.kind === 'error' ? result.message : `${result.kind}: ${result.message}`;
}

/** Schedules another attempt after a failure. @param chance a number from 0 to 1 */
export const retryFailure = (
  waitSeconds: number,
  error: string,
  chance: number,
): AttemptVerdict & { readonly kind: 'retry' } => ({
  kind: 'retry',
  afterSeconds: waitSeconds * (1 + JITTER * (2 * chance - 1)),
  error,
  as: 'failure',
});

/**
 * Decides what follows an attempt. A delivery is not set aside because a plugin could not be called.
 *
 * @param delivery its attempts including this one, how many were interrupted, and whether it was replayed
 * @param plugin that of the channel, or the required one that stopped the attempt
 * @param waits delays after the failed attempts, seconds; the failure after the last one makes the delivery dead
 * @param chance a number from 0 to 1
 */
export function judgeDelivery(
  { attempt, interruptions, isReplayed = false }: Attempted & { readonly isReplayed?: boolean },
  result: LinkResult,
  plugin: NeededPlugin,
  waits: readonly number[],
  chance: number,
): AttemptVerdict {
  if (result.kind === 'answered') return { kind: 'delivered' };
  const error = describeFailure(result);
  if (isTransient(result, plugin)) {
    const afterSeconds = plugin.isStopped ? REFUSED_WAIT_S : (plugin.transientWaitS ?? TRANSIENT_WAIT_S);
    return { kind: 'retry', afterSeconds, error, as: 'nothing' };
  }
  if (isInterrupted(result, interruptions)) return { kind: 'retry', afterSeconds: 0, error, as: 'interruption' };
  const failures = attempt - interruptions;
  const wait = waits[failures - 1];
  if (wait === undefined) return { kind: 'dead', error };
  const setAsideAfter = isReplayed ? REPLAYED_SET_ASIDE_AFTER : SET_ASIDE_AFTER;
  const setAside = failures >= setAsideAfter && result.kind !== 'unavailable';
  return { ...retryFailure(wait, error, chance), setAside };
}
