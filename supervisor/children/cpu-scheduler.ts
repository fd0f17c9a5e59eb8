/**
 * Keeps plugins that use much CPU from delaying others. A child that keeps a processor busy is moved to the idle class of its
 * control group, so that a hook of half a millisecond does not wait for that child's time slices. Its account gets less weight, and
 * the idle class while nothing but CPU-bound children runs for it. An account that uses little CPU gets more. Children that wait
 * for a model or a host keep their class.
 */

import { availableParallelism } from 'node:os';
import type { CpuClasses } from '../jail/limiter.ts';
import type { CpuDemand } from '../jail/watched-process.ts';

/** Interval of updates, milliseconds. Nearly all calls end within one. */
export const UPDATE_EVERY_MS = 20;
/** Pause before a child with running calls is measured again, milliseconds: a measurement costs 15 µs. */
const REST_MS = 500;
/** Interval of measuring a child without calls, which should use no CPU. Milliseconds. */
const IDLE_MEASURE_MS = 1_000;
/**
 * Share of the time in which a child did not wait for a processor from which it counts as CPU-bound when it used one. Time that
 * it waited says how busy the machine is, and nothing about the child: beside other programs, a plugin that computes for 3 ms a
 * second waited for 600 of them.
 */
const BUSY_SHARE = 0.5;
/** CPU time that a child must have used before it can count as CPU-bound, milliseconds. */
const BUSY_MIN_MS = 8;
/**
 * `BUSY_MIN_MS` of a child that waited most of the time: more than its first call and the garbage collection after its last one
 * take, which fill a second on a busy machine.
 */
const WAITING_BUSY_MIN_MS = 40;
/**
 * A child that waited most of the time is not CPU-bound if the calls that it answered took no more than this on average: it has a
 * backlog, because it waited. In the idle class it would never get through it, and its hooks would miss their deadlines. Milliseconds.
 */
const SHORT_CALL_MS = 8;
/**
 * `BUSY_MIN_MS` of a child that loads a plugin, because loading is work. A plugin may compute for a second while it loads. A draft
 * may not: it is loaded once, and only its author waits for it.
 */
export const LOADING_BUSY_MIN_MS = { plugin: 1_000, draft: 200 } as const;
/** How long the children of a version stay in the idle class after one was last CPU-bound, milliseconds. */
const PENALTY_MS = 20_000;
/**
 * A child that has answered calls and was not CPU-bound for this long is in the idle class only if it is CPU-bound in two spans in
 * succession: a garbage collection, or a guest whose host takes a page of memory for 10 ms, fills one. In the idle class of a busy
 * machine its hooks could take seconds. Milliseconds.
 */
const TRUST_AFTER_MS = 5_000;

/** Period in which the CPU time of an account's children is added up, milliseconds. */
const ACCOUNT_PERIOD_MS = 1_000;
/** Share of all processors up to which an account is light: a crowd of light accounts must leave time to the others. */
const LIGHT_SHARE = 0.1;
/** How long an account that used more is not light, milliseconds. */
const NOT_LIGHT_MS = 5_000;
/** CPU time of a start, which counts when it begins. Milliseconds. */
const START_COST_MS = 55;
/** How long an account with CPU-bound children stays out of the idle class after another child of it started or ran. Milliseconds. */
const OTHERS_RAN_MS = 5_000;

export interface ScheduledChild {
  /** Number of running calls. A child that loads a plugin has one. */
  readonly running: number;
  /** Number of calls that it has answered since its start. Default: 0. */
  readonly answered?: number;
  /** CPU time that it must have used before it can count as CPU-bound, if that is more than usual. Milliseconds. */
  readonly busyMinMs?: number;
  readonly plugin: ScheduledPlugin;
  readonly child: {
    /** CPU time used and waited for since its start; zeros after its end. */
    cpuDemand(): CpuDemand;
    /** Called at every update. */
    setCpuClasses(classes: CpuClasses): void;
  };
}
export interface ScheduledPlugin {
  /** Identifies the code in its account. While a plugin is updated, its two versions are judged apart. */
  readonly versionId: string;
  readonly accountId: string;
}
interface Measurement {
  phase: 'idle' | 'measured' | 'resting';
  /** Time of the last sample. */
  at: number;
  demand: CpuDemand;
  answered: number;
  /** Whether the child was CPU-bound at its last classification and has answered no call since. */
  isBusy: boolean;
  /** From when the child, if it has answered calls, is trusted for one span in which it is CPU-bound. */
  trustedFrom: number;
}
type Load = 'busy' | 'normal' | 'undecided';

