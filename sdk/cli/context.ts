/** The environment of a command: output, working folder, accounts, and clients of the service. */
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { connect, type SessionClient } from '../session/client.ts';
import { Transport } from '../session/transport.ts';
import { Accounts, normalizeServiceUrl } from './accounts.ts';
import { CommandError } from './failure.ts';
import type { LocalTools } from './local-tools.ts';
import type { Output } from './output.ts';
import { Rest } from './rest.ts';

interface ContextOptions extends Pick<Context, 'output' | 'folder' | 'env' | 'localTools' | 'signal' | 'version'> {
  readonly stdin?: Readable | undefined;
  /** The value of `--url`. */
  readonly url: string | undefined;
}

export class Context {
  readonly output: Output;
  /** Absolute path of the working folder. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly localTools: LocalTools;
  /** Aborts on Ctrl-C. */
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
    this.localTools = options.localTools;
    this.signal = options.signal;
    this.version = options.version;
    this.accounts = new Accounts(options.env);
    this.#url = options.url;
    this.#stdin = options.stdin;
  }

  /** Yields the lines of standard input until it ends or the command is interrupted. */
  async *readLines(): AsyncGenerator<string> {
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

  /** Returns the address of the service: `--url`, else `BULKHEAD_URL`, else the address of the last login. */
  async getUrl(): Promise<string> {
    const address = this.#url ?? this.env.BULKHEAD_URL;
    return address ? normalizeServiceUrl(address) : await this.accounts.getCurrentUrl();
  }

  /** Returns a REST client with `BULKHEAD_TOKEN` or the stored token. @throws CommandError */
  async getRest(): Promise<Rest> {
    const url = await this.getUrl();
    const token = this.env.BULKHEAD_TOKEN || (await this.accounts.find(url))?.token;
    if (!token) {
      const message = `You are not signed in at ${url}. Run \`bulkhead login\`.`;
      throw new CommandError('unauthenticated', message);
    }
    return new Rest({ url, token, signal: this.signal });
  }

  /** Returns a session API client. @throws CommandError */
  async getSessions(): Promise<SessionClient> {
    const { token } = await this.getRest();
    return connect({ url: await this.getSessionUrl(), token, retryForMs: SESSION_RETRY_MS });
  }

  /** Returns the address of the session API. The service is asked once. @throws CommandError */
  getSessionUrl(): Promise<string> {
    this.#sessionUrl ??= this.getUrl().then((service) => this.#fetchSessionUrl(service));
    return this.#sessionUrl;
  }

  async #fetchSessionUrl(service: string): Promise<string> {
    const transport = new Transport({ url: `${service}/api`, token: '', retryForMs: SESSION_RETRY_MS });
    const { sessionApiUrl } = await transport.json<{ sessionApiUrl: string | null }>({
      method: 'GET',
      path: '/sign-in',
      signal: this.signal,
    });
    const url = this.env.BULKHEAD_SESSION_URL ?? sessionApiUrl;
    if (url) return url.replace(/\/+$/, '');
    const message = `${service} does not publish the address of its session API. Set BULKHEAD_SESSION_URL.`;
    throw new CommandError('unavailable', message, { exit: 'failed' });
  }
}

/** Longer than for REST, because a plugin may have to start first. Milliseconds. */
const SESSION_RETRY_MS = 5_000;
