/** Limits how many versions are sent as zips at once: each reads a whole package while its client downloads it. */
import type { ServerResponse } from 'node:http';
import { onceClosed } from '../../service/http/closed-responses.ts';
import { PlaceLimiter } from '../../service/http/place-limiter.ts';

/** A package has up to 1 GiB. One account may download six at once. */
const ARCHIVES = { places: 8, verb: 'sending', works: 'archives', retryAfterS: 5 };

export class ArchivePlaces {
  readonly #places = new PlaceLimiter(ARCHIVES);

  /**
   * Holds a place until the response is closed: it was sent, or its client disconnected.
   *
   * @param send starts to send the response
   * @throws Problem `rate_limited` if the account's share has no free place, and what `send` throws
   */
  async hold(accountId: string, response: ServerResponse, send: () => Promise<void>): Promise<void> {
    await this.#places.run(accountId, async () => {
      await send();
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      onceClosed(response, resolve);
      await closed;
    });
  }
}
