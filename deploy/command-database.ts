/** The database for a command that an operator runs beside the service, or without it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { DataDirInUseError } from '../db/files/data-dir.ts';
import { findEmbedded, startEmbedded } from '../db/postgres/embedded.ts';
import type { SharedSettings } from '../service/settings/settings.ts';

/** A service that holds DATA_DIR has its database up by then, milliseconds. */
const SERVICE_START_MS = 60_000;
const POLL_MS = 200;

interface Located {
  readonly url: string;
  /** Ends what was started for this command only. */
  release(): Promise<void>;
}

/** The running service's database; where none runs, the embedded one is started for the moment. */
export async function locateDatabase({ DATABASE_URL, DATA_DIR }: SharedSettings): Promise<Located> {
  if (DATABASE_URL !== undefined) return { url: DATABASE_URL, release: async () => undefined };
  const started = Date.now();
  for (;;) {
    const url = await findEmbedded(DATA_DIR);
    if (url !== null) return { url, release: async () => undefined };
    try {
      const own = await startEmbedded({ dataDir: DATA_DIR, purpose: 'command' });
      return { url: own.url, release: () => own.stop() };
    } catch (error) {
      // A service is just starting: its address will be there soon.
      if (!(error instanceof DataDirInUseError) || Date.now() - started > SERVICE_START_MS) throw error;
      await sleep(POLL_MS);
    }
  }
}
