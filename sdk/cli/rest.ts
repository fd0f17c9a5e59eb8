/** The REST interface as commands use it: JSON with the user's token; refusals are `BulkheadError`s. */
import { Transport } from '../session/transport.ts';

/** A service that restarts is back within it; one that is not there is told soon. Milliseconds. */
const RETRY_FOR_MS = 1_500;
/** Somebody else's packages are being bundled before it. Milliseconds. */
const UPLOAD_RETRY_FOR_MS = 20_000;
/** More than an account has of anything that is listed at once. */
const PAGE = 1_000;

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

export class Rest {
  /** Of the service, without `/api`. */
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

  post<Answer>(path: string, body?: unknown): Promise<Answer> {
    return this.#transport.json({ method: 'POST', path, body, signal: this.#signal });
  }

  patch<Answer>(path: string, body: unknown): Promise<Answer> {
    return this.#transport.json({ method: 'PATCH', path, body, signal: this.#signal });
  }

  delete<Answer>(path: string, body?: unknown): Promise<Answer> {
    return this.#transport.json({ method: 'DELETE', path, body, signal: this.#signal });
  }

  /** An answer whose body is read by the caller, such as a stream of events. */
  open(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return this.#transport.open({ method: 'GET', path, headers, signal: this.#signal });
  }

  /** Sends bytes, made anew where the service asks to come back. A busy bundler is waited for. */
  upload<Answer>(path: string, type: string, open: () => ReadableStream<Uint8Array>): Promise<Answer> {
    return this.#uploads.json({ method: 'POST', path, stream: { type, open }, signal: this.#signal });
  }

  /** All rows of a list. */
  async all<Item>(path: string): Promise<readonly Item[]> {
    const found: Item[] = [];
    const mark = path.includes('?') ? '&' : '?';
    for (let cursor: string | null = ''; cursor !== null; ) {
      const next: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const page: Page<Item> = await this.get(`${path}${mark}limit=${PAGE}${next}`);
      found.push(...page.items);
      cursor = page.nextCursor;
    }
    return found;
  }
}