/** An account with children. Times are of the monotonic clock, milliseconds. */
interface AccountUse {
  periodEndsAt: number;
  /** CPU time of its children in this period. */
  usedMs: number;
  notLightUntil: number;
  /** Whether a child was CPU-bound at the last update: one with a call, or one that computes without any. */
  hasBusyChild: boolean;
  /** Until when a version that started or had a call counts as running. By version id. */
  readonly runningUntil: Map<string, number>;
  /** Until when the children of a version stay in the idle class. By version id. */
  readonly penalizedUntil: Map<string, number>;
}

export class CpuScheduler {
  readonly #measurements = new WeakMap<ScheduledChild, Measurement>();
  /** By account id. */
  readonly #uses = new Map<string, AccountUse>();
  readonly #lightMaxMs: number;

  constructor(processors = availableParallelism()) {
    this.#lightMaxMs = LIGHT_SHARE * processors * ACCOUNT_PERIOD_MS;
  }

  /** Measures every child. Call it every `UPDATE_EVERY_MS`. `now`: milliseconds of a monotonic clock. */
  update(children: Iterable<ScheduledChild>, now: number): void {
    for (const use of this.#uses.values()) use.hasBusyChild = false;
    const all = [...children];
    for (const child of all) {
      const { versionId, accountId } = child.plugin;
      const use = this.#getUse(accountId, now);
      const isRunning = child.running > 0;
      const wasBusy = this.#measureIsBusy(child, use, now);
      // A call whose caller has left runs on until its deadline, and timers need no call.
      const computesAlone = !isRunning && this.#getMeasurement(child, now).isBusy;
      // Among many in the idle class a child has too little CPU time to be measured again before its penalty ends.
      if (wasBusy || computesAlone) use.penalizedUntil.set(versionId, now + PENALTY_MS);
      if (isPenalized(use, versionId, now) && (isRunning || computesAlone)) use.hasBusyChild = true;
      if (isRunning) use.runningUntil.set(versionId, now + OTHERS_RAN_MS);
    }
    for (const { plugin, child } of all) child.setCpuClasses(this.#classify(plugin, now));
    for (const [accountId, use] of this.#uses) {
      for (const times of [use.runningUntil, use.penalizedUntil])
        for (const [versionId, until] of times) if (until <= now) times.delete(versionId);
      if (isForgettable(use, now)) this.#uses.delete(accountId);
    }
  }

  /** The classes of a child that is about to start. */
  classifyStart(plugin: ScheduledPlugin, now: number): CpuClasses {
    const use = this.#getUse(plugin.accountId, now);
    this.#addUse(use, START_COST_MS, now);
    // In an account of the idle class it might never start.
    use.runningUntil.set(plugin.versionId, now + OTHERS_RAN_MS);
    return this.#classify(plugin, now);
  }

  #classify({ versionId, accountId }: ScheduledPlugin, now: number): CpuClasses {
    const use = this.#getUse(accountId, now);
    const child = isPenalized(use, versionId, now) ? 'idle' : 'normal';
    if (use.hasBusyChild) return { child, account: isOtherRunning(use, now) ? 'reduced' : 'idle' };
    return { child, account: use.notLightUntil > now ? 'normal' : 'light' };
  }

  #addUse(use: AccountUse, ms: number, now: number): void {
    use.usedMs += ms;
    if (use.usedMs > this.#lightMaxMs) use.notLightUntil = now + NOT_LIGHT_MS;
  }

  #getUse(accountId: string, now: number): AccountUse {
    let use = this.#uses.get(accountId);
    if (!use) {
      use = {
        periodEndsAt: now,
        usedMs: 0,
        notLightUntil: 0,
        hasBusyChild: false,
        runningUntil: new Map(),
        penalizedUntil: new Map(),
      };
      this.#uses.set(accountId, use);
    }
    if (use.periodEndsAt <= now) Object.assign(use, { periodEndsAt: now + ACCOUNT_PERIOD_MS, usedMs: 0 });
    return use;
  }

