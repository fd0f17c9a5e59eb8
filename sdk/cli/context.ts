/** What every command gets: where it was typed, whom it talks to, how it answers. */
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { connect, type SessionClient } from '../session/client.ts';
import { Transport } from '../session/transport.ts';
import { Accounts, serviceUrl } from './accounts.ts';
import { CommandError } from './failure.ts';
import type { Output } from './output.ts';
import { Rest } from './rest.ts';
import type { Toolbox } from './toolbox.ts';

export interface ContextOptions {
  readonly output: Output;
  /** The working folder, absolute. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly toolbox: Toolbox;
  /** What is typed, or piped in. */
  readonly stdin?: Readable | undefined;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  /** `--url` as it was typed. */
  readonly url: string | undefined;
  readonly version: string;
}

export class Context {
  readonly output: Output;
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly toolbox: Toolbox;
  readonly signal: AbortSignal;
  readonly version: string;
  readonly accounts: Accounts;
  readonly #url: string | undefined;
  readonly #stdin: Readable | undefined;
  #sessionUrl: Promise<string> | null = null;

  constructor(options: ContextOptions) {
    this.output = options.output;
    this.folder = options.folder;
    this.env = options.env;
    this.toolbox = options.toolbox;
    this.signal = options.signal;
    this.version = options.version;
    this.accounts = new Accounts(options.env);
    this.#url = options.url;
    this.#stdin = options.stdin;
  }

  /** The lines that are typed or piped in, until they end or the command does. */
  async *lines(): AsyncGenerator<string> {
    if (!this.#stdin) return;
    const input = createInterface({ input: this.#stdin, crlfDelay: Number.POSITIVE_INFINITY });
    const close = () => input.close();
    this.signal.addEventListener('abort', close, { once: true });
    try {
      yield* input;
    } finally {
      this.signal.removeEventListener('abort', close);
      input.close();
    }
  }

  /** The service that is talked to: `--url`, else `BULKHEAD_URL`, else the one of the last `login`. */
  async url(): Promise<string> {
    const given = this.#url ?? this.env.BULKHEAD_URL;
    return given ? serviceUrl(given) : await this.accounts.current();
  }

  /** The REST interface as the signed-in user: `BULKHEAD_TOKEN`, else the token kept by `login`. @throws CommandError */
  async rest(): Promise<Rest> {
    const url = await this.url();
    const token = this.env.BULKHEAD_TOKEN || (await this.accounts.find(url))?.token;
    if (!token) {
      const message = `You are not signed in at ${url}: run \`bulkhead login\`.`;
      throw new CommandError('unauthenticated', message, { exit: 'notSignedIn' });
    }
    return new Rest({ url, token, signal: this.signal });
  }

  /** The session API, whose address the service tells. @throws CommandError */
  async sessions(): Promise<SessionClient> {
    const { token } = await this.rest();
    return connect({ url: await this.sessionUrl(), token, retryForMs: SESSION_RETRY_MS });
  }

  /** Where the session API of the service is, asked once. @throws CommandError */
  sessionUrl(): Promise<string> {
    this.#sessionUrl ??= this.url().then((service) => this.#askSessionUrl(service));
    return this.#sessionUrl;
  }

  async #askSessionUrl(service: string): Promise<string> {
    const asked = new Transport({ url: `${service}/api`, token: '', retryForMs: SESSION_RETRY_MS });
    const { sessionApiUrl } = await asked.json<{ sessionApiUrl: string | null }>({
      ...{ method: 'GET', path: '/sign-in', signal: this.signal },
    });
    const url = this.env.BULKHEAD_SESSION_URL ?? sessionApiUrl;
    if (url) return url.replace(/\/+$/, '');
    throw new CommandError(
      'unavailable',
      `${service} does not say where its session API is: set BULKHEAD_SESSION_URL.`,
    );
  }
}

/** A plugin may be starting behind it; longer than REST waits, and short enough to sit through. Milliseconds. */
const SESSION_RETRY_MS = 5_000;
