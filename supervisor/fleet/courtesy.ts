/**
 * Whoever computes for long lets the others go first. A child that keeps a processor busy is moved to the idle class of
 * its control group: it gets what nobody else wants, and a hook that needs half a millisecond does not wait for its time
 * slices to end. One that merely waits, for a model or a host, is not touched.
 */

/** How often children are looked at, milliseconds: nearly all calls are over within one. */
export const LOOK_MS = 20;
/** A call that was found waiting is measured again after this, milliseconds: measuring costs 15 µs. */
const REST_MS = 500;
/** A child without calls should use nothing; over this it is measured, milliseconds. */
const IDLE_LOOK_MS = 1_000;
/** Share of one processor that makes a hog. */
const HOG_SHARE = 0.5;
/** How long a hog, and whatever is started in its place, stays behind after it was last seen at it, milliseconds. */
const PENALTY_MS = 20_000;

/** A child as far as courtesy goes. */
export interface Neighbour {
  /** Calls under way. */
  readonly running: number;
  readonly entry: { readonly installationId: string };
  readonly child: {
    /** Processor time used until now, milliseconds, in steps of 10; 0 when it is gone. */
    processorMs(): number;
    /** Lets the others go first, or takes that back. */
    yieldProcessor(yields: boolean): void;
  };
}
interface Watched {
  phase: 'idle' | 'measured' | 'resting';
  yields: boolean;
  /** Of the last sample. */
  at: number;
  usedMs: number;
}

export class Courtesy {
  readonly #watched = new WeakMap<Neighbour, Watched>();
  /** Until when an installation's children stay behind. */
  readonly #penalties = new Map<string, number>();

  /** Looks at every child; to be called every `LOOK_MS`. `now`: milliseconds of a clock that only goes forward. */
  look(neighbours: Iterable<Neighbour>, now: number): void {
    for (const neighbour of neighbours) {
      const watched = this.#watchedOf(neighbour, now);
      const { installationId } = neighbour.entry;
      if (measure(neighbour, watched, now)) this.#penalties.set(installationId, now + PENALTY_MS);
      const yields = (this.#penalties.get(installationId) ?? now) > now;
      if (yields === watched.yields) continue;
      watched.yields = yields;
      neighbour.child.yieldProcessor(yields);
    }
    for (const [installationId, until] of this.#penalties) if (until <= now) this.#penalties.delete(installationId);
  }

  #watchedOf(neighbour: Neighbour, now: number): Watched {
    const known = this.#watched.get(neighbour);
    if (known) return known;
    const fresh: Watched = { phase: 'idle', yields: false, ...sample(neighbour, now) };
    this.#watched.set(neighbour, fresh);
    return fresh;
  }
}

/** Whether it is seen to be a hog just now. */
function measure(neighbour: Neighbour, watched: Watched, now: number): boolean {
  const since = now - watched.at;
  if (neighbour.running === 0) {
    watched.phase = 'idle';
    return since >= IDLE_LOOK_MS && compare(neighbour, watched, now);
  }
  if (watched.phase === 'measured') {
    watched.phase = 'resting';
    return compare(neighbour, watched, now);
  }
  if (watched.phase === 'idle' || since >= REST_MS) {
    Object.assign(watched, sample(neighbour, now));
    watched.phase = 'measured';
  }
  return false;
}

function compare(neighbour: Neighbour, watched: Watched, now: number): boolean {
  const { at, usedMs } = watched;
  Object.assign(watched, sample(neighbour, now));
  return watched.usedMs - usedMs >= HOG_SHARE * (now - at);
}

const sample = (neighbour: Neighbour, now: number) => ({ at: now, usedMs: neighbour.child.processorMs() });
