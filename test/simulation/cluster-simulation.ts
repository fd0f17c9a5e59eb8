/** Runs a cluster of simulated supervisors through faults and calls, and checks what the product promises. */
import { SHARDS } from '../../db/cluster/shards.ts';
import { HOPS_MAX, NO_EPOCH } from '../../supervisor/cluster/ownership-policy.ts';
import { type Random, seededRandom } from '../runner/random.ts';
import { EventClock } from './event-clock.ts';
import { SimulatedDatabase } from './simulated-database.ts';
import { SimulatedSupervisor } from './simulated-supervisor.ts';

/** As the product's callers: they wait so long for an owner, and ask one that accepts no connection again. Milliseconds. */
const OWNER_WAIT_MS = 15_000;
const RETRY_MS = 250;
const WAY_MS = 5;
const CAPACITY = 64;

export type FaultKind = 'crash' | 'pause' | 'cut' | 'outage' | 'replace';
export interface SimulationOptions {
  readonly seed: number;
  readonly supervisors: number;
  /** The shard of each account that is called. */
  readonly shardsOfCalls: Uint8Array;
  /** How many installations each shard has. */
  readonly installationsOfShards: Float64Array;
  readonly callsPerSecond: number;
  /** Mean pause between two faults; null: none. Milliseconds. */
  readonly faultEveryMs: number | null;
  readonly faults: readonly FaultKind[];
  /** Without faults, until all have begun. Milliseconds. */
  readonly settleMs: number;
  readonly runMs: number;
}
export interface SimulationResult {
  readonly calls: number;
  readonly answered: number;
  /** Waited for an owner for as long as the product lets them. */
  readonly refused: number;
  /** The supervisor that had them ended or was cut off. */
  readonly brokenOff: number;
  /** Forwarded calls, as a share of all. */
  readonly forwardedShare: number;
  /** Moments at which two supervisors ran a shard of which each knew the other. */
  readonly overlaps: number;
  /** Overlaps in which one of them believed that it was alone: its writes are refused. */
  readonly fencedOverlaps: number;
  /** Writes of an older epoch after one of a newer. */
  readonly staleWrites: number;
  readonly fenced: number;
  /**
   * From a supervisor's end to the next owner of its shards, without times in which the database was away or no other supervisor
   * was there. Sorted, milliseconds.
   */
  readonly recoveries: readonly number[];
  readonly faults: number;
  /** Installations of the fullest supervisor, to the mean. */
  readonly imbalance: number;
  /** For each second of the run. */
  readonly statements: number;
  readonly rowsRead: number;
  readonly idleStatements: number;
  readonly idleRows: number;
}

