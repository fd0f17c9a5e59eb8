/** Limits of the fleet: times and counts that several parts share, and how many children fit into the memory. */
import { totalmem } from 'node:os';
import { MIB, MODEL_TIMEOUT_MS, SECOND } from '../../sdk/contract/limits.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';

/** How long an old version may finish its calls after traffic has moved: the longest budget, that of a model, and time to end. Milliseconds. */
export const DRAIN_MS = MODEL_TIMEOUT_MS + 10 * SECOND;
/** How long the running calls of a paused or uninstalled plugin may go on, without grants: the budget of a tool. Milliseconds. */
export const RETIRE_MS = surfaces.tools.budgetMs;
/** How long the calls of a stopped child may finish, milliseconds. */
export const STOP_GRACE_MS = 500;
/** Exits of a new version, while it may be rolled back, that count as a crash loop. Fewer than without a version to return to. */
export const ROLLBACK_EXITS = 3;

/** Memory planned for one child: an idle one uses 14 MB beside many others, a busy one up to `RESIDENT_MEGABYTES`. */
const PLANNED_BYTES = 64 * MIB;
const CHILDREN_MIN = 20;
const CHILDREN_MAX = 1_000;

/** Enough for the plugins that take part in one turn of an agent. */
const SHARE_MIN = 8;
/** One account's share of all places. */
const SHARE_PART = 0.1;

/**
 * Children with which an account has its share of the places: it may take the places of other accounts' idle children before, not after.
 * Without a share, a turn that uses two plugins would start both again and again on a machine whose places are all taken.
 */
export const countSharePlaces = (childrenMax: number): number =>
  Math.max(SHARE_MIN, Math.floor(childrenMax * SHARE_PART));

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
