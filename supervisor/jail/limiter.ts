/** Memory and process limits by control group, version 2 or 1, where one can be written; else by resource limit. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export type LimiterKind = 'cgroup2' | 'cgroup1' | 'rlimit';

/** What one child may use. */
export interface GroupBounds {
  readonly residentBytes: number;
  readonly threads: number;
  /** Share of the processor, as version 2 counts it: 100 is an ordinary process. */
  readonly cpuWeight: number;
}
/** One child's own group. */
export interface LimitedGroup {
  /** Moves a process, with its threads, under the limits. Takes the kernel some milliseconds, off this thread. */
  add(pid: number): Promise<void>;
  /** Whether the kernel has ended a process of this group for using too much memory. */
  ranOutOfMemory(): boolean;
  /**
   * Puts the group's processes behind everybody else's, or back; a new group's are not. Says nothing twice. A kernel
   * before 5.15 cannot, and nothing happens.
   */
  yieldProcessor(yields: boolean): void;
  /** Removes the group; its processes must be gone. Safe to call again. */
  remove(): void;
}
export interface Limiter {
  readonly kind: LimiterKind;
  /** One child's group with its limits. @throws where the hierarchy has vanished since start-up */
  group(bounds: GroupBounds): LimitedGroup | null;
}

/** Version 1 counts shares of the processor, 1024 of them where version 2 has a weight of 100. */
const SHARES_OF_WEIGHT = 1024 / 100;
/** The fewest that version 1 knows. */
const SHARES_MIN = 2;
/** Groups are named after the supervisor that made them, and counted over all its jails. */
let serial = 0;
const nextName = (): string => {
  serial += 1;
  return `bulkhead-${process.pid}-${serial}`;
};
const OWNER = /^bulkhead-(\d+)-/;
/** Anything a group can be made with. */
const probe: GroupBounds = { residentBytes: 67_108_864, threads: 32, cpuWeight: 100 };
/** Where control groups are, and which of them this process is in. */
export interface Hierarchy {
  readonly root: string;
  /** As `/proc/self/cgroup` has it. */
  readonly memberships: string;
}
const ownHierarchy = (): Hierarchy => ({
  root: '/sys/fs/cgroup',
  memberships: readFileSync('/proc/self/cgroup', 'utf8'),
});

const noLimiter: Limiter = { kind: 'rlimit', group: () => null };

/** Finds out, by making and removing a group, which limiter works here. */
export function findLimiter(hierarchy?: Hierarchy): Limiter {
  for (const candidate of [groupsOfVersion2, groupsOfVersion1]) {
    try {
      const limiter = candidate(hierarchy ?? ownHierarchy());
      if (!limiter) continue;
      limiter.group(probe)?.remove();
      return limiter;
    } catch {
      // Not writable, or a controller is missing: the next one.
    }
  }
  return noLimiter;
}

function ownGroups({ memberships }: Hierarchy): Map<string, string> {
  const lines = memberships.trim().split('\n');
  const rows = lines.map((line) => line.split(':'));
  return new Map(rows.flatMap(([, names = '', ...path]) => names.split(',').map((name) => [name, path.join(':')])));
}

function groupsOfVersion2(hierarchy: Hierarchy): Limiter | null {
  const own = ownGroups(hierarchy).get('');
  if (own === undefined) return null;
  const { root } = hierarchy;
  // Version 2 lets no group hold both processes and limited groups, so siblings of our own group come first.
  const base = [join(root, own, '..'), join(root, own)].find((path) => path.startsWith(root) && controls(path));
  if (base === undefined) return null;
  sweep(base);
  return {
    kind: 'cgroup2',
    group: ({ residentBytes, threads, cpuWeight }) => {
      const path = join(base, nextName());
      mkdirSync(path);
      const rules = [
        [`${path}/memory.max`, residentBytes],
        [`${path}/memory.swap.max`, 0],
        [`${path}/pids.max`, threads],
      ] as const;
      const weight = [`${path}/cpu.weight`, cpuWeight] as const;
      return groupAt([path], `${path}/memory.events`, /^oom_kill [1-9]/m, [...rules, weight], { path, weight });
    },
  };
}

/** Hands the controllers down to the groups made here. Memory must be among them; a machine may lack the others. */
function controls(path: string): boolean {
  const file = `${path}/cgroup.subtree_control`;
  const handedDown = (): string[] => readFileSync(file, 'utf8').trim().split(/\s+/);
  try {
    for (const controller of ['memory', 'pids', 'cpu'])
      if (!handedDown().includes(controller)) enable(file, controller);
    return handedDown().includes('memory');
  } catch {
    return false;
  }
}

