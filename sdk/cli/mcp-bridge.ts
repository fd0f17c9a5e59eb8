/**
 * Connects an MCP client on standard input and output to a session's `/mcp` over HTTP. When the service restarts, the
 * bridge initializes a new MCP session, so that the client does not notice.
 */
import { isRecord } from '../contract/is-record.ts';
import { findInexactNumber } from '../contract/untrusted-json.ts';
import { followEvents, readEvents, STREAM_SILENCE_MS } from '../session/event-stream.ts';
import { pause } from '../session/pause.ts';
import { BulkheadError, ConnectionLostError, type Transport } from '../session/transport.ts';

interface BridgeOptions {
  /** The JSON-RPC messages of the client, one per line. */
  readonly lines: AsyncIterable<string>;
  /** Sends one message to the client. */
  send(message: unknown): void;
  readonly signal: AbortSignal;
  /** A response that sends nothing for this time has ended, milliseconds. Default: 45,000, three heartbeats of the service. */
  readonly silenceMs?: number;
}
interface RpcMessage {
  readonly jsonrpc?: '2.0';
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: { readonly requestId?: unknown };
  readonly error?: { readonly code: number; readonly message: string };
}
type Headers = Readonly<Record<string, string>>;

const SESSION_HEADER = 'mcp-session-id';
const PROTOCOL_HEADER = 'mcp-protocol-version';
/** Longest pause before the notification stream is opened again, milliseconds. */
const PAUSE_MS = 1_000;
/** 409: a supervisor of an earlier release still has the stream that was lost. 429: too many requests or streams. */
const RETRYABLE_STATUSES = new Set([409, 429]);
/** Requests that run a plugin's code, and what they run. A plugin may do something that must not be done twice. */
const RUNS_PLUGIN: ReadonlyMap<string | undefined, string> = new Map([
  ['tools/call', 'tool'],
  ['prompts/get', 'command'],
]);
const CANCELLED = 'notifications/cancelled';
/** Error codes of JSON-RPC. */
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;
const INTERNAL_ERROR = -32_603;

export class McpBridge {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #options: BridgeOptions;
  readonly #silenceMs: number;
  readonly #ended = new AbortController();
  /** The client's `initialize` message, for initializing again. */
  #initialize: RpcMessage | null = null;
  /** Headers of the current MCP session. Null: the client has not initialized one, or it was lost. */
  #session: Promise<Headers> | null = null;
  /** Ids of the requests that the client waits for. */
  readonly #waiting = new Set<unknown>();

  /** @param path of the session's MCP server, below the transport's address */
  constructor(transport: Transport, path: string, options: BridgeOptions) {
    this.#transport = transport;
    this.#path = path;
    this.#options = options;
    this.#silenceMs = options.silenceMs ?? STREAM_SILENCE_MS;
  }

  /** Runs until the client closes its input. */
  async run(): Promise<void> {
    const end = () => this.#ended.abort();
    this.#options.signal.addEventListener('abort', end, { once: true });
    const pending = new Set<Promise<void>>();
    for await (const line of this.#options.lines) {
      if (line.trim() === '') continue;
      const call: Promise<void> = this.#handleLine(line).finally(() => pending.delete(call));
      pending.add(call);
    }
    await Promise.all(pending);
    // The notification stream does not end before the signal aborts.
    end();
  }

