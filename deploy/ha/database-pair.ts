/**
 * Two PostgreSQL servers under Patroni with etcd and HAProxy, all on this machine: for a trial, and for tests that kill the
 * primary. They run with the files of this folder, as three machines do.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chownSync } from 'node:fs';
import { mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { withConnection } from '../../db/postgres/dedicated-connection.ts';
import { chooseLauncher, type Launcher } from '../../db/postgres/launcher.ts';
import { findProgram } from '../../service/settings/search-path.ts';
import type { HaPrograms } from './ha-programs.ts';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const HOST = '127.0.0.1';
/** Time limit of a start: the first one creates the cluster and copies it to the standby. Milliseconds. */
const START_MS = 120_000;
/** Time for an orderly stop before SIGKILL. Milliseconds. */
const STOP_MS = 20_000;
const POLL_MS = 250;

type Environment = Readonly<Record<string, string>>;

export interface DatabasePair {
  /** Address of the primary, through HAProxy. */
  readonly url: string;
  readonly nodes: readonly PostgresNode[];
  /** Waits until one of them is the primary and the other one its synchronous standby. */
  waitUntilSafe(): Promise<void>;
  stop(): Promise<void>;
}
interface PairOptions {
  /** Data and logs. */
  readonly folder: string;
  readonly programs: HaPrograms;
  /** A free port. */
  takePort(): Promise<number>;
  /** Variables for `haproxy.cfg`: the addresses of APIs and supervisors. */
  readonly balanced: Environment;
}

