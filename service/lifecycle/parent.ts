/** Messages from API and supervisor to the process that started them (`npm start`). */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

/** Which plugins a sandbox lets run, the fewest first. */
const ADMITTED = ['none', 'operators', 'all'] as const;

/** The sandbox of a supervisor. An API sends neither field. */
const sandboxReport = z.object({
  admits: z.enum(ADMITTED).optional(),
  /** One sentence for the user: a problem and how to solve it. */
  notice: z.string().optional(),
});
export type SandboxReport = z.infer<typeof sandboxReport>;

/** Whether the sandbox lets fewer plugins run than the other one. */
export function isWeaker(sandbox: SandboxReport, other: SandboxReport): boolean {
  if (sandbox.admits === undefined || other.admits === undefined) return false;
  return ADMITTED.indexOf(sandbox.admits) < ADMITTED.indexOf(other.admits);
}

/** All messages, from child to parent. */
export const parentMessage = z.union([
  sandboxReport.extend({
    ready: z.literal(true),
    /** Address of the process. */
    url: z.string(),
    /** The first failed check of `/readyz`. Null: none failed. Absent: a process of an earlier release did not report it. */
    notReady: z.string().nullable().optional(),
  }),
  z.object({
    /** One sentence: why the process cannot start. */
    failed: z.string(),
  }),
  sandboxReport.extend({
    /** A successor has started all its parts except its servers. `notReady`: the first failed check of `/readyz`. */
    prepared: z.literal(true),
    notReady: z.string().nullable(),
  }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;
/** Messages from parent to child. */
const childMessage = z.union([
  z.object({ serve: z.literal(true) }),
  /** No other process serves on the sockets of this one, which is being stopped. */
  z.object({ alone: z.literal(true) }),
]);
export type ChildMessage = z.infer<typeof childMessage>;

/** Set for a process that may replace another: it serves when the parent says so. */
export const SUCCESSOR_VARIABLE = 'BULKHEAD_SUCCESSOR';
/** Maximum duration of a stop. Then the process ends by force. Milliseconds. */
export const STOP_TIMEOUT_MS = 30_000;
/** Maximum duration of a stop where another process may serve: long calls can end. Kubernetes waits a minute. Milliseconds. */
export const HANDOVER_TIMEOUT_MS = 58_000;
/** Interval between two reports of a successor. Milliseconds. */
const REPORT_EVERY_MS = 200;

/**
 * Reports to the parent that this process serves. Does nothing without a parent. Call `stopWithParent` before: from
 * now on the parent may stop this process.
 *
 * @param readReadiness the first failed check of this process's `/readyz`; null: it is ready
 */
export async function announceReady(
  url: string,
  readReadiness: () => Promise<string | null>,
  sandbox: SandboxReport = {},
): Promise<void> {
  if (process.connected) sendToParent({ ...sandbox, ready: true, url, notReady: await readReadiness() });
}

/**
 * A successor shares its sockets with the process that it may replace. So it listens only when the parent says so, after
 * `/readyz` was 200. Resolves at once in any other process.
 *
 * @param readReadiness the first failed check of this process's `/readyz`; null: it is ready
 */
export async function waitForTurn(
  readReadiness: () => Promise<string | null>,
  sandbox: SandboxReport = {},
): Promise<void> {
  if (process.env[SUCCESSOR_VARIABLE] === undefined) return;
  const turn = new AbortController();
  process.on('message', (raw) => {
    if (isMessage(raw, 'serve')) turn.abort();
  });
  while (!turn.signal.aborted) {
    sendToParent({ ...sandbox, prepared: true, notReady: await readReadiness() });
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
 * Calls `stop` once, on SIGTERM, SIGINT, or when the parent has exited. A parent ends a process whose stop hangs; the
 * process does so itself for the case that the parent was killed.
 *
 * @param stop releases everything; afterwards the process exits, with code 1 if it rejected, by SIGKILL if it took too
 *   long. `alone` is aborted as soon as it is known that no other process serves
 * @param timeoutMs from the start of `stop`, or from the abort of `alone`
 */
export function stopWithParent(stop: (alone: AbortSignal) => Promise<void>, timeoutMs: number = STOP_TIMEOUT_MS): void {
  const alone = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const limitStop = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(endByForce, ms, ms).unref();
  };
  const stopOnce = (): void => {
    if (timer !== undefined) return;
    limitStop(alone.signal.aborted ? timeoutMs : HANDOVER_TIMEOUT_MS);
    stop(alone.signal).then(
      () => process.exit(),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  const endAlone = (): void => {
    if (alone.signal.aborted) return;
    alone.abort();
    if (timer !== undefined) limitStop(timeoutMs);
  };
  const stopAlone = (): void => {
    endAlone();
    stopOnce();
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stopOnce);
  process.on('message', (raw) => {
    if (isMessage(raw, 'alone')) endAlone();
  });
  process.on('disconnect', stopAlone);
  // The parent was killed while this process started. Undefined: there never was one.
  if (process.connected === false) stopAlone();
}

const isMessage = (raw: unknown, kind: 'serve' | 'alone'): boolean => kind in (childMessage.safeParse(raw).data ?? {});

/** Names what kept the process alive, for whoever looks for the cause. */
function endByForce(timeoutMs: number): void {
  const open = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
  const counts = open.map(([name, all]) => `${all?.length} ${name}`).join(', ');
  console.error(`The stop took longer than ${timeoutMs / 1_000} s. The process ends by force; still open: ${counts}.`);
  // `exit` waits for handlers and threads, of which one may hang.
  process.kill(process.pid, 'SIGKILL');
}

function sendToParent(message: ParentMessage): void {
  // Without the callback, the message to a parent that was just killed would be an uncaught error.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
