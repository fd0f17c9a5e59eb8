/**
 * Children are spawned and killed at every stage of their lives. They leave no process, zombie, file, control group or
 * descriptor behind, and leak no memory of the supervisor.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Child, startChild } from '../../../supervisor/children/child.ts';
import { makeJail } from '../../../supervisor/jail/jail.ts';
import { findLimiter } from '../../../supervisor/jail/limiter.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';
import { childProgram } from '../../runner/child-program.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { seededRandom } from '../../runner/random.ts';
import { amount } from '../../runner/soak.ts';
import { bundleOf, callTool, toolOf } from './jailed-child.ts';

const CYCLES = amount({ quick: 10, soak: 10_000 });
const random = seededRandom();
/** Cycles before the first measurement, in which everything that is created only once is created. */
const WARM_UP = Math.min(200, CYCLES / 2.5);
/** Enough to keep two cores busy. */
const AT_ONCE = 4;
/** Noise of the garbage collector, bytes. Leaking one child’s pipes per cycle would be 40 times as much. */
const HEAP_SLACK = 3_000_000;
const RESIDENT_SLACK = 30_000_000;
/** Found once, because that makes a group itself. */
const limiterKind = findLimiter().kind;
/** No other jail on this machine has this heap size, which identifies the processes of this test. */
const HEAP_MEGABYTES = 100 + (process.pid % 10_000);

/** How far a child gets before it is killed. */
const stages: readonly ((child: Child) => unknown)[] = [
  () => undefined,
  (child) => child.ready,
  // While bubblewrap builds the jail.
  () => new Promise((resolve) => setTimeout(resolve, random.integer(0, 20))),
  (child) => child.load(bundleOf(toolOf('for (;;);'))),
  async (child) => {
    await child.load(bundleOf(toolOf('await host.storage.get("x"); for (;;);'), { members: ['storage.get'] }));
    // Killed while a handler runs.
    callTool(child, 'run').catch(() => undefined);
  },
];

t.test(`${CYCLES} children later nothing is left`, async (t) => {
  const directory = await temporaryFolder(t);
  const jail = makeJail({ directory, program: await childProgram(), heapMegabytes: HEAP_MEGABYTES });
  const handlers = { onHostCall: () => Promise.resolve(null), onLog: () => undefined, onExit: () => undefined };
  let begun = 0;
  let ended = 0;
  let late = 0;
  const cycle = async (): Promise<void> => {
    const reach = stages[begun % stages.length];
    begun += 1;
    const child = startChild(jail, handlers);
    try {
      await reach?.(child);
    } catch {
      // If the machine needs ten seconds for a start, the child is killed at an earlier stage than intended.
      late += 1;
    }
    const end = await child.kill('next');
    if (end.gone) ended += 1;
  };
  const until = async (total: number): Promise<void> => {
    const runWorker = async () => {
      while (begun < total) await cycle();
    };
    await Promise.all(Array.from({ length: AT_ONCE }, runWorker));
  };
  await until(WARM_UP);
  const before = { ...(await settled()), files: readdirSync(directory) };
  await until(CYCLES);
  t.equal(ended, CYCLES, 'each is verified gone');
  const after = await settled();
  t.ok(after.open <= before.open, `${before.open} descriptors before, ${after.open} after`);
  t.same(ownProcesses(), [], 'no process is left, and no zombie');
  t.same(readdirSync(directory), before.files, 'no file is left');
  await eventually(async () => ownGroups().length === 0);
  t.pass('no control group is left');
  t.ok(after.heap - before.heap < HEAP_SLACK, `${megabytes(after.heap - before.heap)} MB more on the heap`);
  t.ok(after.rss - before.rss < RESIDENT_SLACK, `${megabytes(after.rss - before.rss)} MB more resident`);
  t.ok(late <= CYCLES / 10, `${late} were not ready in time`);
  t.comment(
    `heap ${megabytes(before.heap)} → ${megabytes(after.heap)} MB, resident ${megabytes(before.rss)} → ${megabytes(after.rss)} MB`,
  );
});

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

/** Measures descriptors and memory after the last child's resources are released. */
async function settled(): Promise<{ open: number; heap: number; rss: number }> {
  await eventually(async () => ownProcesses().length === 0);
  const { heapUsed, rss } = await collectGarbage();
  return { open: readdirSync('/proc/self/fd').length, heap: heapUsed, rss };
}

/** Lists the processes of this test's jail: children of this process, including zombies, and orphans. */
function ownProcesses(): string[] {
  const mark = `--max-old-space-size=${HEAP_MEGABYTES}\0`;
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    const [, name = '', state = '', parent = ''] = /^\d+ \((.*)\) (\S) (\d+)/s.exec(read(pid, 'stat')) ?? [];
    const ours = parent === String(process.pid) || read(pid, 'cmdline').includes(mark);
    return ours ? [`${pid} ${name} ${state}`] : [];
  });
}

function read(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** Lists the control groups of either version that this process has created. */
function ownGroups(): string[] {
  if (limiterKind === 'rlimit') return [];
  const lines = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
  return lines.flatMap((line) => {
    const [, controllers = '', path = ''] = line.split(':');
    const bases = [join('/sys/fs/cgroup', controllers, path), join('/sys/fs/cgroup', controllers, path, '..')];
    return bases.flatMap((base) => listed(base).filter((name) => name.startsWith(`bulkhead-${process.pid}-`)));
  });
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
