/** Timer functions for plugins. They return numbers instead of Node's Timeout objects and are bounded. */

/** Largest number of pending timers of one plugin. Each takes about 200 bytes. */
const TIMERS_MAX = 1_000;
/** Longest delay, about 24 days: Node runs a longer one immediately. */
const DELAY_MAX_MS = 2 ** 31 - 1;

type TimerGlobal = `${'set' | 'clear'}${'Timeout' | 'Interval' | 'Immediate'}`;
type Callback = (...values: unknown[]) => void;

/** Creates the timer globals. `report` receives the errors of callbacks. */
export function createTimers(report: (error: unknown) => void): Readonly<Record<TimerGlobal, unknown>> {
  const pending = new Map<number, NodeJS.Timeout>();
  let serial = 0;
  const createSetter =
    (repeat: boolean) =>
    (callback: Callback, delay: unknown = 0, ...values: unknown[]): number => {
      if (typeof callback !== 'function') throw new TypeError('the callback of a timer must be a function');
      if (pending.size >= TIMERS_MAX) throw new RangeError(`a plugin may have at most ${TIMERS_MAX} pending timers`);
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
  const immediates = new Map<number, NodeJS.Immediate>();
  const setImmediateTimer = (callback: Callback, ...values: unknown[]): number => {
    if (typeof callback !== 'function') throw new TypeError('the callback of setImmediate must be a function');
    if (immediates.size >= TIMERS_MAX)
      throw new RangeError(`a plugin may have at most ${TIMERS_MAX} pending immediates`);
    serial += 1;
    const id = serial;
    const run = (): void => {
      immediates.delete(id);
      try {
        callback(...values);
      } catch (error) {
        report(error);
      }
    };
    immediates.set(id, setImmediate(run));
    return id;
  };
  const clear = (id: unknown): void => {
    const timer = pending.get(Number(id));
    pending.delete(Number(id));
    clearTimeout(timer);
  };
  return {
    setTimeout: createSetter(false),
    setInterval: createSetter(true),
    clearTimeout: clear,
    clearInterval: clear,
    setImmediate: setImmediateTimer,
    clearImmediate: (id: unknown): void => {
      const immediate = immediates.get(Number(id));
      immediates.delete(Number(id));
      clearImmediate(immediate);
    },
  };
}