  #getMeasurement(child: ScheduledChild, now: number): Measurement {
    const known = this.#measurements.get(child);
    if (known) return known;
    const demand = child.child.cpuDemand();
    const fresh: Measurement = {
      phase: 'idle',
      at: now,
      demand,
      answered: child.answered ?? 0,
      isBusy: false,
      trustedFrom: now,
    };
    this.#measurements.set(child, fresh);
    return fresh;
  }

  /** Updates the measurement. @returns whether the child is CPU-bound */
  #measureIsBusy(child: ScheduledChild, use: AccountUse, now: number): boolean {
    const measurement = this.#getMeasurement(child, now);
    if (child.running === 0) {
      measurement.phase = 'idle';
      if ((child.answered ?? 0) > measurement.answered) measurement.isBusy = false;
      return now - measurement.at >= IDLE_MEASURE_MS && this.#classifyLoad(child, measurement, use, now) === 'busy';
    }
    if (measurement.phase === 'measured') {
      const load = this.#classifyLoad(child, measurement, use, now);
      if (load !== 'undecided') measurement.phase = 'resting';
      return load === 'busy';
    }
    if (measurement.phase === 'idle' || now - measurement.at >= REST_MS) {
      this.#record(child, measurement, child.child.cpuDemand(), use, now);
      measurement.phase = 'measured';
    }
    return false;
  }

  /** Classifies the CPU time since the last sample. `undecided` keeps that sample, so that the next update sees a longer span. */
  #classifyLoad(child: ScheduledChild, measurement: Measurement, use: AccountUse, now: number): Load {
    const { at, demand: before } = measurement;
    const demand = child.child.cpuDemand();
    const hadMs = demand.hadMs - before.hadMs;
    const waitedMs = demand.waitedMs - before.waitedMs;
    const spanMs = now - at;
    const isWaiting = hadMs < BUSY_SHARE * spanMs;
    const keepsBusy = hadMs >= BUSY_SHARE * (spanMs - waitedMs);
    const usualMinMs = isWaiting ? WAITING_BUSY_MIN_MS : BUSY_MIN_MS;
    const answered = (child.answered ?? 0) - measurement.answered;
    const hadShortCalls = isWaiting && hadMs <= SHORT_CALL_MS * answered;
    if (keepsBusy && hadMs < (child.busyMinMs ?? usualMinMs)) {
      // Endless loops that wait for each other take seconds to become CPU-bound. A light account with many would delay all others.
      if (hadMs >= BUSY_MIN_MS && !hadShortCalls && child.busyMinMs === undefined)
        use.notLightUntil = now + NOT_LIGHT_MS;
      return 'undecided';
    }
    // One that has waited since its last time slice looks as if it had slept. Its account would become a light one.
    if (!keepsBusy && demand.isRunnable) return 'undecided';
    this.#record(child, measurement, demand, use, now);
    const isBusy = keepsBusy && !hadShortCalls;
    const isTrusted = measurement.trustedFrom <= now && (child.answered ?? 0) > 0;
    if (isBusy) measurement.trustedFrom = now + TRUST_AFTER_MS;
    if (isBusy && isTrusted) return 'undecided';
    measurement.isBusy = isBusy;
    return isBusy ? 'busy' : 'normal';
  }

  #record(
    { answered = 0 }: ScheduledChild,
    measurement: Measurement,
    demand: CpuDemand,
    use: AccountUse,
    now: number,
  ): void {
    // After its end a child has used nothing.
    this.#addUse(use, Math.max(0, demand.hadMs - measurement.demand.hadMs), now);
    Object.assign(measurement, { at: now, demand, answered });
  }
}

const isPenalized = ({ penalizedUntil }: AccountUse, versionId: string, now: number): boolean =>
  (penalizedUntil.get(versionId) ?? now) > now;

/** Whether something that is not CPU-bound runs for an account. */
function isOtherRunning(use: AccountUse, now: number): boolean {
  for (const [versionId, until] of use.runningUntil) if (until > now && !isPenalized(use, versionId, now)) return true;
  return false;
}

const isForgettable = (use: AccountUse, now: number): boolean =>
  !use.hasBusyChild &&
  use.runningUntil.size + use.penalizedUntil.size === 0 &&
  Math.max(use.periodEndsAt, use.notLightUntil) <= now;
