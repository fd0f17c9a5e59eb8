/** Accounts: one per token subject, created when first seen. */

import { randomUUIDv7 } from 'node:crypto';
import { findRow, type Queryable } from '../postgres/rows.ts';

export interface Account {
  readonly id: string;
  /** The token's subject. */
  readonly name: string;
  readonly operator: boolean;
  /** Non-null: an operator verified the account, and its plugins show its identity. */
  readonly verifiedAt: string | null;
  readonly createdAt: string;
}

const COLUMNS = 'id, name, operator, verified_at AS "verifiedAt", created_at AS "createdAt"';

/**
 * Finds the account of a token subject and creates it if it is new. Safe for concurrent calls.
 *
 * @param name a validated user name
 */
export async function findOrCreateAccount(db: Queryable, name: string): Promise<Account> {
  const found = await findAccount(db, name);
  if (found !== null) return found;
  await db.query('INSERT INTO accounts (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
    randomUUIDv7(),
    name,
  ]);
  const made = await findAccount(db, name);
  if (made === null) throw new Error('The account was not inserted.');
  return made;
}

export async function setOperator(db: Queryable, id: string, operator: boolean): Promise<void> {
  await db.query('UPDATE accounts SET operator = $2 WHERE id = $1', [id, operator]);
}

const findAccount = (db: Queryable, name: string): Promise<Account | null> =>
  findRow(db, `SELECT ${COLUMNS} FROM accounts WHERE name = $1`, [name]);
