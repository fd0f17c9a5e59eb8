/** The bridge of `bulkhead mcp` with a service whose streams break, and that restarts. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { McpBridge } from '../../sdk/cli/mcp-bridge.ts';
import { Transport } from '../../sdk/session/transport.ts';
import { serve } from '../fixtures/listening-server.ts';
import { eventually } from '../runner/eventually.ts';

interface Message {
  readonly id?: number | null;
  readonly method?: string;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}
/** Answers a request. @param message of a POST; a GET has none */
type Answer = (response: ServerResponse, message: Message) => void;
/** By method of the protocol, and `GET`: the answers in order, of which the last one is repeated. */
type Script = Readonly<Record<string, readonly [Answer, ...Answer[]]>>;

const openStream = (response: ServerResponse): ServerResponse => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': 's1' }).flushHeaders();
  return response;
};
const format = (message: object): string => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
const refuse =
  (status: number): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
const accept = refuse(202);
const stayOpen: Answer = (response) => void openStream(response);
const succeed: Answer = (response, { id }) => void openStream(response).end(format({ id, result: {} }));

interface Times {
  /** Of the bridge; by default longer than a test. */
  readonly silenceMs?: number;
  /** Of its transport. */
  readonly retryForMs?: number;
}
async function startBridge(test: Test, script: Script, { silenceMs = 600_000, retryForMs = 0 }: Times = {}) {
  const asked: string[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(request);
    const message: Message = body === '' ? {} : JSON.parse(body);
    const name = message.method ?? 'GET';
    const answers = script[name] ?? [accept];
    const answer = answers[asked.filter((earlier) => earlier === name).length] ?? answers.at(-1);
    asked.push(name);
    answer?.(response, message);
  };
  const { url } = await serve(test, (request, response) => void handle(request, response));
  const stop = new AbortController();
  test.teardown(() => stop.abort());
  const lines = new TransformStream<string, string>();
  const writer = lines.writable.getWriter();
  const received: Message[] = [];
  const bridge = new McpBridge(new Transport({ url, token: 'x', retryForMs }), '/mcp', {
    lines: lines.readable,
    send: (message) => void received.push(message as Message),
    signal: stop.signal,
    silenceMs,
  });
  const running = bridge.run();
  const sendLine = (line: string) => writer.write(line);
  const send = (message: object) => sendLine(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const receive = (isWanted: (message: Message) => boolean): Promise<Message> =>
    eventually(async () => received.find(isWanted));
  const call = async (id: number, method: string, params = {}): Promise<Message> => {
    await send({ id, method, params });
    return receive((message) => message.id === id);
  };
  t.match(await call(0, 'initialize'), { result: {} });
  const end = async (): Promise<void> => {
    await writer.close();
    await running;
  };
  return { asked, received, send, sendLine, call, receive, end };
}

t.test('the notification stream is opened again after it was lost, also if the service refuses it once', async (t) => {
  const change = format({ method: 'notifications/tools/list_changed', params: { from: 'service' } });
  for (const status of [409, 429, 500]) {
    const service = await startBridge(t, {
      initialize: [succeed],
      GET: [
        (response) => void openStream(response).end(),
        refuse(status),
        (response) => void openStream(response).write(change),
      ],
    });
    await service.receive((message) => JSON.stringify(message).includes('"from":"service"'));
    t.equal(service.received.length, 2, `${status}: the service announces what may have changed without a stream`);
    t.equal(service.asked.filter((name) => name === 'GET').length, 3);
    await service.end();
  }
});

t.test('a call whose connection is silent or breaks fails, and is not sent again', async (t) => {
  const broken: Answer = (response) => openStream(response).write(': keepalive\n\n', () => response.destroy());
  for (const answer of [stayOpen, broken]) {
    const script: Script = {
      initialize: [succeed],
      GET: [stayOpen],
      'tools/call': [answer],
      'prompts/get': [answer],
      'tools/list': [answer],
    };
    const service = await startBridge(t, script, { silenceMs: 100 });
    const describe = (method: string, ran: string) =>
      `The connection broke before the answer to ${method}. The ${ran} may have run: check before you call it again.`;
    t.match(await service.call(1, 'tools/call'), { error: { message: describe('tools/call', 'tool') } });
    t.match(await service.call(3, 'prompts/get'), { error: { message: describe('prompts/get', 'command') } });
    t.match(await service.call(2, 'tools/list'), { error: { message: /answer to tools\/list\. Send it again\./ } });
    t.equal(service.asked.filter((name) => name === 'tools/call').length, 1);
    await service.end();
  }
});

t.test('a request that was lost before its answer began is sent again only if it runs no plugin', async (t) => {
  for (const [method, requests] of [
    ['tools/call', 1],
    ['prompts/get', 1],
    ['resources/list', 2],
  ] as const) {
    const lose: Answer = (response) => response.destroy();
    const script: Script = { initialize: [succeed], GET: [stayOpen], [method]: [lose, succeed] };
    const service = await startBridge(t, script, { retryForMs: 60_000 });
    const { error } = await service.call(1, method);
    t.equal(error === undefined, requests === 2, method);
    t.equal(service.asked.filter((name) => name === method).length, requests, method);
    await service.end();
  }
});

t.test('an answer with line separators of Unicode is read', async (t) => {
  const result = { content: [{ type: 'text', text: 'a\u2028b\u2029c\u0085d' }] };
  const service = await startBridge(t, {
    initialize: [succeed],
    GET: [stayOpen],
    'tools/call': [(response, { id }) => void openStream(response).end(format({ id, result }))],
  });
  t.same((await service.call(1, 'tools/call')).result, result);
  await service.end();
});

t.test('a call that breaks after the client has answered a question with the same id has an answer', async (t) => {
  const called = Promise.withResolvers<ServerResponse>();
  const answered = Promise.withResolvers<void>();
  const question = format({ id: 1, method: 'elicitation/create' });
  const service = await startBridge(t, {
    initialize: [succeed],
    // The answer to the question has no method either.
    GET: [
      stayOpen,
      (response, message) => {
        accept(response, message);
        answered.resolve();
      },
    ],
    'tools/call': [
      (response) => {
        openStream(response).write(question);
        called.resolve(response);
      },
    ],
  });
  await eventually(async () => service.asked.includes('GET'));
  await service.send({ id: 1, method: 'tools/call' });
  await service.receive(({ method }) => method === 'elicitation/create');
  await service.send({ id: 1, result: { action: 'cancel' } });
  await answered.promise;
  (await called.promise).destroy();
  const { error } = await service.receive(({ id, method }) => id === 1 && method === undefined);
  t.match(error?.message, /^The connection broke before the answer to tools\/call\./);
  await service.end();
});

t.test('a call goes on when the answer to a question with the same id is refused', async (t) => {
  const called = Promise.withResolvers<ServerResponse>();
  const refused = Promise.withResolvers<void>();
  const service = await startBridge(t, {
    initialize: [succeed],
    // The answer to the question has no method either.
    GET: [
      stayOpen,
      (response, message) => {
        refuse(413)(response, message);
        refused.resolve();
      },
    ],
    'tools/call': [
      (response) => {
        openStream(response).write(format({ id: 1, method: 'elicitation/create' }));
        called.resolve(response);
      },
    ],
    'tools/list': [succeed],
  });
  await eventually(async () => service.asked.includes('GET'));
  await service.send({ id: 1, method: 'tools/call' });
  await service.receive(({ method }) => method === 'elicitation/create');
  await service.send({ id: 1, result: { action: 'accept' } });
  await refused.promise;
  await service.call(2, 'tools/list');
  t.equal(service.asked.filter((name) => name === 'GET').length, 3, 'the question gets an error in its place');
  (await called.promise).end(format({ id: 1, result: { content: [] } }));
  await service.end();
  const answers = service.received.filter(({ id, method }) => id === 1 && method === undefined);
  t.same(answers, [{ jsonrpc: '2.0', id: 1, result: { content: [] } }], 'its only answer');
});

t.test('a line that is no message has an error, and each message of a batch has its own answer', async (t) => {
  const refusal = { code: -32_602, message: 'query x: is not known', data: { code: 'bad_request', requestId: 'r' } };
  const service = await startBridge(t, {
    initialize: [succeed],
    GET: [stayOpen],
    'tools/list': [succeed],
    'tools/call': [refuse(500)],
    'prompts/get': [(response) => void response.writeHead(400).end(JSON.stringify({ error: refusal }))],
  });
  t.same((await service.call(9, 'prompts/get')).error, refusal, 'the error of the service as it is');
  for (const line of ['null', '5', '[]', '[null]']) {
    const before = service.received.length;
    await service.sendLine(line);
    await eventually(async () => service.received.length > before);
    t.match(service.received.at(-1), { id: null, error: { code: -32_600 } }, line);
  }
  await service.sendLine('{');
  await service.receive(({ error }) => error?.code === -32_700);
  const batch = [
    { id: 1, method: 'tools/list' },
    { id: 2, method: 'tools/call' },
    { method: 'notifications/initialized' },
  ].map((message) => ({ jsonrpc: '2.0', ...message }));
  await service.sendLine(JSON.stringify(batch));
  t.match(await service.receive(({ id }) => id === 1), { result: {} });
  t.match(await service.receive(({ id }) => id === 2), { error: { code: -32_603 } });
  t.match(await service.call(3, 'tools/list'), { result: {} });
  await service.end();
  t.equal(service.asked.filter((name) => name === 'tools/call').length, 1, 'it is not sent again');
});

t.test('a message with a number that would be rounded is refused with its id, and not sent', async (t) => {
  const service = await startBridge(t, { initialize: [succeed], GET: [stayOpen], 'tools/call': [succeed] });
  const write = (id: number | string, value: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"read","arguments":{"id":${value}}}}`;
  const refusal = (number: string) => ({
    code: -32_602,
    message: `The message holds the number ${number}, which a double cannot hold. Send it as a string.`,
  });
  await service.sendLine(write(1, '1234567890123456789'));
  t.same((await service.receive(({ id }) => id === 1)).error, refusal('1234567890123456789'));
  await service.sendLine(`[${write(2, '-9007199254740993')},${write(3, '1')}]`);
  for (const id of [2, 3])
    t.same((await service.receive((message) => message.id === id)).error, refusal('-9007199254740993'), 'as over HTTP');
  await service.sendLine(write('9007199254740993', '1'));
  t.same(
    (await service.receive(({ id }) => id === null)).error,
    refusal('9007199254740993'),
    'no other id is answered',
  );
  await service.sendLine(write(4, '"1234567890123456789"'));
  t.match(await service.receive(({ id }) => id === 4), { result: {} });
  await service.end();
  t.equal(service.asked.filter((name) => name === 'tools/call').length, 1);
});

t.test('an answer to a question with a number that would be rounded ends the question with an error', async (t) => {
  const answered = Promise.withResolvers<Message>();
  const service = await startBridge(t, {
    initialize: [succeed],
    GET: [
      stayOpen,
      (response, message) => {
        accept(response, message);
        answered.resolve(message);
      },
    ],
  });
  await eventually(async () => service.asked.includes('GET'));
  await service.sendLine('{"jsonrpc":"2.0","id":"q:0","result":{"action":"accept","content":{"a":9007199254740993}}}');
  t.match(await answered.promise, { id: 'q:0', error: { code: -32_602, message: /Send it as a string/ } });
  await service.end();
});

t.test('a cancelled call has no answer', async (t) => {
  const called = Promise.withResolvers<ServerResponse>();
  const service = await startBridge(t, {
    initialize: [succeed],
    GET: [stayOpen],
    'tools/call': [(response) => called.resolve(openStream(response))],
    'notifications/cancelled': [
      (response, message) => {
        accept(response, message);
        void called.promise.then((open) => open.end());
      },
    ],
  });
  await service.send({ id: 1, method: 'tools/call' });
  await called.promise;
  await service.send({ method: 'notifications/cancelled', params: { requestId: 1 } });
  await service.end();
  t.same(
    service.received.filter(({ id }) => id === 1),
    [],
  );
});

t.test(
  'a lost MCP session that cannot be initialized again at once is initialized with the next message',
  async (t) => {
    const service = await startBridge(t, {
      initialize: [succeed, refuse(503), succeed],
      GET: [stayOpen],
      'tools/list': [refuse(404), succeed],
    });
    t.match(await service.call(1, 'tools/list'), { error: {} }, 'the service was away');
    t.match(await service.call(2, 'tools/list'), { result: {} });
    await service.receive(({ method }) => method === 'notifications/tools/list_changed');
    t.equal(service.asked.filter((name) => name === 'initialize').length, 3);
    await service.end();
  },
);

t.test('a lost MCP session of a client that only waits is initialized again', async (t) => {
  const service = await startBridge(t, {
    initialize: [succeed, refuse(503), succeed],
    GET: [refuse(404), stayOpen],
  });
  await service.receive(({ method }) => method === 'notifications/tools/list_changed');
  t.equal(service.asked.filter((name) => name === 'initialize').length, 3);
  await service.end();
});
