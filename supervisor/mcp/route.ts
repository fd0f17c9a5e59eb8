/** `/sessions/{id}/mcp` and `/mcp`: a session as a Model Context Protocol server, over streamable HTTP. */

import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { findSessionByKey, type Session } from '../../db/sessions/sessions.ts';
import { Problem, problems } from '../../sdk/contract/errors.ts';
import { endWithToken, requireCaller } from '../../service/http/authentication.ts';
import { onceClosed } from '../../service/http/closed-responses.ts';
import { answerError } from '../../service/http/errors.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { noContent } from '../../service/http/schemas.ts';
import { countUnread } from '../../service/http/unread-answers.ts';
import { isAllowed } from '../../service/identity/scopes.ts';
import { RELEASE } from '../../service/settings/release.ts';
import { LazyLoad } from '../../service/timing/lazy-load.ts';
import { startSession } from '../sessions/lifecycle.ts';
import {
  CALL_BODY_MAX_BYTES,
  requireSession,
  type SessionServices,
  sessionParams,
} from '../sessions/session-services.ts';
import type { McpConnections } from './connections.ts';
import { mayConfigure, type RequestFacts, SetupQuestions } from './setup-questions.ts';

const DETAILS =
  'Streamable HTTP of the Model Context Protocol. Tools, commands (as prompts) and skills (as resources) of the session. A client sends `initialize` first and then the header Mcp-Session-Id of the answer.';
const ACCOUNT_DETAILS =
  'As `/sessions/{sessionId}/mcp`, of one session of the account that all clients of this address share. It starts with the first connection.';
/** The session of the account's address. */
const ACCOUNT_SESSION = {
  agentId: 'mcp',
  agentName: 'MCP client',
  channelId: null,
  key: 'bulkhead:mcp',
  strict: false,
} as const;
const CONNECTION_HEADER = 'mcp-session-id';
/** The protocol's error for an unknown connection, to which some clients answer with a new `initialize`. */
const GONE = { jsonrpc: '2.0', error: { code: -32_001, message: 'Session not found' }, id: null };
/**
 * Maximum number of messages in one request. All are handled at once, counted as one request, and each can be answered with
 * megabytes. Versions of the protocol before 2025-06-18 have batches; no client is known that needs longer ones.
 */
const BATCH_MAX = 4;
/**
 * Maximum number of properties and list entries of one message, at all levels, without those inside a property of
 * `params.arguments`. The protocol's library parses a message with several schemas, each of which copies it.
 */
const MESSAGE_VALUES_MAX = 1_000;
/** A comment. Node sends the head of a response with its first bytes, which could be the library's keepalive after 15 s. */
const STREAM_OPENED = ': opened\n\n';
/** From this version of the protocol on, clients read an event without data. */
const EMPTY_EVENTS_SINCE = '2025-11-25';
/**
 * Shortest time after which a client opens an ended stream again. The official SDKs try twice, each time after this pause: together longer
 * than a restart. Milliseconds.
 */
const REOPEN_MS = 5_000;
const BATCH_TOO_LONG = `A batch has at most ${BATCH_MAX} messages. Send each message in a request of its own.`;
const MESSAGE_TOO_LARGE = `A message has at most ${MESSAGE_VALUES_MAX} properties and list entries. Only those inside a property of params.arguments are not counted.`;
/** Headers of the library that Node and the drain of the process set. */
const HEADERS_OF_NODE = new Set(['connection', 'content-length']);
/** Error codes of JSON-RPC. */
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;

const rpcMessage = z.unknown().meta({ description: 'JSON-RPC messages of the Model Context Protocol.' });
const rpcError = { content: { 'application/json': { schema: rpcMessage } } };
const refusals = { 400: rpcError, 404: rpcError, 406: rpcError };
const tooLarge = { 413: rpcError };
const response = {
  200: { content: { 'application/json': { schema: rpcMessage }, 'text/event-stream': { schema: z.string() } } },
  202: noContent,
  ...refusals,
};
const methods = {
  GET: { summary: 'Opens the stream of a connection, in place of the one before', response },
  POST: { summary: 'Sends messages to the MCP server', body: rpcMessage, response: { ...response, ...tooLarge } },
  DELETE: { summary: 'Ends a connection', response: { 200: noContent, ...refusals, ...tooLarge } },
} as const;

