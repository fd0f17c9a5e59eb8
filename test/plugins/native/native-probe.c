/*
 * Native code in the jail, in place of Node: tries what the jail must not give and reports a line each,
 * "<stopped|REACHED> <name> <errno>". Standard input says what: "all", or the number of an attempt that the filter
 * answers with death, so that each of those has a process of its own; "all" ends by saying how many there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char *name, long result) {
  dprintf(1, "%s %s %d\n", result < 0 ? "stopped" : "REACHED", name, result < 0 ? errno : 0);
}
/* A call that may make a process: the copy leaves at once. */
static void forked(const char *name, long result) {
  if (result == 0) syscall(SYS_exit_group, 0);
  report(name, result);
}

static void files(void) {
  static const char *const paths[] = {"/etc/passwd", "/etc/shadow", "/etc/hosts", "/proc/self/environ", "/proc/1/root",
    "/proc/self/mem", "/proc/sys/kernel/core_pattern", "/sys/kernel", "/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/null",
    "/dev/shm", "/run", "/var/run/docker.sock", "/home", "/root", "/bin/sh", "/tmp/..", "/..//etc"};
  char name[128];
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i += 1) {
    snprintf(name, sizeof name, "open:%s", paths[i]);
    report(name, open(paths[i], O_RDONLY));
  }
  report("open-to-write:/probe", open("/probe", O_WRONLY | O_CREAT, 0600));
  report("open-to-write:/node", open("/node", O_RDWR));
  report("open-to-truncate:/node", open("/node", O_RDONLY | O_TRUNC));
  report("tmpfile:/", open("/", O_TMPFILE | O_RDWR, 0600));
#ifdef SYS_openat2
  struct { unsigned long long flags, mode, resolve; } how = {O_RDONLY, 0, 0};
  report("openat2", syscall(SYS_openat2, AT_FDCWD, "/node", &how, sizeof how));
#endif
  report("mkdir", syscall(SYS_mkdirat, AT_FDCWD, "/probe", 0700));
  report("unlink", syscall(SYS_unlinkat, AT_FDCWD, "/node", 0));
  report("symlink", syscall(SYS_symlinkat, "/", AT_FDCWD, "/l"));
  report("link", syscall(SYS_linkat, AT_FDCWD, "/node", AT_FDCWD, "/l", 0));
  report("mknod", syscall(SYS_mknodat, AT_FDCWD, "/l", S_IFIFO | 0600, 0));
  /* The devices of the host, which root's own programs have been seen to replace by plain files. */
  report("unlink:/dev/null", syscall(SYS_unlinkat, AT_FDCWD, "/dev/null", 0));
  report("rename-over:/dev/null", syscall(SYS_renameat2, AT_FDCWD, "/node", AT_FDCWD, "/dev/null", 0));
  report("create:/dev/null", open("/dev/null", O_WRONLY | O_CREAT, 0600));
  report("mknod:/dev/null", syscall(SYS_mknodat, AT_FDCWD, "/dev/null", S_IFCHR | 0666, 0x103));
  report("mkdir:/dev", syscall(SYS_mkdirat, AT_FDCWD, "/dev", 0700));
  report("chmod", syscall(SYS_fchmodat, AT_FDCWD, "/node", 0777, 0));
  report("chown", syscall(SYS_fchownat, AT_FDCWD, "/node", 0, 0, 0));
  report("setxattr", syscall(SYS_setxattr, "/node", "user.x", "x", 1, 0));
  report("inotify", syscall(SYS_inotify_init1, 0));
  report("fanotify", syscall(SYS_fanotify_init, 0, 0));
  report("mmap-write:/node", (long)mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, open("/node", O_RDONLY), 0));
}

