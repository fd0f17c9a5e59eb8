/** Starts the PostgreSQL server, waits until it is ready, and stops it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, statSync, truncateSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Launcher } from './launcher.ts';

/** Crash recovery may take minutes. Milliseconds. */
const READY_TIMEOUT_MS = 300_000;
/** A fast shutdown writes one checkpoint; after this time the next, harder signal follows. Milliseconds. */
const STOP_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
/** A longer log is truncated at the next start. */
const LOG_MAX_BYTES = 10 * 1024 * 1024;
/** Another program may take the free port before PostgreSQL does. */
const PORT_ATTEMPTS = 5;

interface ServerOptions {
  readonly postgres: string;
  readonly launcher: Launcher;
  readonly cluster: string;
  readonly logFile: string;
  /** Of a server that ran before, whose clients know no other. Default: any free port. */
  readonly port?: number;
  /** `-c` settings by name. */
  readonly parameters: Readonly<Record<string, string | number>>;
}

export interface PostgresServer {
  readonly pid: number;
  readonly port: number;
  /** Resolves when the server has exited, for whatever reason. */
  readonly ended: Promise<void>;
  /** Disconnects all clients and shuts down. */
  stop(): Promise<void>;
}

/**
 * Starts PostgreSQL on the loopback interface and waits until it accepts connections.
 *
 * @throws Error with the last error of PostgreSQL's log when it exits instead
 */
export async function startServer(options: ServerOptions): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await findFreePort());
    const logStart = openLog(options.logFile);
    const child = launch(options, port);
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const failed = await waitUntilReady(child, options.cluster);
    if (failed === null) return { pid: child.pid ?? 0, port, ended, stop: () => stopServer(child, ended) };
    await stopServer(child, ended);
    const log = (await readFile(options.logFile)).subarray(logStart).toString('utf8');
    const isPortTaken = /could not bind|Address already in use/.test(log);
    if (isPortTaken && options.port !== undefined)
      throw new Error(`PostgreSQL did not start: another program uses its port ${port}. Stop that program.`);
    if (isPortTaken && attempt < PORT_ATTEMPTS) continue;
    const reason =
      log.split('\n').findLast((line) => /(FATAL|PANIC|ERROR|error|unshare|setpriv):/.test(line)) ?? failed;
    throw new Error(
      `PostgreSQL did not start: ${reason.replace(/^.*?(FATAL|PANIC|ERROR):\s*/, '')} (${options.logFile})`,
    );
  }
}

function launch({ postgres, launcher, cluster, logFile, parameters }: ServerOptions, port: number): ChildProcess {
  // TCP only: a socket in DATA_DIR may have a path longer than the 107 bytes of a socket address.
  const all = { ...parameters, listen_addresses: '127.0.0.1', unix_socket_directories: '', port };
  const settings = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [program = postgres, ...args] = [...launcher.prefix, postgres, '-D', cluster, ...settings];
  const log = openSync(logFile, 'a', 0o600);
  try {
    // Detached: Ctrl-C in a terminal signals the whole process group, and PostgreSQL must stop last.
    const child = spawn(program, args, { detached: true, stdio: ['ignore', log, log], env: serverEnvironment() });
    child.on('error', () => undefined);
    return child;
  } finally {
    closeSync(log);
  }
}

/** A minimal environment: this process's own may hold secrets and PG* variables. */
export function serverEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

/** @returns null when ready, or the reason why not */
async function waitUntilReady(child: ChildProcess, cluster: string): Promise<string | null> {
  const started = performance.now();
  let exited = false;
  child.once('close', () => {
    exited = true;
  });
  while (!exited && child.pid !== undefined) {
    // PostgreSQL writes its process id into the first line and its state into the eighth. The file is missing at first.
    const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
    if (Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready') return null;
    if (performance.now() - started > READY_TIMEOUT_MS) return `not ready within ${READY_TIMEOUT_MS / 1000} seconds`;
    await sleep(POLL_MS);
  }
  return 'it exited at once';
}

async function stopServer(child: ChildProcess, ended: Promise<void>): Promise<void> {
  const running = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (!running()) return;
    child.kill(signal);
    await Promise.race([ended, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
  }
}

/** @returns the length of the log so far, bytes */
function openLog(path: string): number {
  closeSync(openSync(path, 'a', 0o600));
  if (statSync(path).size > LOG_MAX_BYTES) truncateSync(path);
  return statSync(path).size;
}

async function findFreePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const address = probe.address();
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  if (address === null || typeof address === 'string') throw new Error('The loopback interface has no free port.');
  return address.port;
}