/** @param questionMs how long a client's user has to answer a question */
export function mcpRoutes(services: SessionServices, consoleUrl: string, questionMs?: number): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'MCP');
    let isDraining = false;
    // Loaded on demand: the library takes 20 MB and slows down start-up.
    const loading = new LazyLoad(async (): Promise<McpConnections> => {
      const { McpConnections } = await import('./connections.ts');
      const questions = new SetupQuestions(services, consoleUrl, questionMs);
      const onError = (err: unknown): void => app.log.error({ err }, 'a request over MCP failed');
      const connections = new McpConnections({ services, questions, version: RELEASE, onError });
      if (isDraining) connections.drain();
      return connections;
    });
    // Running requests go on: the server waits for their answers before it closes.
    app.addHook('preClose', async () => {
      isDraining = true;
      (await loading.getLoaded())?.drain();
    });
    const serve = async (request: FastifyRequest, reply: FastifyReply, session: Session): Promise<FastifyReply> => {
      const messages: unknown[] = [request.body].flat();
      if (messages.length > BATCH_MAX) return reply.code(400).send(createRefusal(request, BATCH_TOO_LONG));
      if (messages.some(hasManyValues)) return reply.code(400).send(createRefusal(request, MESSAGE_TOO_LARGE));
      requireAnswerer(request);
      const connections = await loading.get();
      const named = readConnectionId(request);
      const mayBegin = isAllowed(requireCaller(request).scopes, 'sessions:write');
      const connection =
        named === undefined ? await connections.begin(session) : await connections.open(session, named, mayBegin);
      if (!connection) return answerGone(reply);
      const { transport } = connection;
      onceClosed(reply.raw, connections.beginRequest(connection));
      try {
        const facts = { parsedBody: request.body, authInfo: describeRequest(request, reply) };
        const answer = await transport.handleRequest(asWebRequest(request), facts);
        if (request.method === 'GET' && answer.ok) connections.beginStream(connection);
        return send(request, reply, answer);
      } finally {
        // A request that does not initialize the connection must not leave one behind.
        if (transport.sessionId === undefined) await connection.close();
      }
    };
    for (const [method, schema] of Object.entries(methods)) {
      app.route({
        method,
        url: '/sessions/:sessionId/mcp',
        bodyLimit: CALL_BODY_MAX_BYTES,
        exposeHeadRoute: false,
        errorHandler: answerRpcError,
        schema: { ...schema, details: DETAILS, params: sessionParams },
        handler: async (request, reply) =>
          serve(request, reply, await requireSession(services, requireCaller(request), request.params)),
      });
      app.route({
        method,
        url: '/mcp',
        bodyLimit: CALL_BODY_MAX_BYTES,
        exposeHeadRoute: false,
        errorHandler: answerRpcError,
        schema: { ...schema, details: ACCOUNT_DETAILS },
        handler: async (request, reply) => {
          const { id: accountId } = requireCaller(request);
          const connections = await loading.get();
          // A start writes to the database, so requests of an open connection use the connection's session.
          const sessionId = connections.findSessionId(readConnectionId(request), accountId, ACCOUNT_SESSION.key);
          const session =
            sessionId === undefined
              ? await openAccountSession(services, accountId, method)
              : await services.sessions.get(accountId, sessionId);
          return session === null ? answerGone(reply) : serve(request, reply, session);
        },
      });
    }
  };
}

/** Only a message starts the session: a token that may only read opens streams. Null: it has not started. */
async function openAccountSession(
  services: SessionServices,
  accountId: string,
  method: string,
): Promise<Session | null> {
  if (method !== 'POST') return findSessionByKey(services.pool, accountId, ACCOUNT_SESSION.key);
  return (await startSession(services, accountId, ACCOUNT_SESSION)).session;
}

const answerGone = (reply: FastifyReply): FastifyReply => reply.code(404).send(GONE);

/** The protocol's answer to invalid messages. It names the request where there is one. */
function createRefusal({ body }: FastifyRequest, message: string, code = INVALID_REQUEST, data?: object) {
  const id = readProperty(body, 'method') === undefined ? undefined : readProperty(body, 'id');
  const known = typeof id === 'string' || typeof id === 'number' ? id : null;
  return { jsonrpc: '2.0', error: { code, message, ...(data ? { data } : {}) }, id: known };
}

