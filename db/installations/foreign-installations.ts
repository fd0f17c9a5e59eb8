/** Finds installations whose plugin belongs to another account than the one that installed it. */
import type { Pool } from 'pg';
import { findRow } from '../postgres/rows.ts';

/** In any account. */
export const hasForeignInstallations = async (pool: Pool): Promise<boolean> =>
  (await findRow(
    pool,
    `SELECT 1 FROM installations JOIN plugins ON plugins.id = plugin_id
      WHERE owner_id <> account_id AND status <> 'uninstalling' LIMIT 1`,
  )) !== null;
