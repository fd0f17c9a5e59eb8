/** Handlers of plugins that wait until the test lets them go on. Their plugins need `host.storage`. */
import type { Pool } from 'pg';
import type { Installed } from './supervisor-fixture.ts';

/** A plugin's code: waits for a key. @param key an expression of JavaScript */
export const waitForKey = (key: string): string =>
  `while ((await host.storage.get(${key})) === null) await new Promise((resolve) => setTimeout(resolve, 20));`;

/** Stores a key, for which a handler waits. */
export async function storeKey(
  pool: Pool,
  { installationId }: Pick<Installed, 'installationId'>,
  key: string,
): Promise<void> {
  await pool.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ($1, $2, '1', 1)`,
    [installationId, key],
  );
}
