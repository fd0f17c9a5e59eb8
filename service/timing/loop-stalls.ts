/** Measures how long the event loop was blocked, so that this time does not count towards the time budget of a call. */

const TICK_MS = 20;
/** Timers of an idle loop are up to this late. */
const TICK_SLACK_MS = 5;

let ticker: NodeJS.Timeout | undefined;
let tickedAt = 0;
let stalledBeforeTick = 0;

/** Milliseconds that the loop was blocked since the first call, including a stall that has not ended yet. */
export function stalledMs(): number {
  if (ticker === undefined) {
    tickedAt = performance.now();
    ticker = setInterval(tick, TICK_MS).unref();
  }
  return stalledBeforeTick + measureDelay();
}

/** Milliseconds of a monotonic clock that is paused while the event loop is blocked. */
export const unstalledNow = (): number => performance.now() - stalledMs();

function tick(): void {
  stalledBeforeTick += measureDelay();
  tickedAt = performance.now();
}

const measureDelay = (): number => Math.max(0, performance.now() - tickedAt - TICK_MS - TICK_SLACK_MS);
