/** A supervisor whose clock, network and database are simulated. The product's own functions make its decisions. */
import { SHARDS } from '../../db/cluster/shards.ts';
import {
  compareEpochs,
  computeBeatPause,
  computeLapse,
  HEARTBEAT_MS,
  mayRun,
  NO_EPOCH,
  planMoves,
  routeCall,
} from '../../supervisor/cluster/ownership-policy.ts';
import type { Random } from '../runner/random.ts';
import type { EventClock } from './event-clock.ts';
import type { ClusterView, SimulatedDatabase } from './simulated-database.ts';

/** One way between two machines. Milliseconds. */
const WAY_MIN_MS = 1;
const WAY_MAX_MS = 20;
/** As the product's heartbeat: a database that answers later is away, and it is asked again after a pause. Milliseconds. */
const ANSWER_MS = 2_000;
const RETRY_MS = 500;
/** The longest call that a move waits for. Milliseconds. */
const CALL_MAX_MS = 1_500;
/** The values with which the product releases shards while the database is unavailable. */
const RELEASES_MAX = 3;
const RELEASE_PAUSE_MS = 2_000;

export interface SimulationParts {
  readonly clock: EventClock;
  readonly database: SimulatedDatabase;
  readonly random: Random;
  /** Called when shards have begun to run here. */
  onServing(supervisor: SimulatedSupervisor, shards: readonly number[]): void;
}

export class SimulatedSupervisor {
  readonly id: number;
  readonly epochs = new Int32Array(SHARDS).fill(NO_EPOCH);
  readonly #parts: SimulationParts;
  /** Shards that are given up: they take no more calls. */
  readonly #leaving = new Set<number>();
  /** The shards of these whose children have ended. */
  readonly #stopped = new Set<number>();
  /** Counts changes of `epochs`, so that what was read before one is not applied after it. */
  #changes = 0;
  #owners: readonly ({ readonly id: number } | null)[] = [];
  #others = 0;
  #validUntil = 0;
  #isBeating = false;
  #isWoken = false;
  #pausedUntil = 0;
  isCut = false;
  hasEnded = false;
  isDraining = false;

  constructor(id: number, parts: SimulationParts) {
    this.id = id;
    this.#parts = parts;
  }

  get isPaused(): boolean {
    return this.#parts.clock.now < this.#pausedUntil;
  }

  /** Whether no other supervisor could take its shards over, as far as it knows. */
  get believesAlone(): boolean {
    return this.#others === 0;
  }

  get ownsNothing(): boolean {
    return this.epochs.every((epoch) => epoch === NO_EPOCH);
  }

  start(capacity: number): void {
    const { clock, database, random } = this.#parts;
    database.add(this.id, capacity, clock.now);
    clock.after(random.integer(0, HEARTBEAT_MS), () => this.#beatRegularly());
    this.wake();
  }

  /** SIGSTOP, and SIGCONT after this long. */
  pause(ms: number): void {
    const { clock } = this.#parts;
    this.#pausedUntil = Math.max(this.#pausedUntil, clock.now + ms);
  }

  drain(): void {
    this.isDraining = true;
    this.#parts.database.markDraining(this.id);
    this.#giveUp([...this.epochs.keys()].filter((shard) => this.epochs[shard] !== NO_EPOCH));
  }

  /** Whether plugins of the shard run here now. */
  runs(shard: number): boolean {
    if (this.hasEnded || this.isPaused) return false;
    return this.#isHeld(shard) && !this.#stopped.has(shard);
  }

  /** Where a call for the shard goes. @returns the id of the owner, or `here` or `wait` */
  route(shard: number): number | 'here' | 'wait' {
    const owner = this.#owners[shard] ?? null;
    const place = { isHeld: this.#isHeld(shard), isLeaving: this.#leaving.has(shard), owner, self: this.id };
    const route = routeCall(place);
    return route === 'owner' ? (owner?.id ?? 'wait') : route;
  }

  wake(): void {
    if (this.#isBeating) this.#isWoken = true;
    else this.#beat();
  }

  #isHeld(shard: number): boolean {
    const epoch = this.epochs[shard] ?? NO_EPOCH;
    return mayRun({ epoch, others: this.#others, validUntil: this.#validUntil }, this.#parts.clock.now);
  }

  #beatRegularly(): void {
    if (this.hasEnded) return;
    this.wake();
    this.#parts.clock.after(HEARTBEAT_MS, () => this.#beatRegularly());
  }

  /** The product sets one timer for its next heartbeat; here the regular ones go on beside it. */
  #beatAtExpiry(live: ClusterView['live']): void {
    const leases = [...live].filter(([id]) => id !== this.id).map(([, expiresInMs]) => expiresInMs);
    const pauseMs = computeBeatPause(leases);
    if (pauseMs < HEARTBEAT_MS) this.#parts.clock.after(pauseMs, () => this.#whenRunning(() => this.wake()));
  }

  /** Goes on when the process runs. */
  #whenRunning(run: () => void): void {
    if (this.hasEnded) return;
    if (this.isPaused) this.#parts.clock.after(this.#pausedUntil - this.#parts.clock.now, () => this.#whenRunning(run));
    else run();
  }

  /** One statement: there and back, or no answer. */
  #ask<T>(statement: () => T, use: (answer: T) => void, fail: () => void): void {
    const { clock, database, random } = this.#parts;
    const way = () => random.integer(WAY_MIN_MS, WAY_MAX_MS);
    clock.after(way(), () => {
      if (this.hasEnded) return;
      if (database.isAway || this.isCut) {
        clock.after(ANSWER_MS, () => this.#whenRunning(fail));
        return;
      }
      const answer = statement();
      clock.after(way(), () => this.#whenRunning(() => (this.isCut ? fail() : use(answer))));
    });
  }

  #beat(): void {
    const { clock, database } = this.#parts;
    this.#whenRunning(() => {
      if (this.#isBeating) return;
      this.#isBeating = true;
      const sentAt = clock.now;
      const changes = this.#changes;
      const end = (): void => {
        this.#isBeating = false;
        if (!this.#isWoken) return;
        this.#isWoken = false;
        this.#beat();
      };
      const statement = () => {
        database.extendLease(this.id, clock.now);
        return database.read(clock.now);
      };
      this.#ask(
        statement,
        (view) => {
          const hadLapsed = this.#validUntil <= clock.now;
          if (!hadLapsed) this.#validUntil = computeLapse(sentAt);
          if (changes === this.#changes) {
            this.#validUntil = computeLapse(sentAt);
            this.#apply(view, hadLapsed, end);
            return;
          }
          this.#isWoken = true;
          end();
        },
        () => {
          clock.after(RETRY_MS, () => this.wake());
          end();
        },
      );
    });
  }

