/** The records of tokens that Bulkhead issued. A token without its record is revoked. */

import type { Pool } from 'pg';
import type { Page } from '../postgres/cursors.ts';
import { notifyAccountChanged } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { inTransaction } from '../postgres/pool.ts';
import {
  changeRows,
  findRow,
  findValue,
  hasRow,
  listValues,
  type PageQuery,
  type Queryable,
  readPage,
} from '../postgres/rows.ts';
import { recordAccountAction } from './account-actions.ts';
import { lockAccount } from './accounts.ts';
import { recordAction } from './operator-actions.ts';

/** Resolution of `lastUsedAt`: a token that is used all day costs a write every five minutes. Minutes. */
const LAST_USED_EVERY_MIN = 5;

export interface IssuedToken {
  /** The token's `jti`. */
  readonly id: string;
  readonly name: string;
  /** Null: it may do what its account may. */
  readonly scopes: readonly string[] | null;
  readonly createdAt: string;
  /** To about five minutes; null: never. */
  readonly lastUsedAt: string | null;
  readonly expiresAt: string;
}

interface NewToken {
  readonly accountId: string;
  readonly name: string;
  readonly expiresAt: Date;
  /** Default: the token may do what its account may. */
  readonly scopes?: readonly string[];
  /** The service that acts with it; default: none. */
  readonly delegationId?: string;
}
export interface TokenLimits {
  /** Null: it may do what its account may. */
  readonly scopes: readonly string[] | null;
  /** The service that acts with it; null: the account itself. */
  readonly actor: string | null;
}

const COLUMNS = 'id, name, scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt", expires_at AS "expiresAt"';

/** Records a token before it is signed, and forgets expired ones. @returns its id */
export async function recordToken(
  db: Queryable,
  { accountId, name, expiresAt, scopes, delegationId }: NewToken,
): Promise<string> {
  const id = orderedId(Date.now());
  await changeRows(db, `DELETE FROM tokens WHERE expires_at < now() - interval '1 day'`);
  await changeRows(
    db,
    'INSERT INTO tokens (id, account_id, name, expires_at, scopes, delegation_id) VALUES ($1, $2, $3, $4, $5, $6)',
    [id, accountId, name, expiresAt, scopes ?? null, delegationId ?? null],
  );
  return id;
}

/** Lists an account's tokens that have not expired, newest first, without those of services. */
export const pageTokens = (db: Queryable, accountId: string, query: PageQuery): Promise<Page<IssuedToken>> =>
  readPage<IssuedToken>(
    db,
    `SELECT ${COLUMNS} FROM tokens
      WHERE account_id = $1 AND delegation_id IS NULL AND expires_at > now() AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [accountId],
    query,
  );

/** Finds a token when it is used, and notes the time. Null: it was revoked. */
export async function useToken(db: Queryable, accountId: string, id: string): Promise<TokenLimits | null> {
  const found = await findRow<TokenLimits & { isNoted: boolean }>(
    db,
    `SELECT t.scopes, d.subject || ' of ' || d.issuer AS actor,
            coalesce(t.last_used_at > now() - make_interval(mins => $3), false) AS "isNoted"
       FROM tokens t LEFT JOIN delegations d ON d.id = t.delegation_id WHERE t.id = $1 AND t.account_id = $2`,
    [id, accountId, LAST_USED_EVERY_MIN],
  );
  // A database that takes no writes still lets users in.
  if (found && !found.isNoted)
    await changeRows(db, 'UPDATE tokens SET last_used_at = now() WHERE id = $1', [id]).catch(() => undefined);
  return found;
}

/** Whether a token was not revoked. If so, it is not until the transaction ends. */
export const isStillRecorded = (tx: Queryable, id: string): Promise<boolean> =>
  hasRow(tx, 'SELECT 1 FROM tokens WHERE id = $1 FOR KEY SHARE', [id]);

/** Null: the account has no such token. */
export const renameToken = (db: Queryable, accountId: string, id: string, name: string): Promise<IssuedToken | null> =>
  findRow(db, `UPDATE tokens SET name = $3 WHERE id = $1 AND account_id = $2 RETURNING ${COLUMNS}`, [
    id,
    accountId,
    name,
  ]);

/** An operator's revocation, which is recorded. */
interface ByOperator {
  /** The name of the account. */
  readonly subject: string;
  /** The operator's account; null: the user of this process. */
  readonly by: string | null;
}

/** Revokes a token. @param operator null: its user did it. @returns false: the account has no such token */
export function revokeToken(pool: Pool, accountId: string, id: string, operator: ByOperator | null): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const sql = 'DELETE FROM tokens WHERE id = $1 AND account_id = $2 RETURNING name';
    const name = await findValue<string>(tx, sql, [id, accountId]);
    if (name === null) return false;
    await notifyAccountChanged(tx, accountId);
    if (operator) await recordAction(tx, { action: 'revoke-token', ...operator, reason: `the token “${name}”` });
    return true;
  });
}

/**
 * Revokes all tokens of an account that exist now, also those of an OpenID Connect issuer and those without a record. Removes the ways
 * to get others: sign-in links, and delegations to services.
 *
 * @param operator null: its user did it
 */
export function revokeAllTokens(pool: Pool, accountId: string, operator: ByOperator | null): Promise<void> {
  return inTransaction(pool, async (tx) => {
    // Before the rest: what is added meanwhile is removed with it, or waits and is refused.
    await lockAccount(tx, accountId);
    await changeRows(tx, 'DELETE FROM tokens WHERE account_id = $1', [accountId]);
    await changeRows(tx, 'DELETE FROM sign_in_codes WHERE account_id = $1', [accountId]);
    const services = await listValues<string>(tx, 'DELETE FROM delegations WHERE account_id = $1 RETURNING name', [
      accountId,
    ]);
    for (const subject of services) {
      const action = { action: 'delegation.remove', subject, detail: 'all tokens were revoked' };
      await recordAccountAction(tx, { accountId, ...action, tokenId: null, actor: null });
    }
    await changeRows(tx, 'UPDATE accounts SET tokens_after = clock_timestamp() WHERE id = $1', [accountId]);
    await notifyAccountChanged(tx, accountId);
    if (operator) await recordAction(tx, { action: 'revoke-token', ...operator, reason: 'all tokens' });
  });
}