  async #handleLine(line: string): Promise<void> {
    let parsed: unknown;
    try {
      parsed = JSON.parse(line);
    } catch {
      this.#sendError(null, PARSE_ERROR, 'The message is not valid JSON.');
      return;
    }
    // The messages of a batch are sent one by one, so that each request has its own answer and its own error.
    const messages: readonly unknown[] = Array.isArray(parsed) && parsed.length > 0 ? parsed : [parsed];
    // The service refuses such a number, too, but would get the rounded one.
    const inexact = findInexactNumber(line);
    if (inexact) {
      const text = `The message ${inexact.message}. Send it as a string.`;
      for (const message of messages) this.#sendError(readRequestId(message), INVALID_PARAMS, text);
      await Promise.all(messages.filter(isRpcMessage).map((message) => this.#refuseAnswer(message, text)));
      return;
    }
    await Promise.all(messages.map((message) => this.#handleMessage(message)));
  }

  async #handleMessage(message: unknown): Promise<void> {
    if (!isRpcMessage(message)) {
      this.#sendError(null, INVALID_REQUEST, 'The message is not a JSON-RPC message, nor a list of some.');
      return;
    }
    const { id, method } = message;
    if (method !== undefined) this.#waiting.add(id);
    // A cancelled request has no answer.
    if (method === CANCELLED) this.#waiting.delete(message.params?.requestId);
    try {
      if (method === 'initialize') await this.#startSession(message, (answer) => this.#options.send(answer));
      else await this.#forward(message);
    } catch (error) {
      if (error instanceof BulkheadError) await this.#refuseAnswer(message, error.message);
      // An answer of the client may have the id of one of its own requests, because both sides count.
      if (method === undefined || id === undefined || !this.#waiting.has(id)) return;
      const { code, data } = readRpcError(error);
      this.#sendError(id, code, error instanceof Error ? error.message : 'The service failed.', data);
    } finally {
      if (method !== undefined) this.#waiting.delete(id);
    }
  }

  /** Sends an error in place of an answer that the service cannot get. Its question would wait until its time is over. */
  async #refuseAnswer({ id, method }: RpcMessage, message: string): Promise<void> {
    if (method !== undefined || id === undefined) return;
    await this.#forward({ jsonrpc: '2.0', id, error: { code: INVALID_PARAMS, message } }).catch(() => undefined);
  }

  #sendError(id: number | string | null, code: number, message: string, data?: unknown): void {
    this.#options.send({ jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } });
  }

  /** @param onAnswer called with the answer to `initialize` */
  #startSession(initialize: RpcMessage, onAnswer: (answer: unknown) => void): Promise<Headers> {
    this.#initialize = initialize;
    const session = this.#sendInitialize(initialize, onAnswer);
    this.#session = session;
    session.then(
      (headers) => this.#followNotifications(session, headers),
      () => this.#forgetSession(session),
    );
    return session;
  }

