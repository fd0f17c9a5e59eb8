/**
 * Resources for test files: a database of their own, temporary folders, and the leak guard. Everything is given back by a
 * teardown of the test it was made for.
 *
 * `npm test` starts one PostgreSQL for all files and says where in BULKHEAD_TEST_DATABASE_URL. A file run on its own
 * (`node test/db/postgres/pool.test.ts`) starts one for itself.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { openPool } from '../../db/postgres/pool.ts';
import { getRootTest, watchFolder } from './leak-guard.ts';
import { SERVER_VARIABLE, startTestServer, TEMPLATE, type TestServer, withDatabase } from './server.ts';

/** PostgreSQL copies a template only while nobody is connected to it: somebody else's copy may be just ending. */
const CLONE_ATTEMPTS = 50;
const CLONE_RETRY_MS = 100;
/**
 * Few: a new connection and its first statements cost 100 to 300 ms of processor time. Tests that hold more at once open a pool of
 * their own.
 */
const CONNECTIONS = 6;
/** PostgreSQL's own template, to which no client connects. */
const EMPTY = 'template0';
const OBJECT_IN_USE = '55006';
const INSUFFICIENT_PRIVILEGE = '42501';

/** Anything with tap's `teardown`: the file's `t` or that of one test. */
export interface Teardown {
  teardown(work: () => unknown): void;
}

export interface TestDatabase {
  /** `postgres://` address of a database that holds all tables and no rows, for this caller alone. */
  readonly url: string;
  readonly pool: Pool;
}

/** SIGKILL to a process that was looked up. @throws where it was not found: 0 would be the whole test run */
export function killProcess(pid: number | null | undefined): void {
  if (!pid) throw new Error('there is no such process to kill');
  process.kill(pid, 'SIGKILL');
}

/** A migrated, empty database. Dropped with the test, by force if somebody is still connected. */
export const testDatabase = (test: Teardown): Promise<TestDatabase> => copyDatabase(test, TEMPLATE);

/** A database without tables: an old release makes its own. Dropped with the test. */
export const emptyDatabase = (test: Teardown): Promise<TestDatabase> => copyDatabase(test, EMPTY);

async function copyDatabase(test: Teardown, template: string): Promise<TestDatabase> {
  const server = await serverUrl();
  const name = `test_${randomBytes(8).toString('hex')}`;
  await clone(server, name, template);
  test.teardown(() => drop(server, name));
  const url = withDatabase(server, name);
  const { pool, close } = openPool(url, { name: 'bulkhead-test', connections: CONNECTIONS, onError: () => undefined });
  // Closing idle connections would cost more than keeping them: the next statements would open others.
  pool.options.idleTimeoutMillis = 0;
  test.teardown(close);
  return { url, pool };
}

/** A folder under the system's temporary one, removed with the test. */
export async function temporaryFolder(test: Teardown): Promise<string> {
  return removeWithTest(test, await mkdtemp(join(tmpdir(), 'bulkhead-test-')));
}

/** Has a folder that was just made removed with the test. @returns the folder */
export function removeWithTest(test: Teardown, folder: string): string {
  const gone = watchFolder(folder);
  test.teardown(async () => {
    await rm(folder, { recursive: true, force: true });
    gone();
  });
  return folder;
}

let own: Promise<TestServer> | undefined;
let admin: Pool | undefined;

async function serverUrl(): Promise<string> {
  const given = process.env[SERVER_VARIABLE];
  if (given !== undefined) return given;
  own ??= startTestServer();
  return (await own).url;
}

/** Runs one statement on the connection with which this process makes and drops all its databases. */
async function command(server: string, sql: string): Promise<void> {
  // An idle connection would keep a program alive that is no test file and has no teardown.
  const options = { max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true };
  admin ??= new Pool({ connectionString: server, ...options }).on('error', () => undefined);
  await admin.query(sql);
}

// Registered at import, right after the guard's: it runs when every database of the file is gone, and before the guard.
getRootTest().teardown(async () => {
  await admin?.end();
  await (await own)?.stop();
});

/** PostgreSQL's own upkeep may be connected just now, and nobody but its administrator may end that. */
async function drop(server: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await command(server, `DROP DATABASE ${name} WITH (FORCE)`);
    } catch (error) {
      const busy = error instanceof Error && 'code' in error && error.code === INSUFFICIENT_PRIVILEGE;
      if (!busy || attempt === CLONE_ATTEMPTS) throw error;
      await sleep(CLONE_RETRY_MS);
    }
  }
}

async function clone(server: string, name: string, template: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      // Half the processor time of the default strategy, which writes every page to the write-ahead log.
      return await command(server, `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
    } catch (error) {
      const busy = error instanceof Error && 'code' in error && error.code === OBJECT_IN_USE;
      if (!busy || attempt === CLONE_ATTEMPTS) throw error;
      await sleep(CLONE_RETRY_MS);
    }
  }
}
