/** One run of the PostgreSQL program: started, ready, stopped. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, statSync, truncateSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Launcher } from './launcher.ts';

/** Replaying the log after a crash may take minutes; longer means that something is wrong, milliseconds. */
const READY_TIMEOUT_MS = 300_000;
/** A fast shutdown writes one checkpoint; after this it is told to drop everything and recover at the next start. */
const STOP_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
/** The log is for the last few faults only, bytes. */
const LOG_MAX_BYTES = 10 * 1024 * 1024;
/** Somebody may take the free port we found before PostgreSQL does. */
const PORT_ATTEMPTS = 5;

export interface ServerOptions {
  readonly postgres: string;
  readonly launcher: Launcher;
  readonly cluster: string;
  readonly logFile: string;
  /** Tried first; a free one is taken when it is not to be had. */
  readonly port?: number;
  /** `-c` settings by name. */
  readonly parameters: Readonly<Record<string, string | number>>;
}

export interface PostgresServer {
  readonly pid: number;
  readonly port: number;
  /** Resolves when the program has ended, for whatever reason. */
  readonly ended: Promise<void>;
  /** Disconnects everybody and shuts down; resolves when nothing of it runs. */
  stop(): Promise<void>;
}

/**
 * Starts PostgreSQL on the loopback interface and waits until it takes connections.
 *
 * @throws with the last line of PostgreSQL's log when it ends instead
 */
export async function startServer(options: ServerOptions): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt++) {
    const port = attempt === 1 && options.port !== undefined ? options.port : await freePort();
    const logStart = openLog(options.logFile);
    const child = launch(options, port);
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const failed = await becomesReady(child, options.cluster);
    if (failed === null) return { pid: child.pid ?? 0, port, ended, stop: () => stop(child, ended) };
    await stop(child, ended);
    const log = (await readFile(options.logFile, 'utf8')).slice(logStart);
    if (attempt < PORT_ATTEMPTS && /could not bind|Address already in use/.test(log)) continue;
    const reason =
      log.split('\n').findLast((line) => /(FATAL|PANIC|ERROR|error|unshare|setpriv):/.test(line)) ?? failed;
    throw new Error(
      `PostgreSQL did not start: ${reason.replace(/^.*?(FATAL|PANIC|ERROR):\s*/, '')} (${options.logFile})`,
    );
  }
}

function launch({ postgres, launcher, cluster, logFile, parameters }: ServerOptions, port: number): ChildProcess {
  // TCP only: the path of a socket in DATA_DIR may be longer than the 107 bytes a socket address holds.
  const all = { ...parameters, listen_addresses: '127.0.0.1', unix_socket_directories: '', port };
  const settings = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [program = postgres, ...words] = [...launcher.prefix, postgres, '-D', cluster, ...settings];
  const log = openSync(logFile, 'a', 0o600);
  try {
    // Detached: Ctrl-C in a terminal reaches the whole process group, and PostgreSQL has to be the last one to stop.
    const child = spawn(program, words, { detached: true, stdio: ['ignore', log, log], env: serverEnvironment() });
    child.on('error', () => undefined);
    return child;
  } finally {
    closeSync(log);
  }
}

/** Our own environment may hold secrets, and PG* variables that would lead PostgreSQL astray. */
export function serverEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

/** @returns null when ready, or why not */
async function becomesReady(child: ChildProcess, cluster: string): Promise<string | null> {
  const started = Date.now();
  let gone = false;
  child.once('close', () => {
    gone = true;
  });
  while (!gone && child.pid !== undefined) {
    // Written by PostgreSQL: first line its process id, eighth line its state.
    const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
    if (Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready') return null;
    if (Date.now() - started > READY_TIMEOUT_MS) return `not ready within ${READY_TIMEOUT_MS / 1000} seconds`;
    await sleep(POLL_MS);
  }
  return 'it ended at once';
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  const running = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (!running()) return;
    child.kill(signal);
    const timer = new AbortController();
    await Promise.race([ended, sleep(STOP_TIMEOUT_MS, undefined, { signal: timer.signal }).catch(() => undefined)]);
    timer.abort();
  }
}

/** @returns where this run's lines begin, bytes */
function openLog(path: string): number {
  closeSync(openSync(path, 'a', 0o600));
  if (statSync(path).size > LOG_MAX_BYTES) truncateSync(path);
  return statSync(path).size;
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const address = probe.address();
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  if (address === null || typeof address === 'string') throw new Error('no free port on the loopback interface');
  return address.port;
}
