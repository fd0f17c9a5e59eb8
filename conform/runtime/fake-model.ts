/** A model for runtimes under test: an OpenAI-compatible server that answers each scenario as its script says, streamed or whole. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: object;
}
export interface ModelAnswer {
  /** The text, cut into the deltas of a stream. */
  readonly deltas?: readonly string[];
  readonly calls?: readonly ModelCall[];
  /** Text in the field of the same name, which some servers use. */
  readonly reasoning?: string;
  readonly refusal?: string;
  /** Refuses the request with this status. */
  readonly status?: number;
  /** Awaited before the first byte. */
  readonly before?: Promise<unknown>;
  /** Awaited after the first delta. A request that is not streamed is answered as a whole after it. */
  readonly afterFirst?: Promise<unknown>;
  /** Within each line of a stream, or a whole answer, the first character outside ASCII comes in two chunks. */
  readonly isSplit?: boolean;
  /** The connection breaks where the answer would end. */
  readonly isCut?: boolean;
  /** The model fails where the answer would end: a stream says so, and has no other end. Otherwise the request is refused. */
  readonly isFailed?: boolean;
}
export interface ModelRequest {
  readonly isStreamed: boolean;
  /** The address and the headers. */
  readonly head: string;
  /** The body: everything that the model reads. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: scenarios look into messages of every shape
  readonly messages: readonly any[];
  /** The tools that were offered, by name. */
  readonly tools: readonly string[];
}
interface Script {
  readonly answers: readonly ModelAnswer[];
  readonly requests: ModelRequest[];
  /** Those of earlier scripts of the scenario, too. */
  readonly allRequests: ModelRequest[];
  readonly onRequest: Set<() => void>;
}

/** The mark in a user's text that tells the scenarios apart. */
const MARK = /\bcase-\d+\b/g;
const MODEL = 'kit';
const CREATED_S = 1_700_000_000;
/** How long after a character's first byte the others are sent, so that clients read the first one alone. Milliseconds. */
const SPLIT_MS = 20;
/** Bytes from this one on begin a character outside ASCII. */
const FIRST_OF_MANY = 0xc0;
const MODEL_ENTRY = { id: MODEL, object: 'model', created: CREATED_S, owned_by: MODEL };

export class FakeModel {
  readonly url: string;
  readonly #server: Server;
  readonly #scripts = new Map<string, Script>();

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    server.on('request', (request, response) => void this.#handle(request, response).catch(() => response.destroy()));
  }

  static async start(): Promise<FakeModel> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return new FakeModel(server);
  }

  /** Sets what the requests of a scenario are answered with, in order; the last answer stays. Returns the requests. */
  play(mark: string, answers: readonly ModelAnswer[]): ModelRequest[] {
    const allRequests = this.listRequests(mark);
    const script = { answers, requests: [], allRequests, onRequest: new Set<() => void>() };
    this.#scripts.set(mark, script);
    return script.requests;
  }

  /** All requests of a scenario, also those of earlier scripts. */
  listRequests(mark: string): ModelRequest[] {
    return this.#scripts.get(mark)?.allRequests ?? [];
  }

  /** Resolves when the scenario's model was asked so often. */
  async untilAsked(mark: string, times: number): Promise<void> {
    const script = this.#scripts.get(mark);
    if (!script || script.requests.length >= times) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = (): void => {
      if (script.requests.length >= times) resolve();
    };
    script.onRequest.add(check);
    await promise.finally(() => script.onRequest.delete(check));
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const [path = ''] = (request.url ?? '').split('?');
    if (request.method === 'GET' && path.endsWith('/models')) {
      // Some clients look for their model when they start.
      sendJson(response, 200, { object: 'list', data: [MODEL_ENTRY] });
      return;
    }
    if (request.method !== 'POST' || !path.endsWith('/chat/completions')) {
      sendError(response, 404, 'This model has POST /v1/chat/completions and GET /v1/models only.');
      return;
    }
    const body = JSON.parse(text);
    const asked: ModelRequest = {
      isStreamed: body.stream === true,
      head: JSON.stringify([request.url, request.headers]),
      // As it was meant: characters outside ASCII may be escaped in the bytes.
      text: JSON.stringify(body),
      messages: body.messages,
      tools: (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name),
    };
    const script = this.#scripts.get(findMark(asked) ?? '');
    if (!script) {
      sendError(response, 400, 'No message of the user names a scenario.');
      return;
    }
    const answer = script.answers[Math.min(script.requests.length, script.answers.length - 1)] ?? {};
    script.requests.push(asked);
    script.allRequests.push(asked);
    for (const check of script.onRequest) check();
    await answer.before;
    if (answer.status !== undefined) {
      sendError(response, answer.status, FAILURE);
      return;
    }
    const calls = (answer.calls ?? []).map((call) => ({ ...call, name: findOffered(asked, call.name) }));
    await (asked.isStreamed ? sendStream : sendWhole)(response, { ...answer, calls });
  }
}

