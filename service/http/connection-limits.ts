/** Limits the connections of a server, and the requests that one connection sends without waiting for their answers. */
import { readFileSync } from 'node:fs';
import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../../sdk/contract/errors.ts';
import { answerLast } from './client-errors.ts';
import { onceClosed } from './closed-responses.ts';

/** Enough for many thousand users; an idle one costs about 10 KB. */
const CONNECTIONS_MAX = 10_000;
/** Share of the process's open files for connections. The rest is for the database, plugins and files that requests read. */
const SHARE_OF_FILES = 0.5;
/**
 * Requests of one connection without an answer (RFC 9112, 9.3.2). They arrive in one piece and all begin in one turn of the event
 * loop: 1,600 fit into 64 KiB. Browsers and proxies send one at a time, load generators ten or twenty.
 */
const UNANSWERED_MAX = 64;
/** Further requests that are ignored until the answer of the refusal is sent; then the connection is closed. */
const IGNORED_MAX = 1_000;

interface Connection {
  unanswered: number;
  /** One request was refused: those after it are ignored, because their answers would not be sent. */
  isRefused: boolean;
}

/** @param connectionsMax at this number, a new one closes the one that has been idle for the longest time */
export function limitConnections(server: Server, connectionsMax = findConnectionsMax()): void {
  const connections = new WeakMap<Socket, Connection>();
  /** Connections without a request, the longest idle first. */
  const idle = new Set<Socket>();
  let count = 0;
  server.on('connection', (socket) => {
    count += 1;
    connections.set(socket, { unanswered: 0, isRefused: false });
    idle.add(socket);
    socket.once('close', () => {
      count -= 1;
      idle.delete(socket);
    });
    // The new one, if all others have requests.
    const [longestIdle] = idle;
    if (count <= connectionsMax || longestIdle === undefined) return;
    // At once: several may connect before its `close` event.
    idle.delete(longestIdle);
    longestIdle.destroy();
  });
  server.once('listening', () => {
    // Only beside another listener: with this one alone, Node would leave requests to upgrade without an answer.
    if (server.listenerCount('upgrade') === 0) return;
    server.on('upgrade', ({ socket }) => {
      // Another server may have accepted it: other supervisors forward WebSockets.
      if (!connections.has(socket)) return;
      idle.delete(socket);
      // The WebSocket was refused or has ended: the connection only waits for its client to close it.
      socket.once('finish', () => {
        if (!socket.destroyed) idle.add(socket);
      });
    });
  });
  const handle = replaceListener(server, (request, response) => {
    const { socket } = request;
    const connection = connections.get(socket);
    if (connection === undefined || socket.destroyed) return;
    connection.unanswered += 1;
    idle.delete(socket);
    onceClosed(response, () => {
      connection.unanswered -= 1;
      if (connection.unanswered === 0 && !socket.destroyed) idle.add(socket);
    });
    if (connection.unanswered > UNANSWERED_MAX + IGNORED_MAX) socket.destroy();
    if (connection.isRefused) return;
    connection.isRefused = connection.unanswered > UNANSWERED_MAX;
    if (connection.isRefused) answerLast(response, tooManyUnanswered());
    else handle(request, response);
  });
}

/** Puts a listener in the place of the only one of the requests. @returns that one */
function replaceListener(server: Server, listener: RequestListener): RequestListener {
  const [replaced] = server.listeners('request') as RequestListener[];
  if (replaced === undefined) throw new Error('unreachable: the server has no listener yet');
  server.removeAllListeners('request').on('request', listener);
  return replaced;
}

const tooManyUnanswered = () =>
  new Problem(
    'rate_limited',
    `This connection has ${UNANSWERED_MAX} requests without an answer. Wait for answers, or use more connections.`,
    { retryAfter: 1 },
  );

/** How many connections a server of this process may have. */
export function findConnectionsMax(): number {
  const [, files] = /^Max open files +(\d+)/m.exec(readLimits()) ?? [];
  return files === undefined ? CONNECTIONS_MAX : Math.min(CONNECTIONS_MAX, Math.floor(Number(files) * SHARE_OF_FILES));
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    // Not Linux: a development machine.
    return '';
  }
}