export async function startDatabasePair(options: PairOptions): Promise<DatabasePair> {
  const { folder, programs, takePort } = options;
  const launcher = chooseLauncher(join(programs.postgresBin, 'postgres'));
  await mkdir(folder, { recursive: true });
  const endings: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const etcd = `${HOST}:${await takePort()}`;
    const peers = `http://${HOST}:${await takePort()}`;
    endings.push(await startEtcd(options, etcd, peers));
    const passwords = { superuser: makePassword(), replication: makePassword(), rewind: makePassword() };
    const own = makePassword();
    const nodes: PostgresNode[] = [];
    for (const name of ['postgres-1', 'postgres-2']) {
      const node = new PostgresNode({
        name,
        folder,
        programs,
        launcher,
        port: await takePort(),
        restPort: await takePort(),
        env: { ...describePasswords(passwords), BULKHEAD_DATABASE_PASSWORD: own, PATRONI_ETCD3_HOST: etcd },
      });
      nodes.push(node);
      endings.push(() => node.stop());
      await node.start();
      // The second one copies the data of the first one, which must be the primary by then.
      if (nodes.length === 1) await waitFor('the first PostgreSQL', async () => (await node.readRole()) === 'primary');
    }
    const port = await takePort();
    endings.push(await startHaproxy(options, nodes, port));
    const url = `postgres://bulkhead:${own}@${HOST}:${port}/bulkhead`;
    const waitUntilSafe = () => waitFor('a primary with a synchronous standby', () => isSafe(url, nodes));
    await waitUntilSafe();
    return { url, nodes, waitUntilSafe, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const makePassword = (): string => randomBytes(16).toString('hex');

const describePasswords = (given: Readonly<Record<'superuser' | 'replication' | 'rewind', string>>): Environment => ({
  PATRONI_SUPERUSER_USERNAME: 'postgres',
  PATRONI_SUPERUSER_PASSWORD: given.superuser,
  PATRONI_REPLICATION_USERNAME: 'replicator',
  PATRONI_REPLICATION_PASSWORD: given.replication,
  PATRONI_REWIND_USERNAME: 'rewinder',
  PATRONI_REWIND_PASSWORD: given.rewind,
});

async function isSafe(url: string, nodes: readonly PostgresNode[]): Promise<boolean> {
  const roles = await Promise.all(nodes.map((node) => node.readRole()));
  if (!roles.includes('primary') || !roles.includes('sync_standby')) return false;
  await withConnection(url, { connectionTimeoutMillis: START_MS }, async (client) => client.query('SELECT 1'));
  return true;
}

/** @returns a function that stops etcd */
async function startEtcd(
  { folder, programs }: PairOptions,
  address: string,
  peers: string,
): Promise<() => Promise<void>> {
  const child = await launch([programs.etcd], join(folder, 'etcd.log'), {
    ETCD_NAME: 'etcd-1',
    ETCD_DATA_DIR: join(folder, 'etcd'),
    ETCD_LISTEN_CLIENT_URLS: `http://${address}`,
    ETCD_ADVERTISE_CLIENT_URLS: `http://${address}`,
    ETCD_LISTEN_PEER_URLS: peers,
    ETCD_INITIAL_ADVERTISE_PEER_URLS: peers,
    ETCD_INITIAL_CLUSTER: `etcd-1=${peers}`,
  });
  return () => end(child, 'SIGTERM');
}

async function startHaproxy(
  { folder, programs, balanced }: PairOptions,
  [first, second]: readonly PostgresNode[],
  port: number,
): Promise<() => Promise<void>> {
  const command = [programs.haproxy, '-db', '-f', join(FOLDER, 'haproxy.cfg')];
  const child = await launch(command, join(folder, 'haproxy.log'), {
    ...balanced,
    DATABASE_BIND: `${HOST}:${port}`,
    POSTGRES_1: `${HOST}:${first?.port}`,
    POSTGRES_2: `${HOST}:${second?.port}`,
    PATRONI_1_PORT: String(first?.restPort),
    PATRONI_2_PORT: String(second?.restPort),
  });
  return () => end(child, 'SIGTERM');
}

interface NodeOptions {
  readonly name: string;
  readonly folder: string;
  readonly programs: HaPrograms;
  readonly launcher: Launcher;
  readonly port: number;
  readonly restPort: number;
  readonly env: Environment;
}

/** One of the two PostgreSQL servers, with its Patroni. */
class PostgresNode {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  readonly #options: NodeOptions;
  readonly #dataDir: string;
  #child: ChildProcess | null = null;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.name = options.name;
    this.port = options.port;
    this.restPort = options.restPort;
    this.#dataDir = join(options.folder, options.name, 'data');
  }

  async start(): Promise<void> {
    const { name, folder, programs, launcher, env } = this.#options;
    const own = join(folder, name);
    await mkdir(own, { recursive: true });
    if (launcher.owner !== null && process.getuid?.() === 0) chownSync(own, launcher.owner, launcher.owner);
    const command = [...launcher.prefix, programs.patroni, join(FOLDER, 'patroni.yml')];
    this.#child = await launch(command, join(folder, `${name}.log`), {
      ...env,
      HA_FOLDER: FOLDER,
      POSTGRES_BIN_DIR: programs.postgresBin,
      HOME: own,
      PYTHONPATH: programs.pythonPath,
      PYTHONDONTWRITEBYTECODE: '1',
      PATRONI_NAME: name,
      PATRONI_RESTAPI_LISTEN: `${HOST}:${this.restPort}`,
      PATRONI_RESTAPI_CONNECT_ADDRESS: `${HOST}:${this.restPort}`,
      PATRONI_POSTGRESQL_LISTEN: `${HOST}:${this.port}`,
      PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${HOST}:${this.port}`,
      PATRONI_POSTGRESQL_DATA_DIR: this.#dataDir,
      PATRONI_POSTGRESQL_BIN_DIR: programs.postgresBin,
      PATRONI_POSTGRESQL_PGPASS: join(own, 'pgpass'),
    });
  }

  /** Reads its role from Patroni. Null: Patroni does not answer. */
  async readRole(): Promise<string | null> {
    try {
      const answer = await fetch(`http://${HOST}:${this.restPort}/patroni`, { signal: AbortSignal.timeout(STOP_MS) });
      const { role, state, sync_standby: isSynchronous } = await answer.json();
      if (state !== 'running' && state !== 'streaming') return null;
      if (role === 'master' || role === 'primary') return 'primary';
      return isSynchronous === true ? 'sync_standby' : role;
    } catch {
      return null;
    }
  }

  /**
   * Stops Patroni and PostgreSQL.
   *
   * @param signal SIGTERM: Patroni stops its server; SIGKILL: as when the machine vanishes
   */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    if (this.#child) await end(this.#child, signal);
    const text = await readFile(join(this.#dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
    const pid = Number.parseInt(text, 10);
    // A file that an earlier server left behind may name another process by now.
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (command.includes(this.#dataDir)) process.kill(pid, 'SIGKILL');
  }
}

/** Prefix of a command that the kernel ends when this process ends. */
const dieWithParent = (): string[] => (findProgram('setpriv') === null ? [] : ['setpriv', '--pdeathsig', 'TERM', '--']);

async function launch(command: readonly string[], logFile: string, env: Environment): Promise<ChildProcess> {
  const log = await open(logFile, 'a');
  const [program = '', ...args] = [...dieWithParent(), ...command];
  const child = spawn(program, args, {
    cwd: FOLDER,
    // Detached, because Ctrl-C in a terminal signals the whole process group, and the services must end before their database.
    detached: true,
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C.UTF-8', ...env },
    stdio: ['ignore', log.fd, log.fd],
  });
  await once(child, 'spawn');
  await log.close();
  return child;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(timer);
}

async function waitFor(what: string, check: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + START_MS;
  while (!(await check().catch(() => false))) {
    if (performance.now() > endsAt)
      throw new Error(`Not ready within ${START_MS / 1_000} s: ${what}. See the logs in the data folder.`);
    await sleep(POLL_MS);
  }
}
