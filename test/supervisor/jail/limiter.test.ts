/**
 * Control groups of both versions, simulated by a folder whose files are checked. `child-limits.test.ts` tests real ones if
 * the machine's can be written.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { findLimiter } from '../../../supervisor/jail/limiter.ts';
import { temporaryFolder } from '../../runner/harness.ts';

const bounds = { residentBytes: 268_435_456, threads: 48, cpuWeight: 50 };
const readLimit = (folder: string, file: string): string => readFileSync(join(folder, file), 'utf8');
const groupsIn = (folder: string): string[] => readdirSync(folder).filter((name) => name.startsWith('bulkhead-'));

/** Creates a folder like a hierarchy of version 2 in which a service has its group. */
async function version2(t: Test, handedDown: string): Promise<{ root: string; slice: string }> {
  const root = await temporaryFolder(t);
  const slice = join(root, 'system.slice');
  mkdirSync(join(slice, 'bulkhead.service'), { recursive: true });
  writeFileSync(join(slice, 'cgroup.subtree_control'), handedDown);
  return { root, slice };
}
const memberships = '0::/system.slice/bulkhead.service\n';

t.test('version 2: limits in a group beside the service’s, where controllers are delegated', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids\n');
  const limiter = findLimiter({ root, memberships });
  t.equal(limiter.kind, 'cgroup2');
  const before = groupsIn(slice);
  const group = limiter.group(bounds);
  await group?.add(4242);
  const path = join(slice, groupsIn(slice).find((name) => !before.includes(name)) ?? 'none');
  t.equal(readLimit(path, 'memory.max'), '268435456');
  t.equal(readLimit(path, 'memory.swap.max'), '0');
  t.equal(readLimit(path, 'pids.max'), '48');
  t.equal(readLimit(path, 'cpu.weight'), '50');
  t.equal(readLimit(path, 'cgroup.procs'), '4242');
  t.equal(group?.ranOutOfMemory(), false, 'no event yet');
  writeFileSync(join(path, 'memory.events'), 'low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\n');
  t.equal(group?.ranOutOfMemory(), false, 'refused memory ends no process');
  writeFileSync(join(path, 'memory.events'), 'low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n');
  t.equal(group?.ranOutOfMemory(), false, 'the container or the machine was out of memory');
  writeFileSync(join(path, 'memory.events'), 'low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n');
  t.equal(group?.ranOutOfMemory(), true);
  group?.setCpuClasses({ child: 'idle', account: 'normal' });
  await written(join(path, 'cpu.idle'), '1');
  writeFileSync(join(path, 'cpu.weight'), '100');
  group?.setCpuClasses({ child: 'normal', account: 'normal' });
  await written(join(path, 'cpu.weight'), '50');
  t.equal(readLimit(path, 'cpu.idle'), '0', 'the kernel forgets the weight with the idle class');
});

t.test('version 2: a service that owns its own group alone makes them below it', async (t) => {
  const root = await temporaryFolder(t);
  const own = join(root, 'system.slice/bulkhead.service');
  mkdirSync(own, { recursive: true });
  // Root can write any file, but not a folder in its place.
  for (const above of [root, join(root, 'system.slice')]) mkdirSync(join(above, 'cgroup.subtree_control'));
  writeFileSync(join(own, 'cgroup.subtree_control'), 'cpu memory pids\n');
  t.equal(findLimiter({ root, memberships }).kind, 'cgroup2');
  t.equal(groupsIn(own).length, 1, 'there the trial was made');
});

t.test('version 2: controllers are enabled, and only those that the kernel confirms are reported', async (t) => {
  const { root, slice } = await version2(t, '');
  // The kernel would add each controller to the list; a file contains only the last write.
  t.equal(findLimiter({ root, memberships }).kind, 'rlimit');
  t.equal(readLimit(slice, 'cgroup.subtree_control'), '+cpu', 'asked for one by one, memory first');
  t.same(groupsIn(slice), []);
});

t.test('version 2 without a memory controller, and nothing else: no groups', async (t) => {
  const root = await temporaryFolder(t);
  t.equal(findLimiter({ root, memberships: '0::/\n' }).kind, 'rlimit');
  t.same(readdirSync(root), [], 'nothing is left of the attempt');
});

t.test('a group above the root is not used', async (t) => {
  const folder = await temporaryFolder(t);
  const root = join(folder, 'cgroup');
  mkdirSync(root);
  writeFileSync(join(folder, 'cgroup.subtree_control'), 'memory');
  t.equal(findLimiter({ root, memberships: '0::/\n' }).kind, 'rlimit');
});

