/** A temporary database on the server of another one. The next call drops a database that a killed process left behind. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { isPermissionDenied } from '../postgres/database-errors.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { listValues } from '../postgres/rows.ts';
import { BackupError, type Progress } from './format.ts';

const CONNECTION = { application_name: 'bulkhead-backup' };
const PREFIX = 'bulkhead_check_';
const DROP_ATTEMPTS = 50;
const DROP_RETRY_MS = 100;

/**
 * Creates a database, runs `work` with its address and drops it. Before that it drops those that killed processes left.
 *
 * @param signal drops the database at once; `work`, which loses its connections, rejects, and so does this function
 * @throws BackupError when the role may not create databases
 */
export async function withScratchDatabase<T>(
  url: string,
  onProgress: Progress,
  signal: AbortSignal | undefined,
  work: (url: string) => Promise<T>,
): Promise<T> {
  return withConnection(url, CONNECTION, async (client) => {
    await dropAbandoned(client, onProgress);
    const name = `${PREFIX}${randomUUID().replaceAll('-', '')}`;
    // Before the database exists, so that no other process takes it for an abandoned one. The lock ends with the connection.
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
    await create(client, name);
    const onAbort = (): void => void drop(client, name).catch(() => undefined);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      signal?.throwIfAborted();
      const scratch = new URL(url);
      scratch.pathname = `/${name}`;
      return await work(scratch.href);
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      await drop(client, name);
    }
  });
}

async function create(client: Client, name: string): Promise<void> {
  await client.query(`CREATE DATABASE ${name} TEMPLATE template0`).catch((error: Error) => {
    const remedy = isPermissionDenied(error)
      ? ' Allow it to the role with ALTER ROLE … CREATEDB, or check the backup on another server.'
      : '';
    throw new BackupError(`Cannot create a temporary database: ${error.message}.${remedy}`);
  });
}

async function drop(client: Client, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      return;
    } catch (error) {
      // PostgreSQL's own upkeep is connected for a moment, and only a superuser may end it.
      if (!isPermissionDenied(error) || attempt === DROP_ATTEMPTS) throw error;
      await sleep(DROP_RETRY_MS);
    }
  }
}

/** Drops the databases of this role whose locks are free. */
async function dropAbandoned(client: Client, onProgress: Progress): Promise<void> {
  // Looks for the locks instead of taking them: a lock taken here would not conflict with that of a process which is
  // connected to another database.
  const names = await listValues<string>(
    client,
    `SELECT d.datname::text FROM pg_database d
      WHERE d.datname ~ '^${PREFIX}[0-9a-f]{32}$' AND pg_get_userbyid(d.datdba) = current_user
        AND NOT EXISTS (
          SELECT FROM pg_locks l
           WHERE l.locktype = 'advisory' AND l.objsubid = 1
             AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(d.datname::text, 0))`,
  );
  for (const name of names) {
    await drop(client, name).then(
      () => onProgress(`the temporary database ${name} of an interrupted check is dropped`),
      (error: Error) =>
        onProgress(`the temporary database ${name} of an interrupted check cannot be dropped: ${error.message}`),
    );
  }
}
