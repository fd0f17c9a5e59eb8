/** Listens on a socket that the parent process holds, and drains connections so that a successor takes over without errors. */
import type { Server } from 'node:http';
import { Server as TcpServer } from 'node:net';

/** Open connections have this long to send one more request and be told to close. Milliseconds. */
const DRAIN_MS = 1_000;
const POLL_MS = 20;
/** The first descriptor that systemd's socket activation passes. */
const FIRST_FD = 3;

/**
 * The socket of this name if the parent process or systemd passes one (`LISTEN_FDS`, `LISTEN_FDNAMES`), else the address.
 */
export function listenOptions(
  name: 'service' | 'operations',
  address: { readonly host: string; readonly port: number },
): { readonly host: string; readonly port: number; readonly fd?: number } {
  const { LISTEN_FDS, LISTEN_FDNAMES = '' } = process.env;
  const index = LISTEN_FDNAMES.split(':').indexOf(name);
  if (LISTEN_FDS === undefined || index < 0 || index >= Number(LISTEN_FDS)) return address;
  return { ...address, fd: FIRST_FD + index };
}

/**
 * Accepts no more connections and answers with `connection: close` until none is open or the time is over. Closing an idle
 * connection at once could cut off a request that its client is sending; a client that read the header opens a new one instead.
 */
export async function drainConnections(server: Server, timeoutMs: number = DRAIN_MS): Promise<void> {
  server.prependListener('request', (_request, response) => response.setHeader('connection', 'close'));
  // Not `server.close()`, which also closes idle connections, such as one that was just accepted.
  const closed = new Promise<void>((resolve) => void TcpServer.prototype.close.call(server, () => resolve()));
  // A later `close` still waits for the requests that are still served.
  server.close = (callback) => {
    server.closeIdleConnections();
    void closed.then(() => callback?.());
    return server;
  };
  const endsAt = Date.now() + timeoutMs;
  while (Date.now() < endsAt && (await countConnections(server)) > 0) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function countConnections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((error, count) => resolve(error ? 0 : count)));
}