/** One by one: a write that names one the machine has not is refused whole. */
function enable(file: string, controller: string): void {
  try {
    writeFileSync(file, `+${controller}`);
  } catch {
    // Not there, or not ours to hand down.
  }
}

function groupsOfVersion1(hierarchy: Hierarchy): Limiter | null {
  const own = ownGroups(hierarchy);
  const bases = ['memory', 'pids', 'cpu'].map((name) => {
    const path = own.get(name);
    return path === undefined ? null : join(hierarchy.root, name, path);
  });
  const [memory, pids, cpu] = bases;
  if (!memory) return null;
  for (const base of bases) if (base) sweep(base);
  return {
    kind: 'cgroup1',
    group: ({ residentBytes, threads, cpuWeight }) => {
      const name = nextName();
      const shares = Math.max(SHARES_MIN, Math.round(cpuWeight * SHARES_OF_WEIGHT));
      const at = (base: string | null | undefined) => (base ? join(base, name) : null);
      const paths = [at(memory), at(pids), at(cpu)];
      for (const path of paths) if (path) mkdirSync(path);
      const turns = paths[2] ? { path: paths[2], weight: [`${paths[2]}/cpu.shares`, shares] as const } : null;
      return groupAt(
        paths.filter((path) => path !== null),
        `${paths[0]}/memory.oom_control`,
        /^oom_kill [1-9]/m,
        [
          [`${paths[0]}/memory.limit_in_bytes`, residentBytes],
          [`${paths[0]}/memory.memsw.limit_in_bytes`, residentBytes],
          ...(paths[1] ? [[`${paths[1]}/pids.max`, threads] as const] : []),
          ...(turns ? [turns.weight] : []),
        ],
        turns,
      );
    },
  };
}

type Rule = readonly [file: string, value: number];

function groupAt(
  paths: readonly string[],
  outcome: string,
  killed: RegExp,
  limits: readonly Rule[],
  cpu: { readonly path: string; readonly weight: Rule } | null,
): LimitedGroup {
  let isBehind = false;
  let yielding: Promise<unknown> = Promise.resolve();
  for (const [index, [file, value]] of limits.entries()) {
    try {
      writeFileSync(file, String(value));
    } catch (error) {
      // Swap accounting and the CPU controller may be compiled out; the memory limit, which comes first, may not.
      if (index === 0) throw error;
    }
  }
  return {
    add: async (pid) => {
      await Promise.all(paths.map((path) => writeFile(`${path}/cgroup.procs`, String(pid))));
    },
    ranOutOfMemory: () => {
      try {
        return killed.test(readFileSync(outcome, 'utf8'));
      } catch {
        return false;
      }
    },
    yieldProcessor: (yields) => {
      if (!cpu || yields === isBehind) return;
      isBehind = yields;
      yielding = yielding
        .then(() => writeFile(`${cpu.path}/cpu.idle`, yields ? '1' : '0'))
        // Leaving the idle class makes it an ordinary group, whatever it was before.
        .then(() => (yields ? undefined : writeFile(cpu.weight[0], String(cpu.weight[1]))))
        // Gone with its process, or without the controller.
        .catch(() => undefined);
    },
    remove: () => {
      for (const path of paths) removeGroup(path);
    },
  };
}

/** Removes the groups that a killed supervisor left behind; those of one that runs are its own. */
function sweep(base: string): void {
  for (const name of readdirSync(base)) {
    const owner = OWNER.exec(name)?.[1];
    // Process ids come round again: before this process has made a group, those of its id are a dead one's.
    const own = owner === String(process.pid) && serial === 0;
    if (own || (owner !== undefined && !existsSync(`/proc/${owner}`))) removeGroup(join(base, name));
  }
}

/** The kernel may not quite have let go of the last process, as with one group of a thousand: asked again, and again. */
const TRY_AGAIN_MS = 250;
const TRIES = 40;

function removeGroup(path: string, tries = TRIES): void {
  try {
    rmdirSync(path);
  } catch (error) {
    // Gone already; or busy for good, and then a later start sweeps it.
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || tries === 0) return;
    setTimeout(removeGroup, TRY_AGAIN_MS, path, tries - 1).unref();
  }
}
