/** A client of the REST interface and the session API that acts as one account. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, Skipped } from './expect.ts';
import type { PackageFile } from './packages.ts';

export interface Addresses {
  /** Address of the REST interface, without a slash at the end. */
  readonly rest: string;
  /** Address of the session API. Null: unknown, so its rows are skipped. */
  readonly sessions: string | null;
  /** Base of the webhook addresses. Null: as the deployment shows them. */
  readonly webhooks: string | null;
}
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: checks look into answers of every shape
  readonly body: any;
  readonly text: string;
}
export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is. Default: `body` as JSON. */
  readonly raw?: BodyInit;
  /** The call is not repeated where the deployment asks to wait. */
  readonly isFinal?: boolean;
}
/** Something to remove at the end of the run. */
export interface Created {
  readonly kind: 'plugins' | 'installations' | 'sessions';
  readonly id: string;
}

/** A deployment with its default limits asks a quick run to wait; longer than this is not its limit any more. */
const WAIT_MAX_S = 60;
/** For one call, all its waits together. */
const WAITS_MAX_MS = 180_000;

/**
 * Reads the pages of a list up to the last one.
 *
 * @param readPage gets the end of the query: nothing for the first page, then the cursor
 */
export async function* readPages<Item>(readPage: (cursorQuery: string) => Promise<Answer>): AsyncGenerator<Item[]> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await readPage(cursor && `&cursor=${encodeURIComponent(cursor)}`);
    yield body.items;
    cursor = body.nextCursor;
  }
}

export class Account {
  readonly token: string;
  readonly created: Created[] = [];
  /** The first refusal of each code that asked to wait. */
  readonly refusals = new Map<string, Answer>();
  readonly #addresses: Addresses;
  /** When calls go on after a rate limit, in epoch milliseconds. */
  #resumesAt = 0;
  #waitedMs = 0;
  #isClosed = false;

  constructor(addresses: Addresses, token: string) {
    this.#addresses = addresses;
    this.token = token;
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.call('GET', path, undefined, options);
  }
  post(path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    return this.call('POST', path, body, options);
  }
  patch(path: string, body?: unknown): Promise<Answer> {
    return this.call('PATCH', path, body);
  }
  delete(path: string, body?: unknown): Promise<Answer> {
    return this.call('DELETE', path, body);
  }

  /** Calls the REST interface. */
  call(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<Answer> {
    return this.#request(method, `${this.#addresses.rest}${path}`, body, options);
  }

  /** Calls the session API. */
  session(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<Answer> {
    return this.#request(method, `${this.sessionsUrl}${path}`, body, options);
  }

  get sessionsUrl(): string {
    if (this.#addresses.sessions === null)
      throw new Skipped('the address of the session API is unknown: --sessions <url>');
    return this.#addresses.sessions;
  }

  async publishZip(pluginId: string, semVer: string, zip: Uint8Array): Promise<Answer> {
    const form = new FormData();
    form.set('semVer', semVer);
    form.set('file', new Blob([new Uint8Array(zip)], { type: 'application/zip' }), 'package.zip');
    return this.post(`/plugins/${pluginId}/versions/zip`, undefined, { raw: form });
  }

  publishFiles(pluginId: string, semVer: string, files: readonly PackageFile[]): Promise<Answer> {
    return this.post(`/plugins/${pluginId}/versions`, { semVer, files });
  }

  /** Answers with the body of a success. @throws Mismatch */
  async need(call: Promise<Answer>, status: 200 | 201 | 202 | 204 = 200): Promise<Answer['body']> {
    const answer = await call;
    expect(answer, { status });
    return answer.body;
  }

  /** Refuses all further calls. @returns a client of the same account */
  close(): Account {
    this.#isClosed = true;
    return new Account(this.#addresses, this.token);
  }

  /** How long calls were held back by rate limits until now. */
  get waitedMs(): number {
    return this.#waitedMs - Math.max(0, this.#resumesAt - Date.now());
  }

  /** @param after id of the last event that is known */
  openStream(path: string, signal: AbortSignal, after: string | null): Promise<Response> {
    const resumed = after === null ? {} : { 'last-event-id': after };
    const headers = { authorization: `Bearer ${this.token}`, ...resumed };
    return this.#fetch(`${this.#addresses.rest}${path}`, { headers, signal }, false);
  }

  async #request(method: string, url: string, body: unknown, options: RequestOptions): Promise<Answer> {
    const { headers, raw, isFinal = false } = options;
    const init: RequestInit = {
      method,
      redirect: 'manual',
      headers: {
        ...(this.token === '' ? {} : { authorization: `Bearer ${this.token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    const answer = await readAnswer(await this.#fetch(url, init, isFinal));
    this.#noteCreated(answer, url);
    return answer;
  }

  /** Sends a request, again after each wait that the deployment asks for. A rate limit holds back all calls of the account. */
  async #fetch(url: string, init: RequestInit, isFinal: boolean): Promise<Response> {
    for (const givesUpAt = Date.now() + WAITS_MAX_MS; ; ) {
      while (Date.now() < this.#resumesAt) await sleep(this.#resumesAt - Date.now());
      if (this.#isClosed) throw new Skipped('the run has ended');
      const response = await fetch(url, init);
      if (response.status !== 429 && response.status !== 503) return response;
      const answer = await readAnswer(response.clone());
      const waitMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1000;
      const isOver = !(waitMs <= WAIT_MAX_S * 1000) || Date.now() + waitMs > givesUpAt;
      if (isFinal || !isBusy(answer) || isOver) return response;
      this.#noteRefusal(answer);
      if (response.status === 429) this.#holdBack(waitMs);
      else await sleep(waitMs);
    }
  }

  #noteRefusal(answer: Answer): void {
    const { code } = answer.body;
    if (!this.refusals.has(code)) this.refusals.set(code, answer);
  }

  #holdBack(ms: number): void {
    const now = Date.now();
    const resumesAt = Math.max(this.#resumesAt, now + ms);
    this.#waitedMs += resumesAt - Math.max(this.#resumesAt, now);
    this.#resumesAt = resumesAt;
  }

  #noteCreated({ status, body }: Answer, url: string): void {
    const kind = url.split('/').at(-1);
    if (status !== 201 || (kind !== 'plugins' && kind !== 'installations' && kind !== 'sessions')) return;
    this.created.push({ kind, id: body.id });
  }
}

async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text, text };
}

/** The deployment asks to try again: too many requests of this run, or of others. */
const isBusy = ({ status, body }: Answer): boolean =>
  status === 429 || (status === 503 && (body?.code === 'bundler_busy' || body?.code === 'unavailable'));
