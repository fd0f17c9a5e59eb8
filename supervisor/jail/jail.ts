/**
 * The only place that starts plugin processes. A jail is made once per supervisor. All its children start the same:
 * bubblewrap (wall L3) around Node (wall L2) around the bootstrap of `sandbox-child` (wall L1), connected by three pipes only.
 * The plugin's bundle arrives over the connection.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { limits, MIB } from '../../sdk/contract/limits.ts';
import { findProgram } from '../../service/settings/search-path.ts';
import { hashCachedProgram, START_CACHED_PROGRAM } from './cached-program.ts';
import { findLimiter, type Limiter } from './limiter.ts';
import { mounts, NODE_INSIDE, sharedLibraries } from './mounts.ts';
import { nodeFlags } from './node-flags.ts';
import { type ResidentWatch, watchResident } from './resident-watch.ts';
import { seccompFilter } from './seccomp.ts';
import { type Pipes, spawnApart } from './spawner.ts';
import { StartFiles } from './start-files.ts';
import { jailMark, sweepStuckJails } from './stuck-jails.ts';
import { type WatchedProcess, watchProcess } from './watched-process.ts';

/** Which walls are up. All are, unless a test takes one down or the machine cannot build L3. */
export interface Walls {
  /** L2: Node's permission model and switches. */
  readonly node: boolean;
  /** L3: bubblewrap, namespaces, system call filter. */
  readonly os: boolean;
}

export interface JailOptions {
  /** The supervisor's directory for the files that every child is started from. Created if missing. */
  readonly directory: string;
  /** The bundled child program, one CommonJS script; see `sandbox-child/build-child.ts`. */
  readonly program: string;
  /** The program with its code cache, made by `cacheProgram`. Null: children compile it. */
  readonly cachedProgram?: Uint8Array | null;
  readonly walls?: Walls;
  /** Limits of the JavaScript heap and of all resident memory, megabytes. */
  readonly heapMegabytes?: number;
  readonly residentMegabytes?: number;
  /** Limit of all resident memory of one account, megabytes. Default: none. */
  readonly accountMegabytes?: number;
  readonly openFiles?: number;
  /** Limit of threads and share of the processor (100: an ordinary process). They need a writable control group. */
  readonly threads?: number;
  readonly cpuWeight?: number;
  /** User and group id of children on the host. Only root can set it. */
  readonly runAs?: number | null;
  /** Absolute path of bubblewrap. Default: found on the search path. */
  readonly bubblewrap?: string;
  readonly limiter?: Limiter;
  /** Limits memory without control groups. Jails that run plugins of the same account share it. Default: one of its own. */
  readonly residentWatch?: ResidentWatch;
  /** Whether its children can be inspected. Needs wall L3 and the program of `buildInspectedChild`. */
  readonly inspectable?: boolean;
  /** Executable inside, instead of this Node; for tests with native code. */
  readonly executable?: string;
}

export interface Jail {
  readonly walls: Walls;
  readonly limiter: Limiter['kind'];
  /** Starts a child and returns at once. Never throws: `exited` reports a process that could not be started. */
  spawn(): JailedProcess;
}

export interface JailedProcess extends WatchedProcess {
  /** The streams of the process. Rejects if it ended before they arrived. */
  readonly pipes: Promise<Pipes>;
  /**
   * Limits the memory of all processes of an account together: puts this one below the account's control group if there are
   * groups. Call it at most once.
   */
  assignAccount(accountId: string): void;
}

/** `nobody` in the jail's user namespace: neither root nor the supervisor's user. */
const UID_INSIDE = '65534';
const PROGRAM_INSIDE = '/child.cjs';
const CACHED_PROGRAM_INSIDE = '/child.cache';
/** The opened files of a child without bubblewrap, which another user may read without reaching their paths. */
const OPENED = '/proc/self/fd';
/** Descriptors above stderr, in the order of the spawn order. bubblewrap closes all before Node starts. */
const FIRST_FILE_FD = 3;
const FILTER_FD = FIRST_FILE_FD;
const PROGRAM_FD = 4;
const CACHED_PROGRAM_FD = 5;
/** Largest file, in 512-byte blocks. The jail is read-only, but bubblewrap copies the program into it. */
const FILE_BLOCKS = 4096;
/**
 * Megabytes of data segment that an idle Node reserves, nearly all of it unused space for compiled code. Without a control
 * group the data segment is limited to this plus the resident limit.
 */
const RESERVED_MEGABYTES = 560;

/**
 * Makes the kernel end plugins before the supervisor when a container or the machine is out of memory: otherwise it ends the
 * largest process. Any process may raise its own score, and children inherit it. A jail has no /proc to lower it again. Without
 * such a file, as on macOS, the shell reports an error to /dev/null and goes on.
 */
const RAISE_OOM_SCORE = 'echo 1000 2>/dev/null >/proc/self/oom_score_adj';

/** Shell script that sets resource limits and executes its arguments. Every Linux has a shell. */
const launcher = (openFiles: number, dataMegabytes: number | null): string =>
  [
    RAISE_OOM_SCORE,
    `ulimit -c 0; ulimit -n ${openFiles}; ulimit -f ${FILE_BLOCKS}; ulimit -l 0`,
    ...(dataMegabytes === null ? [] : [`ulimit -d ${dataMegabytes * 1024}`]),
    'exec "$@"',
  ].join('; ');

