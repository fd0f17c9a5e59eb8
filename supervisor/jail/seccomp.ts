/**
 * Builds the system call filter of a jailed Node, a classic BPF program for `seccomp(2)`. It is an allow-list of the calls that
 * Node 26 was observed to need from `execve` to exit. All other calls fail with EPERM or kill the process.
 */
import { type Architecture, auditArchitecture, type CallName, calls } from './syscalls.ts';

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const errno = (code: number): number => 0x00050000 | code;
const EPERM = errno(1);
const ENOSYS = errno(38);

// Opcodes of <linux/bpf_common.h>.
const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_NOT_BELOW = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;
/** Offsets in `struct seccomp_data`. Both architectures are little-endian: the low word of an argument comes first. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const argument = (index: number): number => 16 + 8 * index;
/** Numbers from here on are the x32 ABI, which would bypass the filter's numbers. */
const X32_BIT = 0x40000000;

interface Instruction {
  readonly code: number;
  readonly k: number;
  readonly yes: number;
  readonly no: number;
}
const load = (k: number): Instruction => ({ code: LOAD, k, yes: 0, no: 0 });
const returns = (k: number): Instruction => ({ code: RETURN, k, yes: 0, no: 0 });
const jump = (code: number, k: number, yes: number, no: number): Instruction => ({ code, k, yes, no });

/** Allowed without conditions: memory, threads, clocks, and descriptors that are already open. */
export const allowed: readonly CallName[] = [
  ...(['read', 'write', 'readv', 'writev', 'pread64', 'close', 'fstat', 'newfstatat', 'statx', 'lseek'] as const),
  ...(['poll', 'ppoll', 'access', 'faccessat', 'faccessat2', 'readlink', 'readlinkat', 'getcwd'] as const),
  ...(['mmap', 'munmap', 'mremap', 'mprotect', 'madvise', 'brk', 'membarrier'] as const),
  ...(['rt_sigaction', 'rt_sigprocmask', 'rt_sigreturn', 'sigaltstack', 'restart_syscall'] as const),
  ...(['futex', 'set_robust_list', 'rseq', 'set_tid_address', 'arch_prctl', 'exit', 'exit_group'] as const),
  ...(['getppid', 'sched_getparam', 'sched_getscheduler'] as const),
  ...(['sched_yield', 'sched_getaffinity', 'getpid', 'gettid', 'capget', 'uname', 'sysinfo', 'getrusage'] as const),
  ...(['getuid', 'geteuid', 'getgid', 'getegid', 'times', 'getrandom', 'gettimeofday', 'nanosleep'] as const),
  ...(['clock_gettime', 'clock_getres', 'clock_nanosleep', 'eventfd2', 'pipe2', 'dup', 'dup3'] as const),
  ...(['epoll_create1', 'epoll_ctl', 'epoll_wait', 'epoll_pwait', 'epoll_pwait2'] as const),
  // libuv queries and half-closes the sockets of its stdio. It cannot create, bind or connect one.
  ...(['getsockname', 'getsockopt', 'shutdown'] as const),
  // bubblewrap installs the filter before it executes Node. No other executable is mounted, and a second Node would have the
  // same walls.
  'execve',
];