  async #sendInitialize(initialize: RpcMessage, onAnswer: (answer: unknown) => void): Promise<Headers> {
    const response = await this.#post(initialize, {}, true);
    const headers: Record<string, string> = { [SESSION_HEADER]: response.headers.get(SESSION_HEADER) ?? '' };
    await this.#readAnswer(response, initialize, (answer) => {
      const { result } = answer as { result?: { protocolVersion?: string } };
      if (result?.protocolVersion) headers[PROTOCOL_HEADER] = result.protocolVersion;
      onAnswer(answer);
    });
    return headers;
  }

  #forgetSession(session: Promise<Headers>): void {
    if (this.#session === session) this.#session = null;
  }

  /** Returns the MCP session, a new one if it was lost. Null: the client has not initialized one. */
  #openSession(): Promise<Headers> | null {
    if (this.#session === null && this.#initialize !== null) void this.#restartSession(this.#initialize);
    return this.#session;
  }

  /** Never rejects: those that wait for the session get its error. */
  async #restartSession(initialize: RpcMessage): Promise<void> {
    try {
      const headers = await this.#startSession(initialize, () => undefined);
      this.#announceLists();
      await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers, true);
    } catch {}
  }

  /** Notifies the client that the lists may have changed before the MCP session began. */
  #announceLists(): void {
    for (const list of ['tools', 'prompts', 'resources'])
      this.#options.send({ jsonrpc: '2.0', method: `notifications/${list}/list_changed` });
  }

  async #forward(message: RpcMessage): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      const session = this.#openSession();
      try {
        const response = await this.#post(message, (await session) ?? {}, isRepeatable(message));
        await this.#readAnswer(response, message, (answer) => this.#options.send(answer));
        return;
      } catch (error) {
        // 404: the restarted service does not know the MCP session, and did not handle the message.
        if (!isSessionUnknown(error) || attempt > 0 || session === null) throw error;
        this.#forgetSession(session);
      }
    }
  }

  /**
   * Forwards the notifications of the server until the MCP session ends. When the stream is opened again, the server notifies the client
   * that the lists may have changed. Never rejects.
   */
  async #followNotifications(session: Promise<Headers>, headers: Headers): Promise<void> {
    const { signal } = this.#ended;
    const open = async (lastId: string | undefined) => {
      const response = await this.#transport.open({
        method: 'GET',
        path: this.#path,
        signal,
        headers: { accept: 'text/event-stream', ...headers, ...(lastId ? { 'last-event-id': lastId } : {}) },
      });
      return response.body;
    };
    try {
      const options = { open, isRetryable, pauseMs: PAUSE_MS, silenceMs: this.#silenceMs, signal };
      for await (const { data } of followEvents(options)) this.#options.send(JSON.parse(data));
    } catch (error) {
      if (signal.aborted || !isSessionUnknown(error)) return;
      this.#forgetSession(session);
      await this.#recoverSession();
    }
  }

  /** Opens a new MCP session for a client that only waits for notifications. Never rejects. */
  async #recoverSession(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      try {
        await this.#openSession();
        return;
      } catch (error) {
        if (!isRetryable(error)) return;
        await pause(PAUSE_MS * Math.random(), signal).catch(() => undefined);
      }
    }
  }

  /** @throws ConnectionLostError if the response to a request ends without an answer */
  async #readAnswer(
    response: Response,
    { id, method }: RpcMessage,
    onMessage: (message: unknown) => void,
  ): Promise<void> {
    let isAnswered = id === undefined || method === undefined;
    let cause: unknown;
    try {
      for await (const message of readMessages(response, this.#silenceMs)) {
        isAnswered ||= message.id === id && message.method === undefined;
        onMessage(message);
      }
    } catch (error) {
      this.#ended.signal.throwIfAborted();
      cause = error;
    }
    if (isAnswered) return;
    const ran = RUNS_PLUGIN.get(method);
    const advice = ran === undefined ? 'Send it again.' : `The ${ran} may have run: check before you call it again.`;
    throw new ConnectionLostError(`The connection broke before the answer to ${method}. ${advice}`, { cause });
  }

  #post(body: RpcMessage, headers: Headers, repeatable: boolean): Promise<Response> {
    return this.#transport.open({
      method: 'POST',
      path: this.#path,
      body,
      repeatable,
      signal: this.#ended.signal,
      headers: { accept: 'application/json, text/event-stream', ...headers },
    });
  }
}

async function* readMessages(response: Response, silenceMs: number): AsyncGenerator<RpcMessage> {
  if (response.headers.get('content-type')?.includes('text/event-stream')) {
    for await (const { data } of readEvents(response.body, silenceMs)) if (data !== '') yield JSON.parse(data);
    return;
  }
  const text = await response.text();
  if (text !== '') yield JSON.parse(text);
}

/** The service checks the members of a message. */
const isRpcMessage = (message: unknown): message is RpcMessage => isRecord(message);

/** Null: the message is no request, or its id is rounded. */
function readRequestId(message: unknown): number | string | null {
  if (!isRpcMessage(message) || message.method === undefined || message.id === undefined) return null;
  return typeof message.id === 'string' || Number.isSafeInteger(message.id) ? message.id : null;
}

/** The code and the details with which the service refused a message. */
function readRpcError(error: unknown): { readonly code: number; readonly data?: unknown } {
  const { code, data } = error instanceof BulkheadError && isRecord(error.cause) ? error.cause : {};
  return typeof code === 'number' ? { code, data } : { code: INTERNAL_ERROR };
}

const isRepeatable = ({ method }: RpcMessage): boolean => !RUNS_PLUGIN.has(method);

const isSessionUnknown = (error: unknown): boolean => error instanceof BulkheadError && error.status === 404;
const isRetryable = (error: unknown): boolean =>
  !(error instanceof BulkheadError) || error.status >= 500 || RETRYABLE_STATUSES.has(error.status);
