/** Bytes that are not an HTTP request, or a request that no route can receive, get a problem with a body. */
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate as waitForLoop } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import { createApplication } from '../../service/http/application.ts';
import { answerClientError } from '../../service/http/client-errors.ts';
import { readJsonBodies } from '../../service/http/json-body.ts';
import { RefusalPace } from '../../service/http/refusal-pace.ts';
import { listenOn } from '../fixtures/listening-server.ts';
import { exchange, line, listMalformed } from './malformed-requests.ts';

const app = createApplication({
  logger: pino({ level: 'silent' }),
  bodyMaxBytes: 1_000,
  server: {},
  onResponse: () => undefined,
});
await app.register(async (scope) => {
  readJsonBodies(scope, { processBytes: 10_000, accountBytes: 10_000 }, () => 'ann');
  scope.post('/known', async ({ body }) => ({ body }));
});
app.get('/known', async () => ({ ok: true }));
app.get('/stream', (_request, reply) => {
  const stream = new Readable({ read: () => undefined });
  stream.push('begun');
  return reply.send(stream);
});
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
t.teardown(() => app.close());

const port = Number(url.port);
const malformed = listMalformed({ get: '/known', postTo: '/known', headers: [] });

for (const [name, [bytes, status]] of Object.entries(malformed)) {
  t.test(name, async (t) => {
    const answer = await exchange(port, bytes);
    const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
    t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
    t.match(head, /content-type: application\/problem\+json/i);
    t.match(head, /x-request-id: /i);
    t.match(JSON.parse(body), { status, code: String, detail: String, requestId: String });
  });
}

t.test('bytes that are no request do not end in the middle of an answer', async (t) => {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write(line('GET /stream'));
  let answer = '';
  while (!answer.includes('begun')) answer += String((await once(socket, 'data'))[0]);
  socket.write('no request\r\n\r\n');
  // The connection may be reset.
  const rest = await text(socket).catch(() => '');
  t.equal(rest, '', 'the client sees that the answer is cut off');
});

t.test('half of a body for an address or a method that does not exist is answered, and not waited for', async (t) => {
  const half = (request: string, ...type: readonly string[]) =>
    `${line(request, ...type, 'Content-Length: 900')}{"half":"`;
  const requests: readonly [bytes: string, status: number][] = [
    [half('POST /unknown', 'Content-Type: application/json'), 404],
    [half('POST /unknown', 'Content-Type: text/plain'), 404],
    [half('POST /unknown', 'Content-Type: text/html'), 404],
    [half('POST /unknown'), 404],
    [half('GET /unknown', 'Content-Type: application/json'), 404],
    [half('PUT /known', 'Content-Type: application/json'), 405],
    [half('POST /stream', 'Content-Type: text/plain'), 405],
  ];
  for (const [bytes, status] of requests) {
    const socket = connect(port, '127.0.0.1').setEncoding('latin1');
    socket.write(bytes);
    const [answer] = await once(socket, 'data');
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), bytes);
    const closed = once(socket, 'close');
    socket.destroy();
    await closed;
  }
});

t.test('a request behind the body of a refused one is answered on the same connection', async (t) => {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write(`${line('POST /unknown', 'Content-Type: application/json', 'Content-Length: 21')}{"half":"`);
  t.match((await once(socket, 'data'))[0], /^HTTP\/1\.1 404 /);
  socket.write(`-of-a-text"}${line('GET /known', 'Connection: close')}`);
  t.match(await text(socket), /^HTTP\/1\.1 200 /);
});

t.test('a fault in the body of a refused request is not answered again', async (t) => {
  const head = line('POST /unknown', 'Content-Type: application/json', 'Transfer-Encoding: chunked');
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write(`${head}2\r\n{}\r\n`);
  t.match((await once(socket, 'data'))[0], /^HTTP\/1\.1 404 /);
  socket.write('no length\r\n');
  t.equal(await text(socket), '');
});

t.test('a request that is too slow is answered so, and a connection without a request is closed', async (t) => {
  const server = createServer({ headersTimeout: 1, connectionsCheckingInterval: 1 }).on(
    'clientError',
    answerClientError,
  );
  const { port: impatient } = await listenOn(t, server);
  t.equal(await text(connect(impatient, '127.0.0.1')), '');
  const connected = once(app.server, 'connection');
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  socket.write('GET /known HTTP/1.1\r\n');
  const [served] = await connected;
  while (served.bytesRead === 0) await waitForLoop();
  app.server.emit('clientError', Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), served);
  const answer = await text(socket);
  t.match(answer, /^HTTP\/1\.1 400 /);
  t.match(JSON.parse(answer.split('\r\n\r\n')[1] ?? ''), {
    code: 'bad_request',
    detail: 'The request took too long to arrive. Send it again over a faster connection.',
  });
});

