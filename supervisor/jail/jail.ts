/**
 * The only place that starts a plugin process. A jail is made once per supervisor and spawns children that all start the
 * same: bubblewrap (wall L3) around Node (wall L2) around the bootstrap of `sandbox-child` (wall L1), with nothing but
 * three pipes to the world. What a child is to run arrives over the wire.
 */
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { limits, MIB } from '../../sdk/contract/limits.ts';
import { findProgram } from '../../service/settings/search-path.ts';
import { type BoxedProcess, watchProcess } from './boxed-process.ts';
import { findLimiter, type Limiter } from './limiter.ts';
import { mounts, NODE_INSIDE, sharedLibraries } from './mounts.ts';
import { nodeFlags } from './node-flags.ts';
import { watchResident } from './resident-watch.ts';
import { seccompFilter } from './seccomp.ts';
import { type Pipes, spawnApart } from './spawner.ts';
import { jailMark, sweepStuckJails } from './stuck-jails.ts';

/** Which walls stand. All do, except where a test takes one down or the operator's machine cannot build L3. */
export interface Walls {
  /** L2: Node's permission model and switches. */
  readonly node: boolean;
  /** L3: bubblewrap, namespaces, system call filter. */
  readonly os: boolean;
}

export interface JailOptions {
  /** A directory of the supervisor's own, for the two files every child is started from. Made if missing. */
  readonly directory: string;
  /** The bundled child program, one CommonJS script; see `sandbox-child/build-child.ts`. */
  readonly program: string;
  readonly walls?: Walls;
  /** Megabytes of JavaScript heap, and of resident memory on and off the heap. */
  readonly heapMegabytes?: number;
  readonly residentMegabytes?: number;
  readonly openFiles?: number;
  /** Threads, and share of the processor (100: an ordinary process), where a control group can be written. */
  readonly threads?: number;
  readonly cpuWeight?: number;
  /** User and group that children run as on the host; only root can give its own away. */
  readonly runAs?: number | null;
  /** Absolute path of bubblewrap. Default: found along the search path. */
  readonly bubblewrap?: string;
  readonly limiter?: Limiter;
  /** Whether its children can be inspected, with the program of `buildInspectedChild`. Only behind wall L3. */
  readonly inspectable?: boolean;
  /** What runs inside in place of this Node; tests put native code there. */
  readonly executable?: string;
}

export interface Jail {
  readonly walls: Walls;
  readonly limiter: Limiter['kind'];
  /** Starts a child and returns at once. @throws where there are no more control groups */
  spawn(): JailedProcess;
}

export interface JailedProcess extends BoxedProcess {
  /** Its three streams. Rejects where it ended before there were any. */
  readonly pipes: Promise<Pipes>;
}

/** In the jail's user namespace: nobody, and so neither root nor the supervisor's user. */
const UID_INSIDE = '65534';
const PROGRAM_INSIDE = '/child.cjs';
/** Descriptors beside stdin, stdout and stderr, in the order they are given; all closed before Node starts. */
const FILTER_FD = 3;
const PROGRAM_FD = 4;
const INFO_FD = 5;
/** The largest file, in 512-byte blocks: the jail is read-only, but bubblewrap copies the program into it. */
const FILE_BLOCKS = 4096;
/**
 * Megabytes of data segment that an idle Node has reserved, nearly all of it untouched room for compiled code. Where no
 * control group limits memory, this and the resident limit are the limit of the data segment.
 */
const RESERVED_MEGABYTES = 560;

/** Sets resource limits and becomes its arguments. A shell is the one launcher that every Linux has. */
const launcher = (openFiles: number, dataMegabytes: number | null): string =>
  [
    `ulimit -c 0; ulimit -n ${openFiles}; ulimit -f ${FILE_BLOCKS}; ulimit -l 0`,
    ...(dataMegabytes === null ? [] : [`ulimit -d ${dataMegabytes * 1024}`]),
    'exec "$@"',
  ].join('; ');

