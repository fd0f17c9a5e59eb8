import { once } from 'node:events';
import t from 'tap';
import { collectWhenIdle, isWorthCollecting } from '../../service/lifecycle/garbage-collection.ts';

const MB = 1_000_000;

t.test('an idle process whose heap grew is worth a collection', async (t) => {
  const grown = { usedBytes: 100 * MB, collectedBytes: 50 * MB, utilization: 0.05 };
  t.equal(isWorthCollecting(grown), true);
  t.equal(isWorthCollecting({ ...grown, utilization: 0.5 }), false, 'a pause would delay calls');
  t.equal(isWorthCollecting({ ...grown, collectedBytes: 90 * MB }), false, 'the rest may be live');
  t.equal(isWorthCollecting({ ...grown, usedBytes: 10 * MB }), false);
});

t.test('the garbage of a peak is collected although nothing new is created', async (t) => {
  t.teardown(collectWhenIdle(20));
  let peak: object | null = { bytes: Buffer.alloc(50 * MB) };
  const gone = new EventTarget();
  const registry = new FinalizationRegistry(() => gone.dispatchEvent(new Event('collected')));
  registry.register(peak, '');
  const collected = once(gone, 'collected');
  peak = null;
  // The check's own timer keeps no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(alive));
  await collected;
});
