/** Limits of one child that an operator may set, and the watch on memory where no control group can be written. */
import t, { type Test } from 'tap';
import { limits } from '../../sdk/limits.ts';
import { type Child, type ChildBounds, startChild } from '../../supervisor/child.ts';
import { findLimiter, type Limiter } from '../../supervisor/jail/limiter.ts';
import { bundleOf, callTool, errorOf, testChild, testJail, toolOf } from './jailed-child.ts';

const RESIDENT_MB = 160;
const noGroups: Limiter = { kind: 'rlimit', group: () => null };
t.setTimeout(60_000);

async function boundChild(test: Test, bounds: Partial<ChildBounds>, code: string): Promise<Child> {
  const handlers = { onHostCall: () => Promise.resolve(null), onLog: () => undefined, onExit: () => undefined };
  const child = startChild(await testJail(test), handlers, { ...limits, ...bounds });
  test.teardown(() => child.kill('the test is over'));
  await child.load(bundleOf(toolOf(code)));
  return child;
}

t.test('a message larger than the operator allows ends the child', async (t) => {
  const child = await boundChild(t, { frameBytes: 65_536 }, `return 'x'.repeat(args.length);`);
  t.match(await callTool(child, 'run', { length: 60_000 }), { outcome: 'answered' });
  await t.rejects(callTool(child, 'run', { length: 70_000 }), errorOf('dead'));
  t.match((await child.ended).reason, /the limit is 65536/);
});

t.test('calls beyond those at work and those waiting are refused', async (t) => {
  const code = 'await new Promise((resolve) => setTimeout(resolve, 200)); return 1;';
  const child = await boundChild(t, { callsInFlight: 2, callsWaiting: 1 }, code);
  const calls = [0, 1, 2, 3].map(() =>
    callTool(child, 'run').then(
      ({ outcome }) => outcome,
      ({ kind }) => kind,
    ),
  );
  t.same(await Promise.all(calls), ['answered', 'answered', 'answered', 'busy']);
});

/** Off the heap, as much as the data segment may hold, and kept. */
const HOARD =
  'globalThis.all = []; try { for (let i = 0; i < 32; i += 1) all.push(new Uint8Array(8e6).fill(1)); } catch {} await new Promise((ok) => setTimeout(ok, 20_000));';

for (const limiter of findLimiter().kind === 'rlimit' ? [noGroups] : [findLimiter(), noGroups]) {
  t.test(`256 MB held under a limit of ${RESIDENT_MB}, by ${limiter.kind}`, async (t) => {
    const child = testChild(t, await testJail(t, { limiter, residentMegabytes: RESIDENT_MB }));
    await child.load(bundleOf(toolOf(HOARD)));
    await t.rejects(callTool(child, 'run', {}, 20_000), errorOf('dead'));
    t.match(await child.ended, { outOfMemory: true, reason: 'it used more memory than it may', asked: false });
  });
}
