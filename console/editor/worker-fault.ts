/**
 * Whether a worker of the editor could not be loaded: the editor itself waits for it without end and says nothing. The document is not
 * reloaded by itself, because its user may be typing.
 */
import { useSyncExternalStore } from 'react';
import { MissingCodeError } from '../shell/load-chunk.ts';

/** Of any editor in this document: they share the workers, which are not requested again. */
let fault: MissingCodeError | null = null;
const listeners = new Set<() => void>();

export function watchWorker(worker: Worker): Worker {
  worker.addEventListener('error', (event) => {
    // An error of code that runs.
    if (event instanceof ErrorEvent) return;
    fault = new MissingCodeError(event);
    for (const listener of listeners) listener();
  });
  return worker;
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useWorkerFault = (): MissingCodeError | null => useSyncExternalStore(subscribe, () => fault);
