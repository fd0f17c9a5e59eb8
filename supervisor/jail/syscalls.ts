/** Linux system call numbers of x64 and arm64 for the calls in the filter. `null`: the architecture lacks the call. */
export type Architecture = 'x64' | 'arm64';
interface CallNumbers {
  readonly x64: number | null;
  readonly arm64: number | null;
}
const call = (x64: number | null, arm64: number | null): CallNumbers => ({ x64, arm64 });

/** `AUDIT_ARCH_*`: the architecture of the call numbers, which the kernel passes to the filter. */
export const auditArchitecture: Readonly<Record<Architecture, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };

// biome-ignore format: one row a group reads as a table
export const calls = {
  read: call(0, 63), write: call(1, 64), readv: call(19, 65), writev: call(20, 66), pread64: call(17, 67),
  close: call(3, 57), fstat: call(5, 80), newfstatat: call(262, 79), statx: call(332, 291), lseek: call(8, 62),
  poll: call(7, null), ppoll: call(271, 73), access: call(21, null), faccessat: call(269, 48),
  faccessat2: call(439, 439), readlink: call(89, null), readlinkat: call(267, 78), getcwd: call(79, 17),
  mmap: call(9, 222), munmap: call(11, 215), mremap: call(25, 216), mprotect: call(10, 226), madvise: call(28, 233),
  brk: call(12, 214), membarrier: call(324, 283), rt_sigaction: call(13, 134), rt_sigprocmask: call(14, 135),
  rt_sigreturn: call(15, 139), sigaltstack: call(131, 132), restart_syscall: call(219, 128), futex: call(202, 98),
  set_robust_list: call(273, 99), rseq: call(334, 293), set_tid_address: call(218, 96), arch_prctl: call(158, null),
  getppid: call(110, 173), sched_getparam: call(143, 121), sched_getscheduler: call(145, 120),
  sched_yield: call(24, 124), sched_getaffinity: call(204, 123), exit: call(60, 93), exit_group: call(231, 94),
  getpid: call(39, 172), gettid: call(186, 178), getuid: call(102, 174), geteuid: call(107, 175),
  getgid: call(104, 176), getegid: call(108, 177), capget: call(125, 90), uname: call(63, 160),
  sysinfo: call(99, 179), getrusage: call(98, 165), times: call(100, 153), clock_gettime: call(228, 113),
  clock_getres: call(229, 114), clock_nanosleep: call(230, 115), nanosleep: call(35, 101),
  gettimeofday: call(96, 169), getrandom: call(318, 278), eventfd2: call(290, 19), pipe2: call(293, 59),
  epoll_create1: call(291, 20), epoll_ctl: call(233, 21), epoll_wait: call(232, null), epoll_pwait: call(281, 22),
  epoll_pwait2: call(441, 441), dup: call(32, 23), dup3: call(292, 24), getsockname: call(51, 204),
  getsockopt: call(55, 209), shutdown: call(48, 210), execve: call(59, 221), clone3: call(435, 435),
  io_uring_setup: call(425, 425), io_uring_enter: call(426, 426), io_uring_register: call(427, 427),
  openat: call(257, 56), clone: call(56, 220), tgkill: call(234, 131), prctl: call(157, 167), ioctl: call(16, 29),
  fcntl: call(72, 25), prlimit64: call(302, 261), ptrace: call(101, 117), process_vm_readv: call(310, 270),
  process_vm_writev: call(311, 271), kcmp: call(312, 272), pidfd_open: call(434, 434), pidfd_getfd: call(438, 438),
  pidfd_send_signal: call(424, 424), mount: call(165, 40), umount2: call(166, 39), pivot_root: call(155, 41),
  chroot: call(161, 51), setns: call(308, 268), unshare: call(272, 97), move_mount: call(429, 429),
  open_tree: call(428, 428), fsopen: call(430, 430), fsconfig: call(431, 431), fsmount: call(432, 432),
  fspick: call(433, 433), mount_setattr: call(442, 442), open_by_handle_at: call(304, 265),
  name_to_handle_at: call(303, 264), bpf: call(321, 280), perf_event_open: call(298, 241),
  userfaultfd: call(323, 282), keyctl: call(250, 219), add_key: call(248, 217), request_key: call(249, 218),
  init_module: call(175, 105), finit_module: call(313, 273), delete_module: call(176, 106),
  kexec_load: call(246, 104), kexec_file_load: call(320, 294), reboot: call(169, 142), swapon: call(167, 224),
  swapoff: call(168, 225), acct: call(163, 89), quotactl: call(179, 60), settimeofday: call(164, 170),
  clock_settime: call(227, 112), clock_adjtime: call(305, 266), adjtimex: call(159, 171), syslog: call(103, 116),
  personality: call(135, 92), execveat: call(322, 281), memfd_create: call(319, 279), memfd_secret: call(447, 447),
  iopl: call(172, null), ioperm: call(173, null), modify_ldt: call(154, null), vhangup: call(153, 58),
  seccomp: call(317, 277),
} as const satisfies Record<string, CallNumbers>;
export type CallName = keyof typeof calls;
