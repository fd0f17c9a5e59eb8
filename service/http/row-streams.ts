/** Streams new rows as server-sent events: reads their table after each notification, as fast as the client reads. */

import { Readable } from 'node:stream';
import type { RowTail } from '../../db/postgres/row-tail.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import { Waker } from '../../db/timing/waker.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { LazyLoad } from '../timing/lazy-load.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../timing/loop-turns.ts';
import { formatEvents, HEARTBEAT_TEXT, PIECE_CHARS } from './event-text.ts';

/** Keeps proxies from closing a quiet connection, and finds rows whose notification was lost. Milliseconds. */
const HEARTBEAT_MS = 15_000;
/** Then the stream ends and the client reconnects, to another process perhaps. Milliseconds. */
const LIFETIME_MS = 15 * 60_000;
/** A stream that was ended is cut off after this time if its client has not read the rest. Milliseconds. */
const UNREAD_MS = 5_000;
/** Reconnect delay of the client. Milliseconds. */
const RETRY_MS = 2_000;
/** Poll interval while rows wait for the end of another transaction, which sends no notification. Milliseconds. */
const SOON_MS = 50;
const STREAMS_PER_ACCOUNT = 20;
const STREAMS_PER_PROCESS = 1_000;
const FULL_RETRY_AFTER_S = 10;

/**
 * Headers of every stream. `close`: the connection cannot serve another request, and an open one would delay a
 * shutdown.
 */
export const eventStreamHeaders = {
  connection: 'close',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'content-type': 'text/event-stream',
} as const;

interface StreamRequest {
  readonly accountId: string;
  /** The key in notifications that wakes this stream. */
  readonly key: string;
  /** The response that sends the stream. */
  readonly response: { destroy(): void };
  openTail(): Promise<RowTail>;
  /** False ends the stream: its subject was deleted. */
  isThere(): Promise<boolean>;
}
export interface RowStreamOptions {
  readonly heartbeatMs?: number;
  readonly lifetimeMs?: number;
  readonly unreadMs?: number;
}
interface RowStreamSource {
  /** Subscribes to notifications, once per process. `wake` receives a key, or null for every stream. */
  follow(wake: (key: string | null) => void): Promise<unknown>;
  /** Announces a reader of a key, if notifications are sent to announced readers only. */
  announce?(key: string): Promise<{ close(): Promise<void> }>;
  /** Plural noun for error texts, such as `logs`. */
  readonly things: string;
}

interface Open extends Pick<StreamRequest, 'accountId' | 'key' | 'response'> {
  readonly waker: Waker;
  lifetime?: NodeJS.Timeout;
  announced?: { close(): Promise<void> } | undefined;
}

/**
 * Pulls the next events when the client has read the previous ones, and calls `onClose` when the client disconnects.
 */
class EventReader extends Readable {
  readonly #accountId: string;
  readonly #events: AsyncGenerator<string>;
  readonly #onClose: () => void;
  /** Ends the stream without another event. */
  readonly end: () => void;

  constructor(accountId: string, events: AsyncGenerator<string>, end: () => void, onClose: () => void) {
    // An unread stream holds one piece, its response another, and the rows that are not formatted yet.
    super({ highWaterMark: PIECE_CHARS });
    this.#accountId = accountId;
    this.#events = events;
    this.end = end;
    this.#onClose = onClose;
  }

  override _read(): void {
    // Node calls this in the async context of the socket.
    const reading = asAccount(this.#accountId, () => this.#events.next());
    reading.then(
      ({ value, done }) => !this.destroyed && this.push(done ? null : value),
      (error: Error) => this.destroy(error),
    );
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#onClose();
    done(error);
  }
}

/** All streams of one kind in this process. */
export class RowStreams {
  readonly #source: RowStreamSource;
  readonly #options: Required<RowStreamOptions>;
  readonly #open = new Set<Open>();
  /** Subscribes once per process, when the first stream is opened. */
  readonly #following: LazyLoad<unknown>;
  #isClosed = false;

