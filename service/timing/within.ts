/** Waits for a promise, but no longer than a time limit. */

/** Calls `onOver` once, after `ms` milliseconds. @returns a function that stops the timer */
export type StartTimer = (ms: number, onOver: () => void) => () => void;

const startTimer: StartTimer = (ms, onOver) => {
  const timer = setTimeout(onOver, Math.max(0, ms));
  return () => clearTimeout(timer);
};

/** Resolves with the value, or with undefined after the time limit. The work continues; a late rejection is ignored. */
export async function within<T>(work: Promise<T>, ms: number, start: StartTimer = startTimer): Promise<T | undefined> {
  const { promise: over, resolve } = Promise.withResolvers<undefined>();
  const stop = start(ms, () => resolve(undefined));
  try {
    return await Promise.race([work, over]);
  } finally {
    stop();
  }
}
