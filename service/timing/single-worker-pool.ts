/** One thread for work that may explode: started when it is needed, gone when it is not, replaced when it ended. */
import { Piscina } from 'piscina';

const IDLE_MS = 30_000;

export interface ThreadOptions {
  /** The function of the file that takes the tasks. */
  readonly name: string;
  /** Megabytes of JavaScript heap. */
  readonly heapMegabytes: number;
  /** Tasks that may wait; any number by default. */
  readonly maxQueue?: number;
}

/** @param file its program */
export function lonelyThread<Task, Answer>(
  file: URL,
  { name, heapMegabytes, maxQueue }: ThreadOptions,
): Piscina<Task, Answer> {
  const pool = new Piscina<Task, Answer>({
    ...{ filename: file.href, name, minThreads: 0, maxThreads: 1, idleTimeout: IDLE_MS, env: {} },
    ...(maxQueue === undefined ? {} : { maxQueue }),
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  });
  // A thread that ended is replaced with the next task.
  pool.on('error', () => undefined);
  return pool;
}
