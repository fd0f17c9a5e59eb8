/** An account that leaves answers unread gets no more of them, others do, and what it read frees its share. */
import { EventEmitter, once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import fastify from 'fastify';
import t, { type Test } from 'tap';
import { MIB } from '../../sdk/contract/limits.ts';
import { answerError } from '../../service/http/errors.ts';
import { RefusalPace } from '../../service/http/refusal-pace.ts';
import { countUnread, limitUnreadAnswers } from '../../service/http/unread-answers.ts';
import { RepeatedErrors } from '../../service/telemetry/repeated-errors.ts';
import { eventually } from '../runner/eventually.ts';
import { soakTest } from '../runner/soak.ts';

/** More than the buffers of both sockets hold. */
const LARGE = 'x'.repeat(16 * MIB);
/** One large answer, not two. */
const LIMITS = { processBytes: 36 * MIB, accountBytes: 24 * MIB };

async function serve(t: Test, stalledMs = 60_000) {
  const app = fastify();
  t.teardown(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  app.decorateRequest('caller');
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { caller: { id: request.headers.account } });
  });
  const outages = new RepeatedErrors({ report: () => undefined });
  app.addHook('onClose', () => outages.close());
  app.decorate('outages', outages);
  app.decorate('errorForm', null);
  app.decorate('refusals', new RefusalPace());
  app.setErrorHandler(answerError);
  limitUnreadAnswers(app, LIMITS, stalledMs);
  const answers = new EventEmitter();
  app.addHook('onSend', async () => void setImmediate(() => answers.emit('sent')));
  const gate = Promise.withResolvers<void>();
  app.get('/large', async () => LARGE);
  app.get('/small', async () => 'x');
  app.get('/abandoned', async (_request, { raw }) => {
    await once(raw, 'close');
    return LARGE;
  });
  app.post('/changes', async (request, reply) => {
    for (let count = 0; count < 3; count += 1) countUnread(request, reply, LARGE.length);
    answers.emit('counted');
    await gate.promise;
    return 'x';
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const ask = async (path: string, account: string, method = 'GET'): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { account } });
    await response.arrayBuffer();
    return response.status;
  };
  /** Sends requests at once on a connection, and reads nothing before all are answered. */
  const leaveUnread = async (account: string, paths: readonly string[]): Promise<{ client: Socket; peer: Socket }> => {
    const connected = once(app.server, 'connection');
    const client = connect(port, '127.0.0.1').pause();
    t.teardown(() => client.destroy());
    const requests = paths.map((path, index) => {
      const end = index === paths.length - 1 ? 'connection: close\r\n' : '';
      return `GET ${path} HTTP/1.1\r\nhost: x\r\naccount: ${account}\r\n${end}\r\n`;
    });
    client.on('error', () => undefined).write(requests.join(''));
    for (const _ of paths) await once(answers, 'sent');
    const [peer] = await connected;
    return { client, peer };
  };
  return { port, answers, gate, ask, leaveUnread };
}

t.test('of answers that are asked for at once, those beyond the share of the account are refused', async (t) => {
  const { ask, leaveUnread } = await serve(t);
  const { client } = await leaveUnread('ann', ['/large', '/large', '/large']);
  t.equal(await ask('/large', 'ann'), 429);
  t.equal(await ask('/large', 'ben'), 200, 'others have their own');
  const statuses = (await text(client)).match(/HTTP\/1.1 \d+/g);
  t.same(statuses, ['HTTP/1.1 200', 'HTTP/1.1 429', 'HTTP/1.1 429']);
  t.equal(await ask('/large', 'ann'), 200, 'what was read frees its share');
});

t.test('an account that holds nothing gets an answer also where others fill the process', async (t) => {
  const { ask, leaveUnread } = await serve(t);
  for (const account of ['ann', 'ben', 'cleo']) await leaveUnread(account, ['/large']);
  t.equal(await ask('/large', 'dora'), 200);
  t.equal(await ask('/large', 'ann'), 503);
});

await soakTest(t, 'an answer whose client left before does not count', async (t) => {
  const { answers, ask, port } = await serve(t);
  for (let count = 0; count < 3; count += 1) {
    const client = connect(port, '127.0.0.1', () => client.destroySoon());
    client.write('GET /abandoned HTTP/1.1\r\nhost: x\r\naccount: ann\r\n\r\n');
    await once(answers, 'sent');
  }
  t.equal(await ask('/large', 'ann'), 200);
});

t.test('a response whose client stops reading is destroyed and frees its bytes', async (t) => {
  const { ask, leaveUnread } = await serve(t, 1_000);
  const { peer } = await leaveUnread('ann', ['/large']);
  if (!peer.closed) await once(peer, 'close');
  // A busy machine may stop for that time, too.
  t.equal(await eventually(() => ask('/large', 'ann').catch(() => null)), 200);
});

t.test(
  'the answer of a request that changed something is sent, and further requests are refused until it is read',
  async (t) => {
    const { answers, ask, gate } = await serve(t);
    const changing = ask('/changes', 'ann', 'POST');
    await once(answers, 'counted');
    t.equal(await ask('/small', 'ann'), 429);
    t.equal(await ask('/large', 'ben'), 200);
    gate.resolve();
    t.equal(await changing, 200);
    t.equal(await ask('/large', 'ann'), 200);
  },
);
