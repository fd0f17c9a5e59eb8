/** An HTTP server that speaks the wire formats of OpenAI-compatible and Anthropic endpoints, as its test says. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { listenOn } from '../../fixtures/listening-server.ts';
import type { Teardown } from '../../runner/harness.ts';

export interface Asked {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of any shape
  readonly body: any;
}
export interface ModelServer {
  readonly url: string;
  readonly asked: Asked[];
  readonly sockets: ReadonlySet<Socket>;
  /** The answers to the next requests, in order. The last one is repeated. */
  answers: ((response: ServerResponse, asked: Asked) => void)[];
}

/** Starts one on a free port; it ends with the test. */
export async function startModelServer(test: Teardown): Promise<ModelServer> {
  const sockets = new Set<Socket>();
  const model: ModelServer & { url: string } = { url: '', asked: [], sockets, answers: [] };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    const received = { path: request.url ?? '', headers: request.headers, body };
    model.asked.push(received);
    const answer = model.answers.length > 1 ? model.answers.shift() : model.answers[0];
    answer?.(response, received);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  model.url = `${(await listenOn(test, server)).url}/v1`;
  return model;
}

export const stream = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (delta: object, finish: string | null = null) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
});
/** The start of an OpenAI-compatible answer. */
export const openAiStart = data(chunk({ role: 'assistant', content: '' }));
/** One piece of an OpenAI-compatible answer. */
export const openAiDelta = (text: string): string => data(chunk({ content: text }));
/** One piece of what a model reasons before its answer. */
export const openAiReasoning = (text: string): string => data(chunk({ reasoning_content: text }));

const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
/** A whole OpenAI-compatible answer, as the bytes of its stream. @param usage null: it reports none @param finish why it ends */
export function openAiEvents(texts: readonly string[], usage: object | null = USAGE, finish = 'stop'): Buffer {
  return Buffer.from(
    [
      openAiStart,
      ...texts.map(openAiDelta),
      data(chunk({}, finish)),
      usage === null ? '' : data({ ...chunk({}), choices: [], usage }),
      'data: [DONE]\n\n',
    ].join(''),
  );
}
export const openAi =
  (...texts: string[]) =>
  (response: ServerResponse): void => {
    stream(response).end(openAiEvents(texts));
  };

/** The same, in pieces that end anywhere: inside characters, lines and events. */
export const openAiInPieces =
  (bytes: number, ...texts: string[]) =>
  (response: ServerResponse): void => {
    const all = openAiEvents(texts);
    stream(response);
    const write = (from: number): void => {
      if (from >= all.length) return void response.end();
      response.write(all.subarray(from, from + bytes), () => setImmediate(write, from + bytes));
    };
    write(0);
  };

export const refuse =
  (status: number, message: string, headers: Record<string, string> = {}) =>
  (response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ error: { message, type: 'error', code: null, param: null } }));
  };

export const anthropic = (...texts: string[]) => anthropicUntil('end_turn', ...texts);

/** @param stopReason why the answer ends */
export const anthropicUntil =
  (stopReason: string, ...texts: string[]) =>
  (response: ServerResponse): void => {
    const event = (value: { type: string }) => `event: ${value.type}\n${data(value)}`;
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [],
      model: 'claude',
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 21, output_tokens: 1 },
    };
    const block = { type: 'text', text: '' };
    const parts = [
      { type: 'message_start', message },
      { type: 'content_block_start', index: 0, content_block: block },
      { type: 'ping' },
      ...texts.map((text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: stopReason, stop_sequence: null },
        usage: { output_tokens: 9 },
      },
      { type: 'message_stop' },
    ];
    stream(response).end(parts.map(event).join(''));
  };
