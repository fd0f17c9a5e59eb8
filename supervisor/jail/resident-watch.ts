/**
 * The limit of resident memory where no control group can be written: a look at every child once a second, and SIGKILL
 * to the one that has more. RLIMIT_DATA bounds what can be allocated; this bounds what is really held.
 */
import type { BoxedProcess } from './boxed-process.ts';

const LOOK_MS = 1_000;

export interface ResidentWatch {
  /** Follows a process to its end. Answers it with its end saying so where this ended it. */
  follow(boxed: BoxedProcess): BoxedProcess;
}

/**
 * One timer for all children of a jail, which runs only while there are some.
 *
 * @param maxBytes resident, shared pages included
 */
export function watchResident(maxBytes: number): ResidentWatch {
  const followed = new Set<BoxedProcess>();
  const over = new WeakSet<BoxedProcess>();
  let timer: NodeJS.Timeout | null = null;
  const look = (): void => {
    for (const boxed of followed) {
      if (boxed.rss() <= maxBytes) continue;
      over.add(boxed);
      boxed.kill();
    }
  };
  const leave = (boxed: BoxedProcess): void => {
    followed.delete(boxed);
    if (followed.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
  return {
    follow(boxed) {
      followed.add(boxed);
      timer ??= setInterval(look, LOOK_MS).unref();
      const exited = boxed.exited.then((end) => {
        leave(boxed);
        return over.has(boxed) ? { ...end, outOfMemory: true } : end;
      });
      return Object.assign(boxed, { exited });
    },
  };
}
