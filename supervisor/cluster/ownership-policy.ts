/**
 * Decides what a supervisor may do, from what it last read of the cluster. Pure: `test/simulation/` drives the same functions
 * with other clocks, networks and databases.
 */
import { LEASE_MS } from '../../db/cluster/supervisors.ts';

/** The children end this long before the lease can have expired. Milliseconds. */
const LAPSE_MARGIN_MS = 2_000;
/**
 * Maximum number of times a call is forwarded. During a handover the previous owner forwards it to the next one, which may be
 * handing the account over as well when several supervisors are replaced at once.
 */
export const HOPS_MAX = 3;
/** When a caller may try again: by then, another supervisor has usually taken over. Seconds. */
export const RETRY_AFTER_S = 2;
/** Interval at which the lease is extended. Milliseconds. */
export const HEARTBEAT_MS = 2_000;
/** Added to the wait for a lease to expire, because the database measures it in fractions of a millisecond. Milliseconds. */
const EXPIRY_MARGIN_MS = 5;
/**
 * A supervisor that was silent for longer, two heartbeats and some delay, gets no more shards: it may be lost, and they would
 * wait for its lease, too. It keeps what it owns until its lease has ended. Milliseconds.
 */
const SILENT_MAX_MS = 4_500;
/** The rest of a lease whose holder was silent for that long. Milliseconds. */
const SILENT_LEASE_MS = LEASE_MS - SILENT_MAX_MS;
/** The epoch of a shard that this supervisor does not own. */
export const NO_EPOCH = 0;

/**
 * Until when children may run after the lease was extended.
 *
 * @param sentAt when the request was sent, by the caller's monotonic clock: the database counts from a later moment
 */
export const computeLapse = (sentAt: number): number => sentAt + LEASE_MS - LAPSE_MARGIN_MS;

/**
 * Until the next heartbeat: sooner than usual where the lease of another supervisor ends before, or where it is then silent for
 * too long, so that shards are claimed at this moment.
 *
 * @param leasesMs what is left of the leases of the others. Milliseconds
 */
export const computeBeatPause = (leasesMs: readonly number[]): number =>
  Math.min(
    HEARTBEAT_MS,
    ...leasesMs.map((leftMs) => EXPIRY_MARGIN_MS + (leftMs < SILENT_LEASE_MS ? leftMs : leftMs - SILENT_LEASE_MS)),
  );

interface LivePeer {
  readonly draining: boolean;
  readonly expiresInMs: number;
}

/** Whether shards are placed on a supervisor whose lease holds. */
export const takesShards = ({ draining, expiresInMs }: LivePeer): boolean =>
  !draining && expiresInMs >= SILENT_LEASE_MS;

/** Whether calls wait for a supervisor to take shards over: also for one whose lease ended a short time ago. */
export const mayTakeOver = ({ draining, expiresInMs }: LivePeer): boolean => !draining && expiresInMs > -LEASE_MS;

interface Tenure {
  /** `NO_EPOCH`: the shard is not owned. */
  readonly epoch: number;
  /** Other supervisors that could take it over. */
  readonly others: number;
  readonly validUntil: number;
}

/**
 * Whether plugins of a shard may run. While no other supervisor could take it over, an expired lease changes nothing: the
 * database is away, and calls go on without it until sign-in has to check their token again. Otherwise the children end before.
 */
export const mayRun = ({ epoch, others, validUntil }: Tenure, now: number): boolean =>
  epoch !== NO_EPOCH && (others === 0 || now < validUntil);

interface CallPlace {
  readonly isHeld: boolean;
  /** Whether the shard is being given up. */
  readonly isLeaving: boolean;
  /** As the database said last; null: the shard had none. */
  readonly owner: { readonly id: number } | null;
  readonly self: number;
}

/** Where a call goes: `wait` until the shard has an owner. */
export function routeCall({ isHeld, isLeaving, owner, self }: CallPlace): 'here' | 'owner' | 'wait' {
  if (isLeaving) return 'wait';
  if (isHeld) return 'here';
  return owner !== null && owner.id !== self ? 'owner' : 'wait';
}

interface ShardView {
  /** Id of the candidate that each shard is placed on. */
  readonly placed: readonly (number | null)[];
  readonly owners: readonly ({ readonly id: number } | null)[];
  /** The epochs of the shards that this supervisor owns. */
  readonly epochs: ArrayLike<number>;
  readonly self: number;
  /** Supervisors whose lease holds and that are not draining. */
  readonly others: number;
}

/** Returns the shards to claim (placed here and without an owner) and those to give up (placed elsewhere). */
export function planMoves({ placed, owners, epochs, self, others }: ShardView): {
  readonly claim: number[];
  readonly giveUp: number[];
} {
  const claim: number[] = [];
  const giveUp: number[] = [];
  for (const [shard, candidate] of placed.entries()) {
    if (candidate === self && owners[shard] === null) claim.push(shard);
    if (candidate !== self && others > 0 && epochs[shard] !== NO_EPOCH) giveUp.push(shard);
  }
  return { claim, giveUp };
}

/** Compares the epochs that a supervisor knows with what the database says. @returns the shards whose ownership changed */
export function compareEpochs(
  known: ArrayLike<number>,
  shards: readonly (readonly [owner: number | null, epoch: number])[],
  self: number,
): { readonly shard: number; readonly epoch: number; readonly isLost: boolean }[] {
  return shards.flatMap(([owner, epoch], shard) => {
    const current = owner === self ? epoch : NO_EPOCH;
    const before = known[shard] ?? NO_EPOCH;
    return before === current ? [] : [{ shard, epoch: current, isLost: before !== NO_EPOCH }];
  });
}
