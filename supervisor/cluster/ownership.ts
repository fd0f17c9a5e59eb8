/**
 * Which accounts this supervisor owns. It runs the plugins of these accounts and of no others: each account belongs to a
 * shard, and each shard to one supervisor. Questions that each call asks are answered from memory.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, Pool } from 'pg';
import { claimShards, findShard, releaseShards, SHARDS } from '../../db/cluster/shards.ts';
import {
  addSupervisor,
  type ClusterState,
  expireSupervisor,
  extendLease,
  markDraining,
  type NewSupervisor,
  type Peer,
  readCluster,
  removeSupervisor,
} from '../../db/cluster/supervisors.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { subscribeToShards } from '../../db/postgres/notifications.ts';
import type { Fence, FencedPool } from '../../db/postgres/pool.ts';
import { MODEL_TIMEOUT_MS, SECOND } from '../../sdk/contract/limits.ts';
import { within } from '../../service/timing/within.ts';
import { Heartbeat } from './heartbeat.ts';
import { hasEnded, nameProcess } from './local-process.ts';
import { createOwnerProblem } from './lost-calls.ts';
import {
  compareEpochs,
  computeBeatPause,
  computeLapse,
  HEARTBEAT_MS,
  mayRun,
  mayTakeOver,
  NO_EPOCH,
  planMoves,
  routeCall,
  takesShards,
} from './ownership-policy.ts';
import { placeShards } from './placement.ts';

/** A call waits this long for an owner: longer than a lease, and than the drain of a predecessor. Milliseconds. */
const OWNER_WAIT_MS = 15 * SECOND;
/** New calls of a shard that moves wait this long, so that its work can end. Milliseconds. */
const MOVE_HOLD_MS = 1_500;
/** Heartbeats in which a stopping supervisor looks for a successor. */
const LOOKS_MAX = 3;
/** Pause before a move is tried again because a call lasted longer. Milliseconds. */
export const MOVE_PAUSE_MS = 3_000;
/** `MOVE_PAUSE_MS` while this supervisor stops: others wait for its shards. Milliseconds. */
const DRAIN_PAUSE_MS = 250;
/** The longest budget, that of a model: after this long, a supervisor that goes on cuts the last calls of a shard off. Milliseconds. */
const MOVE_GRACE_MS = MODEL_TIMEOUT_MS;
const LARGEST_INT4 = 2 ** 31 - 1;

interface OwnershipOptions {
  readonly pool: Pool;
  readonly listener: Listener;
  readonly capacity: number;
  readonly release: string;
  /** Ends the children of the accounts in these shards. */
  stopChildren(isMoved: (accountId: string) => boolean, graceMs?: number): Promise<void>;
  /** Called when shards were claimed: their work may have been left by another supervisor. */
  onClaimed(): void;
  onError(error: Error): void;
}

/** Work of an account: its shard is not given up until the work has ended. */
export interface OwnedWork {
  readonly fence: Fence;
  /** Whether the shard is being given up, so that no further step should begin. */
  isLeaving(): boolean;
  end(): void;
}

