/** Work of accounts in threads: what takes long makes only its like wait. */
import t, { type Test } from 'tap';
import { BoundedWorker, TimeLimitError } from '../../service/timing/bounded-worker.ts';

const FOREVER_MS = 2 ** 31 - 1;
/** Far longer than the other tasks take on a busy machine. Milliseconds. */
const LONG_MS = 60_000;

function startWorker(test: Test, quickMs: number): BoundedWorker<number, number> {
  const file = new URL('./waiting-worker.ts', import.meta.url);
  const worker = new BoundedWorker<number, number>(file, { name: 'wait', heapMegabytes: 64, quickMs });
  test.teardown(() => worker.close());
  return worker;
}

t.test('a task that takes long does not keep the tasks of other accounts waiting', async (t) => {
  const worker = startWorker(t, 5_000);
  let hasEnded = false;
  const long = worker.run('ann', FOREVER_MS, LONG_MS).finally(() => {
    hasEnded = true;
  });
  long.catch(() => undefined);
  t.equal(await worker.run('ben', 1, LONG_MS), 1);
  t.equal(await worker.run('ben', 2, LONG_MS), 2);
  t.notOk(hasEnded);
});

t.test('a task that takes longer than usual is answered', async (t) => {
  t.equal(await startWorker(t, 1).run('ann', 100, LONG_MS), 100);
});

t.test('a task is stopped at its limit', async (t) => {
  const worker = startWorker(t, 5);
  await t.rejects(worker.run('ann', FOREVER_MS, 50), TimeLimitError);
  await t.rejects(worker.run('ann', FOREVER_MS, 5), new TimeLimitError('it took longer than 5 ms'));
});