/** Fail with ENOSYS, so that glibc and libuv fall back to older calls whose arguments the filter can check. */
export const absent: readonly CallName[] = ['clone3', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'];

/** Only an attack on the kernel or on other processes makes these calls: they kill the process. */
export const fatal: readonly CallName[] = [
  ...(['ptrace', 'process_vm_readv', 'process_vm_writev', 'kcmp'] as const),
  ...(['pidfd_open', 'pidfd_getfd', 'pidfd_send_signal'] as const),
  ...(['mount', 'umount2', 'pivot_root', 'chroot', 'setns', 'unshare', 'move_mount', 'open_tree', 'fsopen'] as const),
  ...(['fsconfig', 'fsmount', 'fspick', 'mount_setattr', 'open_by_handle_at', 'name_to_handle_at'] as const),
  ...(['bpf', 'perf_event_open', 'userfaultfd', 'keyctl', 'add_key', 'request_key', 'seccomp', 'personality'] as const),
  ...(['init_module', 'finit_module', 'delete_module', 'kexec_load', 'kexec_file_load', 'reboot'] as const),
  ...(['swapon', 'swapoff', 'acct', 'quotactl', 'settimeofday', 'clock_settime', 'clock_adjtime'] as const),
  ...(['adjtimex', 'syslog', 'execveat', 'memfd_create', 'memfd_secret', 'iopl', 'ioperm'] as const),
  ...(['modify_ldt', 'vhangup'] as const),
];

const WRITING = 0o3 | 0o100 | 0o1000; // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
const CLONE_THREAD = 0x00010000;
const NEW_NAMESPACES = 0x7e020080; // CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET} and CLONE_NEWTIME
/** Node's own process id: it is process 1 of its namespace. */
const SELF = 1;
const PR_SET_NAME = 15;
const PR_SET_VMA = 0x53564d41;
const TCGETS = 0x5401;
const FIONREAD = 0x541b;
const FIONBIO = 0x5421;
const FIOCLEX = 0x5451;
/** F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no locks, no signals to others, no pipe sizes. */
const DESCRIPTOR_COMMANDS = [0, 1, 2, 3, 4, 1030];

/** Allows a call only where one argument's low word is one of the values. */
const allowValues = (index: number, values: readonly number[]): Instruction[] => [
  load(argument(index)),
  ...values.map((value, at) => jump(JUMP_IF_EQUAL, value, values.length - at, 0)),
  returns(EPERM),
  returns(ALLOW),
];

/** Calls that are allowed with certain arguments only. Each block ends in a return. */
export const guarded: Readonly<Partial<Record<CallName, readonly Instruction[]>>> = {
  openat: [load(argument(2)), jump(JUMP_IF_ANY_BIT, WRITING, 0, 1), returns(EPERM), returns(ALLOW)],
  clone: [
    load(argument(0)),
    jump(JUMP_IF_ANY_BIT, NEW_NAMESPACES, 1, 0),
    jump(JUMP_IF_ANY_BIT, CLONE_THREAD, 1, 0),
    returns(EPERM),
    returns(ALLOW),
  ],
  tgkill: allowValues(0, [SELF]),
  prctl: allowValues(0, [PR_SET_NAME, PR_SET_VMA]),
  ioctl: allowValues(1, [TCGETS, FIONREAD, FIONBIO, FIOCLEX]),
  fcntl: allowValues(1, DESCRIPTOR_COMMANDS),
  // Reading limits is allowed. Setting them, with a pointer to new values, is not.
  prlimit64: [
    load(argument(2)),
    jump(JUMP_IF_EQUAL, 0, 0, 2),
    load(argument(2) + 4),
    jump(JUMP_IF_EQUAL, 0, 1, 0),
    returns(EPERM),
    returns(ALLOW),
  ],
};

/**
 * Builds the filter for one architecture.
 *
 * @returns `struct sock_filter[]` as bytes, ready for `bwrap --seccomp`
 */
export function seccompFilter(architecture: Architecture): Uint8Array<ArrayBuffer> {
  const program: Instruction[] = [
    load(ARCHITECTURE),
    jump(JUMP_IF_EQUAL, auditArchitecture[architecture], 1, 0),
    returns(KILL_PROCESS),
    load(NUMBER),
    jump(JUMP_IF_NOT_BELOW, X32_BIT, 0, 1),
    returns(KILL_PROCESS),
  ];
  const rule = (name: CallName, block: readonly Instruction[]): void => {
    const number = calls[name][architecture];
    if (number !== null) program.push(jump(JUMP_IF_EQUAL, number, 0, block.length), ...block);
  };
  for (const name of allowed) rule(name, [returns(ALLOW)]);
  for (const [name, block] of Object.entries(guarded)) rule(name as CallName, block);
  for (const name of absent) rule(name, [returns(ENOSYS)]);
  for (const name of fatal) rule(name, [returns(KILL_PROCESS)]);
  program.push(returns(EPERM));
  return assemble(program);
}

function assemble(program: readonly Instruction[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(program.length * 8);
  const view = new DataView(bytes.buffer);
  for (const [at, { code, yes, no, k }] of program.entries()) {
    view.setUint16(at * 8, code, true);
    view.setUint8(at * 8 + 2, yes);
    view.setUint8(at * 8 + 3, no);
    view.setUint32(at * 8 + 4, k, true);
  }
  return bytes;
}