const namespaces: readonly string[] = [
  ...['--unshare-user', '--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try'],
  ...['--uid', UID_INSIDE, '--gid', UID_INSIDE, '--hostname', 'plugin', '--cap-drop', 'ALL', '--clearenv'],
  // The jail ends with the supervisor. Node is process 1 in it, so it has no other process to signal.
  ...['--die-with-parent', '--new-session', '--as-pid-1'],
];

/**
 * Prepares what all children share. Starts no process: `openSandbox` tests whether a jail can be built.
 *
 * @throws when the directory cannot be written
 */
export function makeJail(options: JailOptions): Jail {
  const { walls = { node: true, os: true }, directory, limiter = findLimiter() } = options;
  const executable = options.executable ?? process.execPath;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { cachedProgram = null } = options;
  const isCached = cachedProgram !== null;
  const startFiles = new StartFiles(directory);
  const programPaths = isCached
    ? [
        startFiles.add('cached-child', 'cjs', START_CACHED_PROGRAM),
        startFiles.add('cached-child', 'cache', cachedProgram, hashCachedProgram(cachedProgram)),
      ]
    : [startFiles.add('sandbox-child', 'cjs', options.program)];
  const filterPath = startFiles.add('seccomp', 'bpf', seccompFilter(process.arch === 'arm64' ? 'arm64' : 'x64'));
  startFiles.removeOld();
  const { inspectable = false } = options;
  if (inspectable && !walls.os) throw new Error('inspectable children need wall L3');
  const [programPath = '', cachePath = ''] = walls.os
    ? [PROGRAM_INSIDE, CACHED_PROGRAM_INSIDE]
    : listPathsWithoutWall(programPaths);
  const flags = [
    ...nodeFlags(options.heapMegabytes ?? limits.heapMegabytes, walls.node, inspectable),
    // The program drops this grant with that of the entry file.
    ...(isCached && walls.node ? [`--allow-fs-read=${cachePath}`] : []),
  ];
  const programArguments = isCached ? [cachePath] : [];
  const files = walls.os ? [filterPath, ...programPaths] : programPaths;
  const identity = options.runAs == null ? {} : { uid: options.runAs, gid: options.runAs };
  const command = walls.os
    ? [
        ...[
          options.bubblewrap ?? findProgram('bwrap') ?? 'bwrap',
          ...namespaces,
          ...jailMark(directory),
          ...mounts(executable, sharedLibraries()),
        ],
        ...['--ro-bind-data', String(PROGRAM_FD), PROGRAM_INSIDE],
        ...(isCached ? ['--ro-bind-data', String(CACHED_PROGRAM_FD), CACHED_PROGRAM_INSIDE] : []),
        ...['--remount-ro', '/', '--chdir', '/'],
        ...['--seccomp', String(FILTER_FD), '--info-fd', String(FILTER_FD + files.length)],
        ...['--', NODE_INSIDE, ...flags, programPath, ...programArguments],
      ]
    : [...bareLauncher(), executable, ...flags, '--preserve-symlinks-main', programPath, ...programArguments];
  const residentMegabytes = options.residentMegabytes ?? limits.residentMegabytes;
  const { accountMegabytes } = options;
  const accountBytes =
    accountMegabytes === undefined ? Number.MAX_SAFE_INTEGER : Math.max(accountMegabytes, residentMegabytes) * MIB;
  const { openFiles, threads, cpuWeight } = { ...limits, ...options };
  // The inspector's thread runs a second V8, which reserves space for compiled code again.
  const reservedMegabytes = inspectable ? 2 * RESERVED_MEGABYTES : RESERVED_MEGABYTES;
  const { residentWatch = watchResident() } = options;
  if (walls.os) sweepStuckJails(directory);
  return {
    walls,
    limiter: limiter.kind,
    spawn() {
      const group = limiter.group({ residentBytes: residentMegabytes * MIB, threads, cpuWeight });
      const launch = launcher(openFiles, group ? null : reservedMegabytes + residentMegabytes);
      const order = {
        ...identity,
        args: ['-c', launch, 'jail', ...command],
        files,
        reportsInside: walls.os,
        inspectable,
      };
      restoreFiles(startFiles);
      const spawned = spawnApart(order, limiter);
      const watched = watchProcess(spawned, walls.os, group);
      // If it ended before it was confined, the inner bubblewrap may be stuck.
      if (walls.os) void watched.exited.then(() => watched.pid === 0 && sweepStuckJails(directory));
      if (!group) residentWatch.add(watched, residentMegabytes * MIB);
      return Object.assign(watched, {
        pipes: spawned.pipes,
        assignAccount(id: string) {
          const account = { id, residentBytes: accountBytes };
          if (group) group.assignAccount(account);
          else residentWatch.assignAccount(watched, account);
        },
      });
    },
  };
}

/** Without bubblewrap, setpriv of util-linux at least ends children with the supervisor and denies new privileges. */
const SETPRIV = '/usr/bin/setpriv';
const bareLauncher = (): string[] => (existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL', '--no-new-privs'] : []);

/** Returns the paths by which a child without bubblewrap reads these files: their own where there is no /proc, as on macOS. */
const listPathsWithoutWall = (files: readonly string[]): readonly string[] =>
  existsSync(OPENED) ? files.map((_path, index) => `${OPENED}/${FIRST_FILE_FD + index}`) : files;

/** A start without its files ends at once, and says why on the helper's stderr. */
function restoreFiles(startFiles: StartFiles): void {
  try {
    startFiles.restore();
  } catch (error) {
    console.error(error);
  }
}
