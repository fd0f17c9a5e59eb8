/** Checks the two addresses of the database before anything is changed through one of them. */
import { openListener } from '../../db/postgres/listener.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { SettingsError, type SharedSettings } from '../settings/settings.ts';
import { requireDatabase } from './start-faults.ts';

/**
 * Migrations and commands change the database of DATABASE_SESSION_URL. API and supervisor make the same check at their start, which is
 * too late for what was changed before.
 *
 * @throws SettingsError, or Error when DATABASE_URL and DATABASE_SESSION_URL lead to two databases
 */
export async function requireOneDatabase({
  DATABASE_URL: url,
  DATABASE_SESSION_URL: sessionUrl,
}: Pick<SharedSettings, 'DATABASE_URL' | 'DATABASE_SESSION_URL'>): Promise<void> {
  if (sessionUrl === undefined || sessionUrl === url) return;
  if (url === undefined)
    throw new SettingsError(
      'DATABASE_SESSION_URL is set, but DATABASE_URL is not: set DATABASE_URL to the address of the same database, or unset DATABASE_SESSION_URL.',
    );
  const onError = () => undefined;
  const options = { name: 'bulkhead-addresses', connections: 1, onError };
  const direct = openPool(sessionUrl, options);
  const database = openPool(url, { ...options, sessionUrl });
  try {
    await requireDatabase(direct.pool, 'DATABASE_SESSION_URL');
    await requireDatabase(database.pool, 'DATABASE_URL');
    const listener = await openListener(database.pool, onError, database.session);
    await listener.close();
  } finally {
    await direct.close();
    await database.close();
  }
}
