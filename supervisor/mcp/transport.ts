/**
 * The transport of one MCP connection. Adds to the library's what it lacks: requests with the same id at once, the end of a stream whose
 * calls were cancelled, a new stream in place of a lost one, and clear errors.
 */
import { randomUUID } from 'node:crypto';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  CallToolRequestSchema,
  type ClientCapabilities,
  ErrorCode,
  GetPromptRequestSchema,
  InitializeRequestSchema,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  type JSONRPCRequest,
  type JSONRPCResultResponse,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';
import type { z } from 'zod';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';

/** The requests of one POST, by the id that the library gets for each. */
interface PostedRequests {
  /** Those that are not over, with the ids that the client gave them. */
  readonly open: Map<number, RequestId>;
  /** Those that are over, and whose answers the library does not get. */
  readonly withheld: number[];
  /** Answers the only request of a POST with JSON. Undefined once its stream has begun. */
  sendJson?: ((answer: JSONRPCMessage) => void) | undefined;
}

/** No question of the library has this id. */
const NO_QUESTION = -1;
/** The id that the library gets for a request that is over or was never made. It ignores the cancellation of this one. */
const NO_REQUEST = 0;
const CANCELLED = 'notifications/cancelled';
/** The library's status for a GET of a connection that has a stream. */
const STREAM_EXISTS = 409;

/** The library would answer that the body cannot be parsed. */
const NOT_A_MESSAGE = {
  code: ErrorCode.InvalidRequest,
  message:
    'The body is not a message of JSON-RPC 2.0: it needs "jsonrpc": "2.0" and either "method" (a string) or "result" or "error"; "id" is a string or an integer; "params" is an object. Nothing else may stand beside them.',
};

/** The requests with parameters besides `initialize`, checked here because the library would answer wrong ones with the output of its validator. */
const schemas: ReadonlyMap<string, z.ZodType> = new Map<string, z.ZodType>([
  ['tools/list', ListToolsRequestSchema],
  ['tools/call', CallToolRequestSchema],
  ['prompts/list', ListPromptsRequestSchema],
  ['prompts/get', GetPromptRequestSchema],
  ['resources/list', ListResourcesRequestSchema],
  ['resources/read', ReadResourceRequestSchema],
]);

export class McpTransport extends WebStandardStreamableHTTPServerTransport {
  /** The questions that the client can ask its user, from its `initialize`. */
  elicitation: ClientCapabilities['elicitation'];
  readonly #posted = new Set<PostedRequests>();
  /** Number of the last request. */
  #lastNumber = NO_REQUEST;
  /**
   * Begins the ids of the questions to the client. The library counts them from 0 in each connection, and `bulkhead mcp` has several for one
   * client: the answer to a question of a lost connection must not answer one of the next, which may be of another plugin.
   */
  readonly #questionPrefix = `${randomUUID()}:`;

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
    const hasOthers = request.method === 'POST' && !messages.every(isJSONRPCRequest);
    if (hasOthers && messages.some((message) => !JSONRPCMessageSchema.safeParse(message).success))
      return Response.json({ jsonrpc: '2.0', error: NOT_A_MESSAGE, id: null }, { status: 400 });
    // The library takes an invalid one for another request, and answers that the connection is not initialized.
    const initialize = messages.find((message) => isJSONRPCRequest(message) && message.method === 'initialize');
    if (initialize !== undefined) {
      const { data, error } = InitializeRequestSchema.safeParse(initialize, { error: describeFieldFault });
      if (error) return Response.json(createRefusal(initialize as JSONRPCRequest, error), { status: 400 });
      this.elicitation ??= data.params.capabilities.elicitation;
    }
    const posted: PostedRequests = { open: new Map(), withheld: [] };
    this.#posted.add(posted);
    const { promise: answered, resolve: sendJson } = Promise.withResolvers<JSONRPCMessage>();
    if (isJSONRPCRequest(options.parsedBody)) posted.sendJson = sendJson;
    const numbered = messages.map((message) => this.#restoreQuestionId(this.#numberRequest(message, posted)));
    if (posted.open.size === 0) this.#posted.delete(posted);
    const numberedOptions = { ...options, parsedBody: Array.isArray(options.parsedBody) ? numbered : numbered[0] };
    let response = await super.handleRequest(request, numberedOptions);
    if (request.method === 'GET' && response.status === STREAM_EXISTS) {
      // The client opens a stream because it has lost the one before. Here that one looks open until TCP gives up, 15 minutes later.
      this.closeStandaloneSSEStream();
      response = await super.handleRequest(request, numberedOptions);
    }
    if (!response.ok) this.#posted.delete(posted);
    for (const message of numbered) if (isCancellation(message)) this.#endRequest(message.params.requestId, true);
    if (!response.ok || !isJSONRPCRequest(options.parsedBody)) return response;
    return Promise.race([
      answered.then((answer) => Response.json(answer, { headers: { 'mcp-session-id': this.sessionId ?? '' } })),
      waitForStream(response, posted),
    ]);
  }