class ClusterSimulation {
  readonly #options: SimulationOptions;
  readonly #clock = new EventClock();
  readonly #database = new SimulatedDatabase();
  readonly #random: Random;
  readonly #supervisors = new Map<number, SimulatedSupervisor>();
  /** The supervisor that ran each shard last. */
  readonly #runners: (SimulatedSupervisor | null)[] = new Array(SHARDS).fill(null);
  /** Since when each shard has no living owner. */
  readonly #lostAt: (number | null)[] = new Array(SHARDS).fill(null);
  readonly #newestWrite = new Int32Array(SHARDS);
  readonly #recoveries: number[] = [];
  #lastId = 0;
  #awayUntil = 0;
  /** When a supervisor was lost last beside which none could take over. */
  #aloneAt = 0;
  #faults = 0;
  readonly #counts = { calls: 0, answered: 0, refused: 0, brokenOff: 0, forwarded: 0 };
  readonly #faulty = { overlaps: 0, fencedOverlaps: 0, staleWrites: 0 };

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    // One notification for all changes of a moment, as PostgreSQL's listeners hear them.
    let isNotified = false;
    this.#database.onNotify = () => {
      if (isNotified) return;
      isNotified = true;
      this.#clock.after(WAY_MS, () => {
        isNotified = false;
        for (const supervisor of this.#living()) if (!supervisor.isCut && !this.#database.isAway) supervisor.wake();
      });
    };
  }

  run(): SimulationResult {
    const { supervisors, settleMs, runMs, faultEveryMs } = this.#options;
    for (let count = 0; count < supervisors; count += 1) this.#start();
    this.#clock.runUntil(settleMs);
    const before = { statements: this.#database.statements, rows: this.#database.rowsRead };
    this.#clock.runUntil(2 * settleMs);
    const idle = {
      idleStatements: (this.#database.statements - before.statements) / (settleMs / 1_000),
      idleRows: (this.#database.rowsRead - before.rows) / (settleMs / 1_000),
    };
    const imbalance = this.#measureImbalance();
    const start = { statements: this.#database.statements, rows: this.#database.rowsRead };
    const endsAt = this.#clock.now + runMs;
    this.#planCall(endsAt);
    if (faultEveryMs !== null) this.#planFault(faultEveryMs, endsAt);
    this.#clock.runUntil(endsAt + 3 * OWNER_WAIT_MS);
    const seconds = (this.#clock.now - 2 * settleMs) / 1_000;
    const { calls, answered, refused, brokenOff, forwarded } = this.#counts;
    return {
      calls,
      answered,
      refused,
      brokenOff,
      forwardedShare: forwarded / Math.max(1, calls),
      ...this.#faulty,
      fenced: this.#database.fenced,
      recoveries: this.#recoveries.toSorted((one, other) => one - other),
      faults: this.#faults,
      imbalance,
      statements: (this.#database.statements - start.statements) / seconds,
      rowsRead: (this.#database.rowsRead - start.rows) / seconds,
      ...idle,
    };
  }

  *#living(): Generator<SimulatedSupervisor> {
    for (const supervisor of this.#supervisors.values()) if (!supervisor.hasEnded) yield supervisor;
  }

  #start(): SimulatedSupervisor {
    this.#lastId += 1;
    // Ids are random numbers in the product.
    const id = Math.imul(this.#lastId, 0x9e3779b1) >>> 1;
    const supervisor: SimulatedSupervisor = new SimulatedSupervisor(id, {
      clock: this.#clock,
      database: this.#database,
      random: this.#random,
      onServing: (here, shards) => this.#noteServing(here, shards),
    });
    this.#supervisors.set(id, supervisor);
    supervisor.start(CAPACITY);
    return supervisor;
  }

  #noteServing(here: SimulatedSupervisor, shards: readonly number[]): void {
    for (const shard of shards) {
      // The answer to a claim, read after its lease had lapsed: nothing runs.
      if (!here.runs(shard)) continue;
      const before = this.#runners[shard] ?? null;
      if (before !== null && before !== here && before.runs(shard)) this.#noteOverlap(before, shard);
      this.#runners[shard] = here;
      const lostAt = this.#lostAt[shard] ?? null;
      if (lostAt !== null && lostAt > this.#awayUntil && lostAt > this.#aloneAt)
        this.#recoveries.push(this.#clock.now - lostAt);
      this.#lostAt[shard] = null;
    }
  }

  #noteOverlap(before: SimulatedSupervisor, shard: number): void {
    if (before.believesAlone && !this.#database.write(shard, before.epochs[shard] ?? NO_EPOCH))
      this.#faulty.fencedOverlaps += 1;
    else this.#faulty.overlaps += 1;
  }

  #measureImbalance(): number {
    const { installationsOfShards } = this.#options;
    const shares = [...this.#living()].map(({ epochs }) =>
      installationsOfShards.reduce((sum, count, shard) => sum + (epochs[shard] === NO_EPOCH ? 0 : count), 0),
    );
    const all = installationsOfShards.reduce((sum, count) => sum + count, 0);
    return Math.max(...shares) / (all / shares.length);
  }

  #planCall(endsAt: number): void {
    const { callsPerSecond, shardsOfCalls } = this.#options;
    if (callsPerSecond === 0) return;
    this.#clock.after(this.#random.integer(0, 2_000 / callsPerSecond), () => {
      if (this.#clock.now > endsAt) return;
      this.#counts.calls += 1;
      const shard = shardsOfCalls[this.#random.integer(0, shardsOfCalls.length)] ?? 0;
      // As behind a load balancer: not to one that ends or is not ready.
      const ready = [...this.#living()].filter((one) => !one.isDraining && !one.isPaused && !one.isCut);
      if (ready.length > 0) this.#serve(this.#random.pick(ready), shard, 0, this.#clock.now + OWNER_WAIT_MS);
      else this.#counts.refused += 1;
      this.#planCall(endsAt);
    });
  }

  #serve(supervisor: SimulatedSupervisor, shard: number, hops: number, endsAt: number): void {
    if (supervisor.hasEnded) {
      this.#counts.brokenOff += 1;
      return;
    }
    const route = supervisor.route(shard);
    const later = (ms: number): void => this.#clock.after(ms, () => this.#serve(supervisor, shard, hops, endsAt));
    if (this.#clock.now > endsAt) this.#counts.refused += 1;
    else if (supervisor.isPaused || route === 'wait') later(RETRY_MS);
    else if (route === 'here') this.#answer(supervisor, shard);
    else if (hops + 1 > HOPS_MAX) this.#counts.refused += 1;
    else {
      const owner = this.#supervisors.get(route);
      const isReached = owner !== undefined && !owner.hasEnded && !owner.isCut && !owner.isPaused;
      if (isReached && hops === 0) this.#counts.forwarded += 1;
      if (isReached) this.#clock.after(WAY_MS, () => this.#serve(owner, shard, hops + 1, endsAt));
      // One that accepts no connection is asked again, until another one has its lease.
      else later(RETRY_MS);
    }
  }

  #answer(supervisor: SimulatedSupervisor, shard: number): void {
    const epoch = supervisor.epochs[shard] ?? NO_EPOCH;
    if (this.#database.isAway || supervisor.isCut || !this.#database.write(shard, epoch)) {
      this.#counts.brokenOff += 1;
      return;
    }
    if (epoch < (this.#newestWrite[shard] ?? 0)) this.#faulty.staleWrites += 1;
    this.#newestWrite[shard] = epoch;
    this.#counts.answered += 1;
  }

  #planFault(everyMs: number, endsAt: number): void {
    this.#clock.after(this.#random.integer(0, 2 * everyMs), () => {
      if (this.#clock.now > endsAt) return;
      this.#strike(this.#random.pick(this.#options.faults));
      this.#planFault(everyMs, endsAt);
    });
  }

  #strike(kind: FaultKind): void {
    this.#faults += 1;
    const victims = [...this.#living()].filter(({ isDraining, isPaused, isCut }) => !isDraining && !isPaused && !isCut);
    if (victims.length === 0) return;
    const victim = this.#random.pick(victims);
    const awayMs = this.#random.integer(500, 25_000);
    if (kind === 'outage') this.#takeDatabaseAway(awayMs / 2);
    else if (kind === 'replace') this.#replace(victim);
    else {
      this.#noteLoss(victim);
      if (victims.length === 1) this.#aloneAt = this.#clock.now;
      if (kind === 'crash') this.#crash(victim, awayMs);
      else {
        if (kind === 'pause') victim.pause(awayMs);
        else this.#cut(victim, awayMs);
        // Shards that no supervisor took over meanwhile were not lost.
        this.#clock.after(awayMs, () => this.#noteReturn(victim));
      }
    }
  }

  #noteLoss(victim: SimulatedSupervisor): void {
    for (const [shard, epoch] of victim.epochs.entries())
      if (epoch !== NO_EPOCH && this.#runners[shard] === victim) this.#lostAt[shard] = this.#clock.now;
  }

  #noteReturn(victim: SimulatedSupervisor): void {
    for (const shard of this.#lostAt.keys())
      if (this.#database.ownerOf(shard) === victim.id) this.#lostAt[shard] = null;
  }

  #crash(victim: SimulatedSupervisor, awayMs: number): void {
    victim.hasEnded = true;
    this.#clock.after(awayMs, () => this.#start());
  }

  #cut(victim: SimulatedSupervisor, awayMs: number): void {
    victim.isCut = true;
    this.#clock.after(awayMs, () => {
      victim.isCut = false;
    });
  }

  #takeDatabaseAway(awayMs: number): void {
    this.#database.isAway = true;
    this.#clock.after(awayMs, () => {
      this.#database.isAway = false;
      // Heartbeats need a moment to find it.
      this.#awayUntil = this.#clock.now + OWNER_WAIT_MS;
    });
  }

  /** A successor starts, then the other one hands its shards over and ends. */
  #replace(victim: SimulatedSupervisor): void {
    this.#start();
    this.#clock.after(RETRY_MS, () => victim.drain());
    const end = (): void => {
      if (!victim.ownsNothing && !victim.hasEnded) {
        this.#clock.after(RETRY_MS, end);
        return;
      }
      victim.hasEnded = true;
      this.#database.remove(victim.id);
    };
    // It leads calls on until none can reach it.
    this.#clock.after(OWNER_WAIT_MS, end);
  }
}

export const simulateCluster = (options: SimulationOptions): SimulationResult => new ClusterSimulation(options).run();
