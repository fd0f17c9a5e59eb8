/** Accounts: one per token subject, made when first seen. */
import { randomUUIDv7 } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';

export interface Account {
  readonly id: string;
  /** The token's subject. */
  readonly name: string;
  readonly operator: boolean;
  /** Set: the account's plugins show its identity. */
  readonly verifiedAt: Date | null;
  readonly createdAt: Date;
}

const COLUMNS = 'id, name, operator, verified_at AS "verifiedAt", created_at AS "createdAt"';

/**
 * Finds the account of a token subject, making it when it is new. Safe to be called for one subject many times at once.
 *
 * @param name checked before (`userName` of identity.ts)
 */
export async function findOrCreateAccount(db: Pool | ClientBase, name: string): Promise<Account> {
  const found = await findAccount(db, name);
  if (found !== null) return found;
  await db.query('INSERT INTO accounts (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
    randomUUIDv7(),
    name,
  ]);
  const made = await findAccount(db, name);
  if (made === null) throw new Error('an account vanished while it was made');
  return made;
}

/** Makes an account an operator's, or no longer. */
export async function setOperator(db: Pool | ClientBase, id: string, operator: boolean): Promise<void> {
  await db.query('UPDATE accounts SET operator = $2 WHERE id = $1', [id, operator]);
}

async function findAccount(db: Pool | ClientBase, name: string): Promise<Account | null> {
  const found = await db.query<Account>(`SELECT ${COLUMNS} FROM accounts WHERE name = $1`, [name]);
  return found.rows[0] ?? null;
}