export class Ownership {
  /** Names this supervisor, and no other before or after it. */
  readonly id = randomInt(1, LARGEST_INT4);
  /** Signs what others forward to this supervisor. */
  readonly peerKey = randomBytes(32);
  readonly #options: OwnershipOptions;
  readonly #heartbeat: Heartbeat;
  /** The epoch of each shard that this supervisor owns. */
  readonly #epochs = new Int32Array(SHARDS).fill(NO_EPOCH);
  /** Work under way, by shard. */
  readonly #running = new Int32Array(SHARDS);
  /** Shards that are given up when their running work has ended: they take no more. */
  readonly #leaving = new Set<number>();
  /** Shards that are being given up, also while they take work again. */
  readonly #moving = new Set<number>();
  #owners: readonly (Peer | null)[] = [];
  #address: string | null = null;
  /** Others that could take shards over. */
  #others = 0;
  /** Those that calls wait for during a drain: also others whose lease ended a short time ago, because they may only have been slow. */
  #successors = 0;
  /** When the heartbeat that counted them began, on the monotonic clock. Milliseconds. */
  #countedAt = 0;
  #isDraining = false;
  /** When a release failed, on the monotonic clock. Null once it is known which shards it released. Milliseconds. */
  #releaseFailedAt: number | null = null;
  /** Calls that wait for an owner. */
  #waiting = 0;
  #validUntil = 0;
  #lapseTimer: NodeJS.Timeout | undefined;
  /** Counts changes of `#epochs`, so that a state of the database that was read before one is not applied after it. */
  #changes = 0;
  #changed = Promise.withResolvers<void>();
  readonly #watched = new Set<{ readonly id: number; readonly expired: AbortController }>();

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#heartbeat = new Heartbeat({
      pool: options.pool,
      beat: (client) => this.#beat(client),
      onError: options.onError,
    });
  }

  /** Learns who owns what, and follows changes. It owns nothing itself until `join`. */
  async follow(): Promise<void> {
    await this.#heartbeat.start();
    const wake = () => this.#heartbeat.wake();
    await subscribeToShards(this.#options.listener, wake, wake);
  }

  /**
   * Takes part: claims the shards that fall to this supervisor. Resolves after the first claims; what another owns comes as
   * the other gives it up.
   *
   * @param address at which others reach it
   */
  async join(address: string): Promise<void> {
    await addSupervisor(this.#options.pool, this.#describe(address));
    this.#address = address;
    await this.#heartbeat.beatNow();
  }

  /**
   * Gives everything up: each shard as soon as its work has ended. Still forwards calls to their owners until `close`.
   *
   * @param over resolves when the work that is left may be cut off
   */
  async leave(over: Promise<unknown>): Promise<void> {
    const { pool, onError } = this.#options;
    await this.#lookForOthers();
    this.#isDraining = true;
    if (this.#address !== null) {
      await markDraining(pool, this.id).catch(onError);
      await this.#giveUp(this.#listOwned(), over);
      await this.#repeatReleases(over);
      // Calls that came meanwhile are led to the next owner.
      const endsAt = performance.now() + OWNER_WAIT_MS;
      while (this.#waiting > 0 && performance.now() < endsAt)
        await within(this.#changed.promise, endsAt - performance.now());
    }
  }

  /** Ends the heartbeat. Call it when nothing more arrives that has to be led to its owner. */
  async close(): Promise<void> {
    await this.#heartbeat.stop();
    clearTimeout(this.#lapseTimer);
    if (this.#address !== null) await removeSupervisor(this.#options.pool, this.id).catch(this.#options.onError);
    this.#announce();
  }

  /** Whether this supervisor may run plugins of the account now. */
  holds(accountId: string): boolean {
    return this.#isHeld(findShard(accountId));
  }

  /** The shards that this supervisor owns; null: all of them. */
  listShards(): number[] | null {
    return this.#epochs.includes(NO_EPOCH) ? this.#listOwned() : null;
  }

  /** Whether the ownership under which work began still holds. */
  isCurrent({ shard, epoch }: Fence): boolean {
    return this.#epochs[shard] === epoch && this.#isHeld(shard);
  }

  /** @throws Problem `unavailable` when another supervisor owns the account */
  fence(accountId: string): Fence {
    const shard = findShard(accountId);
    const epoch = this.#epochs[shard] ?? NO_EPOCH;
    if (epoch === NO_EPOCH) throw movedElsewhere();
    return { shard, epoch };
  }

  /** The pool for writes for the account's plugins. @throws Problem as `fence` does */
  pool(accountId: string): FencedPool {
    return { pool: this.#options.pool, fence: this.fence(accountId) };
  }

  /** @returns null: this supervisor does not own the account, or is giving it up */
  begin(accountId: string): OwnedWork | null {
    const shard = findShard(accountId);
    if (!this.#isHeld(shard) || this.#leaving.has(shard)) return null;
    this.#running[shard] = (this.#running[shard] ?? 0) + 1;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      const left = (this.#running[shard] ?? 0) - 1;
      this.#running[shard] = left;
      if (left === 0 && this.#leaving.has(shard)) this.#announce();
    };
    const fence = { shard, epoch: this.#epochs[shard] ?? NO_EPOCH };
    return { fence, isLeaving: () => this.#leaving.has(shard), end };
  }

  /**
   * Waits until the account has an owner.
   *
   * @returns the other supervisor that owns it; null: this one does
   * @throws Problem `unavailable`
   */
  async findOwner(accountId: string): Promise<Peer | null> {
    this.#waiting += 1;
    try {
      return await this.#waitForOwner(findShard(accountId));
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0 && this.#isDraining) this.#announce();
    }
  }

  async #waitForOwner(shard: number): Promise<Peer | null> {
    const endsAt = performance.now() + OWNER_WAIT_MS;
    for (;;) {
      const owner = this.#owners[shard] ?? null;
      const place = { isHeld: this.#isHeld(shard), isLeaving: this.#leaving.has(shard), owner, self: this.id };
      const route = routeCall(place);
      if (route !== 'wait') return route === 'here' ? null : owner;
      const leftMs = endsAt - performance.now();
      if (this.#isDraining && this.#successors === 0)
        throw createOwnerProblem('No supervisor runs the plugins of this account now.');
      if (leftMs <= 0)
        throw createOwnerProblem(
          `No supervisor took over the plugins of this account within ${OWNER_WAIT_MS / SECOND} s.`,
        );
      await within(this.#changed.promise, leftMs);
    }
  }

  /** Counts a successor that joined after the last heartbeat, or that a discarded heartbeat missed. */
  async #lookForOthers(): Promise<void> {
    const now = performance.now();
    for (let attempt = 0; attempt < LOOKS_MAX && this.#countedAt < now; attempt += 1)
      await within(this.#heartbeat.beatNow(), MOVE_HOLD_MS);
  }

  #describe(address: string): NewSupervisor {
    const { capacity, release } = this.#options;
    return { id: this.id, address, peerKey: this.peerKey, capacity, release, process: nameProcess() };
  }

  #isHeld(shard: number): boolean {
    const epoch = this.#epochs[shard] ?? NO_EPOCH;
    return mayRun({ epoch, others: this.#others, validUntil: this.#validUntil }, performance.now());
  }

  #listOwned(): number[] {
    return [...this.#epochs.keys()].filter((shard) => this.#epochs[shard] !== NO_EPOCH);
  }

  /** @returns the pause until the next heartbeat */
  async #beat(client: Client): Promise<number> {
    // Before the request: the database counts from a later moment.
    const sentAt = performance.now();
    const changes = this.#changes;
    if (this.#address !== null && !(await extendLease(client, this.id)))
      await addSupervisor(this.#options.pool, this.#describe(this.#address));
    const state = await readCluster(client);
    const hadLapsed = performance.now() >= this.#validUntil;
    if (!hadLapsed) this.#extend(computeLapse(sentAt));
    const live = await listLive(client, this.id, state.peers);
    if (changes !== this.#changes) {
      this.#heartbeat.wake();
      return HEARTBEAT_MS;
    }
    // Only with the shards that others took over meanwhile: until then it would count them as its own.
    if (this.#address !== null && hadLapsed) this.#extend(computeLapse(sentAt));
    this.#apply(live, state.shards);
    const expired = new Set(state.peers.filter((peer) => !live.includes(peer)).map(({ id }) => id));
    for (const watched of this.#watched) if (expired.has(watched.id)) watched.expired.abort();
    const others = live.filter(({ id }) => id !== this.id);
    // Silent ones count: one may take shards again before this supervisor notices.
    this.#others = others.filter(({ draining }) => !draining).length;
    this.#successors = state.peers.filter(
      (peer) => peer.id !== this.id && mayTakeOver(peer) && !hasEnded(peer.process),
    ).length;
    this.#countedAt = sentAt;
    if (this.#releaseFailedAt !== null && this.#releaseFailedAt < sentAt) this.#releaseFailedAt = null;
    if (this.#address !== null && !this.#isDraining) await this.#balance(client, live.filter(takesShards));
    this.#announce();
    return computeBeatPause(others.map(({ expiresInMs }) => expiresInMs));
  }

  #extend(validUntil: number): void {
    this.#validUntil = validUntil;
    clearTimeout(this.#lapseTimer);
    this.#lapseTimer = setTimeout(() => this.#lapse(), Math.max(validUntil - performance.now(), 0)).unref();
  }

  /** Ends the children: from now on another supervisor may run them. */
  #lapse(): void {
    if (this.#others === 0) return;
    const { stopChildren, onError } = this.#options;
    onError(new Error('the lease of this supervisor was not extended in time: its plugin processes end'));
    stopChildren(() => true, 0).catch(onError);
  }

  /** Another supervisor may have taken shards over, or a claim was committed and its answer lost. */
  #apply(live: readonly Peer[], shards: ClusterState['shards']): void {
    const byId = new Map(live.map((peer) => [peer.id, peer]));
    this.#owners = shards.map(([owner]) => (owner === null ? null : (byId.get(owner) ?? null)));
    const changes = compareEpochs(this.#epochs, shards, this.id);
    for (const { shard, epoch } of changes) {
      this.#epochs[shard] = epoch;
      this.#leaving.delete(shard);
    }
    const lost = new Set(changes.filter(({ isLost }) => isLost).map(({ shard }) => shard));
    const { stopChildren, onClaimed, onError } = this.#options;
    if (lost.size < changes.length) onClaimed();
    if (lost.size === 0) return;
    stopChildren((accountId) => lost.has(findShard(accountId)), 0).catch(onError);
  }

  /** Claims the unowned shards that are placed here, and gives up those that are placed on another supervisor. */
  async #balance(client: Client, candidates: readonly Peer[]): Promise<void> {
    const { onClaimed, onError } = this.#options;
    const { claim, giveUp } = planMoves({
      placed: placeShards(candidates, SHARDS),
      owners: this.#owners,
      epochs: this.#epochs,
      self: this.id,
      others: this.#others,
    });
    const surplus = giveUp.filter((shard) => !this.#moving.has(shard));
    if (surplus.length > 0) this.#giveUp(surplus, sleep(MOVE_GRACE_MS, undefined, { ref: false })).catch(onError);
    if (claim.length === 0) return;
    const claimed = await claimShards(client, this.id, claim);
    if (claimed.length === 0) return;
    for (const { shard, epoch } of claimed) this.#epochs[shard] = epoch;
    onClaimed();
  }

  /** Gives shards up: each when it has no running work, the rest when the time is over. */
  async #giveUp(shards: readonly number[], over: Promise<unknown>): Promise<void> {
    let isOver = false;
    const ended = over.then(() => {
      isOver = true;
      this.#announce();
    });
    for (const shard of shards) this.#moving.add(shard);
    const isDrain = this.#isDraining;
    let left = [...shards];
    while (left.length > 0) {
      for (const shard of left) this.#leaving.add(shard);
      left = await this.#releaseIdle(left, () => isOver);
      // The drain has begun meanwhile, and gives them up.
      if (left.length === 0 || isDrain !== this.#isDraining) break;
      // A call still runs: the shards take new calls until the next attempt.
      for (const shard of left) this.#leaving.delete(shard);
      this.#announce();
      await Promise.race([ended, sleep(isDrain ? DRAIN_PAUSE_MS : MOVE_PAUSE_MS, undefined, { ref: false })]);
    }
    for (const shard of shards) this.#moving.delete(shard);
  }

  /** @returns the shards whose work has not ended within a short time, during which no more of it began */
  async #releaseIdle(shards: readonly number[], isOver: () => boolean): Promise<number[]> {
    const endsAt = performance.now() + MOVE_HOLD_MS;
    const releases: Promise<void>[] = [];
    let left = [...shards];
    for (;;) {
      const ready = new Set(left.filter((shard) => isOver() || this.#running[shard] === 0));
      left = left.filter((shard) => !ready.has(shard));
      // Others are released meanwhile: to end the children of some takes its time.
      releases.push(this.#release([...ready]));
      const leftMs = endsAt - performance.now();
      if (left.length === 0 || leftMs <= 0) break;
      await within(this.#changed.promise, leftMs);
    }
    await Promise.all(releases);
    return left;
  }

  async #release(given: readonly number[]): Promise<void> {
    if (given.length === 0) return;
    const shards = given.filter((shard) => this.#epochs[shard] !== NO_EPOCH);
    if (shards.length > 0) {
      const moved = new Set(shards);
      await this.#options.stopChildren((accountId) => moved.has(findShard(accountId)));
      const fences = shards.map((shard) => ({ shard, epoch: this.#epochs[shard] ?? NO_EPOCH }));
      await releaseShards(this.#options.pool, fences).catch((error: Error) => this.#onReleaseFailed(error));
      this.#changes += 1;
      for (const shard of shards) this.#epochs[shard] = NO_EPOCH;
    }
    // All of them: a drain may have given some up while the move paused, and their calls must not wait here.
    for (const shard of given) this.#leaving.delete(shard);
    this.#announce();
  }

  /** The write may have taken effect, so nothing of these shards runs here until a heartbeat tells whose they are. */
  #onReleaseFailed(error: Error): void {
    if (this.#releaseFailedAt === null) this.#options.onError(error);
    this.#releaseFailedAt = performance.now();
    this.#heartbeat.wake();
  }

  /** Gives up what failed releases have left here, if another supervisor waits for it: the lease goes on while this one stops. */
  async #repeatReleases(over: Promise<unknown>): Promise<void> {
    let isOver = false;
    const ended = over.then(() => {
      isOver = true;
    });
    const hasLeft = () => this.#releaseFailedAt !== null || this.#listOwned().length > 0;
    while (hasLeft() && this.#successors > 0 && !isOver) {
      await Promise.race([ended, sleep(DRAIN_PAUSE_MS, undefined, { ref: false })]);
      await within(this.#heartbeat.beatNow(), MOVE_HOLD_MS);
      await this.#giveUp(this.#listOwned(), over);
    }
  }

  /** Another supervisor that owns shards. @returns null: none has this id */
  findPeer(id: number): Peer | null {
    return this.#owners.find((owner) => owner?.id === id && id !== this.id) ?? null;
  }

  /** Aborts when the lease of another supervisor has expired, so that no caller waits for it. Call `release` after use. */
  watchPeer({ id }: Peer): { readonly signal: AbortSignal; release(): void } {
    const expired = new AbortController();
    const watched = { id, expired };
    this.#watched.add(watched);
    return { signal: expired.signal, release: () => void this.#watched.delete(watched) };
  }

  #announce(): void {
    const changed = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    changed.resolve();
  }
}

/** The supervisors whose lease holds. Ends the lease of neighbours on this machine whose process has ended. */
async function listLive(client: Client, self: number, peers: readonly Peer[]): Promise<Peer[]> {
  const held = peers.filter(({ expiresInMs }) => expiresInMs > 0);
  const ended = held.filter(({ id, process }) => id !== self && hasEnded(process));
  for (const { id } of ended) await expireSupervisor(client, id);
  return held.filter((peer) => !ended.includes(peer));
}

export const movedElsewhere = () => createOwnerProblem('The account moves to another supervisor.');
