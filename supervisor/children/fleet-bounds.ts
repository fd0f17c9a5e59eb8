/** The fleet's bounds, each with its reason. */
import { totalmem } from 'node:os';
import { MIB } from '../../sdk/contract/limits.ts';

/** A child that nobody called for this long is stopped; waking it takes some tens of milliseconds. */
export const IDLE_STOP_MS = 10 * 60_000;
/** How often idle children are looked for and resident memory is noted, milliseconds. */
export const SWEEP_MS = 15_000;
/** An old version may finish what it is doing for this long after traffic has moved; the longest tool budget. */
export const DRAIN_MS = 60_000;
/** Between a polite stop and SIGKILL, milliseconds. */
export const STOP_GRACE_MS = 500;
/** A pause of the restart policy that a call waits out rather than fails for: only the first one is this short. */
export const WAIT_OUT_MS = 1_500;
/** Children started before they are needed: one hides the start, more would only hold memory. */
export const SPARES = 1;
/** Wait before a taken spare is replaced, so that its making does not slow the start that took it. Milliseconds. */
export const REFILL_AFTER_MS = 50;
/** States of children are written together this often, milliseconds. */
export const SAVE_MS = 200;
/** After a timeout: how long it may take to tell a slow child from a hung one, which is killed. Milliseconds. */
export const HANG_CHECK_MS = 100;
/** A child that ran this long was well; the restart policy is told. Milliseconds. */
export const STABLE_AFTER_MS = 60_000;

/** Memory planned for one child: an idle one has 16 MB of its own, a busy one up to `RESIDENT_MEGABYTES`. */
const PLANNED_BYTES = 64 * MIB;
const CHILDREN_MIN = 20;
const CHILDREN_MAX = 1_000;

/** How many children half of the memory is enough for. */
export function countFittingChildren(memoryBytes: number): number {
  return Math.min(Math.max(Math.floor(memoryBytes / 2 / PLANNED_BYTES), CHILDREN_MIN), CHILDREN_MAX);
}

/** Memory of the machine or of this process's control group, whichever is smaller, bytes. */
export function availableMemory(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
}
