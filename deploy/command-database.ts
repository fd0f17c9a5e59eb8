/** Opens the database for an operator's command, whether or not the service runs. */
import { access, constants } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataDirInUseError } from '../db/files/data-dir.ts';
import { findEmbedded, hasEmbedded, startEmbedded } from '../db/postgres/embedded.ts';
import { requireOneDatabase } from '../service/lifecycle/database-addresses.ts';
import { pickSessionSetting, type SharedSettings } from '../service/settings/settings.ts';

/** Maximum time until a starting service has its database up. Milliseconds. */
const SERVICE_START_MS = 60_000;
const POLL_MS = 200;

export interface Located {
  readonly url: string;
  /** The setting that says where it is. */
  readonly setting: string;
  /** Stops the PostgreSQL that was started for this command. */
  release(): Promise<void>;
}

/**
 * Finds the running service's database; otherwise starts the embedded PostgreSQL for this command.
 *
 * @throws Error when DATABASE_URL and DATABASE_SESSION_URL lead to two databases, this user may not read and write DATA_DIR, or it has no
 *   database: a new one would have nothing to do with that of the service
 */
export async function locateDatabase(settings: SharedSettings): Promise<Located> {
  const { DATA_DIR } = settings;
  await requireOneDatabase(settings);
  const setting = pickSessionSetting(settings);
  const url = settings[setting];
  if (url !== undefined) return { url, setting, release: async () => undefined };
  await requireReadable(DATA_DIR);
  if (!hasEmbedded(DATA_DIR)) {
    throw new Error(
      `There is no database in DATA_DIR ${resolve(DATA_DIR)}. Set DATA_DIR to the folder of your service, or start the service first (npm start).`,
    );
  }
  const started = performance.now();
  for (;;) {
    const url = await findEmbedded(DATA_DIR);
    if (url !== null) return { url, setting: 'DATA_DIR', release: async () => undefined };
    try {
      const own = await startEmbedded({ dataDir: DATA_DIR, purpose: 'command' });
      return { url: own.url, setting: 'DATA_DIR', release: () => own.stop() };
    } catch (error) {
      // A service is starting: its address will be available soon.
      if (!(error instanceof DataDirInUseError) || performance.now() - started > SERVICE_START_MS) throw error;
      await sleep(POLL_MS);
    }
  }
}

/** To a user who may not read the folder, it would seem to be empty. Others cannot take its lock. @throws Error */
async function requireReadable(dataDir: string): Promise<void> {
  await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EACCES')
      throw new Error(
        `This user may not read and write DATA_DIR ${resolve(dataDir)}. Run the command as the user of the service.`,
      );
  });
}
