/** Requests to another supervisor: over a link that is cut without a word, and from clients that attack. */
import { createHmac, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { fastify } from 'fastify';
import t, { type Test } from 'tap';
import type { Peer } from '../../../db/cluster/supervisors.ts';
import { PEER_HEADER, signRequest } from '../../../service/cluster/peer-signature.ts';
import { answerOnSocket } from '../../../service/http/client-errors.ts';
import { onceClosed } from '../../../service/http/closed-responses.ts';
import { ALIVE_PATH, PeerRequests } from '../../../supervisor/cluster/peer-requests.ts';
import { PeerServer } from '../../../supervisor/cluster/peer-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { openGate } from '../../storm/database-gate.ts';

/** For tests that cut the link. A busy machine that is blocked for as long looks cut off, too. */
const SHORT_TIMES = { askMs: 10, answerMs: 50, repeatMs: 10, cutOffMs: 100, forgetMs: 600_000 };
const PATIENT_TIMES = { ...SHORT_TIMES, answerMs: 30_000, cutOffMs: 60_000 };

/**
 * A supervisor that does every job, begins an answer to calls of `/` and says what it got in those of other paths, and another
 * one that asks it through a gate.
 */
async function openLink(t: Test, linkTimes = PATIENT_TIMES) {
  /** `request` for each call, with the message. */
  const progress = new EventEmitter();
  const key = randomBytes(32);
  const server = new PeerServer({
    host: '127.0.0.1',
    port: 0,
    key,
    jobs: { runHere: async () => true },
    wakeChannels: () => true,
    catchUp: async () => undefined,
    answer: (asked, response) => {
      progress.emit('request', asked);
      if (asked.url === '/') response.write('begun');
      else if (asked.url === '/early') response.end('early');
      else if (asked.url?.startsWith('/echo'))
        echo(asked).then(
          (body) => response.end(body),
          () => response.destroy(),
        );
      else response.end(asked.url);
    },
    upgrade: (asked) => {
      progress.emit('upgrade', asked);
      return false;
    },
    onError: (error) => t.comment(error.message),
  });
  const address = await server.listen();
  const gate = await openGate(t, address);
  const told: string[] = [];
  const peers = new PeerRequests({ linkTimes, onError: ({ message }) => void told.push(message) });
  t.teardown(() => {
    peers.close();
    return server.close(0);
  });
  const peer: Peer = {
    id: 1,
    address: new URL(gate.url).origin,
    peerKey: key.toString('base64'),
    capacity: 1,
    draining: false,
    process: '',
    expiresInMs: 1,
  };
  return {
    server,
    address,
    key,
    progress,
    gate,
    peers,
    peer,
    told,
    sendJob: () => peers.sendJob(peer, 'events', 'ann', {}),
  };
}

/** What a call consists of for the supervisor that answers it. */
async function echo(asked: IncomingMessage): Promise<string> {
  const { method, url, headers } = asked;
  return JSON.stringify({ method, url, caller: headers.authorization, body: await text(asked) });
}

t.test('a request that is on its way when a supervisor ends is answered', async (t) => {
  const { server, address, key } = await openLink(t);
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  const send = () => {
    const asked = { method: 'GET', path: ALIVE_PATH, hops: 1 };
    const signature = signRequest(key, asked, Date.now());
    socket.write(`GET ${ALIVE_PATH} HTTP/1.1\r\nhost: h\r\n${PEER_HEADER}: ${signature}\r\n\r\n`);
  };
  send();
  t.match(String(await once(socket, 'data')), /^HTTP\/1\.1 204 .*keep-alive/s);
  // It waits in the socket when the server begins to close.
  send();
  const ended = server.close(10_000);
  t.match(String(await once(socket, 'data')), /^HTTP\/1\.1 204 .*connection: close/is);
  await ended;
});

t.test('a supervisor goes on when a client resets its connection while it is refused a WebSocket', async (t) => {
  const { address, sendJob } = await openLink(t);
  const { hostname, port } = new URL(address);
  for (let count = 0; count < 20; count += 1) {
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    await once(socket, 'connect');
    socket.write('GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
    socket.resetAndDestroy();
  }
  t.ok(await sendJob());
});

/** A server that forwards its requests. It answers 503 when it cannot, with what the refusal says. */
async function openForwarding(t: Test, { peers, peer }: Awaited<ReturnType<typeof openLink>>): Promise<string> {
  const app = fastify();
  const { signal } = new AbortController();
  // Before the body is read, as the account router does.
  app.addHook('onRequest', async (request, reply) => {
    try {
      await peers.forward(peer, request, reply, 1, signal);
    } catch (error) {
      return reply.code(503).send(String(error));
    }
  });
  t.teardown(() => app.close());
  app.all('*', async () => 'unreachable');
  return app.listen({ host: '127.0.0.1', port: 0 });
}

const unreachable = { code: 'unavailable', message: /does not answer this one\. Retry after 2 s\./, retryAfter: 2 };

t.test('a job for a supervisor that is cut off fails, at once while it lasts, and goes through after it', async (t) => {
  const { gate, sendJob, told } = await openLink(t, SHORT_TIMES);
  gate.hold();
  await t.rejects(sendJob());
  t.match(told, [/^the supervisor at http:.* has not answered for 0\.1 s/], 'operators are told once');
  await t.rejects(sendJob(), unreachable, 'the next one is not sent');
  gate.open();
  const isDone = () =>
    sendJob().then(
      () => true,
      () => false,
    );
  t.ok(await eventually(isDone));
});

t.test('a call that waits for a supervisor that is cut off ends, and the next one is refused', async (t) => {
  const link = await openLink(t, SHORT_TIMES);
  const url = await openForwarding(t, link);
  link.gate.hold();
  const refuse = async () => (await fetch(url, { method: 'POST' })).text();
  t.match(await refuse(), /ended or is out of reach\. The call may have taken effect/);
  t.match(await refuse(), unreachable.message);
  link.gate.open();
  // A machine that is blocked for a moment looks cut off for these times.
  const reader = await eventually(async () => {
    const answer = await fetch(url);
    return answer.status === 200 && answer.body?.getReader();
  });
  link.gate.hold();
  const readToEnd = async () => {
    while (!(await reader.read()).done);
  };
  await t.rejects(readToEnd(), 'the answer that had begun breaks off');
});

t.test('a call whose client has left is not sent, and ends without a word to operators', async (t) => {
  const { peers, peer } = await openLink(t);
  const app = fastify();
  t.teardown(() => app.close());
  const begun = Promise.withResolvers<void>();
  const refused = Promise.withResolvers<unknown>();
  // Before the body is read, as the account router does.
  app.addHook('onRequest', async (request, reply) => {
    const closed = once(reply.raw, 'close');
    begun.resolve();
    await closed;
    let hasEnded = false;
    onceClosed(reply.raw, () => {
      hasEnded = true;
    });
    t.ok(hasEnded, 'what ends with a request ends at once');
    await peers.forward(peer, request, reply, 1, new AbortController().signal).catch(refused.resolve);
  });
  app.post('/', async () => 'answered');
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
  // Its body is never whole.
  const sent = request({ host: '127.0.0.1', port, method: 'POST', headers: { 'content-length': 9 } });
  sent.on('error', () => undefined).flushHeaders();
  await begun.promise;
  sent.destroy();
  t.match(await refused.promise, { code: 'bad_request', message: 'The client closed the request.' });
});

t.test('a request with a whole address is forwarded by its path', async (t) => {
  const { hostname, port } = new URL(await openForwarding(t, await openLink(t)));
  const sent = request({ hostname, port, path: 'http://any.example/sessions?limit=1' }).end();
  const [answer] = await once(sent, 'response');
  t.equal(await text(answer), '/sessions?limit=1');
});

t.test('a path is forwarded as its client wrote it, which its signature is for', async (t) => {
  const { hostname, port } = new URL(await openForwarding(t, await openLink(t)));
  for (const path of ["/sessions?key=it's{1}", '/sessions/%2e%2e/agents', '/sessions/../agents']) {
    const [answer] = await once(request({ hostname, port, path }).end(), 'response');
    t.equal(await text(answer), path);
  }
});

/** Sends a request as it is written, over a connection of its own. */
function send(url: string, head: readonly string[], body = ''): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  socket.write(`${head.join('\r\n')}\r\nhost: h\r\n\r\n${body}`);
  return socket;
}

const chunk = (data: string): string => `${data.length.toString(16)}\r\n${data}\r\n`;

for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS'])
  t.test(`the body of ${method} is not read as the begin of the next request`, async (t) => {
    const url = await openForwarding(t, await openLink(t));
    const smuggled = 'POST /echo HTTP/1.1\r\nhost: h\r\nauthorization: Bearer attacker\r\nx: ';
    const attack = send(
      url,
      [`${method} /sessions HTTP/1.1`, 'connection: close', 'transfer-encoding: chunked'],
      `${chunk(smuggled)}0\r\n\r\n`,
    );
    t.match(await text(attack), /^HTTP\/1\.1 200 /);
    const headers = { authorization: 'Bearer victim' };
    const answer = await fetch(`${url}/echo`, { method: 'POST', headers, body: 'mine' });
    t.same(await answer.json(), { method: 'POST', url: '/echo', caller: 'Bearer victim', body: 'mine' });
  });

t.test('a body arrives whole, whatever the method and its length', async (t) => {
  const url = await openForwarding(t, await openLink(t));
  const framings = {
    'in chunks': ['transfer-encoding: chunked', `${chunk('one ')}${chunk('two')}0\r\n\r\n`],
    'in chunks, expected': ['expect: 100-continue\r\ntransfer-encoding: Chunked', `${chunk('one two')}0\r\n\r\n`],
    'of a length': ['content-length: 7', 'one two'],
    'of no length': ['content-length: 0', ''],
    'of no chunks': ['transfer-encoding: chunked', '0\r\n\r\n'],
    none: ['x: y', ''],
  } as const;
  for (const method of ['GET', 'DELETE', 'POST', 'QUERY'])
    for (const [name, [header, bytes]] of Object.entries(framings)) {
      const answer = await text(send(url, [`${method} /echo HTTP/1.1`, 'connection: close', header], bytes));
      const body = bytes.includes('one') ? 'one two' : '';
      t.match(answer, JSON.stringify({ method, url: '/echo', body }), `${method}, ${name}`);
    }
});

for (const path of ['/echo', '/early'])
  t.test(`a body that is cut off half way ends the connection to the peer (${path})`, async (t) => {
    const link = await openLink(t);
    const url = await openForwarding(t, link);
    for (const framing of ['content-length: 9', 'transfer-encoding: chunked']) {
      const begun = once(link.progress, 'request');
      const client = send(url, [`GET ${path} HTTP/1.1`, framing], framing.includes('chunked') ? chunk('half') : 'half');
      const [asked] = (await begun) as [IncomingMessage];
      const { promise: ended, resolve } = Promise.withResolvers<unknown>();
      asked.socket.once('close', resolve);
      if (path === '/early') {
        t.match(String((await once(client, 'data'))[0]), /^HTTP\/1\.1 200 /);
        await ended;
        client.destroy();
      } else {
        client.destroy();
        await ended;
      }
      t.notOk(asked.complete);
    }
    t.equal(await (await fetch(`${url}/next`)).text(), '/next');
  });

t.test('the rest of a body that is answered early is discarded, and the next request answered', async (t) => {
  const url = await openForwarding(t, await openLink(t));
  const rest = 'x'.repeat(1_000_000);
  const client = send(url, ['POST /early HTTP/1.1', `content-length: ${4 + rest.length}`], 'half').setEncoding(
    'latin1',
  );
  let answers = String((await once(client, 'data'))[0]);
  t.match(answers, /^HTTP\/1\.1 200 /);
  client.write(`${rest}GET /next HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n`);
  answers += await text(client);
  t.match(answers, /HTTP\/1\.1 200 .*early.*HTTP\/1\.1 200 .*\/next$/s);
});

t.test('a refused WebSocket takes no place, although its client leaves the connection open', async (t) => {
  const { peers, peer, progress } = await openLink(t);
  const server = createServer().on('upgrade', (asked, socket, head) => {
    socket.on('error', () => socket.destroy());
    peers.forwardSocket(peer, asked, socket, head).catch((error) => answerOnSocket(socket, error));
  });
  const clients: Socket[] = [];
  t.teardown(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (...headers: readonly string[]): Promise<string> => {
    const head = ['GET /inspector HTTP/1.1', 'connection: upgrade', 'upgrade: websocket', ...headers];
    const client = send(url, head);
    clients.push(client);
    client.allowHalfOpen = true;
    return String((await once(client, 'data'))[0]);
  };
  for (let count = 0; count < 70; count += 1) t.match(await ask(), /^HTTP\/1\.1 404 /);
  const forwarded = once(progress, 'upgrade');
  t.match(await ask('content-length: 9', 'authorization: x', 'sec-websocket-key: y'), /^HTTP\/1\.1 404 /);
  const [{ headers }] = (await forwarded) as [IncomingMessage];
  t.match(headers, { authorization: 'x', 'sec-websocket-key': 'y', connection: 'upgrade', upgrade: 'websocket' });
  t.notOk('content-length' in headers, 'the body is not forwarded');
});

t.test('a request whose caller was changed on the way is refused', async (t) => {
  const { address, key } = await openLink(t);
  const asked = { method: 'GET', path: '/echo', hops: 1 };
  const ask = async (signature: string, ...headers: readonly string[]): Promise<string> =>
    text(send(address, ['GET /echo HTTP/1.1', 'connection: close', `${PEER_HEADER}: ${signature}`, ...headers]));
  const signature = signRequest(
    key,
    { ...asked, headers: { authorization: 'Bearer victim', cookie: 'a=b' } },
    Date.now(),
  );
  t.match(await ask(signature, 'authorization: Bearer victim', 'cookie: a=b'), /^HTTP\/1\.1 200 /);
  const changed = {
    'other credentials': ['authorization: Bearer attacker', 'cookie: a=b'],
    'credentials before': ['authorization: Bearer attacker', 'authorization: Bearer victim', 'cookie: a=b'],
    'another cookie': ['authorization: Bearer victim', 'cookie: a=c'],
    'a further cookie': ['authorization: Bearer victim', 'cookie: a=b', 'cookie: c=d'],
    'the cookie alone': ['cookie: a=b'],
    none: [],
  };
  for (const [name, headers] of Object.entries(changed))
    t.match(await ask(signature, ...headers), /^HTTP\/1\.1 403 /, name);
  t.match(await ask(signRequest(key, asked, Date.now()), 'authorization: Bearer any'), /^HTTP\/1\.1 403 /, 'added');
  t.match(await ask(signRequest(key, asked, Date.now())), /^HTTP\/1\.1 200 /, 'without a caller');
});

t.test('a supervisor of the release before forwards to this one, and the other way round', async (t) => {
  const { address, key } = await openLink(t);
  const now = Date.now();
  const mac = createHmac('sha256', key).update(`1\n${now}\nGET\n/echo`).digest('base64url');
  const before = `1.${now}.${mac}`;
  const ask = (signature: string) =>
    text(
      send(address, ['GET /echo HTTP/1.1', 'connection: close', `${PEER_HEADER}: ${signature}`, 'authorization: x']),
    );
  t.match(await ask(before), /^HTTP\/1\.1 200 /);
  t.match(await ask(`${before}.`), /^HTTP\/1\.1 403 /, 'that release sends no empty part');
  const headers = { authorization: 'x' };
  const signature = signRequest(key, { method: 'GET', path: '/echo', hops: 1, headers }, now);
  t.equal(signature.split('.').slice(0, 3).join('.'), before, 'it reads three parts');
});
