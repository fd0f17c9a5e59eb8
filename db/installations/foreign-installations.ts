/** Finds installations whose plugin belongs to another account than the one that installed it. */
import type { Pool } from 'pg';
import { hasRow } from '../postgres/rows.ts';

/** In any account. */
export const hasForeignInstallations = (pool: Pool): Promise<boolean> =>
  hasRow(
    pool,
    `SELECT 1 FROM installations JOIN plugins ON plugins.id = plugin_id
      WHERE owner_id <> account_id AND status <> 'uninstalling' LIMIT 1`,
  );
