/**
 * Fair reading among children that have written much at once: one is read at a time, and after it the event loop is free
 * for as long as that took. However many children flood the supervisor, they get half of its time.
 */

const queue: (() => void)[] = [];
let isRunning = false;

/** Calls `read` once, in the order of the calls and never at once. */
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
