/** setTimeout and its kin for plugins: numbers instead of Node's Timeout objects, and bounded. */

/** Pending timers of one plugin. Polite code has a handful; each holds about 200 bytes. */
const TIMERS_MAX = 1_000;
/** Node runs a longer one at once. Milliseconds, about 24 days. */
const DELAY_MAX_MS = 2 ** 31 - 1;

type Callback = (...values: unknown[]) => void;

/** The five timer globals. `report` is told what a callback throws. */
export function timerEndowments(report: (error: unknown) => void): Record<string, unknown> {
  const pending = new Map<number, NodeJS.Timeout>();
  let serial = 0;
  const arm =
    (repeat: boolean) =>
    (callback: Callback, delay: unknown = 0, ...values: unknown[]): number => {
      if (typeof callback !== 'function') throw new TypeError('a timer takes a function');
      if (pending.size >= TIMERS_MAX) throw new RangeError(`a plugin may have ${TIMERS_MAX} timers at once`);
      serial += 1;
      const id = serial;
      const run = (): void => {
        if (!repeat) pending.delete(id);
        try {
          callback(...values);
        } catch (error) {
          report(error);
        }
      };
      const ms = Math.min(Math.max(Number(delay) || 0, 0), DELAY_MAX_MS);
      pending.set(id, repeat ? setInterval(run, ms) : setTimeout(run, ms));
      return id;
    };
  const disarm = (id: unknown): void => {
    const timer = pending.get(Number(id));
    pending.delete(Number(id));
    clearTimeout(timer);
  };
  return { setTimeout: arm(false), setInterval: arm(true), clearTimeout: disarm, clearInterval: disarm };
}
