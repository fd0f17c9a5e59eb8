/** Serves other supervisors: the requests and jobs that they forward for accounts of this one. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { Problem } from '../../sdk/contract/errors.ts';
import { PEER_CATCH_UP, PEER_DELIVERIES, PEER_HEADER, verifyRequest } from '../../service/cluster/peer-signature.ts';
import { answerOnSocket, endSocket } from '../../service/http/client-errors.ts';
import { createServer } from '../../service/http/node-http.ts';
import { ConnectionDrain } from '../../service/lifecycle/drain.ts';
import { createListenFault } from '../../service/lifecycle/start-faults.ts';
import type { OwnedJobs } from './owned-jobs.ts';
import { ALIVE_PATH, JOB_PATH, NOT_OWNED } from './peer-requests.ts';

/** Longer than peers keep idle connections. Milliseconds. */
const KEEP_ALIVE_MS = 75_000;
/** Requests that others sent before they learned of the next owner arrive within this time. Milliseconds. */
const IDLE_MS = 1_000;

interface PeerServerOptions {
  /** Address to listen on, at which others reach this supervisor. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** This supervisor's key, with which others sign their requests. */
  readonly key: Buffer;
  readonly jobs: Pick<OwnedJobs, 'runHere'>;
  /** Starts the work on new deliveries. @returns false: this supervisor does not own all of their accounts */
  wakeChannels(notices: readonly string[]): boolean;
  /** Resolves when this supervisor was notified of everything that was committed before. */
  catchUp(): Promise<void>;
  /** Answers a forwarded request. */
  answer(request: IncomingMessage, response: ServerResponse): void;
  /** Takes over a forwarded connection that becomes a WebSocket. @returns false: this supervisor opens none */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  onError(error: Error): void;
}

export class PeerServer {
  readonly #options: PeerServerOptions;
  readonly #server: Server;
  readonly #drain: ConnectionDrain;
  readonly #sockets = new Set<Duplex>();
  readonly #hops = new WeakMap<IncomingMessage, number>();

  constructor(options: PeerServerOptions) {
    this.#options = options;
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 }, (request, response) =>
      this.#serve(request, response),
    );
    this.#drain = new ConnectionDrain(this.#server);
    this.#server.on('upgrade', (request, socket, head) => this.#serveSocket(request, socket, head));
  }

  /** @returns the address at which others reach it @throws SettingsError */
  async listen(): Promise<string> {
    const { host, port } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const address = { hostSetting: 'PEER_HOST', host, portSetting: 'PEER_PORT', port };
    this.#server.once('error', (error: NodeJS.ErrnoException) =>
      reject(createListenFault(address, error.code ?? error.message)),
    );
    this.#server.listen({ host, port }, resolve);
    await promise;
    const { port: bound } = this.#server.address() as AddressInfo;
    return `http://${host.includes(':') ? `[${host}]` : host}:${bound}`;
  }

  /** How often a request was forwarded; 0: it came from its caller. */
  countHops(request: IncomingMessage): number {
    return this.#hops.get(request) ?? 0;
  }

  /**
   * Answers requests that others still send, at most for `requestsMs`, and closes connections that are idle for `IDLE_MS`. Call it
   * when this supervisor no longer owns any account.
   */
  async close(requestsMs: number): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#drain.drain(null, { handover: { idleMs: IDLE_MS, requestsMs } });
    this.#drain.end();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    if (!this.#verify(request)) {
      response.writeHead(403).end();
      return;
    }
    const { url = '' } = request;
    if (url.startsWith(JOB_PATH)) void this.#runJob(url, response);
    else if (url === ALIVE_PATH) response.writeHead(204).end();
    else if (url.startsWith(PEER_DELIVERIES)) this.#wakeChannels(url, response);
    else if (url === PEER_CATCH_UP) void this.#catchUp(response);
    else this.#options.answer(request, response);
  }

  #serveSocket(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Node listens no more. Without a listener, a client that resets the connection would end this process.
    socket.on('error', () => socket.destroy());
    if (!this.#verify(request)) {
      endSocket(socket, 'HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n');
      return;
    }
    // Node does not track connections after an upgrade, so `close` destroys them itself.
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (!this.#options.upgrade(request, socket, head))
      answerOnSocket(socket, new Problem('not_found', 'This supervisor opens no WebSockets.'));
  }

  /** Checks that a process of this database signed the request, and records how often it was forwarded. */
  #verify(request: IncomingMessage): boolean {
    const { method = '', url = '', headers } = request;
    const asked = { method, path: url, headers, header: headers[PEER_HEADER] };
    const hops = verifyRequest(this.#options.key, asked, Date.now());
    if (hops !== null) this.#hops.set(request, hops);
    return hops !== null;
  }

  #wakeChannels(url: string, response: ServerResponse): void {
    const notices = new URL(url, 'http://peer').searchParams.getAll('notice');
    response.writeHead(this.#options.wakeChannels(notices) ? 204 : NOT_OWNED).end();
  }

  async #catchUp(response: ServerResponse): Promise<void> {
    await this.#options.catchUp();
    response.writeHead(204).end();
  }

  async #runJob(url: string, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(url, 'http://peer');
    try {
      const payload = JSON.parse(searchParams.get('payload') ?? '');
      const name = pathname.slice(JOB_PATH.length);
      const isDone = await this.#options.jobs.runHere(name, searchParams.get('accountId') ?? '', payload);
      response.writeHead(isDone ? 204 : NOT_OWNED).end();
    } catch (error) {
      this.#options.onError(error as Error);
      response.writeHead(500).end();
    }
  }
}
