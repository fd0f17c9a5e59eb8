/** The transport of one MCP connection. Adds to the library's what it lacks: the end of a stream whose calls were cancelled, and clear errors. */
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  CallToolRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';

/** The requests of one POST that are not over, and those that its client cancelled. */
interface PostedRequests {
  readonly open: Set<RequestId>;
  readonly cancelled: RequestId[];
}

const CANCELLED = 'notifications/cancelled';

/** The requests with parameters. The library would answer wrong ones with the dump of its validator. */
const schemas = {
  'tools/list': ListToolsRequestSchema,
  'tools/call': CallToolRequestSchema,
  'prompts/list': ListPromptsRequestSchema,
  'prompts/get': GetPromptRequestSchema,
  'resources/list': ListResourcesRequestSchema,
  'resources/read': ReadResourceRequestSchema,
} as const;

export class McpTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #posted = new Set<PostedRequests>();

  /** Refuses requests with wrong parameters before the server gets them. Call it once, when the server has connected. */
  checkRequests(): void {
    const receive = this.onmessage;
    this.onmessage = (message, extra) => {
      const fault = findParamsFault(message);
      if (fault === null || !isJSONRPCRequest(message)) receive?.(message, extra);
      else {
        const error = { code: ErrorCode.InvalidParams, message: fault };
        this.send({ jsonrpc: '2.0', id: message.id, error }).catch((reason: Error) => this.onerror?.(reason));
      }
    };
  }

  override async handleRequest(request: Request, options: { readonly parsedBody?: unknown } = {}): Promise<Response> {
    const messages: unknown[] = [options.parsedBody].flat();
    const posted = { open: new Set(messages.filter(isJSONRPCRequest).map(({ id }) => id)), cancelled: [] };
    if (posted.open.size > 0) this.#posted.add(posted);
    const response = await super.handleRequest(request, options);
    if (!response.ok) this.#posted.delete(posted);
    for (const message of messages) if (isCancellation(message)) this.#endRequest(message.params.requestId, true);
    return response;
  }

  override async send(message: JSONRPCMessage, options?: { relatedRequestId?: RequestId }): Promise<void> {
    await super.send(isJSONRPCErrorResponse(message) ? withoutPrefix(message) : message, options);
    const isResponse = isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message);
    if (isResponse && message.id !== undefined) this.#endRequest(message.id, false);
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
      // Reaches no stream. It makes the library forget the request, and rejects because the stream is closed.
      const error = { code: ErrorCode.ConnectionClosed, message: 'The request was cancelled.' };
      super.send({ jsonrpc: '2.0', id: cancelled, error }).catch(() => undefined);
    }
  }
}

/** What is wrong with the parameters of a request, as a sentence. Null: nothing, or the method has none. */
function findParamsFault(message: JSONRPCMessage): string | null {
  if (!isJSONRPCRequest(message) || !Object.hasOwn(schemas, message.method)) return null;
  const schema = schemas[message.method as keyof typeof schemas];
  const [issue] = schema.safeParse(message, { error: describeFieldFault }).error?.issues ?? [];
  return issue ? `${issue.path.join('.')} ${issue.message}.` : null;
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
