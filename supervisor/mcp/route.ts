/** `/sessions/{id}/mcp`: the session as a Model Context Protocol server, over streamable HTTP. */
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { SessionParams, SessionServices } from '../sessions/session-services.ts';
import type { Connection, McpConnections } from './connections.ts';

/** Names the connection in requests and answers. */
const CONNECTION_HEADER = 'mcp-session-id';
/** The protocol's own answer for a connection that is gone: the client introduces itself anew. */
const GONE = { jsonrpc: '2.0', error: { code: -32_001, message: 'Session not found' }, id: null };

/** Installs the routes. */
export function installMcp(app: FastifyInstance, services: SessionServices, version: string): void {
  let loading: Promise<McpConnections> | null = null;
  // The protocol's library costs a supervisor whom nobody asks for it some 20 MB and a slower start.
  const load = async (): Promise<McpConnections> => {
    const { McpConnections } = await import('./connections.ts');
    return new McpConnections(services, version);
  };
  app.addHook('preClose', async () => (await loading)?.close());
  app.route<{ Params: SessionParams }>({
    method: ['GET', 'POST', 'DELETE'],
    url: '/sessions/:sessionId/mcp',
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const session = await services.sessions.get(request.accountId, request.params.sessionId);
      loading ??= load();
      const connections = await loading;
      const named = request.headers[CONNECTION_HEADER];
      const connection =
        typeof named === 'string' ? connections.find(named, session) : await connections.begin(session);
      if (!connection) return reply.code(404).send(GONE);
      const isNew = connection.transport.sessionId === undefined;
      const answer = await connection.transport.handleRequest(asWebRequest(request), { parsedBody: request.body });
      // Whoever did not introduce itself gets its refusal and leaves nothing behind.
      if (isNew && connection.transport.sessionId === undefined) await connection.close();
      return send(reply, connection, answer);
    },
  });
}

function asWebRequest(request: FastifyRequest): Request {
  const headers = Object.entries(request.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value] as [string, string]],
  );
  // Only its path's end is ours; the transport looks at method and headers.
  return new Request(`http://localhost${request.url}`, { method: request.method, headers });
}

function send(reply: FastifyReply, connection: Connection, answer: Response): FastifyReply {
  connection.lastUsedAt = Date.now();
  reply.code(answer.status);
  for (const [name, value] of answer.headers) if (name !== 'content-length') reply.header(name, value);
  if (answer.body === null) return reply.send();
  connection.streams += 1;
  const body = Readable.fromWeb(answer.body as ReadableStream);
  body.once('close', () => {
    connection.streams -= 1;
    connection.lastUsedAt = Date.now();
  });
  return reply.header('x-accel-buffering', 'no').send(body);
}