t.test('a compressed body is refused', async (t) => {
  const post = (coding: string, path = '/known') =>
    app.inject({
      method: 'POST',
      url: path,
      headers: { 'content-type': 'application/json', 'content-encoding': coding },
      payload: '{"a":1}',
    });
  for (const coding of ['gzip', 'br', 'gzip, identity', 'x'.repeat(100)]) {
    const answer = await post(coding);
    t.match(
      answer.json(),
      { status: 415, code: 'unsupported_media_type', detail: /Send the body uncompressed/ },
      coding,
    );
    t.equal(answer.headers['accept-encoding'], 'identity');
  }
  t.equal((await post('gzip', '/unknown')).statusCode, 415);
  for (const coding of ['identity', 'Identity']) t.match((await post(coding)).json(), { body: { a: 1 } }, coding);
  t.equal((await app.inject({ url: '/known', headers: { 'content-encoding': 'gzip' } })).statusCode, 200, 'no body');
});

t.test('what only looks odd is served', async (t) => {
  const served: Readonly<Record<string, string>> = {
    'HTTP/1.0 without a Host': 'GET /known HTTP/1.0\r\n\r\n',
    'line breaks before the request': `\r\n\r\n${line('GET /known')}`,
    'an upgrade that nobody serves': line('GET /known', 'Connection: Upgrade', 'Upgrade: websocket'),
    'names of a prototype': line('GET /known', '__proto__: x', 'constructor: y', 'toString: z'),
  };
  for (const [name, bytes] of Object.entries(served)) t.match(await exchange(port, bytes), /^HTTP\/1\.1 200 /, name);
});

t.test('refusals of half-sent bodies above the rate wait, and nothing else does', async (t) => {
  const pace = new RefusalPace({ burst: 1, perSecond: 0.001, pauseMs: 600_000, waitingMax: 1 });
  const refused = new EventEmitter();
  const paced = createApplication({
    bodyMaxBytes: 1_000,
    server: {},
    refusals: {
      answerUnread: (response, send) => {
        pace.answerUnread(response, send);
        refused.emit('refused');
      },
    },
    onResponse: () => undefined,
  });
  const pacedPort = Number(new URL(await paced.listen({ port: 0, host: '127.0.0.1' })).port);
  t.teardown(() => {
    paced.server.closeAllConnections();
    return paced.close();
  });
  const post = (path: string, ...headers: readonly string[]): string =>
    line(`POST ${path}`, 'Content-Type: application/json', ...headers);
  const half = `${post('/unknown', 'Content-Length: 90000')}{"half":"`;
  const whole = (path: string) => `${post(path, 'Content-Length: 2', 'Connection: close')}{}`;
  t.match(await exchange(pacedPort, half), /^HTTP\/1\.1 404 /, 'the rate allows one');
  // Before one waits: further ones are then answered at once, whatever they are.
  t.match(await exchange(pacedPort, whole('/unknown')), /^HTTP\/1\.1 404 /, 'the body arrives with the headers');
  t.match(await exchange(pacedPort, whole('/%zz')), /^HTTP\/1\.1 400 /, 'the framework refuses the address');
  t.match(await exchange(pacedPort, line('GET /unknown', 'Connection: close')), /^HTTP\/1\.1 404 /);
  const late = connect(pacedPort, '127.0.0.1').setEncoding('latin1');
  late.write(post('/unknown', 'Content-Length: 2'));
  await once(refused, 'refused');
  late.write(`{}${line('GET /unknown', 'Connection: close')}`);
  t.match(await text(late), /^HTTP\/1\.1 404 .*HTTP\/1\.1 404 /s, 'a short body arrives after the headers');
  const accepted = once(paced.server, 'connection') as Promise<[Socket]>;
  let isAnswered = false;
  const waiting = connect(pacedPort, '127.0.0.1').once('data', () => {
    isAnswered = true;
  });
  t.teardown(() => waiting.destroy());
  waiting.write(half);
  const [socket] = await accepted;
  do await waitForLoop();
  while (!socket.isPaused() && !isAnswered);
  t.match(await exchange(pacedPort, half), /^HTTP\/1\.1 404 /, 'while as many wait as may');
  t.notOk(isAnswered);
});
