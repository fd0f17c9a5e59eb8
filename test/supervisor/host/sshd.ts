/** A real OpenSSH server for tests: a listener of the test's own, and `sshd -i` for each connection. */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { findProgram } from '../../../service/settings/search-path.ts';
import { readSshTargets, type SshTarget } from '../../../supervisor/host/ssh/hosts.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { whyMissing } from '../../runner/programs.ts';

const SSHD = findProgram('sshd') ?? '/usr/sbin/sshd';
/** Since OpenSSH 9.8 sshd starts this program, by this path. */
const SESSION = 'lib/openssh/sshd-session';
/** As root sshd wants the user `sshd`, which only an installed package has made. */
const lacksUser = process.getuid?.() === 0 && !/^sshd:/m.test(readFileSync('/etc/passwd', 'utf8'));
/** Why tests of SSH are skipped; false where they can run. */
export const noSshd: string | false = whyMissing('sshd') || whyMissing('ssh-keygen') || whyUnusable();

function whyUnusable(): string | false {
  const isUnpacked = existsSync(join(dirname(SSHD), '..', SESSION)) && !existsSync(join('/usr', SESSION));
  const canMount = !lacksUser || spawnSync('unshare', ['--mount', 'true']).status === 0;
  return (isUnpacked || !canMount) && 'this sshd runs only where it is installed: apt-get install openssh-server';
}

export interface Sshd {
  readonly folder: string;
  readonly port: number;
  /** Fingerprint of the key that the server shows. */
  readonly fingerprint: string;
  /** Connections open now, and all there were. */
  open(): number;
  total(): number;
  /** Breaks them all. */
  breakAll(): void;
  /** Returns the hosts as in the operator's file. */
  targets(changes?: Readonly<Record<string, unknown>>): Promise<readonly SshTarget[]>;
}

const exec = promisify(execFile);

/** Starts sshd, which ends with the test. The user who runs the test can log in with the key created here. */
export async function startSshd(test: Teardown): Promise<Sshd> {
  const folder = await temporaryFolder(test);
  const path = (name: string) => join(folder, name);
  for (const name of ['host', 'user', 'stranger'])
    await exec('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path(name)]);
  // OpenSSH wants its empty folder where it starts as root.
  if (process.getuid?.() === 0) await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
  await writeFile(path('authorized'), await readFile(path('user.pub')), { mode: 0o600 });
  const settings = [
    `HostKey ${path('host')}`,
    `AuthorizedKeysFile ${path('authorized')}`,
    'StrictModes no',
    'UsePAM no',
  ];
  settings.push('PasswordAuthentication no', 'PermitRootLogin yes', 'PidFile none', 'LogLevel QUIET');
  // Makes bash act as a nested shell, so that it skips the user's start-up files.
  settings.push('SetEnv SHLVL=1');
  await writeFile(path('config'), `${settings.join('\n')}\n`);
  const printed = (await exec('ssh-keygen', ['-lf', path('host.pub')])).stdout;
  const fingerprint = printed.split(' ')[1] ?? '';
  const [program = '', ...words] = [...(lacksUser ? await addUser(path('passwd')) : []), SSHD];
  const sockets = new Set<Socket>();
  let total = 0;
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    total += 1;
    sockets.add(socket);
    const child = spawn(program, [...words, '-i', '-f', path('config')], { stdio: ['pipe', 'pipe', 'ignore'] });
    socket.pipe(child.stdin);
    child.stdout.pipe(socket);
    child.stdin.on('error', () => undefined);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      child.kill();
    });
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const breakAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  test.teardown(async () => {
    breakAll();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const targets = async (changes: Readonly<Record<string, unknown>> = {}) => {
    const host = { id: 'web', name: 'Web server', address: '127.0.0.1', port, user: userInfo().username };
    const access = { privateKeyFile: 'user', hostKeys: [fingerprint], accounts: ['ann'] };
    await writeFile(path('hosts.json'), JSON.stringify([{ ...host, ...access, ...changes }]));
    return readSshTargets(path('hosts.json'));
  };
  return { folder, port, fingerprint, targets, breakAll, open: () => sockets.size, total: () => total };
}

/** Words before sshd's own that show it a list of users with `sshd`, in a mount namespace. */
async function addUser(file: string): Promise<string[]> {
  await writeFile(file, `${await readFile('/etc/passwd', 'utf8')}sshd:x:64322:64322::/run/sshd:/usr/sbin/nologin\n`);
  return ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/passwd && exec "$@"', file];
}
