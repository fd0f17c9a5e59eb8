import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { collectWhenIdle, isWorthCollecting } from '../../service/lifecycle/garbage-collection.ts';

const MB = 1_000_000;

t.test('an idle process whose heap grew is worth a collection', async (t) => {
  const grown = { usedBytes: 100 * MB, collectedBytes: 50 * MB, utilization: 0.05, isFollowUpDue: false };
  t.equal(isWorthCollecting(grown), true);
  t.equal(isWorthCollecting({ ...grown, utilization: 0.5 }), false, 'a pause would delay calls');
  t.equal(isWorthCollecting({ ...grown, collectedBytes: 90 * MB }), false, 'the rest may be live');
  t.equal(isWorthCollecting({ ...grown, usedBytes: 10 * MB }), false);
  t.equal(isWorthCollecting({ ...grown, usedBytes: 10 * MB, isFollowUpDue: true }), true);
  t.equal(isWorthCollecting({ ...grown, utilization: 0.5, isFollowUpDue: true }), false);
});

t.test('a busy process collects once it has grown by much', async (t) => {
  const peak = { usedBytes: 400 * MB, collectedBytes: 250 * MB, utilization: 0.9, isFollowUpDue: false };
  t.equal(isWorthCollecting(peak), true);
  t.equal(
    isWorthCollecting({ ...peak, collectedBytes: 350 * MB }),
    false,
    'most of it was live at the last collection',
  );
});

t.test('the garbage of a peak is collected although nothing new is created', async (t) => {
  t.teardown(collectWhenIdle(20));
  t.equal(runInNewContext('typeof gc'), 'undefined', 'the flags are as before, so kept code stays valid');
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

const MODULE = new URL('../../service/lifecycle/garbage-collection.ts', import.meta.url).href;
/** Ends when what was still in use during the collection of a peak is collected. Nothing grows from then on. */
const PROGRAM = `
  import { collectWhenIdle } from ${JSON.stringify(MODULE)};
  collectWhenIdle(20, 300);
  const registry = new FinalizationRegistry(() => process.exit(7));
  // The registry is garbage too unless something refers to it, and the process must live on.
  setInterval(() => registry.unregister(process), 1_000);
  let held = { bytes: Buffer.alloc(50_000_000) };
  registry.register(held, '');
  setTimeout(() => { held = null; }, 150);
`;

t.test('what the last calls of a peak hold is collected later, although nothing grows', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], { stdio: 'inherit' });
  t.teardown(() => child.kill('SIGKILL'));
  t.same(await once(child, 'exit'), [7, null]);
});
