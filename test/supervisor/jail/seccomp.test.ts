/** Runs the filter in a small BPF interpreter, so that arm64 is tested on x64 machines too. */
import t from 'tap';
import { absent, allowed, fatal, guarded, seccompFilter } from '../../../supervisor/jail/seccomp.ts';
import { type Architecture, auditArchitecture, type CallName, calls } from '../../../supervisor/jail/syscalls.ts';

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;
const architectures: readonly Architecture[] = ['x64', 'arm64'];

/** The filter's return value for a call. */
function verdict(program: Uint8Array, architecture: number, number: number, args: readonly number[] = []): number {
  const view = new DataView(program.buffer);
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, number, true);
  data.setUint32(4, architecture, true);
  for (const [index, value] of args.entries()) data.setUint32(16 + 8 * index, value, true);
  let accumulator = 0;
  for (let at = 0; at < program.byteLength; at += 8) {
    const code = view.getUint16(at, true);
    const k = view.getUint32(at + 4, true);
    const [yes, no] = [view.getUint8(at + 2), view.getUint8(at + 3)];
    if (code === 0x20) accumulator = data.getUint32(k, true);
    else if (code === 0x06) return k;
    else if (code === 0x15) at += 8 * (accumulator === k ? yes : no);
    else if (code === 0x35) at += 8 * (accumulator >= k ? yes : no);
    else if (code === 0x45) at += 8 * ((accumulator & k) !== 0 ? yes : no);
    else throw new Error(`unknown opcode ${code}`);
  }
  throw new Error('ran off the end');
}

for (const architecture of architectures) {
  t.test(architecture, async (t) => {
    const program = seccompFilter(architecture);
    const audit = auditArchitecture[architecture];
    const callKernel = (name: CallName, ...args: number[]): number | null => {
      const number = calls[name][architecture];
      return number === null ? null : verdict(program, audit, number, args);
    };
    const each = (names: readonly CallName[], expected: number): void => {
      for (const name of names) t.ok([expected, null].includes(callKernel(name)), name);
    };
    each(allowed, ALLOW);
    each(absent, ENOSYS);
    each(fatal, KILL);
    t.equal(callKernel('openat', 0, 0, 0o2000000), ALLOW, 'open to read');
    t.equal(callKernel('openat', 0, 0, 1), EPERM, 'open to write');
    t.equal(callKernel('openat', 0, 0, 0o100), EPERM, 'open to create');
    t.equal(callKernel('clone', 0x003d0f00), ALLOW, 'a thread');
    t.equal(callKernel('clone', 0x01200011), EPERM, 'a fork');
    t.equal(callKernel('clone', 0x10010f00), EPERM, 'a thread in a new user namespace');
    t.equal(callKernel('tgkill', 1), ALLOW, 'a signal to itself');
    t.equal(callKernel('tgkill', 2), EPERM, 'a signal to another');
    t.equal(callKernel('prlimit64', 0, 3, 0, 0), ALLOW, 'read a limit');
    t.equal(callKernel('prlimit64', 0, 3, 4096), EPERM, 'set a limit');
    t.equal(callKernel('ioctl', 0, 0x5412), EPERM, 'type into the terminal (TIOCSTI)');
    t.equal(callKernel('fcntl', 0, 8), EPERM, 'send signals by descriptor (F_SETOWN)');
    t.equal(callKernel('prctl', 38), EPERM, 'prctl other than names');
    t.equal(verdict(program, audit, 0x3ff), EPERM, 'an unknown system call');
    t.equal(verdict(program, audit, 0x40000000), KILL, 'the x32 ABI');
    t.equal(verdict(program, 0x40000003, 1), KILL, 'a 32-bit program');
  });
}

t.test('no call is in two groups, and every name in the table is in one', async (t) => {
  const named = [...allowed, ...absent, ...fatal, ...Object.keys(guarded)];
  t.equal(new Set(named).size, named.length);
  t.same(new Set(named), new Set(Object.keys(calls)));
});

t.test('sockets, processes and signals are on no list that allows', async (t) => {
  // Numbers of socket, connect, bind, fork, vfork, kill, unlink, mkdir, rename, setuid on x64.
  for (const number of [41, 42, 49, 57, 58, 62, 87, 83, 82, 105]) {
    t.equal(verdict(seccompFilter('x64'), auditArchitecture.x64, number), EPERM, String(number));
  }
});
