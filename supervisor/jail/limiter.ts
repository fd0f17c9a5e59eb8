/** Limits memory, threads and CPU by control groups of version 2 or 1. Without writable ones, rlimits remain. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export type LimiterKind = 'cgroup2' | 'cgroup1' | 'rlimit';

/** Limits of one child. */
export interface GroupBounds {
  readonly residentBytes: number;
  readonly threads: number;
  /** Weight of version 2: 100 is an ordinary process. */
  readonly cpuWeight: number;
}
/** The control group of one child. */
export interface LimitedGroup {
  /** Moves a process with its threads into the group. Asynchronous, because the kernel takes some milliseconds. */
  add(pid: number): Promise<void>;
  /** Whether the kernel has killed a process of this group for exceeding the memory limit. */
  ranOutOfMemory(): boolean;
  /**
   * Moves the group to the idle CPU class, or back. Repeated calls with the same value write nothing. No effect on kernels
   * before 5.15.
   */
  yieldProcessor(yields: boolean): void;
  /** Removes the group, whose processes must have ended. Idempotent. */
  remove(): void;
}
export interface Limiter {
  readonly kind: LimiterKind;
  /** Creates the group of one child. @throws if the hierarchy is gone */
  group(bounds: GroupBounds): LimitedGroup | null;
}

/** 1024 CPU shares of version 1 equal a weight of 100 of version 2. */
const SHARES_OF_WEIGHT = 1024 / 100;
/** Minimum of version 1. */
const SHARES_MIN = 2;
/** Group names contain the supervisor's process id and a number that is unique across its jails. */
let serial = 0;
const nextName = (): string => {
  serial += 1;
  return `bulkhead-${process.pid}-${serial}`;
};
const OWNER = /^bulkhead-(\d+)-/;
/** Limits of the group that is made to test the hierarchy. */
const probe: GroupBounds = { residentBytes: 67_108_864, threads: 32, cpuWeight: 100 };
/** Mount point of the control groups, and the groups of this process. */
export interface Hierarchy {
  readonly root: string;
  /** Content of `/proc/self/cgroup`. */
  readonly memberships: string;
}
const ownHierarchy = (): Hierarchy => ({
  root: '/sys/fs/cgroup',
  memberships: readFileSync('/proc/self/cgroup', 'utf8'),
});

const noLimiter: Limiter = { kind: 'rlimit', group: () => null };

/** Finds the limiter that works here, by making and removing a group. */
export function findLimiter(hierarchy?: Hierarchy): Limiter {
  for (const candidate of [groupsOfVersion2, groupsOfVersion1]) {
    try {
      const limiter = candidate(hierarchy ?? ownHierarchy());
      if (!limiter) continue;
      limiter.group(probe)?.remove();
      return limiter;
    } catch {
      // Not writable, or a controller is missing: try the next one.
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
  // In version 2 a group cannot contain both processes and limited groups, so siblings of the own group are tried first.
  const base = [join(root, own, '..'), join(root, own)].find(
    (path) => path.startsWith(root) && enableControllers(path),
  );
  if (base === undefined) return null;
  sweepGroups(base);
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

/** Enables the controllers for child groups. @returns whether memory is enabled; the others are optional */
function enableControllers(path: string): boolean {
  const file = `${path}/cgroup.subtree_control`;
  const readEnabled = (): string[] => readFileSync(file, 'utf8').trim().split(/\s+/);
  try {
    for (const controller of ['memory', 'pids', 'cpu'])
      if (!readEnabled().includes(controller)) enableController(file, controller);
    return readEnabled().includes('memory');
  } catch {
    return false;
  }
}

/** One controller per write, because the kernel rejects a write that names a missing one. */
function enableController(file: string, controller: string): void {
  try {
    writeFileSync(file, `+${controller}`);
  } catch {
    // The controller is missing or not delegated to this process.
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
  for (const base of bases) if (base) sweepGroups(base);
  return {
    kind: 'cgroup1',
    group: ({ residentBytes, threads, cpuWeight }) => {
      const name = nextName();
      const shares = Math.max(SHARES_MIN, Math.round(cpuWeight * SHARES_OF_WEIGHT));
      const paths = [memory, pids, cpu].map((base) => (base ? join(base, name) : null));
      for (const path of paths) if (path) mkdirSync(path);
      const cpuGroup = paths[2] ? { path: paths[2], weight: [`${paths[2]}/cpu.shares`, shares] as const } : null;
      return groupAt(
        paths.filter((path) => path !== null),
        `${paths[0]}/memory.oom_control`,
        /^oom_kill [1-9]/m,
        [
          [`${paths[0]}/memory.limit_in_bytes`, residentBytes],
          [`${paths[0]}/memory.memsw.limit_in_bytes`, residentBytes],
          ...(paths[1] ? [[`${paths[1]}/pids.max`, threads] as const] : []),
          ...(cpuGroup ? [cpuGroup.weight] : []),
        ],
        cpuGroup,
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
  let isIdleClass = false;
  let yielding: Promise<unknown> = Promise.resolve();
  for (const [index, [file, value]] of limits.entries()) {
    try {
      writeFileSync(file, String(value));
    } catch (error) {
      // Swap accounting and the CPU controller are optional in the kernel. The memory limit, which is first, is required.
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
      if (!cpu || yields === isIdleClass) return;
      isIdleClass = yields;
      yielding = yielding
        .then(() => writeFile(`${cpu.path}/cpu.idle`, yields ? '1' : '0'))
        // Leaving the idle class resets the weight.
        .then(() => (yields ? undefined : writeFile(cpu.weight[0], String(cpu.weight[1]))))
        // The group is removed or has no CPU controller.
        .catch(() => undefined);
    },
    remove: () => {
      for (const path of paths) removeGroup(path);
    },
  };
}

/** Removes the groups of supervisors that no longer run. */
function sweepGroups(base: string): void {
  for (const name of readdirSync(base)) {
    const owner = OWNER.exec(name)?.[1];
    // Process ids are reused: groups with this process's id, found before it made one, belong to a dead supervisor.
    const own = owner === String(process.pid) && serial === 0;
    if (own || (owner !== undefined && !existsSync(`/proc/${owner}`))) removeGroup(join(base, name));
  }
}

/** The kernel may report a group as busy shortly after its last process has ended; about one in a thousand. Milliseconds. */
const RETRY_MS = 250;
const TRIES = 40;

function removeGroup(path: string, tries = TRIES): void {
  try {
    rmdirSync(path);
  } catch (error) {
    // Already removed, or still busy after all tries: the next supervisor's start removes it.
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || tries === 0) return;
    setTimeout(removeGroup, RETRY_MS, path, tries - 1).unref();
  }
}
