/** Runs the embedded PostgreSQL: its programs are an npm package and its data is in DATA_DIR. Used if DATABASE_URL is not set. */
import { existsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeIdentifier, escapeLiteral } from 'pg';
import { z } from 'zod';
import { PRIVATE_FILE, replaceFile } from '../../sdk/files/replace-file.ts';
import { lockDataDir, type Purpose, tryLock } from '../files/data-dir.ts';
import { findBinaries } from './binaries.ts';
import { createCluster, type Passwords, readPasswords } from './cluster.ts';
import { isConnectTimeout } from './database-errors.ts';
import { withConnection } from './dedicated-connection.ts';
import { chooseLauncher } from './launcher.ts';
import { stopOrphans } from './orphaned-servers.ts';
import { type PostgresServer, startServer } from './server.ts';

/** Name of Bulkhead's role and database. */
const NAME = 'bulkhead';
const addressFile = (dataDir: string): string => join(dataDir, 'postgres.json');
/** An idle server answers within milliseconds, and one of a loaded machine within a second. */
const CONNECTION = { connectionTimeoutMillis: 5_000 };
const address = z.object({ url: z.string() });

/** PostgreSQL's default. */
const CONNECTIONS_MIN = 100;
const durable = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' };
/** For tests, whose data is deleted anyway. */
const notDurable = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '256MB',
  autovacuum: 'off',
  // Several test files run at once, each with the connection pools of a whole service.
  max_connections: '300',
};
/** Triggers need this library: loaded once for all connections, instead of by each, it saves 2 ms of the first statement. */
const preloaded = { shared_preload_libraries: 'plpgsql' };
/** Keeps statements and rows, which may contain secrets, out of the log, and everything that grows with the number of requests. */
const quietLog = {
  // Statements return their errors to the client. Logging them, too, would fill the disk when an account over its quota retries.
  // `log` ranks above `error` here: starts, FATAL and PANIC stay in the log, where `startServer` looks for them.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};

interface EmbeddedOptions {
  readonly dataDir: string;
  /** Default: `service`, whose server `findEmbedded` finds. It does not find the server of a `command`. */
  readonly purpose?: Purpose;
  /** Trades durability for speed. Only for data that is deleted anyway. */
  readonly throwAway?: boolean;
  /** Connections that it allows at once, never less than PostgreSQL's default of 100. */
  readonly connections?: number;
}

export interface EmbeddedPostgres {
  /** `postgres://` address of Bulkhead's database. `restart` does not change it. */
  readonly url: string;
  readonly pid: number;
  /** Resolves when the server has exited or crashed. Call it again after `restart`. */
  ended(): Promise<void>;
  /** Starts the server again after a crash. @throws Error while another program uses its port */
  restart(): Promise<void>;
  /** Shuts down, then releases DATA_DIR. */
  stop(): Promise<void>;
}

/**
 * Starts the embedded PostgreSQL. Creates its data directory unless it exists.
 *
 * @throws DataDirInUseError when another service uses this DATA_DIR
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const { dataDir } = options;
  const lock = await lockDataDir(dataDir, options.purpose ?? 'service');
  let server: PostgresServer | undefined;
  try {
    // In a copy of a DATA_DIR, the file names the server of the original, and from now on a process holds the lock of the copy.
    await rm(addressFile(dataDir), { force: true });
    const binaries = await findBinaries();
    const launcher = chooseLauncher(binaries.postgres);
    const cluster = await createCluster(dataDir, binaries, launcher);
    const passwords = await readPasswords(dataDir);
    const max_connections = String(Math.max(CONNECTIONS_MIN, options.connections ?? 0));
    const parameters = { max_connections, ...(options.throwAway ? notDurable : durable), ...preloaded, ...quietLog };
    const logFile = join(dataDir, 'postgres.log');
    const launch = async (port?: number): Promise<PostgresServer> => {
      await stopOrphans(cluster);
      const next = { postgres: binaries.postgres, launcher, cluster, logFile, parameters };
      return startServer(port === undefined ? next : { ...next, port });
    };
    server = await launch();
    await createDatabase(server.port, passwords);
    const url = formatUrl(NAME, passwords.application, server.port, NAME);
    // A command stops its server when it is done, so no other process may start to use it.
    if (options.purpose !== 'command') await replaceFile(addressFile(dataDir), JSON.stringify({ url }), PRIVATE_FILE);
    return manageServer(dataDir, server, url, launch, lock.release);
  } catch (error) {
    await server?.stop();
    lock.release();
    throw error;
  }
}

/** Whether this DATA_DIR has an embedded PostgreSQL, or a process that has begun to create one: there is a cluster or a lock. */
export const hasEmbedded = (dataDir: string): boolean =>
  ['postgres', 'lock'].some((name) => existsSync(join(dataDir, name)));

/**
 * Finds the embedded PostgreSQL that another process runs in this DATA_DIR.
 *
 * @returns its address if it accepts connections, else null
 * @throws Error if it does not answer
 */
export async function findEmbedded(dataDir: string): Promise<string | null> {
  try {
    const { url } = address.parse(JSON.parse(await readFile(addressFile(dataDir), 'utf8')));
    // If no process holds the lock, the server of the file has ended and another program may have its port, or this folder is a copy
    // of a DATA_DIR whose service runs: the file then names the database of the original.
    if (!isLocked(dataDir)) return null;
    await withConnection(url, CONNECTION, async () => undefined);
    return url;
  } catch (error) {
    if (isConnectTimeout(error))
      throw new Error(
        `The embedded PostgreSQL of DATA_DIR ${dataDir} did not answer within ${CONNECTION.connectionTimeoutMillis / 1_000} s. See ${join(dataDir, 'postgres.log')}, or restart the service.`,
      );
    // There is no address file, or the server of the file has ended.
    return null;
  }
}

function isLocked(dataDir: string): boolean {
  const path = join(dataDir, 'lock');
  // Not created, because `hasEmbedded` looks for it.
  if (!existsSync(path)) return false;
  const lock = tryLock(path);
  lock?.release();
  return lock === null;
}

function manageServer(
  dataDir: string,
  first: PostgresServer,
  url: string,
  launch: (port: number) => Promise<PostgresServer>,
  release: () => void,
): EmbeddedPostgres {
  let server = first;
  return {
    url,
    get pid() {
      return server.pid;
    },
    ended: () => server.ended,
    async restart() {
      await server.ended;
      server = await launch(server.port);
    },
    async stop() {
      await server.stop();
      await rm(addressFile(dataDir), { force: true });
      release();
    },
  };
}

/** Creates Bulkhead's role and database. Idempotent, because the last start may have been killed between two statements. */
async function createDatabase(port: number, passwords: Passwords): Promise<void> {
  await withConnection(formatUrl('postgres', passwords.superuser, port, 'postgres'), CONNECTION, async (client) => {
    const found = await client.query(
      'SELECT (SELECT true FROM pg_roles WHERE rolname = $1) AS role, (SELECT true FROM pg_database WHERE datname = $1) AS database',
      [NAME],
    );
    const name = escapeIdentifier(NAME);
    const password = escapeLiteral(passwords.application);
    if (found.rows[0]?.role !== true) await client.query(`CREATE ROLE ${name} LOGIN CREATEDB PASSWORD ${password}`);
    if (found.rows[0]?.database !== true) await client.query(`CREATE DATABASE ${name} OWNER ${name}`);
  });
}

function formatUrl(role: string, password: string, port: number, database: string): string {
  // The server has no TLS. Without this parameter, the driver reads PGSSLMODE, which may be set for other servers.
  return `postgres://${role}:${password}@127.0.0.1:${port}/${database}?sslmode=disable`;
}
