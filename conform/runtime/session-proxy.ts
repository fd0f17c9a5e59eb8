/** Stands between the runtime under test and the session API, and breaks single requests as a scenario says. */
import { randomUUID } from 'node:crypto';
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
export interface Fault {
  readonly kind: FaultKind;
  /** Matched with the method and the path without its query, such as `POST /sessions/s1/turns`. */
  readonly wanted: RegExp;
  times: number;
}

/**
 * Headers of one connection, and the encoding that `fetch` has removed. `fetch` refuses `expect` and `upgrade`, which some HTTP
 * clients send by themselves: `Expect: 100-continue` and `Upgrade: h2c`. The server here has answered the first.
 */
const OWN_HEADERS = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const NO_BODY = new Set(['GET', 'HEAD']);

export class SessionProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #target: string;
  readonly #faults: Fault[] = [];
  readonly #refused: string[] = [];
  /** The method and the path of each request that has no whole answer yet. */
  readonly #open = new Map<ServerResponse, string>();

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

  /** Breaks the next requests that match. Returns the fault, whose `times` says how often it has yet to strike. */
  break(kind: FaultKind, wanted: RegExp, times = 1): Readonly<Fault> {
    const fault = { kind, wanted, times };
    this.#faults.push(fault);
    return fault;
  }

  /** Breaks the connections of the requests that have no answer yet and match. @returns their number */
  drop(wanted: RegExp): number {
    const dropped = [...this.#open].filter(([, request]) => wanted.test(request));
    for (const [response] of dropped) response.destroy();
    return dropped.length;
  }

  /** Whether the service has refused the content of a request of a session. */
  hasRefused(sessionId: string): boolean {
    return this.#refused.some((path) => path.startsWith(`/sessions/${sessionId}/`));
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const [path = ''] = url.split('?');
    const fault = this.#findFault(`${method} ${path}`);
    if (fault === 'cut') {
      response.destroy();
      return;
    }
    if (fault === 'refuse') {
      refuse(response);
      return;
    }
    const closed = new AbortController();
    this.#open.set(response, `${method} ${path}`);
    response.once('close', () => {
      this.#open.delete(response);
      closed.abort();
    });
    const answer = await fetch(`${this.#target}${url}`, {
      method,
      headers: copyHeaders(Object.entries(request.headers)),
      redirect: 'manual',
      signal: closed.signal,
      ...(NO_BODY.has(method) ? {} : { body: Readable.toWeb(request) as never, duplex: 'half' }),
    });
    if (answer.status === 400) this.#refused.push(path);
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
    return fault.kind;
  }
}

/** Answers as the service does while it is replaced. */
function refuse(response: ServerResponse): void {
  const requestId = randomUUID();
  response.writeHead(503, {
    'content-type': 'application/problem+json',
    'retry-after': '1',
    'x-request-id': requestId,
  });
  const body = {
    type: 'urn:bulkhead:problem:unavailable',
    title: 'A part of Bulkhead is unavailable',
    status: 503,
    code: 'unavailable',
    detail: 'The service is being replaced. Retry shortly.',
    requestId,
  };
  response.end(JSON.stringify(body));
}

function copyHeaders(entries: Iterable<[string, string | string[] | undefined]>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of entries) {
    if (value !== undefined && !OWN_HEADERS.has(name)) headers[name] = String(value);
  }
  return headers;
}