  /** @param hadLapsed what it still owns runs again */
  #apply({ live, candidates, placed, shards }: ClusterView, hadLapsed: boolean, end: () => void): void {
    this.#beatAtExpiry(live);
    const begun: number[] = [];
    for (const { shard, epoch, isLost } of compareEpochs(this.epochs, shards, this.id)) {
      this.epochs[shard] = epoch;
      this.#leaving.delete(shard);
      this.#stopped.delete(shard);
      if (!isLost) begun.push(shard);
    }
    if (hadLapsed) for (const [shard, epoch] of this.epochs.entries()) if (epoch !== NO_EPOCH) begun.push(shard);
    this.#owners = shards.map(([owner]) => (owner !== null && live.has(owner) ? { id: owner } : null));
    this.#others = candidates.filter((id) => id !== this.id).length;
    if (begun.length > 0) this.#parts.onServing(this, begun);
    if (this.isDraining) {
      end();
      return;
    }
    const { claim, giveUp } = planMoves({
      placed,
      owners: this.#owners,
      epochs: this.epochs,
      self: this.id,
      others: this.#others,
    });
    this.#giveUp(giveUp.filter((shard) => !this.#leaving.has(shard)));
    if (claim.length > 0) this.#claim(claim, end);
    else end();
  }

  #claim(wanted: readonly number[], end: () => void): void {
    const { clock, database } = this.#parts;
    this.#ask(
      () => database.claim(this.id, wanted, clock.now),
      (claimed) => {
        for (const { shard, epoch } of claimed) this.epochs[shard] = epoch;
        const shards = claimed.map(({ shard }) => shard);
        if (shards.length > 0) this.#parts.onServing(this, shards);
        end();
      },
      () => {
        clock.after(RETRY_MS, () => this.wake());
        end();
      },
    );
  }

  /** Takes no more calls of the shards, and gives them up when those that run have ended. */
  #giveUp(shards: readonly number[]): void {
    if (shards.length === 0) return;
    const { clock, random } = this.#parts;
    for (const shard of shards) this.#leaving.add(shard);
    clock.after(random.integer(0, CALL_MAX_MS), () => this.#whenRunning(() => this.#release(shards, 1)));
  }

  #release(shards: readonly number[], attempt: number): void {
    const { clock, database } = this.#parts;
    const given = shards
      .filter((shard) => this.#leaving.has(shard))
      .map((shard) => ({ shard, epoch: this.epochs[shard] ?? NO_EPOCH }));
    for (const { shard } of given) this.#stopped.add(shard);
    const forget = (): void => {
      this.#changes += 1;
      for (const { shard, epoch } of given) {
        if (this.epochs[shard] !== epoch) continue;
        this.epochs[shard] = NO_EPOCH;
        this.#leaving.delete(shard);
        this.#stopped.delete(shard);
      }
    };
    const again = (): void => {
      if (attempt < RELEASES_MAX) clock.after(RELEASE_PAUSE_MS, () => this.#release(shards, attempt + 1));
      else forget();
    };
    this.#ask(() => database.release(given), forget, again);
  }
}
