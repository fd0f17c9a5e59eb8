/** Limits how many downloads of large files run at once: each holds a piece of its file in memory until its client has read it. */
import type { ServerResponse } from 'node:http';
import { SECOND } from '../../sdk/contract/limits.ts';
import { LEAST_BYTES_PER_SECOND } from './body-reader.ts';
import { onceClosed } from './closed-responses.ts';
import { PlaceLimiter } from './place-limiter.ts';

const RETRY_AFTER_S = 5;

/**
 * A client that takes less than the least rate on average of this time loses its place. Long, because the buffers before a client of
 * 64 KiB/s take 1.5 MB at a time, with 25 s between. Milliseconds.
 */
const RATE_WINDOW_MS = 120 * SECOND;
const LEAST_BYTES_IN_WINDOW = (LEAST_BYTES_PER_SECOND * RATE_WINDOW_MS) / SECOND;

export class DownloadPlaces {
  readonly #places: PlaceLimiter;

  /** @param works what is downloaded, for error texts, such as `archives` */
  constructor(places: number, works: string) {
    this.#places = new PlaceLimiter({ places, verb: 'sending', works, retryAfterS: RETRY_AFTER_S });
  }

  /**
   * Holds a place until the response is closed: it was sent, its client disconnected, or read so slowly that its
   * connection was closed.
   *
   * @param send starts to send the response
   * @throws Problem `rate_limited` if the account's share has no free place, and what `send` throws
   */
  async hold(accountId: string, response: ServerResponse, send: () => Promise<void>): Promise<void> {
    await this.#places.run(accountId, async () => {
      await send();
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      const watch = watchRate(response);
      onceClosed(response, resolve);
      await closed;
      clearInterval(watch);
    });
  }
}

function watchRate(response: ServerResponse): NodeJS.Timeout {
  // The response has no socket while it waits for another one of its connection.
  const { socket } = response.req;
  let before = 0;
  return setInterval(() => {
    const bytes = socket.bytesWritten - before;
    before = socket.bytesWritten;
    // If nothing waits for the client, the store of the files is slow.
    if (response.writableLength > 0 && bytes < LEAST_BYTES_IN_WINDOW) socket.destroy();
  }, RATE_WINDOW_MS).unref();
}
