/** A server bounds its connections, and the requests that one of them sends without waiting. */
import { EventEmitter, on, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { onceClosed } from '../../service/http/closed-responses.ts';
import { limitConnections } from '../../service/http/connection-limits.ts';
import { createServer } from '../../service/http/node-http.ts';
import type { Teardown } from '../runner/harness.ts';

interface Served {
  readonly port: number;
  /** Handled requests whose responses the test sends. */
  readonly handled: ServerResponse[];
  /** `request` for each handled request, `connection` for each connection. */
  readonly progress: EventEmitter;
}

async function serve(t: Teardown, connectionsMax?: number): Promise<Served> {
  const handled: ServerResponse[] = [];
  const progress = new EventEmitter();
  const server = createServer((_request, response) => {
    handled.push(response);
    progress.emit('request');
  });
  limitConnections(server, connectionsMax);
  server.on('connection', () => progress.emit('connection'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, handled, progress };
}

const requestLine = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

async function openConnection({ port, progress }: Served): Promise<Socket> {
  const accepted = once(progress, 'connection');
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
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
