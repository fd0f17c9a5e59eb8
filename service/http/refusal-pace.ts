/** Slows down clients that are refused and try again at once: their connections would keep the process and the machine busy. */
import type { ServerResponse } from 'node:http';
import { SECOND } from '../../sdk/contract/limits.ts';
import { TokenBucket } from '../timing/token-bucket.ts';

interface PaceOptions {
  /** Refusals that are answered at once. */
  readonly burst: number;
  readonly perSecond: number;
  /** Wait before a refusal beyond them is answered. Most vendors wait longer for a response. Milliseconds. */
  readonly pauseMs: number;
  /** Refusals that wait. Those beyond them are answered at once, because each holds a connection and what was read of it. */
  readonly waitingMax: number;
}

const DEFAULTS: PaceOptions = { burst: 100, perSecond: 50, pauseMs: 5 * SECOND, waitingMax: 1_000 };

export class RefusalPace {
  readonly #options: PaceOptions;
  readonly #bucket: TokenBucket;
  #waiting = 0;

  constructor(options: PaceOptions = DEFAULTS) {
    this.#options = options;
    this.#bucket = new TokenBucket(options);
  }

  /**
   * Calls `send` at once or after the pause, in which nothing is read from the client. A chunked body never waits: what was read
   * of it may be thousands of chunks, which take a hundred times their size in memory.
   */
  answer(response: ServerResponse, send: () => void): void {
    const { pauseMs, waitingMax } = this.#options;
    const isChunked = response.req.headers['transfer-encoding'] !== undefined;
    if (isChunked || this.#waiting >= waitingMax || this.#bucket.consume()) {
      send();
      return;
    }
    const { socket } = response;
    this.#waiting += 1;
    socket?.pause();
    setTimeout(() => {
      this.#waiting -= 1;
      socket?.resume();
      send();
    }, pauseMs).unref();
  }
}
