/**
 * The system calls a jailed Node may make, as a classic BPF program for the kernel (`seccomp(2)`), made at run time.
 * An allow-list: what Node 26 was seen to need from `execve` to exit, everything else fails with EPERM.
 */
import { type Architecture, auditArchitecture, type CallName, calls } from './syscalls.ts';

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const errno = (code: number): number => 0x00050000 | code;
const EPERM = errno(1);
const ENOSYS = errno(38);

// Opcodes of <linux/bpf_common.h>, spelled out because there is no assembler here.
const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_NOT_BELOW = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;
/** Offsets in `struct seccomp_data`. Both architectures are little-endian: the low word of an argument comes first. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const argument = (index: number): number => 16 + 8 * index;
/** Numbers from here on are the x32 ABI, a second door to the same calls. */
const X32_BIT = 0x40000000;

interface Instruction {
  readonly code: number;
  readonly k: number;
  readonly yes: number;
  readonly no: number;
}
const load = (k: number): Instruction => ({ code: LOAD, k, yes: 0, no: 0 });
const answer = (k: number): Instruction => ({ code: RETURN, k, yes: 0, no: 0 });
const jump = (code: number, k: number, yes: number, no: number): Instruction => ({ code, k, yes, no });

/** Free to call: memory, threads' own business, clocks, and the file descriptors that are already open. */
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
  // libuv asks what kind of socket its stdio is, and half-closes it; it can make, bind or connect none.
  ...(['getsockname', 'getsockopt', 'shutdown'] as const),
  // bubblewrap installs the filter before it becomes Node. Nothing else that can be executed is mounted, and a second
  // Node would be inside the same walls.
  'execve',
];

/** Answered "no such call", so that glibc and libuv take their older way, which the guards below can look into. */
export const absent: readonly CallName[] = ['clone3', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'];

/** Only an attack on the kernel or on other processes calls these: the process ends at once. */
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
/** Node is process 1 of its own namespace, so this is itself and nobody else. */
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
const oneOf = (index: number, values: readonly number[]): Instruction[] => [
  load(argument(index)),
  ...values.map((value, at) => jump(JUMP_IF_EQUAL, value, values.length - at, 0)),
  answer(EPERM),
  answer(ALLOW),
];

/** Calls that are needed in one form and dangerous in another. Each block ends in an answer. */
export const guarded: Readonly<Partial<Record<CallName, readonly Instruction[]>>> = {
  openat: [load(argument(2)), jump(JUMP_IF_ANY_BIT, WRITING, 0, 1), answer(EPERM), answer(ALLOW)],
  clone: [
    load(argument(0)),
    jump(JUMP_IF_ANY_BIT, NEW_NAMESPACES, 1, 0),
    jump(JUMP_IF_ANY_BIT, CLONE_THREAD, 1, 0),
    answer(EPERM),
    answer(ALLOW),
  ],
  tgkill: oneOf(0, [SELF]),
  prctl: oneOf(0, [PR_SET_NAME, PR_SET_VMA]),
  ioctl: oneOf(1, [TCGETS, FIONREAD, FIONBIO, FIOCLEX]),
  fcntl: oneOf(1, DESCRIPTOR_COMMANDS),
  // Reading limits is fine, setting them (a new value is pointed to) is not.
  prlimit64: [
    load(argument(2)),
    jump(JUMP_IF_EQUAL, 0, 0, 2),
    load(argument(2) + 4),
    jump(JUMP_IF_EQUAL, 0, 1, 0),
    answer(EPERM),
    answer(ALLOW),
  ],
};

/**
 * The filter for one architecture.
 *
 * @returns `struct sock_filter[]` as bytes, ready for `bwrap --seccomp`
 */
export function seccompFilter(architecture: Architecture): Uint8Array<ArrayBuffer> {
  const program: Instruction[] = [
    load(ARCHITECTURE),
    jump(JUMP_IF_EQUAL, auditArchitecture[architecture], 1, 0),
    answer(KILL_PROCESS),
    load(NUMBER),
    jump(JUMP_IF_NOT_BELOW, X32_BIT, 0, 1),
    answer(KILL_PROCESS),
  ];
  const rule = (name: CallName, block: readonly Instruction[]): void => {
    const number = calls[name][architecture];
    if (number !== null) program.push(jump(JUMP_IF_EQUAL, number, 0, block.length), ...block);
  };
  for (const name of allowed) rule(name, [answer(ALLOW)]);
  for (const [name, block] of Object.entries(guarded)) rule(name as CallName, block);
  for (const name of absent) rule(name, [answer(ENOSYS)]);
  for (const name of fatal) rule(name, [answer(KILL_PROCESS)]);
  program.push(answer(EPERM));
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
