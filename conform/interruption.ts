/** Turns Ctrl-C into an abort, so that a program removes what it created before it ends. */

/** npm repeats the terminal's Ctrl-C. A signal within this time is that repetition. Milliseconds. */
const ECHO_MS = 1_000;
/** 128 and the number of SIGINT: what shells report for a program that Ctrl-C ended. */
export const INTERRUPTED_EXIT_CODE = 130;

/**
 * Aborts on the first SIGINT, SIGTERM or SIGHUP. A later one ends the process at once, unless it repeats the first.
 *
 * @param now the time in milliseconds
 */
export function abortOnSignals(now = (): number => performance.now()): AbortSignal {
  const interrupted = new AbortController();
  let interruptedAt = 0;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(name, () => {
      if (interrupted.signal.aborted && now() - interruptedAt > ECHO_MS) process.exit(INTERRUPTED_EXIT_CODE);
      if (!interrupted.signal.aborted) interruptedAt = now();
      interrupted.abort();
    });
  return interrupted.signal;
}
