/** Limits of one child that an operator can set, and the memory check without control groups. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { getPriority } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../../sdk/contract/limits.ts';
import { type Child, type ChildBounds, startChild } from '../../../supervisor/children/child.ts';
import { SpareChildren } from '../../../supervisor/children/spare-children.ts';
import { findLimiter, type Limiter } from '../../../supervisor/jail/limiter.ts';
import { priorityAfterAsking } from '../../fixtures/priorities.ts';
import { amount } from '../../runner/soak.ts';
import { groupFile, groupPath } from './control-group.ts';
import { bundleOf, callTool, errorOf, testChild, testJail, toolOf } from './jailed-child.ts';

const RESIDENT_MB = 160;
const noGroups: Limiter = { kind: 'rlimit', group: () => null, startGroup: () => null };

const quiet = { onHostCall: () => Promise.resolve(null), onLog: () => undefined, onExit: () => undefined };

async function boundChild(
  test: Test,
  bounds: Partial<ChildBounds>,
  code: string,
  members: string[] = [],
): Promise<Child> {
  const child = startChild(await testJail(test), quiet, { ...limits, ...bounds });
  test.teardown(() => child.kill('the test is over'));
  await child.load(bundleOf(toolOf(code), { members }));
  return child;
}

t.test('a message larger than the operator allows ends the child', async (t) => {
  const child = await boundChild(t, { frameBytes: 65_536 }, `return 'x'.repeat(args.length);`);
  t.match(await callTool(child, 'run', { length: 60_000 }), { outcome: 'answered' });
  await t.rejects(callTool(child, 'run', { length: 70_000 }), errorOf('dead'));
  t.match((await child.ended).reason, /the limit is 65536/);
});

t.test('messages are read no faster than the operator allows', async (t) => {
  const code = 'for (let i = 0; i < 60; i += 1) await host.storage.get("x"); return 1;';
  const child = await boundChild(t, { framesPerSecond: 100 }, code, ['storage.get']);
  const started = performance.now();
  t.match(await callTool(child, 'run'), { outcome: 'answered' });
  const ms = performance.now() - started;
  t.ok(ms > 400, `60 at 100 a second took ${ms.toFixed(0)} ms`);
});

t.test('open files, threads and share of the processor', async (t) => {
  const child = testChild(t, await testJail(t, { openFiles: 48, threads: 20, cpuWeight: 25 }));
  await child.ready;
  t.match(readFileSync(`/proc/${child.pid}/limits`, 'latin1'), /^Max open files +48 +48 /m);
  const { kind } = findLimiter();
  if (kind === 'rlimit') return;
  t.equal(groupFile(child.pid, 'pids', 'pids.max'), '20');
  if (kind === 'cgroup1') t.equal(groupFile(child.pid, 'cpu', 'cpu.shares'), '256');
  else t.equal(groupFile(child.pid, '', 'cpu.weight'), '25');
});

t.test('a child starts with a lower priority than the supervisor', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.ready;
  t.equal(getPriority(child.pid), priorityAfterAsking(3));
});

t.test('a spare starts with the lowest priority, and its user sets another one', async (t) => {
  if (findLimiter().kind === 'rlimit') return;
  const jail = await testJail(t);
  const spares = new SpareChildren((handlers) => startChild(jail, handlers), 1);
  t.teardown(() => spares.close());
  const { child } = spares.claim();
  t.teardown(() => child.kill('the test is over'));
  // On a busy machine it is not ready before somebody wants it.
  while (child.pid === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const isIdle = () => groupFile(child.pid, findLimiter().kind === 'cgroup1' ? 'cpu' : '', 'cpu.idle');
  t.equal(isIdle(), '1');
  child.setCpuClasses({ child: 'normal', account: 'normal' });
  while (isIdle() !== '0') await new Promise((resolve) => setTimeout(resolve, 5));
  await child.ready;
});

t.test('children of one account have a group in common, with the memory and the weight of an account', async (t) => {
  const { kind } = findLimiter();
  if (kind === 'rlimit') return;
  const isVersion1 = kind === 'cgroup1';
  const jail = await testJail(t, { accountMegabytes: 600 });
  const spares = new SpareChildren((handlers) => startChild(jail, handlers), 1);
  t.teardown(() => spares.close());
  const [spare, onDemand, other] = [spares.claim().child, startChild(jail, quiet), startChild(jail, quiet)];
  onDemand.assignAccount('ann');
  other.assignAccount('ben');
  spare.setCpuClasses({ child: 'normal', account: 'normal' });
  await Promise.all([spare.ready, onDemand.ready, other.ready]);
  spare.assignAccount('ann');
  const folderOf = (child: Child) => dirname(groupPath(child.pid, isVersion1 ? 'memory' : ''));
  const cpuOf = (child: Child) => dirname(groupPath(child.pid, isVersion1 ? 'cpu' : ''));
  // The memory group changes first.
  while (cpuOf(spare) !== cpuOf(onDemand)) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(folderOf(spare), folderOf(onDemand));
  t.not(folderOf(other), folderOf(onDemand));
  const memory = isVersion1 ? 'memory.limit_in_bytes' : 'memory.max';
  t.equal(readFileSync(join(folderOf(spare), memory), 'latin1').trim(), String(600 * 1_048_576));
  const weight = isVersion1 ? 'cpu.shares' : 'cpu.weight';
  const expectCpu = async (value: string, idle: string) => {
    const read = () => [weight, 'cpu.idle'].map((file) => readFileSync(join(cpuOf(spare), file), 'latin1').trim());
    while (read().join() !== [value, idle].join()) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  // Half of the weight that both accounts share.
  await expectCpu(isVersion1 ? '512' : '50', '0');
  spare.setCpuClasses({ child: 'normal', account: 'reduced' });
  await expectCpu(isVersion1 ? '205' : '20', '0');
  spare.setCpuClasses({ child: 'idle', account: 'idle' });
  await expectCpu(isVersion1 ? '3' : '0', '1');
  spare.setCpuClasses({ child: 'normal', account: 'normal' });
  await expectCpu(isVersion1 ? '512' : '50', '0');
  const gone = [folderOf(spare), folderOf(other)];
  await Promise.all([spare, onDemand, other].map((child) => child.kill('the test is over')));
  while (gone.some((folder) => existsSync(folder))) await new Promise((resolve) => setTimeout(resolve, 20));
});

t.test('processes that start share one weight until they have groups of their own', async (t) => {
  const { kind } = findLimiter();
  if (kind === 'rlimit') return;
  const child = testChild(t, await testJail(t));
  await child.ready;
  const controller = kind === 'cgroup1' ? 'cpu' : '';
  // bubblewrap stays where it started.
  const outside = groupPath(readParent(child.pid), controller);
  t.match(outside, /\/bulkhead-\d+-\d+$/);
  t.not(groupPath(child.pid, controller), outside);
  const weight = readFileSync(join(outside, kind === 'cgroup1' ? 'cpu.shares' : 'cpu.weight'), 'latin1').trim();
  t.equal(weight, kind === 'cgroup1' ? '1024' : '100');
});

const SPIN = 'const until = Date.now() + 60_000; while (Date.now() < until);';

/** In others, the path of a control group begins at their own root. */
const FIRST_CGROUP_NAMESPACE = 'cgroup:[4026531835]';

