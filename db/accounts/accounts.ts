/** Accounts: one per issuer and subject of a token, created when first seen. */

import { randomUUID } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { notifyAccountChanged } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { inTransaction } from '../postgres/pool.ts';
import { changeRows, findRow, hasRow, listRows, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';
import { recordAction } from './operator-actions.ts';

/** The issuer of the tokens that Bulkhead signs itself. */
export const BUILT_IN_ISSUER = 'bulkhead';

export interface Account {
  readonly id: string;
  /** The subject, unless an account of another issuer had it first. Unique. */
  readonly name: string;
  readonly operator: boolean;
  /** Non-null: an operator verified the account, and its plugins show its identity. */
  readonly verifiedAt: string | null;
  readonly createdAt: string;
  /** `BUILT_IN_ISSUER`, or the address of an OpenID Connect issuer without a slash at the end. */
  readonly issuer: string;
  /** Non-null: an operator suspended the account, for this reason. */
  readonly suspendedReason: string | null;
  /** Non-null: tokens without a record must have been issued later. */
  readonly tokensAfter: string | null;
}

export const ACCOUNT_COLUMNS = `id, name, operator, verified_at AS "verifiedAt", created_at AS "createdAt", issuer,
  suspended_reason AS "suspendedReason", tokens_after AS "tokensAfter"`;

/**
 * Finds the account of a token and creates it if it is new. Safe for concurrent calls.
 *
 * @param subject a validated user name
 */
export async function findOrCreateAccount(
  db: Queryable,
  subject: string,
  issuer: string = BUILT_IN_ISSUER,
): Promise<Account> {
  const known = await findAccount(db, subject, issuer);
  if (known !== null) return known;
  for (const name of listNames(subject, issuer)) {
    // Inserts nothing if the name is taken, or if another process was faster.
    const insert = 'INSERT INTO accounts (id, name, issuer, subject) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING';
    await db.query(insert, [orderedId(Date.now()), name, issuer, subject]);
    const found = await findAccount(db, subject, issuer);
    if (found !== null) return found;
  }
  throw new Error('The account was not inserted.');
}

/** The names that an account may get, in order. */
function listNames(subject: string, issuer: string): string[] {
  const qualified = `${subject}@${URL.canParse(issuer) ? new URL(issuer).host : issuer}`;
  return [subject, qualified, `${qualified}-${randomUUID().slice(0, 8)}`];
}

export const isOperator = (db: Queryable, id: string): Promise<boolean> =>
  hasRow(db, 'SELECT 1 FROM accounts WHERE id = $1 AND operator', [id]);

export const hasOperator = (db: Queryable): Promise<boolean> =>
  hasRow(db, 'SELECT 1 FROM accounts WHERE operator LIMIT 1');

/** Whether an operator can sign in. */
export const hasActiveOperator = (db: Queryable): Promise<boolean> =>
  hasRow(db, 'SELECT 1 FROM accounts WHERE operator AND suspended_reason IS NULL LIMIT 1');

/** The issuer that accounts leave, and the one that they get. */
interface IssuerChange {
  readonly from: string;
  readonly to: string;
}

/**
 * Moves accounts from one issuer to another, with the same subject. An account that a token of the other issuer has created already
 * changes places with the moved one, so the opposite move restores both. The sessions of the console of these accounts end.
 *
 * @param names null: all accounts except those of operators
 * @returns the names of the moved accounts, and of those that have changed places with one
 */
export function moveAccounts(
  pool: Pool,
  { from, to }: IssuerChange,
  names: readonly string[] | null,
): Promise<{ readonly moved: readonly string[]; readonly displaced: readonly string[] }> {
  return inTransaction(pool, async (tx) => {
    const moved = await listRows<{ id: string; name: string; subject: string }>(
      tx,
      `SELECT id, name, subject FROM accounts
        WHERE issuer = $1 AND ($2::text[] IS NULL AND NOT operator OR name = ANY ($2)) ORDER BY id FOR UPDATE`,
      [from, names],
    );
    const displaced: { readonly id: string; readonly name: string }[] = [];
    for (const { id, name, subject } of moved) {
      const place = `moved ${id}`;
      await tx.query('UPDATE accounts SET subject = $2 WHERE id = $1', [id, place]);
      const displace = 'UPDATE accounts SET issuer = $3 WHERE issuer = $1 AND subject = $2 RETURNING id, name';
      const others = await listRows<{ id: string; name: string }>(tx, displace, [to, subject, from]);
      displaced.push(...others);
      await tx.query('UPDATE accounts SET issuer = $2, subject = $3 WHERE id = $1', [id, to, subject]);
      await recordAction(tx, { action: 'move-account', subject: name, reason: `to ${to}` });
      for (const other of others)
        await recordAction(tx, { action: 'move-account', subject: other.name, reason: `to ${from}` });
    }
    // Tokens of the other issuer are cached with the account that is displaced.
    const changed = [...moved, ...displaced].map(({ id }) => id);
    for (const id of changed) await notifyAccountChanged(tx, id);
    // They began at the earlier issuer, whose tokens do not sign in to these accounts any more. Deleted when all accounts are
    // locked: a sign-in locks its account, too, before it deletes sessions that have expired.
    await changeRows(tx, 'DELETE FROM console_sessions WHERE account_id = ANY ($1)', [changed]);
    await changeRows(tx, 'DELETE FROM sign_in_codes WHERE account_id = ANY ($1)', [changed]);
    return { moved: moved.map(({ name }) => name), displaced: displaced.map(({ name }) => name) };
  });
}

/** Null: no account has that name. */
export const findAccountByName = (db: Queryable, name: string): Promise<Account | null> =>
  findRow(db, `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE name = $1`, [name]);

/** Lists the accounts whose name contains a text, in any Unicode normalization, newest first. @param part null: all */
export const pageAccounts = (
  db: Queryable,
  part: string | null,
  query: PageQuery,
  onlyOperators = false,
): Promise<Page<Account>> =>
  readPage<Account>(
    db,
    `SELECT ${ACCOUNT_COLUMNS} FROM accounts
      WHERE ($1::text IS NULL OR strpos(lower(normalize(name)), lower(normalize($1))) > 0)
        AND (operator OR NOT $2) AND ($3::text IS NULL OR id < $3)
      ORDER BY id DESC LIMIT $4`,
    [part, onlyOperators],
    query,
  );

/** Null: no token with this issuer and subject has signed in, or its account was moved. */
export const findAccount = (db: Queryable, subject: string, issuer: string): Promise<Account | null> =>
  findRow(db, `SELECT ${ACCOUNT_COLUMNS} FROM accounts WHERE issuer = $1 AND subject = $2`, [issuer, subject]);

export const setOperator = async (db: Queryable, id: string, operator: boolean): Promise<void> =>
  void (await changeRows(db, 'UPDATE accounts SET operator = $2 WHERE id = $1', [id, operator]));

/**
 * Whether no revocation of all tokens and no suspension came since a sign-in. Waits for one that is under way, and holds up the next
 * one until the transaction ends.
 *
 * @param tokensAfter what the sign-in read
 */
export const isStillSignedIn = (
  tx: Queryable,
  { id, tokensAfter }: Pick<Account, 'id' | 'tokensAfter'>,
): Promise<boolean> =>
  hasRow(
    tx,
    // Times are read to the millisecond.
    `SELECT 1 FROM accounts WHERE id = $1 AND suspended_reason IS NULL
        AND date_trunc('milliseconds', tokens_after) IS NOT DISTINCT FROM $2::timestamptz FOR SHARE`,
    [id, tokensAfter],
  );

/** Locks the account's row until the transaction ends, so that concurrent writers cannot exceed one of its limits together. */
export async function lockAccount(tx: ClientBase, id: string): Promise<void> {
  // NO KEY: rows that only refer to the account (sessions, plugins) can still be written.
  await tx.query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [id]);
}
