/** Long pieces of work share the event loop, one at a time, keys in turn; requests begin a few at a time, keys in turn. */
import t from 'tap';
import { waitForLoopTurn, waitToBegin } from '../../service/timing/loop-turns.ts';

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
  const blockedMs: number[] = [];
  const flood = Array.from({ length: 20 }, async () => {
    await waitForLoopTurn('ann');
    // The work includes what its promises do.
    await Promise.resolve();
    const startedAt = performance.now();
    block();
    blockedMs.push(performance.now() - startedAt);
  });
  const startedAt = performance.now();
  await Promise.all(flood);
  const tookMs = performance.now() - startedAt;
  // The pause after the last piece is not awaited. On a busy machine any piece may take long.
  const followedMs = blockedMs.slice(0, -1).reduce((sum, ms) => sum + ms, 0);
  t.ok(tookMs > 1.8 * followedMs, `${tookMs.toFixed()} ms for ${followedMs.toFixed()} ms of work`);
});

t.test('work that comes one piece after another leaves half of the loop, too', async (t) => {
  const startedAt = performance.now();
  const pieces = 10;
  for (let piece = 0; piece < pieces; piece += 1) {
    await waitForLoopTurn('ann');
    block();
    // The next piece comes when this one's turn is over.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  }
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs > 1.8 * pieces * BUSY_MS, `${tookMs.toFixed()} ms for ${pieces * BUSY_MS} ms of work`);
});

t.test('of many requests at once, some begin in each turn of the loop, keys in turn', async (t) => {
  const begun: string[] = [];
  const request = async (key: string) => {
    await waitToBegin(key, false);
    begun.push(key);
  };
  const turn = () => new Promise(setImmediate);
  await turn();
  const requests = [...Array.from({ length: 40 }, () => request('ann')), request('ben')];
  await turn();
  // The requests that began at once, and the first that waited.
  t.ok(begun.length < 20, `${begun.length} began`);
  t.ok(begun.includes('ben'), 'it did not wait for all of another key');
  await Promise.all(requests);
  t.equal(begun.length, 41);
  await turn();
  await turn();
  t.equal(waitToBegin('cem', false), undefined, 'alone it begins at once');
});

t.test('a request with a small body waits for no costly one', async (t) => {
  const turn = () => new Promise(setImmediate);
  const costly = Array.from({ length: 40 }, (_, index) => waitToBegin(`account ${index}`, true));
  t.ok(costly.filter((waiting) => waiting === undefined).length < 8, 'few costly ones begin at once');
  t.equal(waitToBegin('ann', false), undefined);
  await Promise.all(costly);
  await turn();
  await turn();
  t.equal(waitToBegin('ben', true), undefined, 'alone it begins at once');
});
