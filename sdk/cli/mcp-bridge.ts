/**
 * Connects an MCP client on standard input and output to a session's `/mcp` over HTTP. When the service restarts, the
 * bridge initializes a new MCP session, so that the client does not notice.
 */
import { followEvents, readEvents } from '../session/event-stream.ts';
import { BulkheadError, type Transport } from '../session/transport.ts';

interface BridgeOptions {
  /** The JSON-RPC messages of the client, one per line. */
  readonly lines: AsyncIterable<string>;
  /** Sends one message to the client. */
  send(message: unknown): void;
  readonly signal: AbortSignal;
}
interface RpcMessage {
  readonly id?: number | string;
  readonly method?: string;
}
type Headers = Readonly<Record<string, string>>;

const SESSION_HEADER = 'mcp-session-id';
const PROTOCOL_HEADER = 'mcp-protocol-version';
/** Longest pause before the notification stream is opened again, milliseconds. */
const PAUSE_MS = 1_000;
/** Error codes of JSON-RPC. */
const PARSE_ERROR = -32_700;
const INTERNAL_ERROR = -32_603;

export class McpBridge {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #options: BridgeOptions;
  readonly #ended = new AbortController();
  /** The client's `initialize` message, for initializing again. */
  #initialize: RpcMessage | null = null;
  /** Headers of the current MCP session. */
  #session: Promise<Headers> | null = null;

  /** @param path of the session's MCP server, below the transport's address */
  constructor(transport: Transport, path: string, options: BridgeOptions) {
    this.#transport = transport;
    this.#path = path;
    this.#options = options;
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
    let message: RpcMessage;
    try {
      message = JSON.parse(line) as RpcMessage;
    } catch {
      this.#sendError(null, PARSE_ERROR, 'The message is not valid JSON.');
      return;
    }
    try {
      if (message.method === 'initialize') await this.#startSession(message, (answer) => this.#options.send(answer));
      else await this.#forward(message);
    } catch (error) {
      if (message.id === undefined || message.method === undefined) return;
      this.#sendError(message.id, INTERNAL_ERROR, error instanceof Error ? error.message : 'The service failed.');
    }
  }

  #sendError(id: number | string | null, code: number, message: string): void {
    this.#options.send({ jsonrpc: '2.0', id, error: { code, message } });
  }

  async #startSession(initialize: RpcMessage, onAnswer: (answer: unknown) => void): Promise<void> {
    this.#initialize = initialize;
    const session = Promise.withResolvers<Headers>();
    session.promise.catch(() => undefined);
    this.#session = session.promise;
    try {
      const response = await this.#post(initialize, {}, true);
      const headers: Record<string, string> = { [SESSION_HEADER]: response.headers.get(SESSION_HEADER) ?? '' };
      await readMessages(response, (answer) => {
        const { result } = answer as { result?: { protocolVersion?: string } };
        if (result?.protocolVersion) headers[PROTOCOL_HEADER] = result.protocolVersion;
        onAnswer(answer);
      });
      session.resolve(headers);
      void this.#followNotifications(headers);
    } catch (error) {
      this.#session = null;
      session.reject(error);
      throw error;
    }
  }

  async #forward(message: RpcMessage): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      const session = this.#session;
      try {
        const response = await this.#post(message, (await session) ?? {}, message.method !== 'tools/call');
        await readMessages(response, (answer) => this.#options.send(answer));
        return;
      } catch (error) {
        // 404: the restarted service does not know the MCP session, and did not handle the message.
        if (!isSessionUnknown(error) || attempt > 0 || !this.#initialize) throw error;
        if (this.#session === session) await this.#restartSession();
      }
    }
  }

  async #restartSession(): Promise<void> {
    if (!this.#initialize) return;
    await this.#startSession(this.#initialize, () => undefined);
    const headers = (await this.#session) ?? {};
    await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' } as RpcMessage, headers, true);
    // The lists may have changed in the meantime.
    for (const list of ['tools', 'prompts', 'resources']) {
      this.#options.send({ jsonrpc: '2.0', method: `notifications/${list}/list_changed` });
    }
  }

  /** Forwards the notifications of the server until the MCP session ends. */
  async #followNotifications(headers: Headers): Promise<void> {
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
    const isRetryable = (error: unknown) => !(error instanceof BulkheadError) || error.status >= 500;
    try {
      for await (const { data } of followEvents({ open, isRetryable, pauseMs: PAUSE_MS, signal })) {
        this.#options.send(JSON.parse(data));
      }
    } catch (error) {
      if (signal.aborted || !isSessionUnknown(error)) return;
      if ((await this.#session) === headers) await this.#restartSession().catch(() => undefined);
    }
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

async function readMessages(response: Response, onMessage: (message: unknown) => void): Promise<void> {
  if (response.headers.get('content-type')?.includes('text/event-stream')) {
    for await (const { data } of readEvents(response.body)) if (data !== '') onMessage(JSON.parse(data));
    return;
  }
  const text = await response.text();
  if (text !== '') onMessage(JSON.parse(text));
}

const isSessionUnknown = (error: unknown): boolean => error instanceof BulkheadError && error.status === 404;
