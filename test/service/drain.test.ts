import { once } from 'node:events';
import { Agent, createServer, get, type IncomingHttpHeaders, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep, setImmediate as waitForLoop } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { holdSocket } from '../../deploy/listening-sockets.ts';
import { createServer as createLimitedServer } from '../../service/http/application.ts';
import { ConnectionDrain, extendBacklog, listenOptions } from '../../service/lifecycle/drain.ts';

const TIMES = { handover: { idleMs: 300, requestsMs: 900 }, alone: { idleMs: 50, requestsMs: 100 } };
/** For tests of what ends earlier, also on a busy machine. */
const LONG_TIMES = { ...TIMES, handover: { idleMs: 30_000, requestsMs: 60_000 } };
const FAST = 'GET /fast HTTP/1.1\r\nhost: a\r\n\r\n';

interface Fixture {
  readonly server: Server;
  readonly drain: ConnectionDrain;
  readonly port: number;
}

/** Answers `/slow` after 400 ms, everything else at once. */
async function serve(t: Test): Promise<Fixture> {
  const server = createServer(async (request, response) => {
    if (request.url === '/slow') await sleep(400);
    // Cut off where a test sends half a body.
    await text(request).catch(() => undefined);
    response.end('answered');
  });
  // As it is for proxies.
  server.keepAliveTimeout = 70_000;
  const drain = new ConnectionDrain(server);
  await once(server.listen(0), 'listening');
  t.teardown(() => {
    server.close();
    drain.end();
  });
  return { server, drain, port: (server.address() as { port: number }).port };
}

async function open(t: Test, { port, server }: Fixture, sent = ''): Promise<Socket> {
  const accepted = once(server, 'connection');
  const socket = connect(port);
  t.teardown(() => socket.destroy());
  await accepted;
  if (sent !== '') socket.write(sent);
  return socket;
}

const stillAlone = (): AbortSignal => new AbortController().signal;

async function askOnce(socket: Socket): Promise<string> {
  socket.write(FAST);
  return String((await once(socket, 'data'))[0]);
}

t.test('a response says how long its connection may be idle', async (t) => {
  const { port } = await serve(t);
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  const headers = await new Promise<IncomingHttpHeaders>((resolve) => {
    get({ port, agent }, (answer) => {
      answer.resume();
      resolve(answer.headers);
    });
  });
  t.match(headers, { connection: 'keep-alive', 'keep-alive': 'timeout=5' });
});

t.test('each connection is answered once more and told to close, also a new one', async (t) => {
  const fixture = await serve(t);
  const kept = await open(t, fixture);
  t.match(await askOnce(kept), /connection: keep-alive/i);
  const fresh = await open(t, fixture);
  const drained = fixture.drain.drain(stillAlone(), LONG_TIMES);
  fixture.server.close();
  for (const socket of [kept, fresh]) t.match(await askOnce(socket), /^HTTP\/1.1 200 [\s\S]*connection: close/i);
  await drained;
  t.equal(await closeServer(fixture.server), 'closed');
});