t.test('version 1: a group in each hierarchy, with the file names of that version', async (t) => {
  const root = await temporaryFolder(t);
  for (const name of ['memory/a', 'pids/b', 'cpu/c']) mkdirSync(join(root, name), { recursive: true });
  const limiter = findLimiter({ root, memberships: '8:pids:/b\n4:memory:/a\n1:cpu:/c\n0::/\n' });
  t.equal(limiter.kind, 'cgroup1');
  const before = groupsIn(join(root, 'memory/a'));
  const group = limiter.group(bounds);
  await group?.add(4242);
  const name = groupsIn(join(root, 'memory/a')).find((each) => !before.includes(each)) ?? 'none';
  t.equal(readLimit(join(root, 'memory/a', name), 'memory.limit_in_bytes'), '268435456');
  t.equal(readLimit(join(root, 'memory/a', name), 'memory.memsw.limit_in_bytes'), '268435456');
  t.equal(readLimit(join(root, 'pids/b', name), 'pids.max'), '48');
  t.equal(readLimit(join(root, 'cpu/c', name), 'cpu.shares'), '512');
  for (const at of ['memory/a', 'pids/b', 'cpu/c']) t.equal(readLimit(join(root, at, name), 'cgroup.procs'), '4242');
  writeFileSync(join(root, 'memory/a', name, 'memory.oom_control'), 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n');
  t.equal(group?.ranOutOfMemory(), false, 'the container or the machine was out of memory');
  writeFileSync(join(root, 'memory/a', name, 'memory.max_usage_in_bytes'), '150000000\n');
  t.equal(group?.ranOutOfMemory(), false, 'it was far below its limit');
  writeFileSync(join(root, 'memory/a', name, 'memory.memsw.max_usage_in_bytes'), '268431360\n');
  t.equal(group?.ranOutOfMemory(), true);
});

t.test('a child that is killed for the limit of its account has run out of memory', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids\n');
  const limiter = findLimiter({ root, memberships });
  const before = groupsIn(slice);
  const group = limiter.group(bounds);
  group?.assignAccount({ id: 'ann', residentBytes: 1_073_741_824 });
  await group?.add(4242);
  const account = join(slice, groupsIn(slice).find((name) => !before.includes(name)) ?? 'none');
  writeFileSync(join(account, groupsIn(account)[0] ?? 'none', 'memory.events'), 'oom 0\noom_kill 1\n');
  writeFileSync(join(account, 'memory.events'), 'oom 1\noom_kill 1\n');
  writeFileSync(join(account, 'memory.events.local'), 'oom 0\noom_kill 0\n');
  t.equal(group?.ranOutOfMemory(), false, 'only another child of the account has reached its limit');
  writeFileSync(join(account, 'memory.events.local'), 'oom 1\noom_kill 0\n');
  t.equal(group?.ranOutOfMemory(), true);
});

t.test('version 1: an account’s group contains those of its children and has a CPU class of its own', async (t) => {
  const root = await temporaryFolder(t);
  for (const name of ['memory/a', 'pids/b', 'cpu/c']) mkdirSync(join(root, name), { recursive: true });
  const limiter = findLimiter({ root, memberships: '8:pids:/b\n4:memory:/a\n1:cpu:/c\n0::/\n' });
  const account = { id: 'ann', residentBytes: 1_073_741_824 };
  const before = groupsIn(join(root, 'memory/a'));
  // The first is assigned before its group exists, as on demand; the second as a spare that runs already.
  const onDemand = limiter.group(bounds);
  onDemand?.assignAccount(account);
  const spare = limiter.group(bounds);
  await Promise.all([onDemand?.add(4242), spare?.add(4243)]);
  spare?.assignAccount(account);
  const isNew = (name: string) => !before.includes(name);
  const all = () => groupsIn(join(root, 'memory/a')).filter(isNew);
  const folder = () => all().find((name) => groupsIn(join(root, 'memory/a', name)).length === 2) ?? 'none';
  while (folder() === 'none') await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(readLimit(join(root, 'memory/a', folder()), 'memory.limit_in_bytes'), '1073741824');
  t.equal(readLimit(join(root, 'cpu/c', folder()), 'cpu.shares'), '1024');
  const children = groupsIn(join(root, 'memory/a', folder()));
  const read = (base: string, file: string) =>
    children.map((name) => readLimit(join(root, base, folder(), name), file));
  // The second child moves in the background: its process is written last.
  await written(join(root, 'cpu/c', folder(), children[1] ?? '', 'cgroup.procs'), '4243');
  t.same(read('memory/a', 'memory.limit_in_bytes'), ['268435456', '268435456']);
  t.same(read('memory/a', 'cgroup.procs'), ['4242', '4243']);
  const weight = join(root, 'cpu/c', folder(), 'cpu.shares');
  const idle = join(root, 'cpu/c', folder(), 'cpu.idle');
  // Without waiting: on a saturated machine a change that waits for a thread comes seconds late.
  spare?.setCpuClasses({ child: 'normal', account: 'light' });
  t.equal(readFileSync(weight, 'utf8'), '4096');
  spare?.setCpuClasses({ child: 'normal', account: 'reduced' });
  t.equal(readFileSync(weight, 'utf8'), '205');
  t.equal(readFileSync(idle, 'utf8'), '0');
  onDemand?.setCpuClasses({ child: 'idle', account: 'idle' });
  t.equal(readFileSync(idle, 'utf8'), '1');
  const readIdle = (name: string) => {
    const path = join(root, 'cpu/c', folder(), name, 'cpu.idle');
    return existsSync(path) ? readFileSync(path, 'utf8') : 'unchanged';
  };
  t.same(children.map(readIdle).sort(), ['1', 'unchanged']);
  onDemand?.setCpuClasses({ child: 'normal', account: 'normal' });
  t.equal(readFileSync(weight, 'utf8'), '1024');
  t.equal(readFileSync(idle, 'utf8'), '0');
});

