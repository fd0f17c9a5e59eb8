/** Keeps the connection of a publish open while the service builds and stores the package, and sends nothing. */
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';

/**
 * Lets a connection be silent until its request is answered. Call it when the body has arrived: a store that takes half a megabyte a
 * second needs half an hour for the largest package. Node sets the usual timeout again for the next request of the connection.
 */
export async function allowSilence({ raw: { socket } }: FastifyRequest): Promise<void> {
  // An injected request has none.
  if (socket instanceof Socket) socket.setTimeout(0);
}
