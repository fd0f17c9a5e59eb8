/** Listens on a socket that the parent process holds, and drains connections so that a successor takes over without errors. */
import type { Server, ServerResponse } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SECOND } from '../../sdk/contract/limits.ts';
import { onceClosed } from '../http/closed-responses.ts';

/**
 * Every response tells its client not to use the connection again after it was idle for this long. The server itself
 * waits much longer, for proxies that have a time-out of their own. Seconds.
 */
const CLIENT_IDLE_S = 5;

interface DrainTimes {
  /** Connections that were idle for this long are closed: what their clients still sent has arrived. Milliseconds. */
  readonly idleMs: number;
  /** Running requests have this long to end. Milliseconds. */
  readonly requestsMs: number;
}
/** Where another process may serve on: nearly the longest budget of a tool. */
const HANDOVER: DrainTimes = { idleMs: (CLIENT_IDLE_S + 1) * SECOND, requestsMs: 45 * SECOND };
/** Where no other process serves: the next request would be refused anyway. */
const ALONE: DrainTimes = { idleMs: 1 * SECOND, requestsMs: 10 * SECOND };
/** The event loop accepts at least one waiting connection in each turn, so after some turns without one, none waits. */
const QUIET_TURNS = 5;
/** Connections that still arrive after this long are refused. Milliseconds. */
const ACCEPT_MS = 1 * SECOND;
/**
 * Connections that wait until the event loop accepts them, one in each turn. The kernel drops those beyond it, and their clients try
 * again after 1, 3 and 7 s. Node's 511 are too few when a thousand clients reconnect at once. Linux has at most `net.core.somaxconn`,
 * by default as many.
 */
const BACKLOG = 4_096;
/** The first descriptor that systemd's socket activation passes. */
const FIRST_FD = 3;

/**
 * The socket of this name if the parent process or systemd passes one (`LISTEN_FDS`, `LISTEN_FDNAMES`), else the address.
 */
export function listenOptions(
  name: 'service' | 'operations',
  { host, port }: { readonly host: string; readonly port: number },
): { readonly host: string; readonly port: number; readonly fd?: number } {
  // For `localhost`, fastify opens further servers for its other addresses, without our limits. So listen on 127.0.0.1.
  const address = { host: host === 'localhost' ? '127.0.0.1' : host, port };
  const { LISTEN_FDS, LISTEN_FDNAMES = '' } = process.env;
  const index = LISTEN_FDNAMES.split(':').indexOf(name);
  if (LISTEN_FDS === undefined || index < 0 || index >= Number(LISTEN_FDS)) return address;
  return { ...address, fd: FIRST_FD + index };
}

/** Call it when the server listens: Node ignores an option for it on a socket that the parent process passes. */
export function extendBacklog(server: Server): void {
  const { _handle: handle } = server as Server & { readonly _handle?: { listen(backlog: number): number } | null };
  handle?.listen(BACKLOG);
}

/**
 * Accepts no more connections where another process may serve on the same socket: it would answer for this one, which is
 * about to end. Elsewhere the server goes on.
 */
export function stopAccepting(server: Server): void {
  if (process.env.LISTEN_FDS !== undefined) TcpServer.prototype.close.call(server);
}

/** Drains a server without cutting off a request. Create it before the server listens. */
export class ConnectionDrain {
  readonly #server: Server;
  readonly #unanswered = new Set<ServerResponse>();
  #isDraining = false;

  constructor(server: Server) {
    this.#server = server;
    server.prependListener('request', (_request, response) => this.#prepare(response));
  }

  /**
   * Accepts the connections that wait already and no more, and answers with `connection: close`: a client that reads it opens a
   * new one. An idle connection stays open until its client may not use it any more. From now on, `server.close` waits for the
   * end of all.
   *
   * @param alone aborted as soon as it is known that no other process serves; null: another one does
   * @param times default: those of clients
   * @returns resolves when no connection is open or the time is over
   */
  async drain(alone: AbortSignal | null, times: { handover?: DrainTimes; alone?: DrainTimes } = {}): Promise<void> {
    this.#isDraining = true;
    for (const response of this.#unanswered) announceClose(response);
    const server = this.#server;
    // Not `server.close()`, which also closes idle connections, such as one that was just accepted. In place before anything is
    // awaited: callers close the application in the same turn.
    const closed = acceptWaiting(server).then(
      () => new Promise<void>((resolve) => void TcpServer.prototype.close.call(server, () => resolve())),
    );
    server.close = (callback) => {
      void closed.then(() => callback?.());
      return server;
    };
    const { promise: over, resolve: endWait } = Promise.withResolvers<void>();
    let timers: readonly NodeJS.Timeout[] = [];
    const startTimers = ({ idleMs, requestsMs }: DrainTimes): void => {
      timers.forEach(clearTimeout);
      // For connections that become idle later, such as after a stream.
      server.keepAliveTimeout = idleMs;
      // After the loop has read what arrived while it was busy.
      const closeIdle = (): void => void setImmediate(() => server.closeIdleConnections());
      timers = [setTimeout(closeIdle, idleMs), setTimeout(endWait, requestsMs)];
    };
    const hurry = (): void => startTimers(times.alone ?? ALONE);
    if (alone?.aborted) hurry();
    else startTimers(times.handover ?? HANDOVER);
    alone?.addEventListener('abort', hurry);
    await Promise.race([closed, over]);
    alone?.removeEventListener('abort', hurry);
    timers.forEach(clearTimeout);
  }

  /** Cuts off what is still open. */
  end(): void {
    this.#server.closeAllConnections();
  }

  #prepare(response: ServerResponse): void {
    this.#unanswered.add(response);
    onceClosed(response, () => this.#unanswered.delete(response));
    if (this.#isDraining) announceClose(response);
    else if (response.shouldKeepAlive) response.setHeader('keep-alive', `timeout=${CLIENT_IDLE_S}`);
  }
}

/** Closing the socket resets the connections that the kernel has established and the server has not accepted yet. */
async function acceptWaiting(server: Server): Promise<void> {
  const until = performance.now() + ACCEPT_MS;
  let quietTurns = 0;
  const restart = (): void => {
    quietTurns = 0;
  };
  server.on('connection', restart);
  for (; quietTurns < QUIET_TURNS && performance.now() < until; quietTurns += 1) await nextTurn();
  server.off('connection', restart);
}

function announceClose(response: ServerResponse): void {
  if (response.headersSent) return;
  response.removeHeader('keep-alive');
  response.setHeader('connection', 'close');
}
