/** Slow or too frequent requests of one account delay no other request to a webhook address. */
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as waitForLoop } from 'node:timers/promises';
import t from 'tap';
import { IncomingBodies } from '../../../api/ingress/incoming-bodies.ts';
import { createWebhookHandler } from '../../../api/ingress/ingress.ts';
import type { NewDelivery } from '../../../db/channels/deliveries.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { PlaceLimiter } from '../../../service/http/place-limiter.ts';
import { RefusalPace } from '../../../service/http/refusal-pace.ts';
import { perSecond, TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { listenOn, serve } from '../../fixtures/listening-server.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { send } from './webhook-fixture.ts';

const ADDRESS = { channelId: 'c', installationId: 'i', handshake: {} };
/** One account gets at most four of them. */
const PLACES = 6;

/** Emits `asked` when a handshake begins, `request` for each request, and `counted` when one is counted. A handshake ends when the test emits `answer`. */
const progress = new EventEmitter().setMaxListeners(0);
const stored: NewDelivery[] = [];
const handler = createWebhookHandler({
  // The routing id is the account.
  addresses: {
    find: async (routingId) => ({ ...ADDRESS, accountId: routingId }),
    findCachedAccount: (routingId) => routingId,
  },
  readNetwork: () => '192.0.2.1',
  rateLimits: new TokenBuckets(perSecond(1_000)),
  accountRateLimits: new TokenBuckets(perSecond(2_000)),
  quota: { check: () => undefined, count: () => undefined },
  bodies: await IncomingBodies.open(await temporaryFolder(t)),
  intake: { accept: async (delivery) => void stored.push(delivery) },
  handshakes: new PlaceLimiter({ places: PLACES, verb: 'waiting for', works: 'handshakes', retryAfterS: 1 }),
  refusals: new RefusalPace({ burst: 3, perSecond: 0.001, pauseMs: 600_000, waitingMax: 2 }),
  handshake: async () => {
    const answer = once(progress, 'answer');
    progress.emit('asked');
    await answer;
    return null;
  },
  answered: (status) => progress.emit('counted', status),
  onError: (error) => t.fail(error.message),
});
const server = createServer(handler);
server.on('request', (request) => progress.emit('request', request));
const { port } = await listenOn(t, server);

const get = (account: string, bytes = 0) =>
  send(
    { port, method: 'GET', path: `/webhook/plugin/${account}`, headers: { 'content-length': bytes } },
    Buffer.alloc(bytes),
  );

t.test('handshakes of one account are bounded, and nothing else waits for them', async (t) => {
  const waiting: ReturnType<typeof get>[] = [];
  const begin = async (account: string) => {
    const asked = once(progress, 'asked');
    waiting.push(get(account));
    await asked;
  };
  for (let count = 0; count < 4; count += 1) await begin('ann');
  t.match(await get('ann'), {
    status: 429,
    headers: { 'retry-after': '1' },
    body: {
      code: 'rate_limited',
      detail: 'This process is waiting for 4 handshakes, 4 of them from this account. Retry after 1 s.',
    },
  });
  await begin('ben');
  t.match(await get('ann', 65 * KIB), { status: 200, body: { ok: true } }, 'a large body is no handshake');
  t.equal((await send({ port, path: '/webhook/plugin/ann' }, Buffer.alloc(65 * KIB))).status, 200);
  t.equal(stored.length, 2);
  progress.emit('answer');
  for (const answer of await Promise.all(waiting)) t.match(answer, { status: 200, body: { ok: true } });
  t.equal(stored.length, 7, 'a request without an answer is queued');
  await begin('ann');
  progress.emit('answer');
  t.match(await waiting.at(-1), { status: 200 }, 'the places are free again');
});

t.test('refusals above the rate are delayed, up to a maximum of them, and delay nothing else', async (t) => {
  const refused = () => send({ port, path: '/webhook/unknown' });
  // The rate allows three at once, and the refused handshake above was the first.
  for (let count = 0; count < 2; count += 1) t.match(await refused(), { status: 404 });
  const answered: unknown[] = [];
  const paused: Socket[] = [];
  for (const rest of ['\r\n', `transfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5_000)}`]) {
    const arrived = once(progress, 'request');
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    paused.push(client.on('data', (answer) => answered.push(answer)));
    client.write(`POST /webhook/unknown HTTP/1.1\r\nhost: x\r\n${rest}`);
    const [request] = await arrived;
    do await waitForLoop();
    while (!request.socket.isPaused());
    t.equal(request.readableLength, 0, 'what was read of the body is not kept');
  }
  t.equal((await send({ port, path: '/webhook/plugin/ben' }, Buffer.from('x'))).status, 200);
  t.match(await refused(), { status: 404 }, 'while two are delayed, the next is answered at once');
  t.same(answered, []);
  for (const client of paused) client.destroy();
});

t.test('nothing more of a body is read while its refusal waits', async (t) => {
  const refusals = new RefusalPace({ burst: 0, perSecond: 0.001, pauseMs: 600_000, waitingMax: 1 });
  const { promise: isRefused, resolve } = Promise.withResolvers<Socket>();
  const { port } = await serve(t, async (request, response) => {
    // Requests that begin together begin between two reads of the event loop.
    await waitForLoop();
    refusals.answer(response, () => t.fail('the refusal waits'));
    resolve(request.socket);
  });
  const client = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => client.destroy());
  client.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${4 * MIB}\r\n\r\n`);
  client.write(Buffer.alloc(4 * MIB));
  const socket = await isRefused;
  for (let turns = 0; turns < 20; turns += 1) await waitForLoop();
  // One chunk of the kernel's with the headers, and at most two more before the refusal.
  t.ok(socket.bytesRead <= 192 * KIB, `${socket.bytesRead} bytes`);
});

t.test('nothing more of a body is read while its refusal waits behind an answer that lasts', async (t) => {
  const refusals = new RefusalPace({ burst: 0, perSecond: 0.001, pauseMs: 600_000, waitingMax: 20 });
  const refused: Socket[] = [];
  const { port } = await serve(t, async (request, response) => {
    if (request.url === '/lasts') response.write('begun');
    else {
      refusals.answer(response, () => t.fail('the refusal waits'));
      refused.push(request.socket);
    }
  });
  const warned: Error[] = [];
  const onWarning = (warning: Error) => void warned.push(warning);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  const client = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => client.destroy());
  const refusedGets = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(12);
  client.write(`GET /lasts HTTP/1.1\r\nhost: x\r\n\r\n${refusedGets}`);
  client.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${4 * MIB}\r\n\r\n`);
  client.write(Buffer.alloc(4 * MIB));
  while (refused.length < 13) await waitForLoop();
  for (let turns = 0; turns < 20; turns += 1) await waitForLoop();
  t.ok(Number(refused[0]?.bytesRead) <= 192 * KIB, `${refused[0]?.bytesRead} bytes`);
  t.same(warned, [], 'Node warns of many listeners');
});

t.test('a request whose client leaves before the answer is counted', async (t) => {
  const begin = async (bytes: number) => {
    const arrived = once(progress, 'request');
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    client.write(`GET /webhook/plugin/cleo HTTP/1.1\r\nhost: x\r\ncontent-length: ${bytes}\r\n\r\n`);
    await arrived;
    return client;
  };
  const leave = async (client: Socket) => {
    const counted = once(progress, 'counted');
    client.destroy();
    return counted;
  };
  const asked = once(progress, 'asked');
  const waiting = await begin(0);
  await asked;
  t.same(await leave(waiting), [499]);
  progress.emit('answer');
  t.same(await leave(await begin(1)), [400], 'in the middle of the request');
});
