/** Applies the migrations of this release: the step before API and supervisor in containers. */
import { migrate } from '../db/postgres/migrate.ts';
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
  const applied = await migrate(DATABASE_SESSION_URL ?? DATABASE_URL, { onWait: console.log }).catch(
    (error: unknown) => {
      throw createDatabaseFault(pickSessionSetting(settings), error);
    },
  );
  console.log(applied.length > 0 ? `migrations applied: ${applied.join(', ')}` : 'the tables are of this release');
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
