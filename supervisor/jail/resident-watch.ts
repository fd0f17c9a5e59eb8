/**
 * Limits resident memory without control groups: checks every child once a second and kills one that exceeds the limit.
 * RLIMIT_DATA limits what can be allocated; this limits what is in use.
 */
import type { BoxedProcess } from './boxed-process.ts';

const CHECK_EVERY_MS = 1_000;

export interface ResidentWatch {
  /** Watches a process until its end. @returns the process, whose `exited` reports `outOfMemory` if this killed it */
  add(boxed: BoxedProcess): BoxedProcess;
}

/**
 * Uses one timer for all children of a jail, which runs only while there are children.
 *
 * @param maxBytes limit of resident bytes, including shared pages
 */
export function watchResident(maxBytes: number): ResidentWatch {
  const followed = new Set<BoxedProcess>();
  const over = new WeakSet<BoxedProcess>();
  let timer: NodeJS.Timeout | null = null;
  const killOversized = (): void => {
    for (const boxed of followed) {
      if (boxed.rss() <= maxBytes) continue;
      over.add(boxed);
      boxed.kill();
    }
  };
  const remove = (boxed: BoxedProcess): void => {
    followed.delete(boxed);
    if (followed.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
  return {
    add(boxed) {
      followed.add(boxed);
      timer ??= setInterval(killOversized, CHECK_EVERY_MS).unref();
      const exited = boxed.exited.then((end) => {
        remove(boxed);
        return over.has(boxed) ? { ...end, outOfMemory: true } : end;
      });
      return Object.assign(boxed, { exited });
    },
  };
}
