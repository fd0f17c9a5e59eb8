/** Sends requests to the REST interface. Refused requests throw `BulkheadError`. */
import type { Page } from '../session/api-types.ts';
import { Transport } from '../session/transport.ts';

/** How long a request is retried. Short, so that the user soon reads that the service is unreachable. Milliseconds. */
const RETRY_FOR_MS = 1_500;
/** How long an upload is retried while the bundler is busy with other packages. Milliseconds. */
const UPLOAD_RETRY_FOR_MS = 20_000;
/** The largest page of the REST interface. */
const PAGE_SIZE = 1_000;

export class Rest {
  /** Address of the service, without `/api`. */
  readonly url: string;
  readonly token: string;
  readonly #transport: Transport;
  readonly #uploads: Transport;
  readonly #signal: AbortSignal;

  constructor({ url, token, signal }: { url: string; token: string; signal: AbortSignal }) {
    this.url = url;
    this.token = token;
    this.#signal = signal;
    this.#transport = new Transport({ url: `${url}/api`, token, retryForMs: RETRY_FOR_MS });
    this.#uploads = new Transport({ url: `${url}/api`, token, retryForMs: UPLOAD_RETRY_FOR_MS });
  }

  get<Answer>(path: string): Promise<Answer> {
    return this.#transport.json({ method: 'GET', path, signal: this.#signal });
  }

  /** @param repeatable whether the request is idempotent, so that it is sent again after its connection broke */
  post<Answer>(path: string, body?: unknown, { repeatable = false } = {}): Promise<Answer> {
    return this.#transport.json({ method: 'POST', path, body, repeatable, signal: this.#signal });
  }

  patch<Answer>(path: string, body: unknown): Promise<Answer> {
    return this.#transport.json({ method: 'PATCH', path, body, signal: this.#signal });
  }

  delete<Answer>(path: string, body?: unknown): Promise<Answer> {
    return this.#transport.json({ method: 'DELETE', path, body, signal: this.#signal });
  }

  /** Returns a response with its body unread, such as an event stream. */
  open(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return this.#transport.open({ method: 'GET', path, headers, signal: this.#signal });
  }

  /** Uploads bytes, and retries while the bundler is busy. @param open called for every attempt */
  upload<Answer>(path: string, type: string, open: () => ReadableStream<Uint8Array>): Promise<Answer> {
    return this.#uploads.json({ method: 'POST', path, stream: { type, open }, signal: this.#signal });
  }

  /** Returns all items of a paginated list. */
  getAll<Item>(path: string): Promise<readonly Item[]> {
    return this.getFirst(path, {}, Number.POSITIVE_INFINITY);
  }

  /** Returns the first items of a paginated list. A page may be short or empty although others follow. */
  async getFirst<Item>(
    path: string,
    filter: ConstructorParameters<typeof URLSearchParams>[0],
    count: number,
  ): Promise<Item[]> {
    const items: Item[] = [];
    const query = new URLSearchParams(filter);
    for (let cursor: string | null = ''; cursor !== null && items.length < count; ) {
      query.set('limit', String(Math.min(count - items.length, PAGE_SIZE)));
      if (cursor !== '') query.set('cursor', cursor);
      const page: Page<Item> = await this.get(`${path}?${query}`);
      items.push(...page.items);
      cursor = page.nextCursor;
    }
    return items;
  }
}
