/**
 * `FAILPOINTS=name:n,…` stops what passes that step as the n-th, for good. The test is told of it, and kills the process. The
 * product's own entry files know nothing of it.
 */

/** The message of a process in which something is blocked at a step. */
export interface StoppedAt {
  readonly stoppedAt: string;
}

/** @returns a function to call at each step */
export function stopAtFailPoints(setting = ''): (step: string) => Promise<void> | undefined {
  const left = new Map<string, number>();
  for (const [, step = '', count] of setting.matchAll(/([a-z.-]+):(\d+)/g)) left.set(step, Number(count));
  return (step) => {
    const count = left.get(step);
    if (count === undefined) return undefined;
    left.set(step, count - 1);
    if (count !== 1) return undefined;
    process.send?.({ stoppedAt: step } satisfies StoppedAt);
    return new Promise(() => undefined);
  };
}
