/** Long pieces of work share the event loop: one at a time, keys in turn, and with room for everything else between them. */
import t from 'tap';
import { waitForLoopTurn } from '../../service/timing/loop-turns.ts';

const BUSY_MS = 5;
function block(): void {
  const until = performance.now() + BUSY_MS;
  while (performance.now() < until);
}

t.test('one piece at a time, keys in turn, and the loop turns between them', async (t) => {
  const order: string[] = [];
  const work = async (key: string, name: string) => {
    await waitForLoopTurn(key);
    order.push(name);
    setImmediate(() => order.push(`after ${name}`));
  };
  const works = [work('ann', 'ann 1'), work('ann', 'ann 2'), work('ann', 'ann 3'), work('ben', 'ben 1')];
  t.same(order, [], 'never at once');
  await Promise.all(works);
  await new Promise(setImmediate);
  const turns = ['ann 1', 'ben 1', 'ann 2', 'ann 3'];
  t.same(
    order,
    turns.flatMap((name) => [name, `after ${name}`]),
  );
});

t.test('a flood of one account leaves half of the loop to everything else', async (t) => {
  let blockedMs = 0;
  const flood = Array.from({ length: 20 }, async () => {
    await waitForLoopTurn('ann');
    // The work includes what its promises do.
    await Promise.resolve();
    const startedAt = performance.now();
    block();
    blockedMs += performance.now() - startedAt;
  });
  const startedAt = performance.now();
  await Promise.all(flood);
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs > 1.8 * blockedMs, `${tookMs.toFixed()} ms for ${blockedMs.toFixed()} ms of work`);
});