/** Answers what a client sent wrong in the protocol's form. A body that cannot be parsed has no id. */
function answerRpcError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  answerError(error, request, reply, ({ status, detail, code, requestId, errors }) => {
    const data = { code, requestId, ...(errors ? { errors } : {}) };
    if (code === 'too_large') return createRefusal(request, detail, INVALID_REQUEST, data);
    if (status !== problems.bad_request.status) return null;
    // Requests of the other methods have no body.
    const isUnparsed = request.method === 'POST' && request.body === undefined;
    return createRefusal(request, detail, isUnparsed ? PARSE_ERROR : INVALID_PARAMS, data);
  });
}

function hasManyValues(message: unknown): boolean {
  const callArguments = readProperty(readProperty(message, 'params'), 'arguments');
  const waiting: unknown[] = [message];
  let count = 0;
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    if (typeof part !== 'object' || part === null) continue;
    for (const name in part) {
      count += 1;
      if (count > MESSAGE_VALUES_MAX) return true;
      if (part !== callArguments) waiting.push(readProperty(part, name));
    }
  }
  return false;
}

const readProperty = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;

/** An answer to a question changes an installation, whichever token asked. @throws Problem `insufficient_scope` */
function requireAnswerer(request: FastifyRequest): void {
  if (mayConfigure(requireCaller(request))) return;
  const messages: unknown[] = [request.body].flat();
  const isAnswer = messages.some((message) => readProperty(message, 'result') !== undefined);
  if (isAnswer)
    throw new Problem('insufficient_scope', 'A token with scopes may not answer questions about an installation.');
}

/** The facts of a request for the handlers of its messages. The transport takes them in this form only. */
function describeRequest(request: FastifyRequest, reply: FastifyReply): AuthInfo {
  const left = new AbortController();
  onceClosed(reply.raw, () => left.abort());
  const extra: RequestFacts = { caller: requireCaller(request), left: left.signal };
  return { token: '', clientId: '', scopes: [], extra: { ...extra } };
}

function readConnectionId({ headers }: FastifyRequest): string | undefined {
  const named = headers[CONNECTION_HEADER];
  return typeof named === 'string' ? named : undefined;
}

function asWebRequest(request: FastifyRequest): Request {
  const headers = Object.entries(request.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value] as [string, string]],
  );
  // The transport needs method and headers; only the end of the path is missing.
  return new Request(`http://localhost${request.url}`, { method: request.method, headers });
}

function send(request: FastifyRequest, reply: FastifyReply, answer: Response): FastifyReply {
  reply.code(answer.status);
  for (const [name, value] of answer.headers) if (!HEADERS_OF_NODE.has(name)) reply.header(name, value);
  if (answer.body === null) return reply.send();
  const isStream = request.method === 'GET';
  const body = Readable.fromWeb((isStream ? answer.body : countBytes(request, reply, answer.body)) as ReadableStream);
  if (isStream && answer.ok) body.unshift(Buffer.from(createOpening(request)));
  endWithToken(request, reply, () => body.destroy());
  return reply.header('x-accel-buffering', 'no').send(body);
}

/** The first bytes of a stream. They let a client open the stream again soon after its end, but not at the same moment as all others. */
function createOpening({ headers }: FastifyRequest): string {
  const version = headers['mcp-protocol-version'];
  if (typeof version !== 'string' || version < EMPTY_EVENTS_SINCE) return STREAM_OPENED;
  return `id: ${randomUUID()}\nretry: ${Math.round(REOPEN_MS * (1 + Math.random()))}\ndata: \n\n`;
}

/** The library writes an answer into its stream at once, so all of it waits there until the client reads. */
function countBytes(request: FastifyRequest, reply: FastifyReply, body: globalThis.ReadableStream<Uint8Array>) {
  const counted = new TransformStream<Uint8Array, Uint8Array>(
    {
      transform(chunk, output) {
        countUnread(request, reply, chunk.byteLength);
        output.enqueue(chunk);
      },
    },
    undefined,
    { highWaterMark: Number.POSITIVE_INFINITY },
  );
  return body.pipeThrough(counted);
}