  override async send(message: JSONRPCMessage, options?: { relatedRequestId?: RequestId }): Promise<void> {
    const posted = this.#findPosted(isResponse(message) ? message.id : options?.relatedRequestId);
    const sendJson = posted?.sendJson;
    if (posted) posted.sendJson = undefined;
    if (sendJson && isResponse(message)) {
      sendJson(this.#toClient(message));
      this.#endRequest(message.id as number, true);
      return;
    }
    try {
      await super.send(this.#toClient(message), options);
    } finally {
      // The library throws if the client has left. The request is over all the same.
      if (isResponse(message) && message.id !== undefined) this.#endRequest(message.id, false);
    }
  }

  /**
   * Gives a request an id of its own. Some clients give all requests the same one, and the library would send the answer to the first of
   * them to the POST of the last. A cancellation is of the newest open request with its id.
   */
  #numberRequest(message: unknown, { open }: PostedRequests): unknown {
    if (isJSONRPCRequest(message)) {
      this.#lastNumber += 1;
      open.set(this.#lastNumber, message.id);
      return { ...message, id: this.#lastNumber };
    }
    if (!isCancellation(message)) return message;
    const given = message.params.requestId;
    const opened = [...this.#posted].flatMap((posted) => [...posted.open]);
    const [requestId = NO_REQUEST] = opened.findLast(([, id]) => id === given) ?? [];
    return { ...message, params: { ...message.params, requestId } };
  }

  #restoreQuestionId(message: unknown): unknown {
    if (!isJSONRPCResultResponse(message) && !isJSONRPCErrorResponse(message)) return message;
    const [, number] = String(message.id).split(this.#questionPrefix);
    return { ...message, id: number === undefined ? NO_QUESTION : Number(number) };
  }

  #toClient(message: JSONRPCMessage): JSONRPCMessage {
    if (isJSONRPCRequest(message)) return { ...message, id: `${this.#questionPrefix}${message.id}` };
    if (isJSONRPCErrorResponse(message)) return this.#restoreId(withoutPrefix(message));
    if (!isCancellation(message)) return this.#restoreId(message);
    const requestId = `${this.#questionPrefix}${message.params.requestId}`;
    return { ...message, params: { ...message.params, requestId } };
  }

  #findPosted = (id: RequestId | undefined): PostedRequests | undefined =>
    [...this.#posted].find(({ open }) => open.has(id as number));

  /** The library finds the stream of a response by its id, and then serialises it. It accepts no other enumerable property. */
  #restoreId(message: JSONRPCMessage): JSONRPCMessage {
    if (!isResponse(message)) return message;
    const id = this.#findPosted(message.id)?.open.get(message.id as number);
    if (id === undefined) return message;
    return Object.defineProperty({ ...message }, 'toJSON', { value: () => ({ ...message, id }) });
  }

  /**
   * The library ends a stream when all its requests are answered. The protocol leaves a cancelled one without an answer.
   *
   * @param isWithheld whether the library does not get the answer
   */
  #endRequest(id: RequestId, isWithheld: boolean): void {
    const posted = this.#findPosted(id);
    if (!posted) return;
    posted.open.delete(id as number);
    if (isWithheld) posted.withheld.push(id as number);
    if (posted.open.size > 0) return;
    this.#posted.delete(posted);
    for (const withheld of posted.withheld) {
      this.closeSSEStream(withheld);
      // Makes the library forget the request. No client gets the message: the stream is closed, so the send rejects.
      const error = { code: ErrorCode.ConnectionClosed, message: 'The request is over.' };
      super.send({ jsonrpc: '2.0', id: withheld, error }).catch(() => undefined);
    }
  }
}

/**
 * Waits until the stream of a response begins with another message than the answer, or a keepalive, or ends without one. An answer that
 * comes first is sent as JSON instead: the Python SDK and others read no event of more than 1 MiB.
 */
async function waitForStream(response: Response, posted: PostedRequests): Promise<Response> {
  if (response.body === null) return response;
  const [begin, body] = response.body.tee();
  const reader = begin.getReader();
  await reader.read();
  posted.sendJson = undefined;
  // Resolves when the other branch is cancelled, too.
  void reader.cancel();
  return new Response(body, response);
}

/** The response to a request with wrong parameters. Null: they are right, or the method has none. */
function refuseParams(request: JSONRPCRequest): JSONRPCErrorResponse | null {
  const error = schemas.get(request.method)?.safeParse(request, { error: describeFieldFault }).error;
  return error ? createRefusal(request, error) : null;
}

/** Names the first of the wrong parameters. */
function createRefusal({ id }: JSONRPCRequest, { issues: [issue] }: z.ZodError): JSONRPCErrorResponse {
  const message = `${issue?.path.join('.')} ${issue?.message}.`;
  return { jsonrpc: '2.0', id, error: { code: ErrorCode.InvalidParams, message } };
}

const isResponse = (message: JSONRPCMessage): message is JSONRPCResultResponse | JSONRPCErrorResponse =>
  isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message);

function isCancellation(message: unknown): message is { readonly params: { readonly requestId: RequestId } } {
  const { id, method, params } = (message ?? {}) as Readonly<Record<'id' | 'method' | 'params', unknown>>;
  const { requestId } = (params ?? {}) as { readonly requestId?: unknown };
  return id === undefined && method === CANCELLED && (typeof requestId === 'string' || typeof requestId === 'number');
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
