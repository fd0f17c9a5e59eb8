/** PostgreSQL out of the npm package, kept in DATA_DIR: what `npm start` uses when DATABASE_URL is not set. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeIdentifier, escapeLiteral } from 'pg';
import { z } from 'zod';
import { lockDataDir, type Purpose, replaceFile } from '../files/data-dir.ts';
import { findBinaries } from './binaries.ts';
import { createCluster, type Passwords, readPasswords } from './cluster.ts';
import { withConnection } from './dedicated-connection.ts';
import { chooseLauncher } from './launcher.ts';
import { stopOrphans } from './orphaned-servers.ts';
import { type PostgresServer, startServer } from './server.ts';

/** Role and database Bulkhead works as and in. */
const NAME = 'bulkhead';
const addressFile = (dataDir: string): string => join(dataDir, 'postgres.json');
const PATIENT = { connectionTimeoutMillis: 5_000 };
const address = z.object({ url: z.string() });

const durable = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' };
/** For data that is thrown away with its folder anyway, as in tests. */
const careless = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' };
/** Statements and row contents stay out of the log: they may hold secrets. */
const discreet = { log_min_error_statement: 'panic', log_error_verbosity: 'terse', log_checkpoints: 'off' };

export interface EmbeddedOptions {
  readonly dataDir: string;
  /** `service` (the default) can be found by others and is waited for by nobody; a `command` is the opposite. */
  readonly purpose?: Purpose;
  /** Give up durability for speed; only for data nobody wants to keep. */
  readonly throwAway?: boolean;
}

export interface EmbeddedPostgres {
  /** `postgres://` address of Bulkhead's database. Stays the same over `restart`, as far as the port is to be had. */
  readonly url: string;
  /** Process id of the server. */
  readonly pid: number;
  /** Resolves when the server has ended, also by a crash. After `restart`, ask again. */
  ended(): Promise<void>;
  /** Starts the server again after it ended by itself. */
  restart(): Promise<void>;
  /** Shuts down, then gives DATA_DIR back. Nothing is left running. */
  stop(): Promise<void>;
}

/**
 * Starts the embedded PostgreSQL, making its data directory first where there is none.
 *
 * @throws DataDirInUseError when another service runs on this DATA_DIR; otherwise an Error with one sentence
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const { dataDir } = options;
  const lock = await lockDataDir(dataDir, options.purpose ?? 'service');
  let server: PostgresServer | undefined;
  try {
    const binaries = await findBinaries();
    const launcher = chooseLauncher(binaries.postgres);
    const cluster = await createCluster(dataDir, binaries, launcher);
    const passwords = await readPasswords(dataDir);
    const parameters = { ...(options.throwAway ? careless : durable), ...discreet };
    const logFile = join(dataDir, 'postgres.log');
    const launch = async (port?: number): Promise<PostgresServer> => {
      await stopOrphans(cluster);
      const next = { postgres: binaries.postgres, launcher, cluster, logFile, parameters };
      return startServer(port === undefined ? next : { ...next, port });
    };
    server = await launch();
    await makeDatabase(server.port, passwords);
    if (options.purpose !== 'command') await publish(dataDir, server.port, passwords);
    return running(dataDir, server, passwords, launch, lock.release);
  } catch (error) {
    await server?.stop();
    lock.release();
    throw error;
  }
}

/**
 * Finds the embedded PostgreSQL that another process runs on this DATA_DIR.
 *
 * @returns its address if it answers, else null
 */
export async function findEmbedded(dataDir: string): Promise<string | null> {
  try {
    const { url } = address.parse(JSON.parse(await readFile(addressFile(dataDir), 'utf8')));
    await withConnection(url, PATIENT, async () => undefined);
    return url;
  } catch {
    return null;
  }
}

function running(
  dataDir: string,
  first: PostgresServer,
  passwords: Passwords,
  launch: (port: number) => Promise<PostgresServer>,
  release: () => void,
): EmbeddedPostgres {
  let server = first;
  return {
    get url() {
      return urlOf(NAME, passwords.application, server.port, NAME);
    },
    get pid() {
      return server.pid;
    },
    ended: () => server.ended,
    async restart() {
      await server.ended;
      server = await launch(server.port);
      await publish(dataDir, server.port, passwords);
    },
    async stop() {
      await server.stop();
      await rm(addressFile(dataDir), { force: true });
      release();
    },
  };
}

/** Not for a command's: it stops under the feet of whoever finds it. */
async function publish(dataDir: string, port: number, passwords: Passwords): Promise<void> {
  await replaceFile(addressFile(dataDir), JSON.stringify({ url: urlOf(NAME, passwords.application, port, NAME) }));
}

/** Idempotent, as the last start may have been killed between any two statements. */
async function makeDatabase(port: number, passwords: Passwords): Promise<void> {
  await withConnection(urlOf('postgres', passwords.superuser, port, 'postgres'), PATIENT, async (client) => {
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

function urlOf(role: string, password: string, port: number, database: string): string {
  return `postgres://${role}:${password}@127.0.0.1:${port}/${database}`;
}
