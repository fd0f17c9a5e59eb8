/** Limits memory, threads and CPU by control groups of version 2 or 1. Without writable ones, rlimits remain. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
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
  /** Moves a process with its threads into the group, once that has its limits. Rejects if the hierarchy is gone. */
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
  /** Begins to create the group of one child. */
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
/** What the file that counts kills contains after one. */
const KILLED = /^oom_kill [1-9]/m;
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

/** A writable hierarchy. */
interface Groups {
  readonly kind: LimiterKind;
  /** Describes the group of the next child. */
  describe(bounds: GroupBounds): GroupDescription;
}
interface GroupDescription {
  /** The group's folder in each hierarchy. */
  readonly paths: readonly string[];
  /** The memory limit, which is required, and the optional ones: the kernel may lack swap accounting and the CPU controller. */
  readonly limits: readonly [memory: Rule, ...others: Rule[]];
  /** The file that counts kills. */
  readonly outcome: string;
  readonly cpu: { readonly path: string; readonly weight: Rule } | null;
}
type Rule = readonly [file: string, value: number];

const noLimiter: Limiter = { kind: 'rlimit', group: () => null };

/** Finds the limiter that works here, by making and removing a group. */
export function findLimiter(hierarchy?: Hierarchy): Limiter {
  for (const candidate of [groupsOfVersion2, groupsOfVersion1]) {
    try {
      const groups = candidate(hierarchy ?? ownHierarchy());
      if (!groups) continue;
      tryGroup(groups.describe(probe));
      return { kind: groups.kind, group: (bounds) => new Group(groups.describe(bounds)) };
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

function groupsOfVersion2(hierarchy: Hierarchy): Groups | null {
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
    describe: ({ residentBytes, threads, cpuWeight }) => {
      const path = join(base, nextName());
      const weight = [`${path}/cpu.weight`, cpuWeight] as const;
      return {
        paths: [path],
        limits: [
          [`${path}/memory.max`, residentBytes],
          [`${path}/memory.swap.max`, 0],
          [`${path}/pids.max`, threads],
          weight,
        ],
        outcome: `${path}/memory.events`,
        cpu: { path, weight },
      };
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

function groupsOfVersion1(hierarchy: Hierarchy): Groups | null {
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
    describe: ({ residentBytes, threads, cpuWeight }) => {
      const name = nextName();
      const at = (base: string | null | undefined) => (base ? join(base, name) : null);
      const [memoryPath, pidsPath, cpuPath] = [join(memory, name), at(pids), at(cpu)];
      const shares = Math.max(SHARES_MIN, Math.round(cpuWeight * SHARES_OF_WEIGHT));
      const cpuGroup = cpuPath ? { path: cpuPath, weight: [`${cpuPath}/cpu.shares`, shares] as const } : null;
      return {
        paths: [memoryPath, pidsPath, cpuPath].filter((path) => path !== null),
        limits: [
          [`${memoryPath}/memory.limit_in_bytes`, residentBytes],
          [`${memoryPath}/memory.memsw.limit_in_bytes`, residentBytes],
          ...(pidsPath ? [[`${pidsPath}/pids.max`, threads] as const] : []),
          ...(cpuGroup ? [cpuGroup.weight] : []),
        ],
        outcome: `${memoryPath}/memory.oom_control`,
        cpu: cpuGroup,
      };
    },
  };
}

/** Creates and removes a group. @throws if that or its memory limit is refused */
function tryGroup({ paths, limits: [[file, value]] }: GroupDescription): void {
  try {
    for (const path of paths) mkdirSync(path);
    writeFileSync(file, String(value));
  } finally {
    for (const path of paths) removeGroup(path);
  }
}

/**
 * All changes of groups, one after the other. The kernel makes one at a time anyway, and each may wait for every process of the
 * machine that is just forking: up to half a second on a busy machine. So none is made on the event loop, and no more than one
 * holds a thread of the pool, which also reads files and computes signatures.
 */
let changes: Promise<unknown> = Promise.resolve();
function changeInTurn<T>(change: () => Promise<T>): Promise<T> {
  const changed = changes.then(change);
  changes = changed.catch(() => undefined);
  return changed;
}

class Group implements LimitedGroup {
  readonly #description: GroupDescription;
  readonly #created: Promise<void>;
  #isIdleClass = false;

  constructor(description: GroupDescription) {
    this.#description = description;
    this.#created = changeInTurn(() => this.#create());
    // `add` reports the error.
    this.#created.catch(() => undefined);
  }

  async #create(): Promise<void> {
    const { paths, limits } = this.#description;
    const [[memoryFile, memoryBytes], ...others] = limits;
    for (const path of paths) await mkdir(path);
    await writeFile(memoryFile, String(memoryBytes));
    for (const [file, value] of others) await writeFile(file, String(value)).catch(() => undefined);
  }

  async add(pid: number): Promise<void> {
    await this.#created;
    await changeInTurn(async () => {
      for (const path of this.#description.paths) await writeFile(`${path}/cgroup.procs`, String(pid));
    });
  }

  ranOutOfMemory(): boolean {
    try {
      return KILLED.test(readFileSync(this.#description.outcome, 'utf8'));
    } catch {
      return false;
    }
  }

  yieldProcessor(yields: boolean): void {
    const { cpu } = this.#description;
    if (!cpu || yields === this.#isIdleClass) return;
    this.#isIdleClass = yields;
    changeInTurn(async () => {
      await writeFile(`${cpu.path}/cpu.idle`, yields ? '1' : '0');
      // Leaving the idle class resets the weight.
      if (!yields) await writeFile(cpu.weight[0], String(cpu.weight[1]));
      // The group is removed or has no CPU controller.
    }).catch(() => undefined);
  }

  remove(): void {
    for (const path of this.#description.paths) removeGroup(path);
  }
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
  changeInTurn(() => rmdir(path)).catch((error: NodeJS.ErrnoException) => {
    // Already removed, or still busy after all tries: the next supervisor's start removes it.
    if (error.code !== 'EBUSY' || tries === 0) return;
    setTimeout(removeGroup, RETRY_MS, path, tries - 1).unref();
  });
}