t.test('accounts of the same class share its weight, light ones do not', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids\n');
  const limiter = findLimiter({ root, memberships });
  const before = groupsIn(slice);
  const children = new Map(
    ['ann', 'ben', 'cid', 'dan'].map((id) => {
      const group = limiter.group(bounds);
      group?.assignAccount({ id, residentBytes: 1_073_741_824 });
      return [id, group];
    }),
  );
  // In the order of their creation, with a child in each.
  for (const group of children.values()) await group?.add(4242);
  const folders = groupsIn(slice)
    .filter((name) => !before.includes(name))
    .sort((one, other) => Number(one.split('-')[2]) - Number(other.split('-')[2]));
  const readWeights = () => folders.map((name) => readLimit(join(slice, name), 'cpu.weight')).join(' ');
  await until(() => readWeights() === '25 25 25 25');
  children.get('ann')?.setCpuClasses({ child: 'normal', account: 'light' });
  children.get('ben')?.setCpuClasses({ child: 'normal', account: 'light' });
  await until(() => readWeights() === '400 400 50 50');
  children.get('cid')?.setCpuClasses({ child: 'normal', account: 'reduced' });
  await until(() => readWeights() === '400 400 20 100');
  children.get('dan')?.setCpuClasses({ child: 'normal', account: 'reduced' });
  await until(() => readWeights() === '400 400 10 10');
  t.pass();
});

t.test('a child that ended before it was assigned to an account does not count there', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids\n');
  const limiter = findLimiter({ root, memberships });
  const before = groupsIn(slice);
  const [ended, running] = [limiter.group(bounds), limiter.group(bounds)];
  ended?.remove();
  // Its turn comes after the removal.
  await running?.add(4242);
  ended?.assignAccount({ id: 'ann', residentBytes: 1_073_741_824 });
  const assigned = limiter.group(bounds);
  assigned?.assignAccount({ id: 'ben', residentBytes: 1_073_741_824 });
  await assigned?.add(4243);
  const accounts = groupsIn(slice).filter((name) => !before.includes(name) && groupsIn(join(slice, name)).length > 0);
  t.same(
    accounts.map((name) => readLimit(join(slice, name), 'cpu.weight')),
    ['100'],
    'ben’s group has no child of another account',
  );
});

t.test('a group in which processes start', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids\n');
  const limiter = findLimiter({ root, memberships });
  const before = groupsIn(slice);
  await limiter.startGroup()?.add(4242);
  const [name = 'none'] = groupsIn(slice).filter((each) => !before.includes(each));
  t.equal(readLimit(join(slice, name), 'cpu.weight'), '100');
  t.equal(readLimit(join(slice, name), 'cgroup.procs'), '4242');
  t.notOk(existsSync(join(slice, name, 'memory.max')), 'which limits nothing');
});

t.test('the groups of a killed supervisor are removed, those of a living one stay', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids');
  // Larger than the kernel's largest process id.
  mkdirSync(join(slice, 'bulkhead-4194305-7'));
  mkdirSync(join(slice, 'bulkhead-1-7'));
  findLimiter({ root, memberships });
  await until(() => !existsSync(join(slice, 'bulkhead-4194305-7')));
  t.ok(statSync(join(slice, 'bulkhead-1-7')).isDirectory());
});

t.test('a group that another supervisor sweeps at the same time costs no limits', async (t) => {
  const { root, slice } = await version2(t, 'cpu memory pids');
  // Listed, but its content cannot be: as one that is removed between the two.
  symlinkSync('/nowhere', join(slice, 'bulkhead-4194305-7'));
  t.equal(findLimiter({ root, memberships }).kind, 'cgroup2');
});

const written = (path: string, text: string): Promise<void> =>
  until(() => existsSync(path) && readFileSync(path, 'utf8') === text);

/** Polls, because the limiter does not await its changes. */
async function until(isDone: () => boolean): Promise<void> {
  const giveUpAt = Date.now() + 60_000;
  while (!isDone()) {
    if (Date.now() > giveUpAt) throw new Error(`never true: ${isDone}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
