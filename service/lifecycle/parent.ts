/** Messages from API and supervisor to the process that started them (`npm start`). */
import { setTimeout as sleep } from 'node:timers/promises';
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
  z.object({
    /** A successor has started all its parts except its servers. `notReady`: the first failed check of `/readyz`. */
    prepared: z.literal(true),
    notReady: z.string().nullable(),
  }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;
/** Messages from parent to child. */
const childMessage = z.object({ serve: z.literal(true) });
export type ChildMessage = z.infer<typeof childMessage>;

/** Set for a process that may replace another: it serves when the parent says so. */
export const SUCCESSOR_VARIABLE = 'BULKHEAD_SUCCESSOR';
/** Interval between two reports of a successor. Milliseconds. */
const REPORT_EVERY_MS = 200;

/**
 * Reports to the parent that this process is ready. Does nothing without a parent. Call `stopWithParent` before: from
 * now on the parent may stop this process.
 */
export function announceReady(url: string, notice?: string): void {
  sendToParent(notice === undefined ? { ready: true, url } : { ready: true, url, notice });
}

/**
 * A successor shares its sockets with the process that it may replace. So it listens only when the parent says so, after
 * `/readyz` was 200. Resolves at once in any other process.
 *
 * @param readReadiness the first failed check of this process's `/readyz`; null: it is ready
 */
export async function waitForTurn(readReadiness: () => Promise<string | null>): Promise<void> {
  if (process.env[SUCCESSOR_VARIABLE] === undefined) return;
  const turn = new AbortController();
  process.on('message', (raw) => {
    if (childMessage.safeParse(raw).success) turn.abort();
  });
  while (!turn.signal.aborted) {
    sendToParent({ prepared: true, notReady: await readReadiness() });
    await sleep(REPORT_EVERY_MS, undefined, { signal: turn.signal }).catch(() => undefined);
  }
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