/** The scenario of the last message that names one. */
function findMark({ messages }: ModelRequest): string | undefined {
  const last = messages.findLast(({ role, content }) => role === 'user' && JSON.stringify(content).search(MARK) >= 0);
  return JSON.stringify(last?.content ?? '')
    .match(MARK)
    ?.at(-1);
}

/** Some frameworks allow fewer characters in the names of tools. */
const simplifyName = (name: string): string => name.replaceAll(/\W/g, '_');

/** The name under which a tool was offered, as a model would use it. */
export const findOffered = ({ tools }: ModelRequest, name: string): string =>
  tools.find((offered) => simplifyName(offered) === simplifyName(name)) ?? name;

const FAILURE = 'The model fails, as the scenario says.';
const createError = (message: string) => ({
  error: { message, type: 'invalid_request_error', param: null, code: null },
});

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

const sendError = (response: ServerResponse, status: number, message: string): void =>
  sendJson(response, status, createError(message));

/** Frameworks tell messages apart by the id of their answer. */
const createHead = (object: string) => ({ id: `chatcmpl-${randomUUID()}`, object, created: CREATED_S, model: MODEL });
const toToolCall = ({ id, name, arguments: args }: ModelCall) => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
});
const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

async function sendWhole(response: ServerResponse, answer: ModelAnswer): Promise<void> {
  const { deltas = [], calls = [], reasoning, refusal } = answer;
  await answer.afterFirst;
  if (answer.isCut) {
    response.destroy();
    return;
  }
  if (answer.isFailed) {
    sendError(response, 400, FAILURE);
    return;
  }
  const message = {
    role: 'assistant',
    content: deltas.length === 0 ? null : deltas.join(''),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(refusal === undefined ? {} : { refusal }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(toToolCall) }),
  };
  const choice = { index: 0, message, finish_reason: calls.length === 0 ? 'stop' : 'tool_calls' };
  const body = Buffer.from(JSON.stringify({ ...createHead('chat.completion'), choices: [choice], usage: USAGE }));
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  await write(response, body, answer);
  response.end();
}

async function sendStream(response: ServerResponse, answer: ModelAnswer): Promise<void> {
  const { deltas = [], calls = [], reasoning, refusal } = answer;
  const head = createHead('chat.completion.chunk');
  const send = (value: object): Promise<void> =>
    write(response, Buffer.from(`data: ${JSON.stringify(value)}\n\n`), answer);
  const sendDelta = (delta: object, finish: string | null = null): Promise<void> =>
    send({ ...head, choices: [{ index: 0, delta, finish_reason: finish }] });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  await sendDelta({ role: 'assistant', content: '' });
  if (reasoning !== undefined) await sendDelta({ reasoning_content: reasoning });
  for (const [index, content] of deltas.entries()) {
    await sendDelta({ content });
    if (index === 0) await answer.afterFirst;
  }
  if (refusal !== undefined) await sendDelta({ refusal });
  for (const [index, call] of calls.entries()) await sendDelta({ tool_calls: [{ index, ...toToolCall(call) }] });
  if (answer.isCut) {
    response.destroy();
    return;
  }
  if (answer.isFailed) {
    await send(createError(FAILURE));
  } else {
    await sendDelta({}, calls.length === 0 ? 'stop' : 'tool_calls');
    await send({ ...head, choices: [], usage: USAGE });
  }
  response.end('data: [DONE]\n\n');
}

async function write(response: ServerResponse, bytes: Buffer, { isSplit = false }: ModelAnswer): Promise<void> {
  const first = isSplit ? bytes.findIndex((byte) => byte >= FIRST_OF_MANY) : -1;
  if (first >= 0) {
    response.write(bytes.subarray(0, first + 1));
    await sleep(SPLIT_MS);
  }
  response.write(bytes.subarray(first + 1));
}
