/** Turns Ctrl-C and SIGTERM into an abort, for work that must clean up before the process ends. */

/** Within this time, a second signal is the same Ctrl-C: the terminal sends one, and npm another. Milliseconds. */
const ECHO_MS = 1_000;

/** The operator has ended the command. */
class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

/**
 * Runs `work` with a signal that the first SIGINT or SIGTERM aborts. A second one ends the process at once.
 *
 * @param consequence follows “Interrupted by SIGINT.” in the message of the abort
 */
export async function abortOnInterruption<T>(
  consequence: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  let interruptedAt = 0;
  const onSignal = (name: NodeJS.Signals): void => {
    if (!controller.signal.aborted) {
      interruptedAt = performance.now();
      controller.abort(new InterruptedError(`Interrupted by ${name}. ${consequence}`));
    } else if (performance.now() - interruptedAt > ECHO_MS) {
      stopListening();
      process.kill(process.pid, name);
    }
  };
  const stopListening = (): void => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, onSignal);
  };
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal);
  try {
    return await work(controller.signal);
  } finally {
    stopListening();
  }
}
