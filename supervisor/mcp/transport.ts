/**
 * The transport of one MCP connection. Adds to the library's what it lacks: the end of a stream whose calls were cancelled, a new stream
 * in place of a lost one, and clear errors.
 */
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  CallToolRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  type JSONRPCRequest,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';
import type { z } from 'zod';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';

/** The requests of one POST that are not over, and those that its client cancelled. */
interface PostedRequests {
  readonly open: Set<RequestId>;
  readonly cancelled: RequestId[];
}

const CANCELLED = 'notifications/cancelled';
/** The library's status for a GET of a connection that has a stream. */
const STREAM_EXISTS = 409;

/** The library would answer that the body cannot be parsed. */
const NOT_A_MESSAGE = {
  code: ErrorCode.InvalidRequest,
  message:
    'The body is not a message of JSON-RPC 2.0: it needs "jsonrpc": "2.0" and either "method" (a string) or "result" or "error"; "id" is a string or an integer; "params" is an object. Nothing else may stand beside them.',
};

/** The requests with parameters, checked here because the library would answer wrong ones with the output of its validator. */
const schemas: ReadonlyMap<string, z.ZodType> = new Map<string, z.ZodType>([
  ['tools/list', ListToolsRequestSchema],
  ['tools/call', CallToolRequestSchema],
  ['prompts/list', ListPromptsRequestSchema],
  ['prompts/get', GetPromptRequestSchema],
  ['resources/list', ListResourcesRequestSchema],
  ['resources/read', ReadResourceRequestSchema],
]);

export class McpTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #posted = new Set<PostedRequests>();

  /** Number of POSTs with requests that are not over. */
  get openPosts(): number {
    return this.#posted.size;
  }

  /** Refuses requests with wrong parameters before the server gets them. Call it once, when the server has connected. */
  checkRequests(): void {
    const receive = this.onmessage;
    this.onmessage = (message, extra) => {
      const refusal = isJSONRPCRequest(message) ? refuseParams(message) : null;
      if (refusal === null) receive?.(message, extra);
      else this.send(refusal).catch((reason: Error) => this.onerror?.(reason));
    };
  }

  override async handleRequest(request: Request, options: { readonly parsedBody?: unknown } = {}): Promise<Response> {
    const messages: unknown[] = [options.parsedBody].flat();
    const requests = messages.filter(isJSONRPCRequest);
    const others = request.method === 'POST' && requests.length < messages.length ? messages : [];
    if (others.some((message) => !JSONRPCMessageSchema.safeParse(message).success))
      return Response.json({ jsonrpc: '2.0', error: NOT_A_MESSAGE, id: null }, { status: 400 });
    const posted = { open: new Set(requests.map(({ id }) => id)), cancelled: [] };
    if (posted.open.size > 0) this.#posted.add(posted);
    let response = await super.handleRequest(request, options);
    if (request.method === 'GET' && response.status === STREAM_EXISTS) {
      // The client opens a stream because it has lost the one before. Here that one looks open until TCP gives up, 15 minutes later.
      this.closeStandaloneSSEStream();
      response = await super.handleRequest(request, options);
    }
    if (!response.ok) this.#posted.delete(posted);
    for (const message of messages) if (isCancellation(message)) this.#endRequest(message.params.requestId, true);
    return response;
  }

  override async send(message: JSONRPCMessage, options?: { relatedRequestId?: RequestId }): Promise<void> {
    try {
      await super.send(isJSONRPCErrorResponse(message) ? withoutPrefix(message) : message, options);
    } finally {
      // The library throws if the client has left. The request is over all the same.
      const isResponse = isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message);
      if (isResponse && message.id !== undefined) this.#endRequest(message.id, false);
    }
  }

  /** The library ends a stream when all its requests are answered. The protocol leaves a cancelled one without an answer. */
  #endRequest(id: RequestId, isCancelled: boolean): void {
    const posted = [...this.#posted].findLast(({ open }) => open.has(id));
    if (!posted) return;
    posted.open.delete(id);
    if (isCancelled) posted.cancelled.push(id);
    if (posted.open.size > 0) return;
    this.#posted.delete(posted);
    for (const cancelled of posted.cancelled) {
      this.closeSSEStream(cancelled);
      // Makes the library forget the request. No client gets the message: the stream is closed, so the send rejects.
      const error = { code: ErrorCode.ConnectionClosed, message: 'The request was cancelled.' };
      super.send({ jsonrpc: '2.0', id: cancelled, error }).catch(() => undefined);
    }
  }
}

/** The response to a request with wrong parameters. Null: they are right, or the method has none. */
function refuseParams(request: JSONRPCRequest): JSONRPCErrorResponse | null {
  const [issue] = schemas.get(request.method)?.safeParse(request, { error: describeFieldFault }).error?.issues ?? [];
  if (!issue) return null;
  const error = { code: ErrorCode.InvalidParams, message: `${issue.path.join('.')} ${issue.message}.` };
  return { jsonrpc: '2.0', id: request.id, error };
}

function isCancellation(message: unknown): message is { readonly params: { readonly requestId: RequestId } } {
  const { method, params } = (message ?? {}) as { readonly method?: unknown; readonly params?: unknown };
  const { requestId } = (params ?? {}) as { readonly requestId?: unknown };
  return method === CANCELLED && (typeof requestId === 'string' || typeof requestId === 'number');
}

/** The library repeats the code of an error in its message. */
function withoutPrefix<T extends { readonly error: { readonly code: number; readonly message: string } }>(
  message: T,
): T {
  const { error } = message;
  const prefix = `MCP error ${error.code}: `;
  if (!error.message.startsWith(prefix)) return message;
  return { ...message, error: { ...error, message: error.message.slice(prefix.length) } };
}
