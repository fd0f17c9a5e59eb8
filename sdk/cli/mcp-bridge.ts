/**
 * A Model Context Protocol server on standard input and output, for clients that start a command: every message goes to a
 * session's `/mcp` over HTTP and back. The client never notices that the service restarts: it is introduced again.
 */
import { readEvents } from '../session/event-stream.ts';
import { BulkheadError, pauseFor, type Transport } from '../session/transport.ts';

export interface BridgeEnds {
  /** One JSON-RPC message a line. */
  readonly lines: AsyncIterable<string>;
  /** Takes one message. */
  send(message: unknown): void;
  readonly signal: AbortSignal;
}
interface Rpc {
  readonly id?: number | string;
  readonly method?: string;
}

const NAMED = 'mcp-session-id';
const PROTOCOL = 'mcp-protocol-version';
const PAUSE_MS = 500;
/** JSON-RPC's own: the message was none; the service did not answer. */
const [PARSE_ERROR, INTERNAL_ERROR] = [-32_700, -32_603];

export class McpBridge {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #ends: BridgeEnds;
  readonly #over = new AbortController();
  /** What the client introduced itself with. */
  #hello: Rpc | null = null;
  #named: Promise<Readonly<Record<string, string>>> | null = null;

  /** @param path of the session's server, below the transport's address */
  constructor(transport: Transport, path: string, ends: BridgeEnds) {
    this.#transport = transport;
    this.#path = path;
    this.#ends = ends;
  }

  /** Runs until the client closes its end. */
  async run(): Promise<void> {
    const end = () => this.#over.abort();
    this.#ends.signal.addEventListener('abort', end, { once: true });
    const answering = new Set<Promise<void>>();
    for await (const line of this.#ends.lines) {
      if (line.trim() === '') continue;
      const work: Promise<void> = this.#take(line).finally(() => answering.delete(work));
      answering.add(work);
    }
    // What was asked before the end is answered; the stream of notices would go on for ever.
    await Promise.all(answering);
    end();
  }

  async #take(line: string): Promise<void> {
    let message: Rpc;
    try {
      message = JSON.parse(line) as Rpc;
    } catch {
      this.#ends.send({ jsonrpc: '2.0', id: null, error: { code: PARSE_ERROR, message: 'This is no JSON.' } });
      return;
    }
    try {
      if (message.method === 'initialize') await this.#introduce(message, (answer) => this.#ends.send(answer));
      else await this.#pass(message);
    } catch (error) {
      if (message.id === undefined || message.method === undefined) return;
      const text = error instanceof Error ? error.message : 'The service did not answer.';
      this.#ends.send({ jsonrpc: '2.0', id: message.id, error: { code: INTERNAL_ERROR, message: text } });
    }
  }

  /** The first time, and again whenever the connection is gone. */
  async #introduce(hello: Rpc, tell: (answer: unknown) => void): Promise<void> {
    this.#hello = hello;
    const named = Promise.withResolvers<Readonly<Record<string, string>>>();
    named.promise.catch(() => undefined);
    this.#named = named.promise;
    try {
      const response = await this.#post(hello, {}, true);
      const headers: Record<string, string> = { [NAMED]: response.headers.get(NAMED) ?? '' };
      await this.#read(response, (answer) => {
        const { result } = answer as { result?: { protocolVersion?: string } };
        if (result?.protocolVersion) headers[PROTOCOL] = result.protocolVersion;
        tell(answer);
      });
      named.resolve(headers);
      void this.#listen(headers);
    } catch (error) {
      this.#named = null;
      named.reject(error);
      throw error;
    }
  }

  async #pass(message: Rpc): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      const named = this.#named;
      try {
        const response = await this.#post(message, (await named) ?? {}, message.method !== 'tools/call');
        await this.#read(response, (answer) => this.#ends.send(answer));
        return;
      } catch (error) {
        // The service was started again and knows nobody: nothing of this was done.
        if (!isGone(error) || tries > 0 || !this.#hello) throw error;
        if (this.#named === named) await this.#again();
      }
    }
  }

  async #again(): Promise<void> {
    if (!this.#hello) return;
    await this.#introduce(this.#hello, () => undefined);
    const headers = (await this.#named) ?? {};
    await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' } as Rpc, headers, true);
    // What it lists may be different now.
    for (const list of ['tools', 'prompts', 'resources'])
      this.#ends.send({ jsonrpc: '2.0', method: `notifications/${list}/list_changed` });
  }

  /** What the server says on its own; it ends with the connection it belongs to. */
  async #listen(headers: Readonly<Record<string, string>>): Promise<void> {
    const { signal } = this.#over;
    let last = '';
    while (!signal.aborted) {
      try {
        const response = await this.#transport.open({
          ...{ method: 'GET', path: this.#path, signal },
          headers: { accept: 'text/event-stream', ...headers, ...(last ? { 'last-event-id': last } : {}) },
        });
        for await (const { id, data } of readEvents(response.body ?? new ReadableStream())) {
          last = id || last;
          if (data !== '') this.#ends.send(JSON.parse(data));
        }
      } catch (error) {
        if (signal.aborted) return;
        if (isGone(error)) {
          if ((await this.#named) === headers) await this.#again().catch(() => undefined);
          return;
        }
        if (error instanceof BulkheadError && error.status < 500) return;
      }
      await pauseFor(PAUSE_MS, signal).catch(() => undefined);
    }
  }

  #post(body: Rpc, headers: Readonly<Record<string, string>>, repeatable: boolean): Promise<Response> {
    const accept = 'application/json, text/event-stream';
    const { signal } = this.#over;
    return this.#transport.open({
      ...{ method: 'POST', path: this.#path, body, repeatable, signal },
      headers: { accept, ...headers },
    });
  }

  async #read(response: Response, tell: (message: unknown) => void): Promise<void> {
    if (response.headers.get('content-type')?.includes('text/event-stream')) {
      for await (const { data } of readEvents(response.body ?? new ReadableStream()))
        if (data !== '') tell(JSON.parse(data));
      return;
    }
    const text = await response.text();
    if (text !== '') tell(JSON.parse(text));
  }
}

const isGone = (error: unknown): boolean => error instanceof BulkheadError && error.status === 404;
