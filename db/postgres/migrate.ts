/** Applies the numbered SQL migrations, forward only. */
import { addAbortListener } from 'node:events';
import { readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { buildIndexes, CONCURRENT_INDEXES, type ConcurrentIndex } from './concurrent-indexes.ts';
import { isLockRefused } from './database-errors.ts';
import { withConnection } from './dedicated-connection.ts';
import { listValues, type Queryable } from './rows.ts';

/** Folder of this release's migrations. */
export const MIGRATIONS = fileURLToPath(new URL('../migrations', import.meta.url));
/** It has what the statements use, such as `NULLS NOT DISTINCT`. Older ones are not tested. */
const OLDEST_POSTGRES = 15;
const CONNECTION = { application_name: 'bulkhead-migrate', connectionTimeoutMillis: 10_000 };

/** A migration waits this long for a lock, because all traffic of that table waits behind it. Milliseconds. */
const LOCK_TIMEOUT_MS = 5_000;
/** Within this time the server notices that the client is gone, also during a statement and a wait for a lock. Milliseconds. */
const CLIENT_CHECK_MS = 1_000;
/** Between two attempts, milliseconds: the traffic that waited is served. */
const PAUSE_MS = 1_000;
const WAITING =
  'the migrations wait for locks that another transaction holds, such as a dump of the database; they are retried';

interface MigrateOptions {
  /** Folder of the SQL files; each starts with `-- Up Migration`. Default: `MIGRATIONS`. */
  readonly directory?: string;
  /** Maximum number of migrations. Default: all. */
  readonly count?: number;
  /** Built after the migrations, unless `count` is set. Default: `CONCURRENT_INDEXES`. */
  readonly indexes?: readonly ConcurrentIndex[];
  /** Called with a sentence after each attempt that did not get its locks, and before the build of an index. */
  readonly onWait?: (sentence: string) => void;
  /** Closes the connection. The server rolls back within `CLIENT_CHECK_MS`. Migrations that are committed stay. */
  readonly signal?: AbortSignal;
}

/**
 * Applies the missing migrations in one transaction, then builds the missing indexes of `CONCURRENT_INDEXES`. Any number of
 * processes may call it at once: they wait for node-pg-migrate's advisory lock, and the later ones find nothing to do. Where
 * the transaction meets a deadlock with the traffic, or a lock that is not given in time, it is rolled back and tried again.
 *
 * It opens its own connection because the lock belongs to a session and a migration may exceed the pool's statement
 * timeout.
 *
 * @param url a `postgres://` address
 * @returns the names of the migrations this call applied
 * @throws Error also when the signal aborts
 */
export async function migrate(
  url: string,
  { directory = MIGRATIONS, count, indexes = CONCURRENT_INDEXES, onWait, signal }: MigrateOptions = {},
): Promise<string[]> {
  // Loaded here because API and supervisor import this file for the list of migrations only.
  const { runner } = await import('node-pg-migrate');
  return withConnection(url, CONNECTION, async (client) => {
    using _aborting = signal && addAbortListener(signal, () => void client.end());
    await requireSuitableDatabase(client);
    await client.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
    // A server on a platform without this check refuses the setting: there, the statement or its wait ends first.
    await client.query(`SET client_connection_check_interval = ${CLIENT_CHECK_MS}`).catch(() => undefined);
    // The transaction of the migrations may be committed when the build of an index meets a deadlock and all is tried again.
    const names: string[] = [];
    for (;;) {
      try {
        const applied = await runner({
          dbClient: client,
          dir: directory,
          direction: 'up',
          migrationsTable: 'migrations',
          checkOrder: true,
          singleTransaction: true,
          advisoryLockMode: 'wait',
          log: () => undefined,
          ...(count === undefined ? {} : { count }),
        });
        names.push(...applied.map((migration) => migration.name));
        if (count === undefined) await buildIndexes(client, indexes, (sentence) => onWait?.(sentence));
        return names;
      } catch (error) {
        signal?.throwIfAborted();
        if (!isLockRefused(error)) throw explainOtherMigrations(error);
        onWait?.(WAITING);
        await sleep(PAUSE_MS, undefined, { signal });
      }
    }
  });
}

/** The message of node-pg-migrate. */
const OTHER_MIGRATIONS = /^Not run migration (\S+) is preceding already run migration (\S+)$/;

function explainOtherMigrations(error: unknown): unknown {
  const names = error instanceof Error && OTHER_MIGRATIONS.exec(error.message);
  if (!names) return error;
  return new Error(
    `The database has the migration ${names[2]} where this release has ${names[1]}, so this release cannot migrate it. Use the release that migrated it.`,
  );
}

interface DatabaseFacts {
  readonly version: number;
  readonly role: string;
  readonly database: string;
  readonly encoding: string;
  readonly mayCreate: boolean;
}

/** @throws Error with one sentence when the server is too old, its encoding is not UTF8, or the role may not create tables */
async function requireSuitableDatabase(client: Client): Promise<void> {
  const { rows } = await client.query<DatabaseFacts>(
    `SELECT current_setting('server_version_num')::int AS version, current_user AS role, current_database() AS database,
            current_setting('server_encoding') AS encoding,
            has_schema_privilege('public', 'CREATE')
              AND (has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('pgboss') IS NOT NULL
                -- The migration that creates the extension says more about it.
                OR NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm')) AS "mayCreate"`,
  );
  const [found] = rows;
  if (found === undefined) return;
  const major = Math.floor(found.version / 10_000);
  if (major < OLDEST_POSTGRES)
    throw new Error(`PostgreSQL ${major} is too old: Bulkhead needs version ${OLDEST_POSTGRES} or newer.`);
  if (found.encoding !== 'UTF8')
    throw new Error(
      `Database “${found.database}” has the encoding ${found.encoding}: Bulkhead needs UTF8. Create one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, move the data of this one with pg_dump and pg_restore if it has any, and set DATABASE_URL.`,
    );
  if (!found.mayCreate)
    throw new Error(
      `The role “${found.role}” may not create tables in database “${found.database}”. Run ALTER DATABASE "${found.database}" OWNER TO "${found.role}" there, then start again.`,
    );
}

let ofThisRelease: Promise<string[]> | undefined;

/** Lists the migrations of this release, oldest first. The folder is read once: a newer release may replace it while this process runs. */
export function listKnownMigrations(): Promise<string[]> {
  ofThisRelease ??= readdir(MIGRATIONS).then(
    (files) => files.map((file) => file.replace(/\.sql$/, '')).sort(),
    (error: unknown) => {
      ofThisRelease = undefined;
      throw error;
    },
  );
  return ofThisRelease;
}

/** Lists the migrations of this release that a database lacks, oldest first. */
export async function listMissingMigrations(database: Queryable): Promise<string[]> {
  const applied = new Set(await listValues<string>(database, 'SELECT name FROM migrations'));
  return (await listKnownMigrations()).filter((name) => !applied.has(name));
}

interface UnknownMigration {
  readonly name: string;
  /** Applied by the last upgrade. The release before it runs beside its successor. */
  readonly isLastUpgrade: boolean;
}

/** Lists the migrations of newer releases. */
export async function listUnknownMigrations(database: Queryable): Promise<UnknownMigration[]> {
  // A run of the migrations is one transaction, so they have the same time.
  const applied = await database.query<UnknownMigration>(
    `SELECT name, run_on = max(run_on) OVER () AND run_on > min(run_on) OVER () AS "isLastUpgrade"
       FROM migrations ORDER BY id`,
  );
  const known = new Set(await listKnownMigrations());
  return applied.rows.filter(({ name }) => !known.has(name));
}