/** Whether processes of this machine have the CPU time of their session: with no control group between. */
const hasSessionPriorities = (): boolean =>
  existsSync('/proc/sys/kernel/sched_autogroup_enabled') &&
  readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'latin1').trim() === '1' &&
  readlinkSync('/proc/self/ns/cgroup') === FIRST_CGROUP_NAMESPACE &&
  readFileSync('/proc/self/cgroup', 'latin1')
    .split('\n')
    .some((line) => /^\d+:([^:]*,)?cpu(,[^:]*)?:\/$/.test(line));

/** They keep a processor busy, or fill memory: the quick run shows the limiter that this machine has. */
const limiters =
  findLimiter().kind === 'rlimit' ? [noGroups] : amount({ quick: [findLimiter()], soak: [findLimiter(), noGroups] });
for (const limiter of limiters) {
  t.test(`CPU-bound children of other accounts leave the processor to a light one, by ${limiter.kind}`, async (t) => {
    if (limiter === noGroups && !hasSessionPriorities()) return;
    const jail = await testJail(t, { limiter });
    const accounts = ['light', 'hog-1', 'hog-2', 'hog-3', 'hog-4'];
    const children = await Promise.all(
      accounts.map(async (account) => {
        const child = testChild(t, jail);
        child.assignAccount(account);
        await child.load(bundleOf(toolOf(SPIN)));
        // On the same processor, so that they compete on every machine.
        execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', findProcessor(), String(child.pid)]);
        void callTool(child, 'run', {}, 60_000).catch(() => undefined);
        return child;
      }),
    );
    const setClasses = () => {
      for (const [index, child] of children.entries())
        child.setCpuClasses({ child: 'normal', account: index === 0 ? 'light' : 'reduced' });
    };
    const read = () => children.map((child) => child.cpuDemand().hadMs);
    const spinFor = async (ms: number) => {
      const [before = 0] = read();
      while ((read()[0] ?? 0) < before + ms) {
        setClasses();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    // Until the classes are written.
    await spinFor(100);
    const before = read();
    await spinFor(300);
    const used = read().map((ms, index) => ms - (before[index] ?? 0));
    const [light = 0, ...hogs] = used;
    const ofHogs = hogs.reduce((sum, ms) => sum + ms, 0);
    t.ok(ofHogs < light / 2, `four together used ${ofHogs.toFixed(0)} ms beside ${light.toFixed(0)} ms`);
  });
}

/** A processor that this process may use: a container may have others than the first. */
function findProcessor(): string {
  const [, processor = ''] = /^Cpus_allowed_list:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? [];
  return processor;
}

/** Id of the process that started another. */
function readParent(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
}

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

t.test('calls that end while they wait for others were not sent', async (t) => {
  const child = await boundChild(t, { callsInFlight: 1, callsWaiting: 2 }, 'await new Promise(() => undefined);');
  const running = callTool(child, 'run', {}, 60_000);
  const late = callTool(child, 'run', {}, 1);
  const waiting = callTool(child, 'run', {}, 60_000);
  const errorOf = (kind: string, isUnsent: boolean) => ({ kind, isUnsent }) as unknown as Error;
  await t.rejects(late, errorOf('busy', false));
  void child.kill('it was killed');
  await t.rejects(running, errorOf('dead', false));
  await t.rejects(waiting, errorOf('dead', true));
  await t.rejects(callTool(child, 'run'), errorOf('dead', true));
});

/** Holds this many megabytes off the heap from the first call on. */
const HOLD =
  'globalThis.held ??= new Uint8Array(args.megabytes * 1_048_576).fill(1); if (args.waits) await new Promise(() => setTimeout(() => 0, 60_000)); return held.length / 1_048_576;';

t.test('the largest child of an account that exceeds its memory limit ends, without control groups', async (t) => {
  const jail = await testJail(t, { limiter: noGroups, residentMegabytes: 300, accountMegabytes: 320 });
  const start = async (account: string, megabytes: number) => {
    const child = testChild(t, jail);
    child.assignAccount(account);
    await child.load(bundleOf(toolOf(HOLD)));
    t.match(await callTool(child, 'run', { megabytes }, 20_000), { answer: megabytes });
    return child;
  };
  const other = await start('ben', 200);
  // So small that the large one is larger, also while it grows, as soon as both exceed the limit.
  const small = await start('ann', 120);
  const large = startChild(jail, quiet);
  t.teardown(() => large.kill('the test is over'));
  large.assignAccount('ann');
  await large.load(bundleOf(toolOf(HOLD)));
  await t.rejects(callTool(large, 'run', { megabytes: 200, waits: true }, 20_000), errorOf('dead'));
  // If it still runs, this ends it with another reason.
  t.match(await large.kill('the limit did not end it'), {
    outOfMemory: true,
    reason: 'the plugins of its account together exceeded their memory limit, and it used the most',
  });
  t.match(await callTool(small, 'run'), { answer: 120 });
  t.match(await callTool(other, 'run'), { answer: 200 });
});

/** Allocates memory off the heap until the data segment is full, and keeps it. */
const HOARD =
  'globalThis.all = []; try { for (let i = 0; i < 32; i += 1) all.push(new Uint8Array(8e6).fill(1)); } catch {} await new Promise((ok) => setTimeout(ok, 20_000));';

for (const limiter of limiters) {
  t.test(`256 MB held under a limit of ${RESIDENT_MB}, by ${limiter.kind}`, async (t) => {
    const child = testChild(t, await testJail(t, { limiter, residentMegabytes: RESIDENT_MB }));
    await child.load(bundleOf(toolOf(HOARD)));
    await t.rejects(callTool(child, 'run', {}, 20_000), errorOf('dead'));
    t.match(await child.ended, { outOfMemory: true, reason: 'it exceeded its memory limit', requested: false });
  });
}
