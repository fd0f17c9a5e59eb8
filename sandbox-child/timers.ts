/** Timer functions for plugins. They return numbers instead of Node's Timeout objects and are bounded. */

/** Largest number of pending timers of one plugin. Each takes about 200 bytes. */
const TIMERS_MAX = 1_000;
/** Longest delay, about 24 days: Node runs a longer one immediately. */
const DELAY_MAX_MS = 2 ** 31 - 1;

type TimerGlobal = `${'set' | 'clear'}${'Timeout' | 'Interval' | 'Immediate'}`;
type Callback = (...values: unknown[]) => void;

/** Creates the timer globals. `report` receives the errors of callbacks. */
export function createTimers(report: (error: unknown) => void): Readonly<Record<TimerGlobal, unknown>> {
  let serial = 0;
  /** @param noun what the group has, for errors */
  function openGroup<Handle>(noun: string, cancel: (handle: Handle | undefined) => void) {
    const pending = new Map<number, Handle>();
    function add(
      callback: Callback,
      values: unknown[],
      repeats: boolean,
      schedule: (run: () => void) => Handle,
    ): number {
      if (typeof callback !== 'function') throw new TypeError(`the callback of ${noun} must be a function`);
      if (pending.size >= TIMERS_MAX) throw new RangeError(`a plugin may have at most ${TIMERS_MAX} pending ${noun}`);
      serial += 1;
      const id = serial;
      const run = (): void => {
        if (!repeats) pending.delete(id);
        try {
          callback(...values);
        } catch (error) {
          report(error);
        }
      };
      pending.set(id, schedule(run));
      return id;
    }
    const clear = (id: unknown): void => {
      cancel(pending.get(Number(id)));
      pending.delete(Number(id));
    };
    return { add, clear };
  }
  const timers = openGroup<NodeJS.Timeout>('timers', clearTimeout);
  const immediates = openGroup<NodeJS.Immediate>('immediates', clearImmediate);
  const readDelay = (delay: unknown): number => Math.min(Math.max(Number(delay) || 0, 0), DELAY_MAX_MS);
  return {
    setTimeout: (callback: Callback, delay: unknown = 0, ...values: unknown[]) =>
      timers.add(callback, values, false, (run) => setTimeout(run, readDelay(delay))),
    setInterval: (callback: Callback, delay: unknown = 0, ...values: unknown[]) =>
      timers.add(callback, values, true, (run) => setInterval(run, readDelay(delay))),
    setImmediate: (callback: Callback, ...values: unknown[]) => immediates.add(callback, values, false, setImmediate),
    clearTimeout: timers.clear,
    clearInterval: timers.clear,
    clearImmediate: immediates.clear,
  };
}
