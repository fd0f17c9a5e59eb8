/**
 * Schedules the reading of children that write a lot. They are read one at a time, and after each the event loop is left free
 * for as long as that took, so that together they use at most half of the supervisor's time.
 */

const queue: (() => void)[] = [];
let isRunning = false;

/** Calls `read` later, once, in the order of the calls to this function. */
export function scheduleRead(read: () => void): void {
  queue.push(read);
  if (isRunning) return;
  isRunning = true;
  setImmediate(readNext);
}

function readNext(): void {
  const startedAt = performance.now();
  try {
    queue.shift()?.();
  } finally {
    if (queue.length === 0) isRunning = false;
    else setTimeout(readNext, performance.now() - startedAt);
  }
}
