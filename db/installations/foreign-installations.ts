/** Finds installations whose plugin belongs to another account than the one that installed it. */
import type { Pool } from 'pg';

/** In any account. */
export async function hasForeignInstallations(pool: Pool): Promise<boolean> {
  const found = await pool.query(
    `SELECT 1 FROM installations JOIN plugins ON plugins.id = plugin_id
      WHERE owner_id <> account_id AND status <> 'uninstalling' LIMIT 1`,
  );
  return found.rows.length > 0;
}
