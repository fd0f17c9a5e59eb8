/**
 * `POST /installations/{id}/inspector` opens the inspector of the caller's own draft until the request ends. The response is a
 * stream that contains the path of the WebSocket. A token in the path authorizes it, because debuggers cannot send headers.
 * Any supervisor takes the WebSocket, and leads it to the one that has the inspector.
 */

import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { PassThrough } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { ServerOptions, WebSocketServer } from 'ws';
import { z } from 'zod';
import { Problem } from '../../../sdk/contract/errors.ts';
import { endWithToken, requireCaller } from '../../../service/http/authentication.ts';
import { answerOnSocket } from '../../../service/http/client-errors.ts';
import { formatEvent, HEARTBEAT_TEXT } from '../../../service/http/event-text.ts';
import { groupRoutes } from '../../../service/http/route-schema.ts';
import { eventStreamHeaders } from '../../../service/http/row-streams.ts';
import { idParams } from '../../../service/http/schemas.ts';
import type { AccountRouter } from '../../cluster/account-router.ts';
import { COMMAND_MAX_BYTES, type InspectionEvent } from './inspection.ts';
import { readSupervisorId } from './inspection-token.ts';
import type { Inspections } from './inspections.ts';

/** A debugger that is refused, and does not close its connection, is disconnected after this. Milliseconds. */
const CLOSE_TIMEOUT_MS = 1_000;
/** The types of `ws` do not know `closeTimeout`. */
const SOCKET_OPTIONS: ServerOptions & { readonly closeTimeout: number } = {
  noServer: true,
  maxPayload: COMMAND_MAX_BYTES,
  perMessageDeflate: false,
  closeTimeout: CLOSE_TIMEOUT_MS,
};
const SOCKET_PATH = /^\/inspector\/([\w-]{48})$/;
const DETAILS =
  'Server-sent events: `open` with the path of a WebSocket that speaks the Chrome DevTools Protocol, then `attached`, `detached`, `moved` and, last, `closed` with the reason. The inspector closes with the request.';
/** Keeps proxies from closing an idle stream. Milliseconds. */
const KEEP_ALIVE_MS = 15_000;

interface InspectorServices {
  readonly inspections: Inspections;
  readonly router: AccountRouter;
}

/** Whether a request may upgrade to a WebSocket. The upgrade header of other requests is ignored. */
export const isInspectorPath = ({ url }: IncomingMessage): boolean => SOCKET_PATH.test(url ?? '');

/** Registers the route and, if the inspector is enabled, the WebSocket. */
export function inspectorRoutes({ inspections, router }: InspectorServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Drafts');
    app.post(
      '/installations/:id/inspector',
      {
        // A debugger may do what the plugin may, and read its secrets.
        config: { wholeAccount: true },
        schema: {
          summary: 'Opens the inspector of a draft',
          details: DETAILS,
          problems: ['inspector_off', 'not_a_draft', 'inspector_open', 'not_running'],
          params: idParams,
          response: { 200: { content: { 'text/event-stream': { schema: z.string() } } } },
        },
      },
      async (request, reply) => {
        const stream = new PassThrough();
        // The stream has ended while its last event waits for a client that does not read.
        const write = (text: string): void => void (stream.writableEnded || stream.write(text));
        const sendEvent = ({ type, ...data }: InspectionEvent): void => {
          write(formatEvent({ type, data }));
          if (type === 'closed') stream.end();
        };
        const inspection = await inspections.open(requireCaller(request).id, request.params.id, sendEvent);
        sendEvent({ type: 'open', path: inspection.path });
        const beat = setInterval(() => write(HEARTBEAT_TEXT), KEEP_ALIVE_MS).unref();
        stream.once('close', () => {
          clearInterval(beat);
          inspection.end('its request ended');
        });
        endWithToken(request, reply, () => inspection.end('the token that opened it ended'));
        return reply.headers(eventStreamHeaders).send(stream as never);
      },
    );
    app.addHook('preClose', async () => inspections.close());
    if (!inspections.allowed) return;
    app.addHook('preClose', async () => router.peers.closeSockets());
    const { WebSocketServer } = await import('ws');
    const sockets = new WebSocketServer(SOCKET_OPTIONS);
    serveSockets(app.server, sockets, { inspections, router });
  };
}

function serveSockets(server: Server, sockets: WebSocketServer, { inspections, router }: InspectorServices): void {
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const token = SOCKET_PATH.exec(request.url ?? '')?.[1] ?? '';
    const inspection = inspections.find(token);
    socket.on('error', () => socket.destroy());
    if (!inspection) {
      serveElsewhere(router, readSupervisorId(token), request, socket, head);
      return;
    }
    const refusal = inspection.countConnection();
    if (refusal) answerOnSocket(socket, refusal);
    else sockets.handleUpgrade(request, socket, head, (client) => inspection.attach(client));
  });
}

function serveElsewhere(
  { ownership, peers, server }: AccountRouter,
  supervisorId: number | null,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  const peer = supervisorId === null || server.countHops(request) > 0 ? null : ownership.findPeer(supervisorId);
  if (peer === null) {
    answerOnSocket(socket, new Problem('not_found', 'This address of an inspector is not open.'));
    return;
  }
  const watch = ownership.watchPeer(peer);
  watch.signal.addEventListener('abort', () => socket.destroy(), { once: true });
  socket.once('close', watch.release);
  peers.forwardSocket(peer, request, socket, head).catch((error: unknown) => {
    const refused = new Problem('unavailable', 'The supervisor of this inspector does not answer. Open it again.');
    answerOnSocket(socket, error instanceof Problem ? error : refused);
  });
}
