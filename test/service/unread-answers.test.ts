/** An account that leaves answers unread gets no more of them, others do, and what it read frees its share. */
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import fastify from 'fastify';
import t, { type Test } from 'tap';
import { MIB } from '../../sdk/contract/limits.ts';
import { answerError } from '../../service/http/errors.ts';
import { countUnread, limitUnreadAnswers } from '../../service/http/unread-answers.ts';

/** More than the buffers of both sockets hold. */
const LARGE = 'x'.repeat(16 * MIB);

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
  app.decorate('errorForm', null);
  app.setErrorHandler(answerError);
  limitUnreadAnswers(app, { processBytes: 64 * MIB, accountBytes: 8 * MIB }, stalledMs);
  const written = Promise.withResolvers<void>();
  app.addHook('onSend', async ({ url }) => {
    if (url !== '/small') written.resolve();
  });
  app.get('/large', async () => LARGE);
  app.get('/small', async () => 'x');
  app.get('/stream', async (request, reply) => {
    countUnread(request, reply, LARGE.length);
    return 'x';
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const get = async (path: string, account: string): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { account } });
    await response.arrayBuffer();
    return response.status;
  };
  /** @returns the connection as the server sees it */
  const leaveUnread = async (account: string): Promise<Socket> => {
    const connected = once(app.server, 'connection');
    const client = connect(port, '127.0.0.1').pause();
    t.teardown(() => client.destroy());
    client.on('error', () => undefined).write(`GET /large HTTP/1.1\r\nhost: x\r\naccount: ${account}\r\n\r\n`);
    await written.promise;
    return (await connected)[0];
  };
  return { get, leaveUnread };
}

t.test('what an account leaves unread is its own share', async (t) => {
  const { get, leaveUnread } = await serve(t);
  await leaveUnread('ann');
  t.equal(await get('/small', 'ann'), 429);
  for (const path of ['/large', '/small']) t.equal(await get(path, 'ben'), 200);
});

t.test('a response whose client stops reading is destroyed and frees its bytes', async (t) => {
  const { get, leaveUnread } = await serve(t, 100);
  await once(await leaveUnread('ann'), 'close');
  t.equal(await get('/small', 'ann'), 200);
});

t.test('what waits in a stream counts, and what was read does not', async (t) => {
  const { get } = await serve(t);
  for (const path of ['/stream', '/large', '/stream']) t.equal(await get(path, 'ann'), 200);
  t.equal(await get('/small', 'ann'), 200);
});
