/**
 * Limits resident memory without control groups: checks every child once a second and kills one that exceeds the limit.
 * RLIMIT_DATA limits what can be allocated; this limits what is in use.
 */
import type { WatchedProcess } from './watched-process.ts';

const CHECK_EVERY_MS = 1_000;

interface ResidentWatch {
  /** Watches a process until its end. @returns the process, whose `exited` reports `outOfMemory` if this killed it */
  add(watched: WatchedProcess): WatchedProcess;
}

/**
 * Uses one timer for all children of a jail, which runs only while there are children.
 *
 * @param maxBytes limit of resident bytes, including shared pages
 */
export function watchResident(maxBytes: number): ResidentWatch {
  const followed = new Set<WatchedProcess>();
  const over = new WeakSet<WatchedProcess>();
  let timer: NodeJS.Timeout | null = null;
  const killOversized = (): void => {
    for (const watched of followed) {
      if (watched.rss() <= maxBytes) continue;
      over.add(watched);
      watched.kill();
    }
  };
  const remove = (watched: WatchedProcess): void => {
    followed.delete(watched);
    if (followed.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
  return {
    add(watched) {
      followed.add(watched);
      timer ??= setInterval(killOversized, CHECK_EVERY_MS).unref();
      const exited = watched.exited.then((end) => {
        remove(watched);
        return over.has(watched) ? { ...end, outOfMemory: true } : end;
      });
      return Object.assign(watched, { exited });
    },
  };
}
