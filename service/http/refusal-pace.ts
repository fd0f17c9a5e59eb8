/** Slows down clients that are refused and try again at once: their connections would keep the process and the machine busy. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { KIB, SECOND } from '../../sdk/contract/limits.ts';
import { TokenBucket } from '../timing/token-bucket.ts';
import { findConnectionsMax } from './connection-limits.ts';

interface PaceOptions {
  /** Refusals that are answered at once. */
  readonly burst: number;
  readonly perSecond: number;
  /** Wait before a refusal beyond them is answered. Most vendors wait longer for a response. Milliseconds. */
  readonly pauseMs: number;
  /** Refusals that wait. Those beyond them are answered at once, because each holds a connection. */
  readonly waitingMax: number;
}

/**
 * Share of the connections of a server for refusals that wait, those of webhooks and of other requests each: the rest is for requests that
 * are served. With 10,000 connections, 2,500 clients that try again at once make 500 connections a second.
 */
const SHARE_OF_CONNECTIONS = 0.25;

/** Longest body that is read while the refusal waits: about as much as a client may send in headers. */
const SHORT_BYTES = 16 * KIB;

const createDefaults = (): PaceOptions => ({
  burst: 100,
  perSecond: 50,
  pauseMs: 5 * SECOND,
  waitingMax: Math.floor(findConnectionsMax() * SHARE_OF_CONNECTIONS),
});

export class RefusalPace {
  readonly #options: PaceOptions;
  readonly #bucket: TokenBucket;
  #waiting = 0;

  constructor(options = createDefaults()) {
    this.#options = options;
    this.#bucket = new TokenBucket(options);
  }

  /** Calls `send` at once or after the pause, in which nothing is read from the client. */
  answer({ req }: ServerResponse, send: () => void): void {
    if (this.#mayAnswer()) send();
    else this.#wait(req, pauseReading(req.socket), send);
  }

  /**
   * The same for a request whose body has not arrived. The rest of a short body is read meanwhile, and `send` called when it ends: the
   * connection of a complete request serves the next one.
   */
  answerUnread({ req }: ServerResponse, send: () => void): void {
    if (this.#mayAnswer()) send();
    else req.once('end', this.#wait(req, isShort(req.headers) ? null : pauseReading(req.socket), send));
  }

  #mayAnswer(): boolean {
    return this.#waiting >= this.#options.waitingMax || this.#bucket.consume();
  }

  /** @returns ends the wait */
  #wait(request: IncomingMessage, resume: (() => void) | null, send: () => void): () => void {
    this.#waiting += 1;
    // Drops what was read of the body: thousands of tiny chunks take a hundred times their size in memory.
    request.resume();
    const end = (): void => {
      clearTimeout(timer);
      request.off('end', end);
      this.#waiting -= 1;
      resume?.();
      send();
    };
    const timer = setTimeout(end, this.#options.pauseMs).unref();
    return end;
  }
}

/** Many clients send a short body in a packet of its own, right after the headers. */
const isShort = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SHORT_BYTES;

interface Pause {
  /** Refusals that wait: a client may send several requests without waiting for their answers. */
  refusals: number;
  again(): void;
}

const pauses = new WeakMap<Socket, Pause>();

/** @returns reads again, unless another refusal of the connection waits */
function pauseReading(socket: Socket): () => void {
  const pause = pauses.get(socket) ?? { refusals: 0, again: () => void socket.pause() };
  if (pause.refusals === 0) {
    pauses.set(socket, pause);
    // To resume a request is to resume its socket, later in the same turn of the event loop. A pause in the next turn would be too
    // late: libuv reads up to 32 chunks of 64 KiB from a socket in one turn.
    socket.on('resume', pause.again).pause();
  }
  pause.refusals += 1;
  return () => {
    pause.refusals -= 1;
    if (pause.refusals > 0) return;
    pauses.delete(socket);
    socket.off('resume', pause.again).resume();
  };
}
