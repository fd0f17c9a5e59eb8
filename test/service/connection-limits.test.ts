/** A server bounds its connections, and the requests that one of them sends without waiting. */
import { EventEmitter, on, once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { Problem } from '../../sdk/contract/errors.ts';
import { answerOnSocket } from '../../service/http/client-errors.ts';
import { onceClosed } from '../../service/http/closed-responses.ts';
import { limitConnections } from '../../service/http/connection-limits.ts';
import { createServer } from '../../service/http/node-http.ts';
import type { Teardown } from '../runner/harness.ts';

interface Served {
  readonly server: Server;
  readonly port: number;
  /** Handled requests whose responses the test sends. */
  readonly handled: ServerResponse[];
  /** `request` for each handled request, `connection` for each connection. */
  readonly progress: EventEmitter;
  /** Destroyed with the server: one that reads nothing does not notice its end. */
  readonly clients: Socket[];
}

async function serve(t: Teardown, connectionsMax?: number, onUpgrade?: (socket: Duplex) => void): Promise<Served> {
  const handled: ServerResponse[] = [];
  const progress = new EventEmitter();
  const clients: Socket[] = [];
  const server = createServer((_request, response) => {
    handled.push(response);
    progress.emit('request');
  });
  limitConnections(server, connectionsMax);
  server.on('connection', () => progress.emit('connection'));
  if (onUpgrade) server.on('upgrade', (_request, socket) => onUpgrade(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const client of clients) client.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { server, port: (server.address() as AddressInfo).port, handled, progress, clients };
}

const requestLine = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

async function openConnection({ port, progress, clients }: Served): Promise<Socket> {
  const accepted = once(progress, 'connection');
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  clients.push(socket);
  await accepted;
  return socket;
}

/** Sends one request, and waits until it is handled. */
async function beginRequest({ progress }: Served, socket: Socket): Promise<void> {
  const begun = once(progress, 'request');
  socket.write(requestLine);
  await begun;
}

t.test('of many requests at once on one connection some are handled, and one is told why it is not', async (t) => {
  const served = await serve(t);
  const socket = await openConnection(served);
  const received = text(socket.setEncoding('latin1'));
  const begun = on(served.progress, 'request');
  socket.write(requestLine.repeat(500));
  for await (const _ of begun) if (served.handled.length === 64) break;
  // The refusal waits for the answers before it.
  for (const response of served.handled) response.end('ok');
  const answers = (await received).split('HTTP/1.1 ').slice(1);
  t.same(
    answers.map((answer) => answer.slice(0, 3)),
    [...Array.from({ length: 64 }, () => '200'), '429'],
  );
  t.equal(served.handled.length, 64, 'what follows the refusal is not handled, also when others have ended');
  const refusal = answers.at(-1) ?? '';
  t.match(refusal, /\r\nconnection: close\r\n/);
  t.match(JSON.parse(refusal.split('\r\n\r\n')[1] ?? ''), {
    status: 429,
    code: 'rate_limited',
    detail: 'This connection has 64 requests without an answer. Wait for answers, or use more connections.',
  });
});

t.test('a connection that goes on sending requests instead of reading is closed', async (t) => {
  const served = await serve(t);
  const socket = await openConnection(served);
  socket.resume().write(requestLine.repeat(2_000));
  await once(socket, 'close');
  t.equal(served.handled.length, 64);
});

t.test('requests that wait for their answers may be any number', async (t) => {
  const served = await serve(t);
  const socket = await openConnection(served);
  socket.setEncoding('latin1');
  for (let sent = 0; sent < 200; sent += 1) {
    await beginRequest(served, socket);
    const answered = once(socket, 'data');
    served.handled.at(-1)?.end();
    t.match((await answered)[0], /^HTTP\/1\.1 200 /);
  }
});

t.test('a connection too many closes the one that has been idle for the longest time', async (t) => {
  const served = await serve(t, 4);
  const [first, second, busy, half] = [
    await openConnection(served),
    await openConnection(served),
    await openConnection(served),
    await openConnection(served),
  ];
  await beginRequest(served, busy);
  half.write('GET / HTTP/1.1\r\n');
  // The first one has been used since.
  await beginRequest(served, first);
  const answered = once(first, 'data');
  const [toBusy, toFirst] = served.handled;
  toFirst?.end();
  await answered;
  for (const longestIdle of [second, half, first]) {
    const closed = once(longestIdle, 'close');
    await openConnection(served);
    await closed;
  }
  const received = once(busy, 'data');
  toBusy?.end();
  t.match(String((await received)[0]), /^HTTP\/1\.1 200 /, 'requests are finished');
});

t.test('several connections that are accepted at once close as many idle ones', async (t) => {
  const served = await serve(t, 2);
  const accepted: Socket[] = [];
  served.server.on('connection', (socket) => accepted.push(socket));
  for (let count = 0; count < 2; count += 1) await openConnection(served);
  for (let count = 0; count < 2; count += 1) served.server.emit('connection', new Socket());
  t.same(
    accepted.map(({ destroyed }) => destroyed),
    [true, true, false, false],
  );
  for (const socket of accepted) socket.destroy();
});

t.test('a WebSocket is not idle', async (t) => {
  const served = await serve(t, 1, (socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
    socket.pipe(socket);
  });
  const socket = await openConnection(served);
  const upgraded = once(socket, 'data');
  socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  await upgraded;
  const late = await openConnection(served);
  const closed = await Promise.race([socket, late.resume()].map((each) => once(each, 'close').then(() => each)));
  t.ok(closed === late, 'the new connection is closed');
  const echoed = once(socket, 'data');
  socket.write('still open');
  t.equal(String((await echoed)[0]), 'still open');
  const ended = once(socket, 'close');
  socket.end();
  await ended;
});

/** Opens a connection whose request to upgrade is refused, and which its client leaves open. @returns the server's side, too */
async function openRefused(served: Served): Promise<{ client: Socket; accepted: Socket }> {
  const { server } = served;
  const connected = once(server, 'connection');
  const client = await openConnection(served);
  const [accepted] = (await connected) as [Socket];
  const answered = once(accepted, 'finish');
  client.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  await answered;
  return { client, accepted };
}

const refuse = (socket: Duplex): void => answerOnSocket(socket, new Problem('not_found', 'It is not here.'));

t.test('a refused WebSocket is closed although its client leaves it open', async (t) => {
  const { client, accepted } = await openRefused(await serve(t, undefined, refuse));
  await once(accepted, 'close');
  t.match(await text(client), /^HTTP\/1\.1 404 .*It is not here\./s, 'its client can read the answer');
});

t.test('a new connection closes a refused WebSocket', async (t) => {
  const served = await serve(t, 1, refuse);
  const { accepted } = await openRefused(served);
  const closed = once(accepted, 'close');
  const late = await openConnection(served);
  await closed;
  await beginRequest(served, late);
  const answered = once(late, 'data');
  served.handled.at(-1)?.end();
  t.match(String((await answered)[0]), /^HTTP\/1\.1 200 /);
});

t.test('where all connections have requests, a new one is closed', async (t) => {
  const served = await serve(t, 2);
  const busy = [await openConnection(served), await openConnection(served)];
  for (const socket of busy) await beginRequest(served, socket);
  const late = await openConnection(served);
  await once(late.resume(), 'close');
  for (const [index, socket] of busy.entries()) {
    const received = once(socket, 'data');
    served.handled[index]?.end();
    t.match(String((await received)[0]), /^HTTP\/1\.1 200 /);
  }
});

t.test('everything that waits for the end of a response shares one listener', async (t) => {
  const served = await serve(t);
  await beginRequest(served, await openConnection(served));
  const [response] = served.handled as [ServerResponse];
  const called: number[] = [];
  for (let count = 0; count < 20; count += 1) onceClosed(response, () => called.push(count));
  t.equal(response.listenerCount('close'), 1, 'Node warns of more than ten');
  const closed = once(response, 'close');
  response.end();
  await closed;
  t.same(called, [...Array(20).keys()]);
  onceClosed(response, () => called.push(20));
  t.equal(called.length, 21, 'at once where it has ended');
});
