/** Stands between the runtime under test and the session API, and breaks single requests as a scenario says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * `lose`: the service does what was asked, and its answer is lost. `refuse`: 503, as while a service is replaced. `cut`: the
 * connection breaks before the service sees the request.
 */
export type FaultKind = 'lose' | 'refuse' | 'cut';
interface Fault {
  readonly kind: FaultKind;
  /** Matched with the method and the path, such as `POST /sessions/s1/turns`. */
  readonly wanted: RegExp;
  times: number;
  readonly seen: PromiseWithResolvers<void>;
}

/** Connection headers, and the encoding that `fetch` has removed. */
const OWN_HEADERS = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'host',
  'keep-alive',
  'transfer-encoding',
]);
const NO_BODY = new Set(['GET', 'HEAD']);

export class SessionProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #target: string;
  readonly #faults: Fault[] = [];

  private constructor(server: Server, target: string) {
    this.#server = server;
    this.#target = target;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => void this.#handle(request, response).catch(() => response.destroy()));
  }

  /** @param target address of the session API */
  static async start(target: string): Promise<SessionProxy> {
    const server = createServer({ requestTimeout: 0 });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return new SessionProxy(server, target);
  }

  /** Breaks the next requests that match. Resolves when the first one has come. */
  break(kind: FaultKind, wanted: RegExp, times = 1): Promise<void> {
    const fault = { kind, wanted, times, seen: Promise.withResolvers<void>() };
    this.#faults.push(fault);
    return fault.seen.promise;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const fault = this.#findFault(`${method} ${url}`);
    if (fault === 'cut') {
      response.destroy();
      return;
    }
    if (fault === 'refuse') {
      response.writeHead(503, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ status: 503, code: 'unavailable', detail: 'The service is being replaced.' }));
      return;
    }
    const closed = new AbortController();
    response.once('close', () => closed.abort());
    const answer = await fetch(`${this.#target}${url}`, {
      method,
      headers: copyHeaders(Object.entries(request.headers)),
      redirect: 'manual',
      signal: closed.signal,
      ...(NO_BODY.has(method) ? {} : { body: Readable.toWeb(request) as never, duplex: 'half' }),
    });
    if (fault === 'lose') {
      await answer.arrayBuffer();
      response.destroy();
      return;
    }
    response.writeHead(answer.status, copyHeaders(answer.headers.entries()));
    if (answer.body) await pipeline(Readable.fromWeb(answer.body as never), response);
    else response.end();
  }

  #findFault(request: string): FaultKind | null {
    const fault = this.#faults.find(({ wanted, times }) => times > 0 && wanted.test(request));
    if (!fault) return null;
    fault.times -= 1;
    fault.seen.resolve();
    return fault.kind;
  }
}

function copyHeaders(entries: Iterable<[string, string | string[] | undefined]>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of entries) {
    if (value !== undefined && !OWN_HEADERS.has(name)) headers[name] = String(value);
  }
  return headers;
}
