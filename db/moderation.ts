/** An operator's word on authors and plugins. */
import type { Pool } from 'pg';
import { announcePlugin } from './notices.ts';
import { inTransaction, type Transaction } from './pool.ts';

/**
 * Shows or no longer shows an author's identity on everything they publish.
 *
 * @returns false: nobody of that name has signed in yet
 */
export async function verifyAuthor(pool: Pool, name: string, verified: boolean): Promise<boolean> {
  const changed = await pool.query(
    'UPDATE accounts SET verified_at = CASE WHEN $2 THEN coalesce(verified_at, now()) END WHERE name = $1',
    [name, verified],
  );
  return changed.rowCount === 1;
}

export interface Moderated {
  readonly slug: string;
  /** Why it is blocked now; null: it is not. */
  readonly reason: string | null;
  /** How many installations that concerns. */
  readonly installations: number;
}

/**
 * Takes a plugin out of the catalog and stops all its children, until it is unblocked. Blocking again changes the reason.
 *
 * @returns null: there is no such plugin
 */
export function blockPlugin(pool: Pool, slug: string, reason: string): Promise<Moderated | null> {
  return setBlock(pool, slug, reason);
}

/** Lets a plugin run again. One that is not blocked stays as it is. */
export function unblockPlugin(pool: Pool, slug: string): Promise<Moderated | null> {
  return setBlock(pool, slug, null);
}

function setBlock(pool: Pool, slug: string, reason: string | null): Promise<Moderated | null> {
  return inTransaction(pool, async (tx) => {
    const found = await tx.query<{ id: string }>(
      'UPDATE plugins SET blocked_reason = $2 WHERE slug = $1 AND deleted_at IS NULL RETURNING id',
      [slug, reason],
    );
    const id = found.rows[0]?.id;
    if (id === undefined) return null;
    await announcePlugin(tx, id);
    return { slug, reason, installations: await countLive(tx, id) };
  });
}

async function countLive(tx: Transaction, pluginId: string): Promise<number> {
  const found = await tx.query<{ installs: number }>('SELECT installs FROM install_counts WHERE plugin_id = $1', [
    pluginId,
  ]);
  return found.rows[0]?.installs ?? 0;
}
