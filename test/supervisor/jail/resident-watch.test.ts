/** Which processes the memory check kills where there are no control groups. */
import t from 'tap';
import { watchResident } from '../../../supervisor/jail/resident-watch.ts';
import type { ExitInfo, WatchedProcess } from '../../../supervisor/jail/watched-process.ts';

const RESIDENT_MAX = 256;
/** Resident bytes of a process that are pages of files. */
const SHARED = 40;

interface FakeProcess extends WatchedProcess {
  readonly kills: number;
}

/** A process that uses this much memory until `end`, also when it has been killed. */
function fakeProcess(unshared: number): FakeProcess & { end(): void } {
  const exit = Promise.withResolvers<ExitInfo>();
  let kills = 0;
  return {
    confined: Promise.resolve(),
    exited: exit.promise,
    pid: 1,
    terminate: () => undefined,
    kill: () => {
      kills += 1;
    },
    get kills() {
      return kills;
    },
    end: () => exit.resolve({ code: null, signal: 'SIGKILL', outOfMemory: false, gone: true }),
    rss: () => unshared + SHARED,
    unsharedBytes: () => unshared,
    processorMs: () => 0,
    cpuDemand: () => ({ hadMs: 0, waitedMs: 0, isRunnable: false }),
    setCpuClasses: () => undefined,
  };
}

/** Resolves after the next check. */
function nextCheck(watch: ReturnType<typeof watchResident>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const rss = (): number => {
    setImmediate(resolve);
    return 0;
  };
  watch.add({ ...fakeProcess(0), rss }, RESIDENT_MAX);
  return promise;
}

t.test('an account that exceeds its limit loses its largest processes, and no other account does', async (t) => {
  const watch = watchResident();
  // The timer of the watch does not keep this process alive.
  const alive = setInterval(() => undefined, 60_000);
  t.teardown(() => clearInterval(alive));
  const add = (unshared: number, id: string | null, residentBytes = 500) => {
    const watched = fakeProcess(unshared);
    watch.add(watched, RESIDENT_MAX);
    if (id !== null) watch.assignAccount(watched, { id, residentBytes });
    return watched;
  };
  const greedy = [150, 200, 100, 210, 120].map((unshared) => add(unshared, 'greedy'));
  const fitting = [100, 190, 200].map((unshared) => add(unshared, 'fitting'));
  const unlimited = [200, 210, 215].map((unshared) => add(unshared, 'unlimited', Number.MAX_SAFE_INTEGER));
  const spares = [200, 210, 215].map((unshared) => add(unshared, null));
  const oversized = add(250, 'alone');
  const killsOf = (processes: readonly FakeProcess[]) => processes.map(({ kills }) => kills);
  for (const name of ['first', 'second']) {
    await nextCheck(watch);
    t.same(killsOf(greedy), [0, 1, 0, 1, 0], `${name}: the two that bring it below its limit`);
    t.same(killsOf(fitting), [0, 0, 0], `${name}: pages that processes share count once`);
    t.same(killsOf(unlimited), [0, 0, 0]);
    t.same(killsOf(spares), [0, 0, 0], `${name}: they belong to no account`);
    t.same(killsOf([oversized]), [1]);
  }
  const all = [...greedy, ...fitting, ...unlimited, ...spares, oversized];
  for (const each of all) each.end();
  const [ended, largest, alone] = await Promise.all([greedy[0]?.exited, greedy[3]?.exited, oversized.exited]);
  t.match(ended, { outOfMemory: false });
  t.match(largest, { outOfMemory: true, accountOutOfMemory: true });
  t.match(alone, { outOfMemory: true, accountOutOfMemory: false });
});
