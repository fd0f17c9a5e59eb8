/** Applies the migrations of this release: the step before API and supervisor in containers. */
import { withConnection } from '../db/postgres/dedicated-connection.ts';
import { listUnknownMigrations, migrate } from '../db/postgres/migrate.ts';
import { requireOneDatabase } from '../service/lifecycle/database-addresses.ts';
import { createDatabaseFault, requireWholeRestore } from '../service/lifecycle/start-faults.ts';
import {
  parseSettings,
  pickSessionSetting,
  readEnvironment,
  SettingsError,
  sharedSettings,
} from '../service/settings/settings.ts';

try {
  const settings = parseSettings(sharedSettings, readEnvironment());
  const { DATABASE_URL, DATABASE_SESSION_URL } = settings;
  if (DATABASE_URL === undefined) throw new SettingsError('DATABASE_URL must be set. npm start sets it.');
  // The repeated restore of an older release's backup needs a database without tables.
  await requireWholeRestore(settings.DATA_DIR);
  await requireOneDatabase(settings);
  const url = DATABASE_SESSION_URL ?? DATABASE_URL;
  const applied = await migrate(url, { onWait: console.log }).catch((error: unknown) => {
    throw createDatabaseFault(pickSessionSetting(settings), error);
  });
  if (applied.length > 0) console.log(`migrations applied: ${applied.join(', ')}`);
  else {
    // Only for the wording: with no further connection, the migrations have not failed.
    const newer = await withConnection(url, { application_name: 'bulkhead-migrate' }, listUnknownMigrations).catch(
      () => null,
    );
    if (newer === null) console.log('no migration was missing');
    else console.log(`the tables are of ${newer.length === 0 ? 'this' : 'a newer'} release`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
