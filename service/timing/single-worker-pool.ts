/** A pool of one worker thread for tasks that may exhaust their heap: started on demand, ended when idle, replaced after a crash. */
import { Piscina } from 'piscina';

const IDLE_MS = 30_000;

export interface ThreadOptions {
  /** The function of the file that runs the tasks. */
  readonly name: string;
  /** Megabytes of JavaScript heap. */
  readonly heapMegabytes: number;
}

/** @param file the worker's program */
export function singleWorkerPool<Task, Result>(
  file: URL,
  { name, heapMegabytes }: ThreadOptions,
): Piscina<Task, Result> {
  const pool = new Piscina<Task, Result>({
    filename: file.href,
    name,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  });
  // Without a listener, an error of a thread that runs no task would end this process. Piscina starts another thread for the next task.
  pool.on('error', () => undefined);
  return pool;
}