t.test('connections that the kernel established before are accepted and answered', async (t) => {
  const fixture = await serve(t);
  const sockets = Array.from({ length: 50 }, () => connect(fixture.port, '127.0.0.1'));
  t.teardown(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  const drained = fixture.drain.drain(stillAlone(), LONG_TIMES);
  // As an application that is closed in the same turn does.
  fixture.server.close();
  const answers = await Promise.all(sockets.map(askOnce));
  t.equal(answers.filter((answer) => answer.startsWith('HTTP/1.1 200')).length, sockets.length);
  await drained;
});

t.test('a request under way ends, and its connection with it', async (t) => {
  const fixture = await serve(t);
  const socket = await open(t, fixture, 'GET /slow HTTP/1.1\r\nhost: a\r\n\r\n');
  await once(fixture.server, 'request');
  const began = performance.now();
  const answer = text(socket);
  await fixture.drain.drain(stillAlone(), LONG_TIMES);
  t.match(await answer, /^HTTP\/1.1 200 [\s\S]*connection: close[\s\S]*answered/i);
  t.ok(performance.now() - began < LONG_TIMES.handover.idleMs, 'nothing else is waited for');
});

t.test('an idle connection is closed when its client may not use it any more', async (t) => {
  const fixture = await serve(t);
  const socket = await open(t, fixture);
  await askOnce(socket);
  const ended = once(socket, 'end');
  // Not a difference of times: a timer counts from the begin of its turn of the loop, and a busy machine stretches a turn.
  let isOver = false;
  setTimeout(() => {
    isOver = true;
  }, TIMES.handover.idleMs);
  await fixture.drain.drain(stillAlone(), TIMES);
  await ended;
  t.ok(isOver, 'a timer that was set before has fired');
});

for (const [what, sent] of [
  ['body', 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nab'],
  ['head', 'POST / HTTP/1.1\r\nhost'],
] as const)
  t.test(`half a ${what} does not hold up the end`, async (t) => {
    const fixture = await serve(t);
    const socket = await open(t, fixture, sent);
    await sleep(20);
    const ended = once(socket, 'close');
    await fixture.drain.drain(stillAlone(), TIMES);
    fixture.drain.end();
    socket.on('error', () => undefined);
    await ended;
    t.equal(await closeServer(fixture.server), 'closed');
  });

t.test('where no other process serves it takes less time, also when that is known later', async (t) => {
  const fixture = await serve(t);
  const idle = await open(t, fixture);
  await askOnce(idle);
  const stuck = await open(t, fixture, 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nab');
  await once(fixture.server, 'request');
  stuck.on('error', () => undefined);
  const alone = new AbortController();
  const began = performance.now();
  const drained = fixture.drain.drain(alone.signal, LONG_TIMES);
  setTimeout(() => alone.abort(), 20);
  await once(idle, 'end');
  await drained;
  t.ok(performance.now() - began < LONG_TIMES.handover.idleMs);
});

const closeServer = (server: Server): Promise<string> =>
  new Promise((resolve) => void server.close(() => resolve('closed')));

t.test('localhost is one address, served by the one server that is drained and limited', async (t) => {
  const options = listenOptions('service', { host: 'localhost', port: 0 });
  t.same(options, { host: '127.0.0.1', port: 0 });
  const app = createLimitedServer({ bodyMaxBytes: 1, server: {} });
  t.teardown(() => app.close());
  await app.listen(options);
  t.same(app.addresses(), [app.server.address()]);
});

/** More than Node's backlog of 511. */
const CROWD = 700;
/** Together they accept far fewer connections than those above the backlog, and take less than a second. */
const TURNS_MAX = 40;
const TURN_MS = 10;
/** Gives the kernel time, and accepts nothing meanwhile. */
const blockLoop = () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TURN_MS);

t.test(
  'a crowd of clients that connect at once waits to be accepted, on a socket of the parent process too',
  async (t) => {
    const held = await holdSocket('service', '127.0.0.1', 0);
    t.teardown(() => held.close());
    for (const options of [{ host: '127.0.0.1', port: 0 }, { fd: held.fd }]) {
      const server = createServer();
      await once(server.listen(options), 'listening');
      extendBacklog(server);
      const { port } = server.address() as { port: number };
      const clients = Array.from({ length: CROWD }, () => connect(port, '127.0.0.1'));
      t.teardown(() => {
        for (const client of clients) client.destroy();
        server.close();
      });
      const countConnecting = () => clients.filter((client) => client.connecting).length;
      // Each turn accepts one connection. The kernel repeats what it dropped after a second, and answers late on a busy machine.
      for (let turns = 0; turns < TURNS_MAX && countConnecting() > 0; turns += 1) {
        await waitForLoop();
        if (turns > 0) blockLoop();
      }
      t.same(countConnecting(), 0);
    }
  },
);
