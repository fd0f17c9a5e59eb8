/** Requests to another supervisor over a link that is cut without a word: each side holds its connections for open. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { fastify } from 'fastify';
import t, { type Test } from 'tap';
import type { Peer } from '../../../db/cluster/supervisors.ts';
import { PEER_HEADER, signRequest } from '../../../service/cluster/peer-signature.ts';
import { onceClosed } from '../../../service/http/closed-responses.ts';
import { ALIVE_PATH, PeerRequests } from '../../../supervisor/cluster/peer-requests.ts';
import { PeerServer } from '../../../supervisor/cluster/peer-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { openGate } from '../../storm/database-gate.ts';

/** For tests that cut the link. A busy machine that is blocked for as long looks cut off, too. */
const SHORT_TIMES = { askMs: 10, answerMs: 50, repeatMs: 10, cutOffMs: 100, forgetMs: 600_000 };
const PATIENT_TIMES = { ...SHORT_TIMES, answerMs: 30_000, cutOffMs: 60_000 };

/** A supervisor that does every job and begins an answer to every call, and another one that asks it through a gate. */
async function openLink(t: Test, linkTimes = PATIENT_TIMES) {
  const key = randomBytes(32);
  const server = new PeerServer({
    host: '127.0.0.1',
    port: 0,
    key,
    jobs: { runHere: async () => true },
    wakeChannels: () => true,
    catchUp: async () => undefined,
    answer: ({ url }, response) => void (url === '/' ? response.write('begun') : response.end(url)),
    upgrade: (_request, socket) => void socket.destroy(),
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
  return { server, address, key, gate, peers, peer, told, sendJob: () => peers.sendJob(peer, 'events', 'ann', {}) };
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
  app.all('*', async (request, reply) => {
    try {
      await peers.forward(peer, request, reply, 1, signal);
    } catch (error) {
      return reply.code(503).send(String(error));
    }
  });
  t.teardown(() => app.close());
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
