/** Large answers wait for a turn of the event loop, small ones do not. */
import fastify from 'fastify';
import t from 'tap';
import { delayCostlyAnswers, isCostly } from '../../service/http/costly-answers.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../service/timing/loop-turns.ts';

t.test('what has many bytes or many values is costly', async (t) => {
  const items = (length: number, item: unknown) => ({ items: Array.from({ length }, () => item), nextCursor: null });
  for (const small of [null, undefined, 1, '', {}, items(20, { id: 'abc', channels: [], at: new Date(0) })])
    t.notOk(isCostly(small), JSON.stringify(small));
  const values = { data: [{ list: Array.from({ length: COSTLY_BYTES }, () => 0) }] };
  const names = Object.fromEntries(Array.from({ length: COSTLY_BYTES }, (_, n) => [`name${n}`, 0]));
  const text = 'x'.repeat(8 * COSTLY_BYTES);
  for (const large of [text, values, names, items(1, text), items(5_000, {})]) t.ok(isCostly(large));
});

t.test('the rest of a large value is not read', async (t) => {
  let reads = 0;
  const item = () => ({
    get text() {
      reads += 1;
      return 'x'.repeat(1_000);
    },
  });
  t.ok(isCostly(Array.from({ length: 100_000 }, item)));
  t.ok(reads < 200, `${reads} of 100,000 items`);
});

t.test('a large answer waits for the turns before it', async (t) => {
  const order: string[] = [];
  const app = fastify();
  t.teardown(() => app.close());
  app.decorateRequest('caller');
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { caller: { id: 'ann' } });
  });
  delayCostlyAnswers(app);
  for (const [path, length] of [
    ['/small', 10],
    ['/large', 8 * COSTLY_BYTES],
  ] as const)
    app.get(path, async (_, reply) => {
      void waitForLoopTurn('ben').then(() => order.push('turn'));
      reply.serializer(() => {
        order.push(path);
        return '';
      });
      return { text: 'x'.repeat(length) };
    });
  await app.inject('/small');
  await waitForLoopTurn('ben');
  t.same(order.splice(0), ['/small', 'turn']);
  await app.inject('/large');
  t.same(order, ['turn', '/large']);
});
