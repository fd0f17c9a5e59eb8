/**
 * Whoever computes for long lets the others go first. A child that keeps a processor busy is moved to the idle class of
 * its control group: it gets what nobody else wants, and a hook that needs half a millisecond does not wait for its time
 * slices to end. One that merely waits, for a model or a host, is not touched. A child that nobody waits for yet starts
 * behind the others too.
 */

import type { ProcessorNeed } from '../jail/boxed-process.ts';

/** How often children are looked at, milliseconds: nearly all calls are over within one. */
export const UPDATE_EVERY_MS = 20;
/** A call that was found waiting is measured again after this, milliseconds: measuring costs 15 µs. */
const REST_MS = 500;
/** A child without calls should use nothing; over this it is measured, milliseconds. */
const IDLE_LOOK_MS = 1_000;
/** Share of one processor that makes a hog: had, or waited for while others had it. */
const HOG_SHARE = 0.5;
/** Nobody is judged before it has had this much, milliseconds: on a busy machine waiting alone makes nobody a hog. */
const HOG_HAD_MS = 8;
/** How long a hog, and whatever is started in its place, stays behind after it was last seen at it, milliseconds. */
const PENALTY_MS = 20_000;

/** A child as the scheduler sees it. */
export interface ScheduledChild {
  /** Calls under way. */
  readonly running: number;
  readonly plugin: { readonly installationId: string };
  readonly child: {
    /** What it had of the processor, and waited for, since its start; zeros when it is gone. */
    processorNeed(): ProcessorNeed;
    /** Lets the others go first, or takes that back. Said at every look. */
    yieldProcessor(yields: boolean): void;
  };
}
interface Watched {
  phase: 'idle' | 'measured' | 'resting';
  /** Of the last sample. */
  at: number;
  need: ProcessorNeed;
}
type Verdict = 'hog' | 'decent' | 'open';

export class CpuScheduler {
  readonly #watched = new WeakMap<ScheduledChild, Watched>();
  /** Until when an installation's children stay behind. */
  readonly #penalties = new Map<string, number>();

  /** Looks at every child; to be called every `LOOK_MS`. `now`: milliseconds of a clock that only goes forward. */
  update(children: Iterable<ScheduledChild>, now: number): void {
    for (const child of children) {
      const watched = this.#watchedOf(child, now);
      const { installationId } = child.plugin;
      if (measure(child, watched, now)) this.#penalties.set(installationId, now + PENALTY_MS);
      child.child.yieldProcessor(this.isBehind(installationId, now));
    }
    for (const [installationId, until] of this.#penalties) if (until <= now) this.#penalties.delete(installationId);
  }

  /** Whether what runs for an installation is to let the others go first. */
  isBehind(installationId: string, now: number): boolean {
    return (this.#penalties.get(installationId) ?? now) > now;
  }

  #watchedOf(child: ScheduledChild, now: number): Watched {
    const known = this.#watched.get(child);
    if (known) return known;
    const fresh: Watched = { phase: 'idle', ...sample(child, now) };
    this.#watched.set(child, fresh);
    return fresh;
  }
}

/** Whether it is seen to be a hog just now. */
function measure(child: ScheduledChild, watched: Watched, now: number): boolean {
  const since = now - watched.at;
  if (child.running === 0) {
    watched.phase = 'idle';
    return since >= IDLE_LOOK_MS && judge(child, watched, now) === 'hog';
  }
  if (watched.phase === 'measured') {
    const verdict = judge(child, watched, now);
    if (verdict !== 'open') watched.phase = 'resting';
    return verdict === 'hog';
  }
  if (watched.phase === 'idle' || since >= REST_MS) {
    Object.assign(watched, sample(child, now));
    watched.phase = 'measured';
  }
  return false;
}

/** By what it needed since the last sample, which an open verdict leaves in its place. */
function judge(child: ScheduledChild, watched: Watched, now: number): Verdict {
  const { at, need: before } = watched;
  const fresh = sample(child, now);
  const hadMs = fresh.need.hadMs - before.hadMs;
  const waitedMs = fresh.need.waitedMs - before.waitedMs;
  const isGreedy = hadMs + waitedMs >= HOG_SHARE * (now - at);
  if (isGreedy && hadMs < HOG_HAD_MS) return 'open';
  Object.assign(watched, fresh);
  return isGreedy ? 'hog' : 'decent';
}

const sample = (child: ScheduledChild, now: number) => ({ at: now, need: child.child.processorNeed() });
