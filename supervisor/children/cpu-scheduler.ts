/**
 * Keeps CPU-bound plugins from delaying others. A child that keeps a processor busy is moved to the idle class of its control
 * group, so that a hook of half a millisecond does not wait for that child's time slices. Children that wait for a model or a
 * host keep their class.
 */

import type { ProcessorNeed } from '../jail/boxed-process.ts';

/** Interval of updates, milliseconds. Nearly all calls end within one. */
export const UPDATE_EVERY_MS = 20;
/** Pause before a child with running calls is measured again, milliseconds: a measurement costs 15 µs. */
const REST_MS = 500;
/** Interval of measuring a child without calls, which should use no CPU. Milliseconds. */
const IDLE_MEASURE_MS = 1_000;
/** Share of one processor, used or waited for, from which a child counts as CPU-bound. */
const BUSY_SHARE = 0.5;
/** CPU time that a child must have used before it can count as CPU-bound, milliseconds: waiting alone is no evidence. */
const BUSY_MIN_MS = 8;
/** How long an installation's children stay in the idle class after one was last CPU-bound, milliseconds. */
const PENALTY_MS = 20_000;

export interface ScheduledChild {
  /** Number of running calls. */
  readonly running: number;
  readonly plugin: { readonly installationId: string };
  readonly child: {
    /** CPU time used and waited for since its start; zeros after its end. */
    processorNeed(): ProcessorNeed;
    /** Moves the child to the idle CPU class, or back. Called at every update. */
    yieldProcessor(yields: boolean): void;
  };
}
interface Measurement {
  phase: 'idle' | 'measured' | 'resting';
  /** Time of the last sample. */
  at: number;
  need: ProcessorNeed;
}
type Load = 'busy' | 'normal' | 'undecided';

export class CpuScheduler {
  readonly #measurements = new WeakMap<ScheduledChild, Measurement>();
  /** Until when an installation's children stay in the idle class. */
  readonly #penalties = new Map<string, number>();

  /** Measures every child. Call it every `UPDATE_EVERY_MS`. `now`: milliseconds of a monotonic clock. */
  update(children: Iterable<ScheduledChild>, now: number): void {
    for (const child of children) {
      const measurement = this.#getMeasurement(child, now);
      const { installationId } = child.plugin;
      if (measureIsBusy(child, measurement, now)) this.#penalties.set(installationId, now + PENALTY_MS);
      child.child.yieldProcessor(this.isDeprioritized(installationId, now));
    }
    for (const [installationId, until] of this.#penalties) if (until <= now) this.#penalties.delete(installationId);
  }

  /** Whether an installation's children belong in the idle CPU class. */
  isDeprioritized(installationId: string, now: number): boolean {
    return (this.#penalties.get(installationId) ?? now) > now;
  }

  #getMeasurement(child: ScheduledChild, now: number): Measurement {
    const known = this.#measurements.get(child);
    if (known) return known;
    const fresh: Measurement = { phase: 'idle', ...takeSample(child, now) };
    this.#measurements.set(child, fresh);
    return fresh;
  }
}

/** Updates the measurement. @returns whether the child is CPU-bound */
function measureIsBusy(child: ScheduledChild, measurement: Measurement, now: number): boolean {
  const since = now - measurement.at;
  if (child.running === 0) {
    measurement.phase = 'idle';
    return since >= IDLE_MEASURE_MS && classifyLoad(child, measurement, now) === 'busy';
  }
  if (measurement.phase === 'measured') {
    const load = classifyLoad(child, measurement, now);
    if (load !== 'undecided') measurement.phase = 'resting';
    return load === 'busy';
  }
  if (measurement.phase === 'idle' || since >= REST_MS) {
    Object.assign(measurement, takeSample(child, now));
    measurement.phase = 'measured';
  }
  return false;
}

/** Classifies the CPU time since the last sample. `undecided` keeps that sample, so that the next update sees a longer span. */
function classifyLoad(child: ScheduledChild, measurement: Measurement, now: number): Load {
  const { at, need: before } = measurement;
  const fresh = takeSample(child, now);
  const hadMs = fresh.need.hadMs - before.hadMs;
  const waitedMs = fresh.need.waitedMs - before.waitedMs;
  const isBusy = hadMs + waitedMs >= BUSY_SHARE * (now - at);
  if (isBusy && hadMs < BUSY_MIN_MS) return 'undecided';
  Object.assign(measurement, fresh);
  return isBusy ? 'busy' : 'normal';
}

const takeSample = (child: ScheduledChild, now: number) => ({ at: now, need: child.child.processorNeed() });
