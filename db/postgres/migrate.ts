/** Brings the tables to this release: numbered SQL files, forward only. */
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import { withConnection } from './dedicated-connection.ts';

/** The migrations of this release. */
export const MIGRATIONS = fileURLToPath(new URL('../migrations', import.meta.url));
const CONNECTION = { application_name: 'bulkhead-migrate', connectionTimeoutMillis: 10_000 };

/**
 * Applies the migrations that are missing, all in one transaction. Any number of processes may call it at once: they
 * queue on node-pg-migrate's advisory lock, and the later ones find nothing to do.
 *
 * It opens its own connection because the lock belongs to a session, and because a migration may rightly take longer
 * than the pool's statement timeout.
 *
 * @param url a `postgres://` address
 * @param directory folder of the SQL files; each starts with `-- Up Migration`
 * @param count of those that are missing at most; all by default
 * @returns the names of the migrations this call applied
 */
export async function migrate(url: string, directory: string = MIGRATIONS, count?: number): Promise<string[]> {
  return withConnection(url, CONNECTION, async (client) => {
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
    return applied.map((migration) => migration.name);
  });
}
