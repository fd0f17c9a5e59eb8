/** Limits and intervals of the fleet. */
import { totalmem } from 'node:os';
import { MIB } from '../../sdk/contract/limits.ts';

/** Interval of stopping idle children and sampling resident memory, milliseconds. */
export const SWEEP_MS = 15_000;
/** How long an old version may finish its calls after traffic has moved: the budget of a tool. */
export const DRAIN_MS = 60_000;
/** How long the calls of a stopped child may finish, milliseconds. */
export const STOP_GRACE_MS = 500;
/** Longest restart backoff that a call waits for instead of failing: only the first backoff is this short. */
export const WAIT_OUT_MS = 1_500;
/** How long a freshly loaded version may take to answer, milliseconds. */
export const HEALTH_WITHIN_MS = 5_000;
/** How long calls wait while an update is recorded, before the old version answers them. Milliseconds. */
export const HANDOVER_WAIT_MS = 1_000;
/** How long calls do not start a version again whose start failed while another one runs. Milliseconds. */
export const REFUSED_PAUSE_MS = 60_000;
/** The same, where there was only no room for it. Milliseconds. */
export const POSTPONED_PAUSE_MS = 5_000;
/** Exits of a new version, while it may be rolled back, that count as a crash loop. Fewer than without a version to return to. */
export const ROLLBACK_EXITS = 3;
/** Spare children: one hides the start-up time, more would only use memory. */
export const SPARES = 1;
/** Delay before a taken spare is replaced, so that the replacement does not slow down that start. Milliseconds. */
export const REFILL_AFTER_MS = 50;
/** Interval of saving the states of children, milliseconds. */
export const SAVE_MS = 200;
/** After a timeout, how long to wait for a hung child to be killed before it counts as slow. Milliseconds. */
export const HANG_CHECK_MS = 100;

/** Memory planned for one child: an idle one has 16 MB of its own, a busy one up to `RESIDENT_MEGABYTES`. */
const PLANNED_BYTES = 64 * MIB;
const CHILDREN_MIN = 20;
const CHILDREN_MAX = 1_000;

/** How many children fit into half of the memory. */
export function countFittingChildren(memoryBytes: number): number {
  return Math.min(Math.max(Math.floor(memoryBytes / 2 / PLANNED_BYTES), CHILDREN_MIN), CHILDREN_MAX);
}

/** Two thirds of the memory planned for all children, as an account gets two thirds of all places. */
export const defaultAccountMegabytes = (memoryBytes: number): number => Math.floor(memoryBytes / 3 / MIB);

/** Memory of the machine or of this process's control group, whichever is smaller, bytes. */
export function availableMemory(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
}
