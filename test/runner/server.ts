/** The PostgreSQL that tests share, with a migrated template that every test file copies. Knows nothing of tap. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { startQueues } from '../../db/jobs/queues.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../db/postgres/embedded.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { maintainAudit } from '../../db/records/audit.ts';
import { maintainLogs } from '../../db/records/logs.ts';
import { chooseDiskFolder, chooseTemporaryFolder } from './temporary-folder.ts';

/** Where `npm test` has its PostgreSQL. */
export const SERVER_VARIABLE = 'BULKHEAD_TEST_DATABASE_URL';
export const TEMPLATE = 'bulkhead_template';
/**
 * Who may connect. Of the application's role no password is asked, whose check takes 2.4 of the 5.5 ms of processor time of a
 * connection. The server runs programs for its administrator, who needs the password.
 */
const CONNECTIONS = ['host all bulkhead 127.0.0.1/32 trust', 'host all all 127.0.0.1/32 scram-sha-256', ''].join('\n');

export interface TestServer {
  readonly url: string;
  readonly dataDir: string;
  stop(): Promise<void>;
}

interface ServerOptions {
  /** Flushes commits to a disk, as the service's own server does: for measurements. Default: false. */
  readonly durable?: boolean;
}

/** Starts it in a temporary folder, in memory if there is enough. `npm test` does so once for all files, a file run on its own for itself. */
export async function startTestServer({ durable = false }: ServerOptions = {}): Promise<TestServer> {
  const parent = durable ? await chooseDiskFolder() : await chooseTemporaryFolder();
  const dataDir = await mkdtemp(join(parent, 'bulkhead-test-postgres-'));
  let postgres: EmbeddedPostgres | undefined;
  const stop = async (): Promise<void> => {
    await postgres?.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    postgres = await startEmbedded({ dataDir, throwAway: !durable });
    await writeFile(join(dataDir, 'postgres', 'pg_hba.conf'), CONNECTIONS);
    process.kill(postgres.pid, 'SIGHUP');
    await command(postgres.url, `CREATE DATABASE ${TEMPLATE}`);
    await fillTemplate(withDatabase(postgres.url, TEMPLATE));
    return { url: postgres.url, dataDir, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** All tables, pg-boss's and the current partitions included: each start of an API or a supervisor would create what is missing. */
async function fillTemplate(url: string): Promise<void> {
  await migrate(url);
  const onError = (error: Error): never => {
    throw error;
  };
  const database = openPool(url, { name: 'bulkhead-test-template', connections: 2, onError });
  const queues = await startQueues({ pool: database.pool, role: 'producer', onError });
  await queues.stop();
  await maintainLogs(database.pool);
  await maintainAudit(database.pool);
  await database.close();
}

/** Runs one statement on a connection of its own: databases are neither made nor dropped inside a pool. */
export async function command(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** The address of another database on the same server. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
