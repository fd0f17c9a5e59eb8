/** Limits memory, threads and CPU by control groups of version 2 or 1. Without writable ones, rlimits remain. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listFolder } from './list-folder.ts';

export type LimiterKind = 'cgroup2' | 'cgroup1' | 'rlimit';

interface GroupBounds {
  readonly residentBytes: number;
  readonly threads: number;
  /** Weight of version 2: 100 is an ordinary process. */
  readonly cpuWeight: number;
}
/** How a child and its account compete for the CPU. */
export interface CpuClasses {
  /** `idle`: runs only while nothing else of its account wants to. */
  readonly child: 'normal' | 'idle';
  /** `light` has more weight, `reduced` has less. `idle`: runs only while nothing else wants to. */
  readonly account: 'light' | 'normal' | 'reduced' | 'idle';
}
/** An account whose children share limits of their own. */
export interface AccountBounds {
  readonly id: string;
  readonly residentBytes: number;
}
export interface LimitedGroup {
  /**
   * Puts the group below that of an account, which has its own memory limit and as much CPU as any other account. Has no effect
   * where groups cannot be nested. Call it at most once.
   */
  assignAccount(account: AccountBounds): void;
  /** Moves a process with its threads into the group, once that has its limits. Rejects if the hierarchy is gone. */
  add(pid: number): Promise<void>;
  /**
   * Whether the kernel has killed a process of this group because the group or its account exceeded a memory limit. False if the
   * container or the machine was out of memory.
   */
  ranOutOfMemory(): boolean;
  /**
   * Changes the CPU classes of the group and of its account. Repeated calls with the same values write nothing. Kernels before
   * 5.15 know no idle class: there only the account's weight changes.
   */
  setCpuClasses(classes: CpuClasses): void;
  /** Removes the group, whose processes must have ended. Idempotent. */
  remove(): void;
}
/** The group in which processes start, until they have groups of their own. It limits nothing. */
interface StartGroup {
  /** Moves a process into the group. Processes that it starts from then on are in the group, too. */
  add(pid: number): Promise<void>;
  /** Removes the group, once its processes have ended. */
  remove(): void;
}
export interface Limiter {
  readonly kind: LimiterKind;
  /** Begins to create the group of one child. */
  group(bounds: GroupBounds): LimitedGroup | null;
  /** Begins to create a group in which processes start. */
  startGroup(): StartGroup | null;
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
/** Matches the file that counts kills after at least one kill, for whatever limit: its own, the container's or the machine's memory. */
const KILLED = /^oom_kill [1-9]/m;
/** Matches the file of version 2 that counts how often a group found no memory within its limit. */
const LIMIT_REACHED = /^oom [1-9]/m;
/** How far below its limit a group of version 1 may be when the kernel kills: it charges up to 64 pages at once, and kills for up to 8. */
const LIMIT_SLACK_BYTES = 72 * 4_096;
const OWNER = /^bulkhead-(\d+)-/;
/** CPU weight of an account with all its children: an ordinary process has as much. */
const ACCOUNT_CPU_WEIGHT = 100;
/**
 * The part of `ACCOUNT_CPU_WEIGHT` that an account gets in each class. The processes of a light account share its weight
 * between the processors and use little, so more weight only shortens their waits. All normal accounts share one weight, and
 * all reduced ones another: API, supervisor and PostgreSQL have no more than one each for all their threads. A reduced account
 * is not idle, so that none of its children starves.
 */
const WEIGHT_PARTS: Readonly<Record<CpuClasses['account'], number>> = { light: 4, normal: 1, reduced: 0.2, idle: 0.2 };
const SHARING_CLASSES = ['normal', 'reduced'] as const;
/** Share of its weight that an idle child keeps where the kernel knows no idle class. */
const IDLE_PART = 0.2;
/** CPU weight of all processes that start together. Without this group each would have as much. */
const START_CPU_WEIGHT = 100;
/** Minimum of version 2. */
const WEIGHT_MIN = 1;
/** Threads of an account: each child has its own limit, and this one bounds their sum. */
const ACCOUNT_THREADS = 32_768;
/** Limits of the group that is made to test the hierarchy. */
const probe: GroupBounds = { residentBytes: 67_108_864, threads: 32, cpuWeight: 100 };
/** Mount point of the control groups, and the groups of this process. */
interface Hierarchy {
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
  /** Describes the next group, below that of an account if its name is given. */
  describe(bounds: GroupBounds, accountName?: string): GroupDescription;
}
interface GroupDescription {
  readonly name: string;
  /** The group's folder in each hierarchy. */
  readonly paths: readonly string[];
  /** The memory limit, which is required, and the optional ones: the kernel may lack swap accounting and the CPU controller. */
  readonly limits: readonly [memory: Rule, ...others: Rule[]];
  /** The file that counts kills. */
  readonly outcome: string;
  /** Whether the group has reached its own memory limit. */
  hasReachedLimit(): boolean;
  readonly cpu: { readonly path: string; readonly weight: Rule } | null;
}
type Rule = readonly [file: string, value: number];

const noLimiter: Limiter = { kind: 'rlimit', group: () => null, startGroup: () => null };

/** Finds the limiter that works here, by making and removing a group. */
export function findLimiter(hierarchy?: Hierarchy): Limiter {
  for (const candidate of [groupsOfVersion2, groupsOfVersion1]) {
    try {
      const groups = candidate(hierarchy ?? ownHierarchy());
      if (!groups) continue;
      tryGroup(groups.describe(probe));
      const accounts = new AccountGroups(groups);
      return {
        kind: groups.kind,
        group: (bounds) => new Group(groups, accounts, bounds),
        startGroup: () => makeStartGroup(groups.describe(probe)),
      };
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
    describe: ({ residentBytes, threads, cpuWeight }, accountName = '') => {
      const name = nextName();
      const path = join(base, accountName, name);
      const weight = [`${path}/cpu.weight`, cpuWeight] as const;
      return {
        name,
        paths: [path],
        limits: [
          [`${path}/memory.max`, residentBytes],
          [`${path}/memory.swap.max`, 0],
          [`${path}/pids.max`, threads],
          weight,
        ],
        outcome: `${path}/memory.events`,
        // `memory.events` of an account also counts the limits of its children. Before Linux 5.2 there is no other file.
        hasReachedLimit: () =>
          LIMIT_REACHED.test(readText(`${path}/memory.events.local`) || readText(`${path}/memory.events`)),
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
    describe: ({ residentBytes, threads, cpuWeight }, accountName = '') => {
      const name = nextName();
      const at = (base: string | null | undefined) => (base ? join(base, accountName, name) : null);
      const [memoryPath, pidsPath, cpuPath] = [join(memory, accountName, name), at(pids), at(cpu)];
      const shares = Math.max(SHARES_MIN, Math.round(cpuWeight * SHARES_OF_WEIGHT));
      const cpuGroup = cpuPath ? { path: cpuPath, weight: [`${cpuPath}/cpu.shares`, shares] as const } : null;
      return {
        name,
        paths: [memoryPath, pidsPath, cpuPath].filter((path) => path !== null),
        limits: [
          [`${memoryPath}/memory.limit_in_bytes`, residentBytes],
          [`${memoryPath}/memory.memsw.limit_in_bytes`, residentBytes],
          ...(pidsPath ? [[`${pidsPath}/pids.max`, threads] as const] : []),
          ...(cpuGroup ? [cpuGroup.weight] : []),
        ],
        outcome: `${memoryPath}/memory.oom_control`,
        // Not `memory.failcnt`: some kernels leave it at 0.
        hasReachedLimit: () =>
          ['memory.max_usage_in_bytes', 'memory.memsw.max_usage_in_bytes'].some(
            (file) => Number(readText(join(memoryPath, file))) > residentBytes - LIMIT_SLACK_BYTES,
          ),
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

/** Call it in turn. */
async function createGroup({ paths, limits }: GroupDescription): Promise<void> {
  const [[memoryFile, memoryBytes], ...others] = limits;
  for (const path of paths) await mkdir(path);
  await writeFile(memoryFile, String(memoryBytes));
  for (const [file, value] of others) await writeFile(file, String(value)).catch(() => undefined);
}

/**
 * Writes the class at once and on the event loop: it takes 30 µs and waits for no fork, unlike the changes above. On the thread
 * pool of a saturated machine it takes 5 ms, so that a hundred accounts whose classes changed kept their old ones for minutes.
 * The group may not exist yet or any more; its creation sets the class again. `part`: of its weight.
 */
function writeCpuClass({ cpu }: GroupDescription, part: number, isIdle: boolean): void {
  if (!cpu) return;
  const [file, weight] = cpu.weight;
  const weightMin = file.endsWith('cpu.shares') ? SHARES_MIN : WEIGHT_MIN;
  // Leaving the idle class resets the weight, and a group of that class has none to write.
  if (!isIdle) tryWrite(`${cpu.path}/cpu.idle`, 0);
  tryWrite(file, Math.max(weightMin, Math.round(weight * part)));
  if (isIdle) tryWrite(`${cpu.path}/cpu.idle`, 1);
}
function tryWrite(file: string, value: number): void {
  try {
    writeFileSync(file, String(value));
  } catch {
    // The group does not exist, or the kernel knows no idle class.
  }
}

/** Creates a group for the CPU alone. Its memory remains that of the process that starts others. */
function makeStartGroup({ cpu }: GroupDescription): StartGroup | null {
  if (!cpu) return null;
  const { path, weight } = cpu;
  const created = changeInTurn(async () => {
    await mkdir(path);
    const [file, ordinary] = weight;
    await writeFile(file, String(Math.round((ordinary * START_CPU_WEIGHT) / probe.cpuWeight)));
  });
  // `add` reports the error.
  created.catch(() => undefined);
  return {
    add: (pid) => created.then(() => changeInTurn(() => moveProcess(pid, { paths: [path] }))),
    remove: () => removeGroup(path),
  };
}

/** The groups of all accounts that have children. Those of one class share its weight, unless they are light. */
class AccountGroups {
  readonly #groups: Groups;
  readonly #byId = new Map<string, AccountGroup>();
  constructor(groups: Groups) {
    this.#groups = groups;
  }

  findOrCreate({ id, residentBytes }: AccountBounds): AccountGroup {
    const known = this.#byId.get(id);
    if (known) return known;
    const bounds = { residentBytes, threads: ACCOUNT_THREADS, cpuWeight: ACCOUNT_CPU_WEIGHT };
    const created: AccountGroup = new AccountGroup(this.#groups.describe(bounds), {
      onEmpty: () => {
        if (this.#byId.get(id) === created) this.#byId.delete(id);
        this.#updateSharers();
      },
      onClassChange: () => this.#updateSharers(),
    });
    this.#byId.set(id, created);
    this.#updateSharers();
    return created;
  }

  /** Divides each weight by a power of two, so that it rarely changes. */
  #updateSharers(): void {
    const all = [...this.#byId.values()];
    for (const cpuClass of SHARING_CLASSES) {
      const sharing = all.filter((account) => account.cpuClass === cpuClass);
      const sharers = 2 ** Math.ceil(Math.log2(Math.max(1, sharing.length)));
      for (const account of sharing) account.setSharers(sharers);
    }
  }
}

interface AccountGroupEvents {
  onEmpty(): void;
  onClassChange(): void;
}

/** The group of an account, which exists while a child of the account does. */
class AccountGroup {
  readonly #description: GroupDescription;
  readonly #members = new Set<Group>();
  cpuClass: CpuClasses['account'] = 'normal';
  /** Between how many accounts of its class the weight is divided. */
  #sharers = 1;
  readonly #events: AccountGroupEvents;
  #created: Promise<void> | null = null;

  constructor(description: GroupDescription, events: AccountGroupEvents) {
    this.#description = description;
    this.#events = events;
  }

  get name(): string {
    return this.#description.name;
  }

  hasReachedLimit(): boolean {
    return this.#description.hasReachedLimit();
  }

  /** Creates the group unless it exists. Call it in turn. */
  create(): Promise<void> {
    this.#created ??= createGroup(this.#description).then(async () => {
      // Version 1 has no such file.
      const [path] = this.#description.paths;
      for (const controller of ['memory', 'pids', 'cpu'])
        await writeFile(`${path}/cgroup.subtree_control`, `+${controller}`, { flag: 'r+' }).catch(() => undefined);
      this.#writeClass();
    });
    return this.#created;
  }

  join(member: Group): void {
    this.#members.add(member);
  }

  leave(member: Group): void {
    if (!this.#members.delete(member) || this.#members.size > 0) return;
    this.#events.onEmpty();
    for (const path of this.#description.paths) removeGroup(path);
  }

  setCpuClass(cpuClass: CpuClasses['account']): void {
    if (cpuClass === this.cpuClass) return;
    this.cpuClass = cpuClass;
    this.#sharers = 1;
    this.#events.onClassChange();
    this.#writeClass();
  }

  setSharers(sharers: number): void {
    if (sharers === this.#sharers) return;
    this.#sharers = sharers;
    this.#writeClass();
  }

  #writeClass(): void {
    writeCpuClass(this.#description, WEIGHT_PARTS[this.cpuClass] / this.#sharers, this.cpuClass === 'idle');
  }
}

class Group implements LimitedGroup {
  readonly #groups: Groups;
  readonly #accounts: AccountGroups;
  readonly #bounds: GroupBounds;
  #description: GroupDescription;
  #account: AccountGroup | null = null;
  readonly #created: Promise<void>;
  #isCreated = false;
  #isRemoved = false;
  #pid: number | null = null;
  #cpuClass: CpuClasses['child'] = 'normal';

  constructor(groups: Groups, accounts: AccountGroups, bounds: GroupBounds) {
    this.#groups = groups;
    this.#accounts = accounts;
    this.#bounds = bounds;
    this.#description = groups.describe(bounds);
    this.#created = changeInTurn(() => this.#create());
    // `add` reports the error.
    this.#created.catch(() => undefined);
  }

  /** Creates the group, below that of its account if the account is known by now. */
  async #create(): Promise<void> {
    this.#isCreated = true;
    if (this.#account && (await this.#createBelow(this.#account))) return;
    await createGroup(this.#description);
    this.#restoreCpuClass(this.#description);
  }

  /** Its creation has set the ordinary weight. */
  #restoreCpuClass(description: GroupDescription): void {
    if (this.#cpuClass === 'idle') writeCpuClass(description, IDLE_PART, true);
  }

  /** @returns false where groups cannot be nested */
  async #createBelow(account: AccountGroup): Promise<boolean> {
    const below = this.#groups.describe(this.#bounds, account.name);
    try {
      await account.create();
      await createGroup(below);
      if (this.#pid !== null) await moveProcess(this.#pid, below);
    } catch {
      for (const path of below.paths) removeGroup(path);
      return false;
    }
    this.#description = below;
    // A change of the CPU class meanwhile went to the old group.
    this.#restoreCpuClass(below);
    return true;
  }

  assignAccount(bounds: AccountBounds): void {
    // Nothing would remove it from the account again.
    if (this.#isRemoved) return;
    const account = this.#accounts.findOrCreate(bounds);
    this.#account = account;
    account.join(this);
    if (!this.#isCreated) return;
    void changeInTurn(async () => {
      const { paths } = this.#description;
      if (this.#isRemoved || !(await this.#createBelow(account))) return;
      for (const path of paths) removeGroup(path);
    });
  }

  async add(pid: number): Promise<void> {
    await this.#created;
    await changeInTurn(async () => {
      await moveProcess(pid, this.#description);
      this.#pid = pid;
    });
  }

  ranOutOfMemory(): boolean {
    if (!KILLED.test(readText(this.#description.outcome))) return false;
    return this.#description.hasReachedLimit() || this.#account?.hasReachedLimit() === true;
  }

  setCpuClasses({ child, account }: CpuClasses): void {
    this.#account?.setCpuClass(account);
    if (child === this.#cpuClass) return;
    this.#cpuClass = child;
    const isIdle = child === 'idle';
    writeCpuClass(this.#description, isIdle ? IDLE_PART : 1, isIdle);
  }

  remove(): void {
    if (this.#isRemoved) return;
    this.#isRemoved = true;
    // In turn, because a change that has begun may still create another folder.
    void changeInTurn(async () => {
      for (const path of this.#description.paths) removeGroup(path);
      this.#account?.leave(this);
    });
  }
}

/** Empty if the file cannot be read: the group is gone, or the kernel has no such file. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

async function moveProcess(pid: number, { paths }: Pick<GroupDescription, 'paths'>): Promise<void> {
  for (const path of paths) await writeFile(`${path}/cgroup.procs`, String(pid));
}

/** Removes the groups of supervisors that no longer run. */
function sweepGroups(base: string): void {
  for (const name of readdirSync(base)) {
    const owner = OWNER.exec(name)?.[1];
    // Process ids are reused: groups with this process's id, found before it made one, belong to a dead supervisor.
    const own = owner === String(process.pid) && serial === 0;
    if (!own && (owner === undefined || existsSync(`/proc/${owner}`))) continue;
    const path = join(base, name);
    // The group of an account contains those of its children. Another supervisor may have removed it meanwhile.
    for (const inner of listFolder(path)) if (OWNER.test(inner)) removeGroup(join(path, inner));
    removeGroup(path);
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
