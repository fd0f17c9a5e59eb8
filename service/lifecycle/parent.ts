/** What API and supervisor say to the process that started them (`npm start`), where there is one. */
import { z } from 'zod';

/** The only messages between them, from child to parent. */
export const parentMessage = z.union([
  z.object({
    ready: z.literal(true),
    /** Where the process serves. */
    url: z.string(),
    /** One sentence for the user: something that does not work, and what to do about it. */
    notice: z.string().optional(),
  }),
  z.object({
    /** One sentence: why it cannot start. */
    failed: z.string(),
  }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;

/**
 * Tells the parent that this process serves. Does nothing when it was started alone. Comes after `stopWithParent`: from
 * now on the parent may ask it to stop.
 */
export function announceReady(url: string, notice?: string): void {
  tell(notice === undefined ? { ready: true, url } : { ready: true, url, notice });
}

/**
 * Ends a process that cannot start, whatever it has open by then: one sentence to the parent, or to standard error when
 * it was started alone; exit code 1.
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
 * Calls `stop` once when the process is to end: on SIGTERM or SIGINT, or when the parent is gone, in whatever way.
 *
 * @param stop gives everything back; the process exits when it has settled, with code 1 if it rejected
 */
export function stopWithParent(stop: () => Promise<void>): void {
  let stopping = false;
  const once = (): void => {
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
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, once);
  process.on('disconnect', once);
}

function tell(message: ParentMessage): void {
  if (process.connected) process.send?.(message);
}
