/** The environment of a command: output, working folder, accounts, and clients of the service. */
import { addAbortSignal, type Readable } from 'node:stream';
import { connect, type SessionClient } from '../session/client.ts';
import {
  AddressError,
  BulkheadError,
  hasCode,
  readAddress,
  SESSION_API_HINT,
  Transport,
} from '../session/transport.ts';
import { removeTrailingSlashes } from '../session/web-addresses.ts';
import { Accounts, LOOPBACK, normalizeServiceUrl } from './accounts.ts';
import {
  CommandError,
  createSessionApiError,
  createUnreachableError,
  describeSessionApiRefusal,
  type Failure,
  isUnreachable,
  toFailure,
} from './failure.ts';
import { LineSplitter } from './line-splitter.ts';
import type { LocalTools } from './local-tools.ts';
import type { Output } from './output.ts';
import type { FileId } from './package-folder.ts';
import { Rest } from './rest.ts';

/** Standard input, which may be a terminal. */
export type InputStream = Readable & { readonly isTTY?: boolean | undefined };
interface ContextOptions extends Pick<Context, 'output' | 'env' | 'localTools' | 'signal' | 'version'> {
  /** Null: the current folder was removed. */
  readonly folder: string | null;
  readonly stdin?: InputStream | undefined;
  /** The value of `--url`. */
  readonly url: string | undefined;
  readonly outputIds?: readonly FileId[] | undefined;
}

export class Context {
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly localTools: LocalTools;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly version: string;
  readonly accounts: Accounts;
  /** The files that the command writes its output to. */
  readonly outputIds: readonly FileId[];
  readonly #folder: string | null;
  readonly #url: string | undefined;
  readonly #stdin: InputStream | undefined;
  #services = new Map<string, Promise<ServiceInfo>>();
  /** Addresses at which this command has called the session API. */
  readonly #sessionApis = new Set<string>();

  constructor(options: ContextOptions) {
    this.output = options.output;
    this.#folder = options.folder;
    this.env = options.env;
    this.localTools = options.localTools;
    this.signal = options.signal;
    this.version = options.version;
    this.accounts = new Accounts(options.env);
    this.outputIds = options.outputIds ?? [];
    this.#url = options.url;
    this.#stdin = options.stdin;
  }