const namespaces: readonly string[] = [
  ...['--unshare-user', '--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try'],
  ...['--uid', UID_INSIDE, '--gid', UID_INSIDE, '--hostname', 'plugin', '--cap-drop', 'ALL', '--clearenv'],
  // The jail ends with the supervisor, and Node is process 1 in it: it has no parent, child or sibling to signal.
  ...['--die-with-parent', '--new-session', '--as-pid-1'],
];

/**
 * Prepares everything that children share. Starts no process: `openSandbox` finds out whether a jail can be built.
 *
 * @throws where the directory cannot be written
 */
export function makeJail(options: JailOptions): Jail {
  const { walls = { node: true, os: true }, directory, limiter = findLimiter() } = options;
  const executable = options.executable ?? process.execPath;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const programPath = keep(directory, 'sandbox-child.cjs', options.program);
  const filterPath = keep(directory, 'seccomp.bpf', seccompFilter(process.arch === 'arm64' ? 'arm64' : 'x64'));
  const { inspectable = false } = options;
  if (inspectable && !walls.os) throw new Error('a child is inspected behind wall L3 only');
  const flags = nodeFlags(options.heapMegabytes ?? limits.heapMegabytes, walls.node, inspectable);
  const identity = options.runAs == null ? {} : { uid: options.runAs, gid: options.runAs };
  const command = walls.os
    ? [
        ...[
          options.bubblewrap ?? findProgram('bwrap') ?? 'bwrap',
          ...namespaces,
          ...jailMark(directory),
          ...mounts(executable, sharedLibraries()),
        ],
        ...['--ro-bind-data', String(PROGRAM_FD), PROGRAM_INSIDE, '--remount-ro', '/', '--chdir', '/'],
        ...['--seccomp', String(FILTER_FD), '--info-fd', String(INFO_FD)],
        ...['--', NODE_INSIDE, ...flags, PROGRAM_INSIDE],
      ]
    : [...bareLauncher(), executable, ...flags, programPath];
  const residentMegabytes = options.residentMegabytes ?? limits.residentMegabytes;
  const { openFiles, threads, cpuWeight } = { ...limits, ...options };
  // The inspector's thread has a V8 of its own, with room for compiled code of its own.
  const reservedMegabytes = inspectable ? 2 * RESERVED_MEGABYTES : RESERVED_MEGABYTES;
  const watch = watchResident(residentMegabytes * MIB);
  if (walls.os) sweepStuckJails(directory);
  return {
    walls,
    limiter: limiter.kind,
    spawn() {
      const group = limiter.group({ residentBytes: residentMegabytes * MIB, threads, cpuWeight });
      const launch = launcher(openFiles, group ? null : reservedMegabytes + residentMegabytes);
      const spawned = spawnApart({
        ...identity,
        args: ['-c', launch, 'jail', ...command],
        files: walls.os ? [filterPath, programPath] : [],
        tellsInside: walls.os,
        inspectable,
      });
      const boxed = watchProcess(spawned, walls.os, group);
      // Ended before it was confined, on a machine so busy that this took long: its inner half may be waiting for ever.
      if (walls.os) void boxed.exited.then(() => boxed.pid === 0 && sweepStuckJails(directory));
      return Object.assign(group ? boxed : watch.follow(boxed), { pipes: spawned.pipes });
    },
  };
}

/** Without bubblewrap, the two things that util-linux can do of it: end with the supervisor, gain no privilege. */
const SETPRIV = '/usr/bin/setpriv';
const bareLauncher = (): string[] => (existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL', '--no-new-privs'] : []);

/** Writes a file whole or not at all: another supervisor on the same directory may be starting a child from it. */
function keep(directory: string, name: string, content: string | Uint8Array): string {
  const path = join(directory, name);
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, content, { mode: 0o400 });
  renameSync(temporary, path);
  return path;
}
