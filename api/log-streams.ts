/** Log lines as server-sent events: read from the table when it changed, sent as fast as the reader takes them. */
import { Readable } from 'node:stream';
import type { Pool } from 'pg';
import type { Listener } from '../db/listener.ts';
import { followLogs, type LogFilter, type StoredLogLine } from '../db/logs.ts';
import { Problem } from '../sdk/errors.ts';
import { LogTail } from './log-tail.ts';
import { Waker } from './waker.ts';

/** Keeps proxies from ending a quiet connection, and looks for lines whose notice was lost. Milliseconds. */
const HEARTBEAT_MS = 15_000;
/** Then the reader comes back, with a token that is still good. Milliseconds. */
const LIFETIME_MS = 15 * 60_000;
/** What the reader waits before it comes back. Milliseconds. */
const RETRY_MS = 2_000;
/** Lines read at once: what a reader that is slow costs in memory. */
const LINES_AT_ONCE = 100;
const STREAMS_PER_ACCOUNT = 20;
const STREAMS_PER_PROCESS = 1_000;
const FULL_RETRY_AFTER_S = 10;

export interface StreamRequest {
  readonly accountId: string;
  readonly filter: LogFilter;
  /** The last line the reader has; null: only what is written from now on. */
  readonly after: string | null;
  /** Whether the account still has the installation. */
  isThere(): Promise<boolean>;
}
export interface LogStreamOptions {
  readonly heartbeatMs?: number;
  readonly lifetimeMs?: number;
}

interface Open {
  readonly accountId: string;
  readonly installationId: string;
  readonly waker: Waker;
}

/** Takes the next events when there is room for them, and tells at once when nobody wants more. */
class EventReader extends Readable {
  readonly #events: AsyncGenerator<string>;
  readonly #onClose: () => void;

  constructor(events: AsyncGenerator<string>, onClose: () => void) {
    super();
    this.#events = events;
    this.#onClose = onClose;
  }

  override _read(): void {
    this.#events.next().then(
      ({ value, done }) => !this.destroyed && this.push(done ? null : value),
      (error: Error) => this.destroy(error),
    );
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#onClose();
    done(error);
  }
}

export class LogStreams {
  readonly #deps: { readonly pool: Pool; readonly listener: Listener };
  readonly #options: Required<LogStreamOptions>;
  readonly #open = new Set<Open>();
  #following: Promise<unknown> | undefined;

  constructor(deps: { readonly pool: Pool; readonly listener: Listener }, options: LogStreamOptions = {}) {
    this.#deps = deps;
    this.#options = { heartbeatMs: HEARTBEAT_MS, lifetimeMs: LIFETIME_MS, ...options };
  }

  get size(): number {
    return this.#open.size;
  }

  /** Opens a stream. It ends when it is destroyed, after its lifetime, or with `close`. @throws Problem `rate_limited` */
  async open(request: StreamRequest): Promise<Readable> {
    const { accountId, filter } = request;
    this.#refuseTooMany(accountId);
    const open: Open = { accountId, installationId: filter.installationId, waker: new Waker() };
    this.#open.add(open);
    try {
      await this.#follow();
      const tail = await LogTail.open(this.#deps.pool, filter, request.after);
      return new EventReader(this.#events(request, tail, open.waker), () => {
        open.waker.close();
        this.#open.delete(open);
      });
    } catch (error) {
      this.#open.delete(open);
      throw error;
    }
  }

  /** Ends all streams: their readers go to another process. */
  close(): void {
    for (const { waker } of this.#open) waker.close();
  }

  async *#events({ isThere }: StreamRequest, tail: LogTail, waker: Waker): AsyncGenerator<string> {
    const { heartbeatMs, lifetimeMs } = this.#options;
    const endsAt = Date.now() + lifetimeMs;
    let beatAt = Date.now() + heartbeatMs;
    // With an id from the start, one that is cut off before its first line misses nothing either.
    yield `retry: ${RETRY_MS}\nid: ${tail.position}\n\n`;
    while (!waker.closed && Date.now() < endsAt) {
      const before = tail.position;
      const lines = await tail.read(LINES_AT_ONCE);
      if (lines.length > 0) yield asEvents(lines, before);
      if (Date.now() >= beatAt) {
        if (!(await isThere())) return;
        yield ': still here\n\n';
        beatAt = Date.now() + heartbeatMs;
      }
      if (lines.length < LINES_AT_ONCE) await waker.wait(Math.max(1, Math.min(beatAt, endsAt) - Date.now()));
    }
  }

  /** One subscription a process, made for its first stream. */
  #follow(): Promise<unknown> {
    const wake = (installationId: string | null) => {
      for (const open of this.#open) {
        if (installationId === null || open.installationId === installationId) open.waker.wake();
      }
    };
    this.#following ??= followLogs(this.#deps.listener, wake, () => wake(null)).catch((error: unknown) => {
      this.#following = undefined;
      throw error;
    });
    return this.#following;
  }

  #refuseTooMany(accountId: string): void {
    const own = [...this.#open].filter((open) => open.accountId === accountId).length;
    if (own < STREAMS_PER_ACCOUNT && this.#open.size < STREAMS_PER_PROCESS) return;
    const detail =
      own < STREAMS_PER_ACCOUNT
        ? 'This process follows as many logs as it can. Try again shortly.'
        : `Your account follows ${own} logs at once, the most it may. Close one first.`;
    throw new Problem('rate_limited', detail, { retryAfter: FULL_RETRY_AFTER_S });
  }
}

/**
 * Each line with the id to resume from: its own, or a greater one that was sent before it.
 *
 * @param sent the greatest so far
 */
function asEvents(lines: readonly StoredLogLine[], sent: string): string {
  let greatest = sent;
  const events = lines.map((line) => {
    if (line.id > greatest) greatest = line.id;
    // JSON text has no line break.
    return `id: ${greatest}\nevent: line\ndata: ${JSON.stringify(line)}\n\n`;
  });
  return events.join('');
}