  constructor(source: RowStreamSource, options: RowStreamOptions = {}) {
    this.#source = source;
    this.#following = new LazyLoad(() => source.follow((key) => this.#wake(key)));
    this.#options = { heartbeatMs: HEARTBEAT_MS, lifetimeMs: LIFETIME_MS, unreadMs: UNREAD_MS, ...options };
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Opens a stream. It ends when it is destroyed, after its lifetime, or with its `end` or `close` of all; after `close`, at once.
   *
   * @throws Problem `rate_limited`
   */
  async open(request: StreamRequest): Promise<EventReader> {
    const { accountId, key, response } = request;
    this.#refuseTooMany(accountId);
    const open: Open = { accountId, key, response, waker: new Waker() };
    this.#open.add(open);
    try {
      await this.#following.get();
      open.announced = await this.#source.announce?.(key);
      const tail = await request.openTail();
      const events = this.#events(request, tail, open.waker);
      const end = () => this.#end(open);
      open.lifetime = setTimeout(end, this.#options.lifetimeMs).unref();
      // A client may have connected to this process again over a connection that was open.
      if (this.#isClosed) end();
      return new EventReader(accountId, events, end, () => this.#remove(open));
    } catch (error) {
      this.#remove(open);
      throw error;
    }
  }

  /** Destroys the response after a while: a client that reads nothing would keep its place and its connection, and delay a shutdown. */
  #end({ waker, response }: Open): void {
    waker.close();
    setTimeout(() => response.destroy(), this.#options.unreadMs).unref();
  }

  #remove(open: Open): void {
    open.waker.close();
    clearTimeout(open.lifetime);
    this.#open.delete(open);
    void open.announced?.close();
  }

  /** Ends all streams; their clients reconnect to another process. */
  close(): void {
    this.#isClosed = true;
    for (const open of this.#open) this.#end(open);
  }

  async *#events({ accountId, isThere }: StreamRequest, tail: RowTail, waker: Waker): AsyncGenerator<string> {
    const { heartbeatMs } = this.#options;
    // By the monotonic clock: a step of the wall clock must not stop the heartbeats.
    let beatAt = performance.now() + heartbeatMs;
    // Send an id first: a client that is disconnected before the first row can resume without a gap.
    yield `retry: ${RETRY_MS}\nid: ${tail.position}\n\n`;
    while (!waker.isClosed) {
      const { events, bytes, hasMore, hasUnsettled } = await tail.read();
      // A reader that is behind reads without a pause: its batches wait for turns too, however small they are.
      if (hasMore || bytes > COSTLY_BYTES) await waitForLoopTurn(accountId);
      for (const piece of formatEvents(events)) {
        if (waker.isClosed) return;
        yield piece;
        if (piece.length >= PIECE_CHARS) await waitForLoopTurn(accountId);
      }
      if (waker.isClosed) return;
      if (performance.now() >= beatAt) {
        if (!(await isThere())) return;
        yield HEARTBEAT_TEXT;
        beatAt = performance.now() + heartbeatMs;
      }
      const wait = Math.max(1, Math.ceil(beatAt - performance.now()));
      if (!hasMore) await waker.wait(hasUnsettled ? Math.min(wait, SOON_MS) : wait);
    }
  }

  /** @param key null: every stream */
  #wake(key: string | null): void {
    for (const open of this.#open) if (key === null || open.key === key) open.waker.wake();
  }

  #refuseTooMany(accountId: string): void {
    const own = [...this.#open].filter((open) => open.accountId === accountId).length;
    if (own < STREAMS_PER_ACCOUNT && this.#open.size < STREAMS_PER_PROCESS) return;
    const detail =
      own < STREAMS_PER_ACCOUNT
        ? `This process streams its maximum of ${STREAMS_PER_PROCESS} ${this.#source.things}. Retry shortly.`
        : `Your account streams its maximum of ${own} ${this.#source.things} at once. Close one first.`;
    throw new Problem('rate_limited', detail, { retryAfter: FULL_RETRY_AFTER_S });
  }
}
