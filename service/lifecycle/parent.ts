/** Messages from API and supervisor to the process that started them (`npm start`). */
import { z } from 'zod';

/** All messages, from child to parent. */
export const parentMessage = z.union([
  z.object({
    ready: z.literal(true),
    /** Address of the process. */
    url: z.string(),
    /** One sentence for the user: a problem and how to solve it. */
    notice: z.string().optional(),
  }),
  z.object({
    /** One sentence: why the process cannot start. */
    failed: z.string(),
  }),
]);
type ParentMessage = z.infer<typeof parentMessage>;

/**
 * Reports to the parent that this process is ready. Does nothing without a parent. Call `stopWithParent` before: from
 * now on the parent may stop this process.
 */
export function announceReady(url: string, notice?: string): void {
  sendToParent(notice === undefined ? { ready: true, url } : { ready: true, url, notice });
}

/**
 * Ends a process that cannot start, with exit code 1. Reports one sentence to the parent, or to standard error without
 * one.
 */
export function refuseToStart(error: unknown): void {
  const failed = error instanceof Error ? error.message : String(error);
  if (process.send === undefined || !process.connected) {
    console.error(failed);
    process.exit(1);
  }
  process.send({ failed } satisfies ParentMessage, () => process.exit(1));
}

/**
 * Calls `stop` stopOnce, on SIGTERM, SIGINT, or when the parent has exited.
 *
 * @param stop releases everything; afterwards the process exits, with code 1 if it rejected
 */
export function stopWithParent(stop: () => Promise<void>): void {
  let stopping = false;
  const stopOnce = (): void => {
    if (stopping) return;
    stopping = true;
    stop().then(
      () => process.exit(),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stopOnce);
  process.on('disconnect', stopOnce);
}

function sendToParent(message: ParentMessage): void {
  if (process.connected) process.send?.(message);
}