  /** Absolute path of the working folder. @throws CommandError if it was removed */
  get folder(): string {
    if (this.#folder !== null) return this.#folder;
    throw new CommandError('usage', 'The current folder does not exist any more. Change to a folder that exists.');
  }

  /** Whether a user can answer questions: both ends are a terminal, and the output is not for programs. */
  get canAsk(): boolean {
    return this.output.isTerminal && this.#stdin?.isTTY === true;
  }

  /** Reads standard input to its end. @throws the signal's reason */
  async readInput(): Promise<string> {
    if (!this.#stdin) return '';
    const chunks: Buffer[] = [];
    for await (const chunk of addAbortSignal(this.signal, this.#stdin)) chunks.push(Buffer.from(chunk));
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Yields the lines of standard input until it ends or the command is interrupted. */
  async *readLines(): AsyncGenerator<string> {
    if (!this.#stdin) return;
    const splitter = new LineSplitter();
    try {
      for await (const bytes of addAbortSignal(this.signal, this.#stdin)) yield* splitter.push(bytes);
      yield* splitter.end();
    } catch (error) {
      if (!this.signal.aborted) throw error;
    }
  }

  /** Returns the address of the service: `--url`, else `BULKHEAD_URL`, else the address of the last login. */
  async getUrl(): Promise<string> {
    const address = this.#url ?? this.env.BULKHEAD_URL;
    return address ? normalizeServiceUrl(address) : await this.accounts.getCurrentUrl();
  }

  /** `BULKHEAD_TOKEN`, if commands use it: it is for the service of `BULKHEAD_URL`, and is not sent to another one. */
  get environmentToken(): string | undefined {
    return this.#isServiceOfEnvironment ? this.env.BULKHEAD_TOKEN || undefined : undefined;
  }

  /** Whether the variables are for the service that `--url` names. Without `BULKHEAD_URL` they are for any. */
  get #isServiceOfEnvironment(): boolean {
    const { BULKHEAD_URL } = this.env;
    return !this.#url || !BULKHEAD_URL || isSameService(this.#url, BULKHEAD_URL);
  }

  /** Explains an error of a command. Never rejects. */
  async explainError(error: unknown): Promise<Failure> {
    const url = await this.getUrl().catch(() => '');
    const address = readAddress(error);
    const sessionUrl = address !== undefined && this.#sessionApis.has(address) ? address : undefined;
    const isOwn = this.#ownSessionUrl !== undefined;
    if (sessionUrl !== undefined && isUnreachable(error))
      return createSessionApiError(sessionUrl, isOwn ? null : url, error);
    const isTokenOfEnvironment = this.environmentToken !== undefined;
    const failure = toFailure(error, url, isTokenOfEnvironment);
    if (sessionUrl === undefined || !hasCode(error, 'unauthenticated')) return failure;
    return { ...failure, message: describeSessionApiRefusal({ url: sessionUrl, isOwn }, url, isTokenOfEnvironment) };
  }

  /** Returns a REST client with `BULKHEAD_TOKEN` or the stored token. @throws CommandError, also if no service responds */
  async getRest(): Promise<Rest> {
    const url = await this.getUrl();
    // First: at a wrong address, no sign-in helps.
    await this.requireService(url);
    const token = this.environmentToken ?? (await this.accounts.find(url))?.token;
    if (!token) {
      const other = this.env.BULKHEAD_TOKEN ? ' BULKHEAD_TOKEN is for the service of BULKHEAD_URL.' : '';
      const message = `You are not signed in at ${url}.${other} Run \`bulkhead login\`.`;
      throw new CommandError('unauthenticated', message);
    }
    return new Rest({ url, token, signal: this.signal });
  }

  /** Returns a session API client. @throws CommandError */
  async getSessions(): Promise<SessionClient> {
    const { token } = await this.getRest();
    return connect({ url: await this.getSessionUrl(), token, retryForMs: SESSION_RETRY_MS });
  }

  /** Returns a client of the session API for requests that `SessionClient` does not make. @throws CommandError */
  async getSessionTransport(): Promise<Transport> {
    const { token } = await this.getRest();
    return new Transport({ url: await this.getSessionUrl(), token }, SESSION_API_HINT);
  }

  /** `BULKHEAD_SESSION_URL`, if commands use it. */
  get #ownSessionUrl(): string | undefined {
    return this.#isServiceOfEnvironment ? this.env.BULKHEAD_SESSION_URL || undefined : undefined;
  }

  /** Returns the address of the session API. @throws CommandError */
  async getSessionUrl(): Promise<string> {
    const service = await this.getUrl();
    const { sessionApiUrl, refusal } = await this.requireService(service);
    const ownUrl = this.#ownSessionUrl;
    const url = ownUrl ?? sessionApiUrl;
    if (url && ownUrl === undefined) requireEncryption(service, url);
    if (url) {
      const address = removeTrailingSlashes(url);
      this.#sessionApis.add(address);
      return address;
    }
    if (refusal) throw refusal;
    const message = `${service} does not publish the address of its session API. Set BULKHEAD_SESSION_URL.`;
    throw new CommandError('unavailable', message, { exit: 'failed' });
  }

  /**
   * Fetches the service's public facts, once per address if it answers. Has a short time limit, so that a wrong address is reported within
   * seconds.
   *
   * @throws CommandError `away` if nothing responds, `failed` if it is not a Bulkhead service
   */
  requireService(url: string): Promise<ServiceInfo> {
    const known = this.#services.get(url) ?? this.#fetchServiceInfo(url);
    this.#services.set(url, known);
    const forget = () => this.#services.delete(url);
    // `mcp` calls again until the service is there.
    known.then(({ refusal }) => refusal && forget(), forget);
    return known;
  }

  async #fetchServiceInfo(url: string): Promise<ServiceInfo> {
    const transport = new Transport({ url: `${url}/api`, token: '', retryForMs: SERVICE_RETRY_MS });
    const timeout = AbortSignal.timeout(SERVICE_TIMEOUT_MS);
    const signal = AbortSignal.any([this.signal, timeout]);
    const path = '/sign-in';
    try {
      const info = await transport.json<Partial<ServiceInfo> | null>({ method: 'GET', path, signal });
      if (info && 'sessionApiUrl' in info) return { sessionApiUrl: info.sessionApiUrl ?? null };
    } catch (error) {
      this.signal.throwIfAborted();
      if (error instanceof AddressError) throw new CommandError('failed', error.message);
      if (timeout.aborted || isUnreachable(error))
        throw createUnreachableError(url, timeout.aborted ? SERVICE_TIMEOUT_MS : null, error);
      // Overloaded or failing, but a service: the command's own request says what is wrong.
      if (error instanceof BulkheadError && (error.status === 429 || error.status >= 500)) {
        return { sessionApiUrl: null, refusal: error };
      }
      if (hasCode(error, 'not_found')) throw new CommandError('failed', `${error.message} ${REST_HINT}`);
    }
    throw new CommandError(
      'failed',
      `${url} is not a Bulkhead service: it did not answer ${url}/api${path} like one. Pass its address with \`--url\`.`,
    );
  }
}

/** Whether two addresses are of one service. False if one of them is not an address. */
function isSameService(one: string, other: string): boolean {
  try {
    return normalizeServiceUrl(one) === normalizeServiceUrl(other);
  } catch {
    return false;
  }
}

/**
 * Refuses a published address that would get the token unencrypted, although the service itself is reached with TLS.
 *
 * @throws CommandError
 */
function requireEncryption(service: string, sessionUrl: string): void {
  const isPlain = sessionUrl.startsWith('http:') && !LOOPBACK.test(new URL(sessionUrl).hostname);
  if (!service.startsWith('https:') || !isPlain) return;
  throw new CommandError(
    'failed',
    `${service} publishes ${sessionUrl} as the address of its session API, where your token would be sent unencrypted. The operator should set SUPERVISOR_URL to an https address. To use the address all the same, set BULKHEAD_SESSION_URL=${sessionUrl}.`,
  );
}

const REST_HINT =
  'If this is the session API, which agent runtimes call, pass the address of the REST interface (default: http://localhost:4000) with `--url` or BULKHEAD_URL.';

interface ServiceInfo {
  readonly sessionApiUrl: string | null;
  /** Set where the service responded, but could not answer now. */
  readonly refusal?: BulkheadError;
}

/** A service answers in milliseconds; this allows for a busy one and a slow network. Milliseconds. */
const SERVICE_TIMEOUT_MS = 5_000;
/** Long enough for a restart. Milliseconds. */
const SERVICE_RETRY_MS = 1_500;
/** Longer than for REST, because a plugin may have to start first. Milliseconds. */
const SESSION_RETRY_MS = 5_000;