static void sockets(void) {
  char name[64];
  for (int family = 0; family <= 45; family += 1) {
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    for (int i = 0; i < 4; i += 1) {
      snprintf(name, sizeof name, "socket:%d:%d", family, types[i]);
      report(name, socket(family, types[i], 0));
    }
  }
  int pair[2];
  report("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  for (int fd = 0; fd < 3; fd += 1) {
    struct sockaddr_un address = {AF_UNIX, "/tmp/probe"};
    snprintf(name, sizeof name, "connect:%d", fd);
    report(name, connect(fd, (struct sockaddr *)&address, sizeof address));
    snprintf(name, sizeof name, "listen:%d", fd);
    report(name, listen(fd, 1));
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
    CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
    CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
    snprintf(name, sizeof name, "send-descriptor:%d", fd);
    report(name, sendmsg(fd, &message, MSG_DONTWAIT));
    snprintf(name, sizeof name, "receive-descriptor:%d", fd);
    report(name, recvmsg(fd, &message, MSG_DONTWAIT));
  }
}

static void processes(void) {
#ifdef SYS_fork
  forked("fork", syscall(SYS_fork));
#endif
  forked("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  forked("clone-parent", syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
  forked("clone-user", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  forked("clone-net", syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
  forked("clone-pid", syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
  struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  forked("clone3", syscall(SYS_clone3, &arguments, sizeof arguments));
  report("kill-parent", kill(getppid() ? getppid() : 2, 0));
  report("kill-all", kill(-1, 0));
  report("kill-group", kill(0, 0));
  report("kill-2", kill(2, 0));
  report("tkill", syscall(SYS_tkill, 2, 0));
  report("tgkill-other", syscall(SYS_tgkill, 2, 2, 0));
  report("sigqueue", syscall(SYS_rt_sigqueueinfo, 2, SIGUSR1, NULL));
  report("fasync-owner", fcntl(0, F_SETOWN, 2));
  report("fasync-signal", fcntl(0, F_SETSIG, SIGKILL));
  report("setuid", syscall(SYS_setuid, 0));
  report("setresuid", syscall(SYS_setresuid, 0, 0, 0));
  report("setgid", syscall(SYS_setgid, 0));
  report("setgroups", syscall(SYS_setgroups, 0, NULL));
  report("capset", syscall(SYS_capset, NULL, NULL));
  report("setsid", setsid());
  report("setpgid", setpgid(0, 0));
  report("setpriority", setpriority(PRIO_PROCESS, 0, -20));
  struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
  report("raise-open-files", setrlimit(RLIMIT_NOFILE, &more));
  report("raise-others-limit", syscall(SYS_prlimit64, 2, RLIMIT_NOFILE, &more, NULL));
  report("scheduler", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, NULL));
  report("execve-missing", execl("/bin/sh", "sh", "-c", "id", (char *)NULL));
}

static void kernel(void) {
  char parameters[256] = {0};
  report("io_uring_setup", syscall(SYS_io_uring_setup, 8, parameters));
  report("io_uring_enter", syscall(SYS_io_uring_enter, 0, 1, 0, 0, NULL, 0));
  report("io_uring_register", syscall(SYS_io_uring_register, 0, 0, NULL, 0));
  report("ioctl-tiocsti", ioctl(0, TIOCSTI, "x"));
  report("ioctl-tiocsti-high", syscall(SYS_ioctl, 0, TIOCSTI | (1UL << 32), "x"));
  report("ioctl-tioclinux", ioctl(0, TIOCLINUX, "\2"));
  report("prctl-dumpable", prctl(PR_SET_DUMPABLE, 1));
  report("prctl-keepcaps", prctl(PR_SET_KEEPCAPS, 1));
  report("prctl-ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
  report("prctl-pdeathsig", prctl(PR_SET_PDEATHSIG, 0));
  report("prctl-ptracer", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY));
  report("prctl-securebits", prctl(PR_SET_SECUREBITS, 0));
  report("prctl-subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1));
  report("shmget", syscall(SYS_shmget, 1, 4096, 01600));
  report("msgget", syscall(SYS_msgget, 1, 01600));
  report("semget", syscall(SYS_semget, 1, 1, 01600));
  report("mq_open", syscall(SYS_mq_open, "/probe", O_RDWR | O_CREAT, 0600, NULL));
  report("sethostname", syscall(SYS_sethostname, "x", 1));
  report("setdomainname", syscall(SYS_setdomainname, "x", 1));
  report("timerfd", syscall(SYS_timerfd_create, 0, 0));
  report("signalfd", syscall(SYS_signalfd4, -1, NULL, 8, 0));
  report("splice", syscall(SYS_splice, 0, NULL, 1, NULL, 1, 0));
  report("vmsplice", syscall(SYS_vmsplice, 1, NULL, 0, 0));
  report("tee", syscall(SYS_tee, 0, 1, 1, 0));
  report("mlock", syscall(SYS_mlockall, 1));
  report("migrate-pages", syscall(SYS_migrate_pages, 0, 0, NULL, NULL));
  report("move-pages", syscall(SYS_move_pages, 2, 0, NULL, NULL, NULL, 0));
  report("process-madvise", syscall(SYS_process_madvise, 0, NULL, 0, 0, 0));
#ifdef SYS_landlock_create_ruleset
  report("landlock", syscall(SYS_landlock_create_ruleset, NULL, 0, 1));
#endif
}

struct fatal { const char *name; long number; };
#define FATAL(call) {#call, SYS_##call}
static const struct fatal fatals[] = {
  FATAL(ptrace), FATAL(process_vm_readv), FATAL(process_vm_writev), FATAL(kcmp), FATAL(pidfd_open), FATAL(pidfd_getfd),
  FATAL(pidfd_send_signal), FATAL(mount), FATAL(umount2), FATAL(pivot_root), FATAL(chroot), FATAL(setns), FATAL(unshare),
  FATAL(move_mount), FATAL(open_tree), FATAL(fsopen), FATAL(fsconfig), FATAL(fsmount), FATAL(fspick),
  FATAL(open_by_handle_at), FATAL(name_to_handle_at), FATAL(bpf), FATAL(perf_event_open), FATAL(userfaultfd),
  FATAL(keyctl), FATAL(add_key), FATAL(request_key), FATAL(seccomp), FATAL(personality), FATAL(init_module),
  FATAL(finit_module), FATAL(delete_module), FATAL(kexec_load), FATAL(reboot), FATAL(swapon), FATAL(acct),
  FATAL(settimeofday), FATAL(clock_settime), FATAL(syslog), FATAL(execveat), FATAL(memfd_create),
#ifdef __x86_64__
  FATAL(iopl), FATAL(ioperm), FATAL(modify_ldt),
  {"x32-getpid", 0x40000000 | 39}, {"x32-ptrace", 0x40000000 | 521}, {"int80-getpid", -1},
#endif
};

/* The filter ends the process; a return, whatever it says, is worth a report. */
static void fatal(const struct fatal *it) {
  long result;
#ifdef __x86_64__
  if (it->number == -1) __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
  else
#endif
    result = syscall(it->number, 0, 0, 0, 0, 0, 0);
  report(it->name, result);
}

int main(void) {
  /* The request on stdin: a number of a fatal attempt, or "all". */
  char request[16] = {0};
  struct pollfd input = {0, POLLIN, 0};
  poll(&input, 1, 5000);
  if (read(0, request, sizeof request - 1) <= 0) return 2;
  if (request[0] == 'a') {
    files();
    processes();
    kernel();
    sockets();
    dprintf(1, "done %zu\n", sizeof fatals / sizeof *fatals);
  } else {
    size_t index = (size_t)atoi(request);
    if (index >= sizeof fatals / sizeof *fatals) return 3;
    dprintf(1, "trying %s\n", fatals[index].name);
    fatal(&fatals[index]);
    dprintf(1, "done\n");
  }
  return 0;
}
