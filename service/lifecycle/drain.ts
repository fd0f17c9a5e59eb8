/** Serving on a socket that the parent holds, and leaving it to a successor without cutting anybody off. */
import type { Server } from 'node:http';

/** Kept-alive connections get so long to hear, with their next answer, that this process is going. Milliseconds. */
const FAREWELL_MS = 1_000;
const LOOK_MS = 20;
/** Descriptors that were handed over start here, as systemd's socket activation has it. */
const FIRST_FD = 3;

/**
 * Where to listen: on the socket of this name if the parent, or systemd, holds one (`LISTEN_FDS`, `LISTEN_FDNAMES`),
 * else on the address.
 */
export function listenOptions(
  name: 'service' | 'operations',
  address: { readonly host: string; readonly port: number },
): { readonly host: string; readonly port: number; readonly fd?: number } {
  const { LISTEN_FDS, LISTEN_FDNAMES = '' } = process.env;
  const at = LISTEN_FDNAMES.split(':').indexOf(name);
  if (LISTEN_FDS === undefined || at < 0 || at >= Number(LISTEN_FDS)) return address;
  return { ...address, fd: FIRST_FD + at };
}

/**
 * Tells every connection that it is the last answer here. A connection closed while it is idle may be used by its client
 * in that very moment; one that was told makes a new one, and finds the successor.
 */
export async function sayFarewell(server: Server, forMs: number = FAREWELL_MS): Promise<void> {
  server.prependListener('request', (_request, response) => response.setHeader('connection', 'close'));
  const until = Date.now() + forMs;
  while (Date.now() < until && (await connectionsOf(server)) > 0) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((error, count) => resolve(error ? 0 : count)));
}
