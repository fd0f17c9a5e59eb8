/** Sign-ins of the console, and the codes of sign-in links. Only hashes of secrets are stored. */
import type { Pool } from 'pg';
import { notifyAccountChanged } from '../postgres/notifications.ts';
import { inTransaction } from '../postgres/pool.ts';
import { changeRows, findRow, findValue, type Queryable } from '../postgres/rows.ts';
import { BUILT_IN_ISSUER, lockAccount } from './accounts.ts';

/** Whose session it is, as a token would say it. */
interface SessionIdentity {
  readonly subject: string;
  readonly issuer: string;
  /** Id of the token that was exchanged; null: the token had no record. */
  readonly tokenId: string | null;
  /** Whether a service got that token by token exchange. */
  readonly isExchanged: boolean;
  /** Id of Bulkhead's key that signed that token; null: there was no such token, or a release that recorded no key began the session. */
  readonly keyId: string | null;
  readonly createdAt: string;
  readonly expiresAt: string;
}

/** Maximum number of sessions of one account. A new sign-in ends the oldest. */
const SESSIONS_MAX = 1_000;

interface NewSession extends Pick<SessionIdentity, 'tokenId' | 'keyId'> {
  /** Hash of the secret. */
  readonly id: string;
  readonly accountId: string;
  readonly expiresAt: Date;
}

/**
 * Stores a session, and removes expired ones and those that are too many. A token ends only sessions of its own: it may have fewer
 * rights than its user.
 */
export async function createSession(
  db: Queryable,
  { id, accountId, tokenId, keyId, expiresAt }: NewSession,
): Promise<void> {
  await changeRows(db, 'DELETE FROM console_sessions WHERE expires_at < now()');
  await changeRows(
    db,
    'INSERT INTO console_sessions (id, account_id, token_id, key_id, expires_at) VALUES ($1, $2, $3, $4, $5)',
    [id, accountId, tokenId, keyId, expiresAt],
  );
  const ended = await changeRows(
    db,
    `DELETE FROM console_sessions WHERE id IN (
       SELECT id FROM console_sessions WHERE account_id = $1 AND token_id IS NOT DISTINCT FROM $2
        ORDER BY created_at DESC OFFSET ${SESSIONS_MAX})`,
    [accountId, tokenId],
  );
  if (ended > 0) await notifyAccountChanged(db, accountId);
}

/** Null: there is no such session, or it has expired. */
export const findSession = (db: Queryable, id: string): Promise<SessionIdentity | null> =>
  findRow(
    db,
    `SELECT subject, issuer, token_id AS "tokenId", t.delegation_id IS NOT NULL AS "isExchanged", key_id AS "keyId",
            s.created_at AS "createdAt", s.expires_at AS "expiresAt"
       FROM console_sessions s JOIN accounts a ON a.id = s.account_id LEFT JOIN tokens t ON t.id = s.token_id
      WHERE s.id = $1 AND s.expires_at > now()`,
    [id],
  );

/** Ends a session. Idempotent. */
export function endSession(pool: Pool, id: string): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const sql = 'DELETE FROM console_sessions WHERE id = $1 RETURNING account_id';
    const accountId = await findValue<string>(tx, sql, [id]);
    if (accountId !== null) await notifyAccountChanged(tx, accountId);
  });
}

/** Ends all sessions of an account, and invalidates its sign-in links. */
export function endAllSessions(pool: Pool, accountId: string): Promise<void> {
  return inTransaction(pool, async (tx) => {
    // Waits for sign-ins with a token. The deletion of the codes waits for those with a link, so that of the sessions finds theirs.
    await lockAccount(tx, accountId);
    await changeRows(tx, 'DELETE FROM sign_in_codes WHERE account_id = $1', [accountId]);
    await changeRows(tx, 'DELETE FROM console_sessions WHERE account_id = $1', [accountId]);
    await notifyAccountChanged(tx, accountId);
  });
}

/**
 * Ends the sessions that may have begun with a token of these keys: also those that name no key, unless an OpenID Connect issuer signed
 * the token. The previous release records no key. A token of such a key that was verified just before can still begin a session, but
 * `SignIn` accepts none whose key is revoked.
 *
 * @param tx the transaction that revokes the keys and notifies all processes
 */
export async function endSessionsOfKeys(tx: Queryable, keyIds: readonly string[]): Promise<void> {
  await changeRows(
    tx,
    `DELETE FROM console_sessions s USING accounts a WHERE a.id = s.account_id
        AND (s.key_id = ANY ($1) OR s.key_id IS NULL AND (s.token_id IS NOT NULL OR a.issuer = $2))`,
    [keyIds, BUILT_IN_ISSUER],
  );
}

interface NewCode {
  /** Hash of the code. */
  readonly id: string;
  readonly accountId: string;
  readonly expiresAt: Date;
}

/** Stores the code of a sign-in link, and removes expired ones. */
export async function createSignInCode(db: Queryable, { id, accountId, expiresAt }: NewCode): Promise<void> {
  await changeRows(db, 'DELETE FROM sign_in_codes WHERE expires_at < now()');
  const insert = 'INSERT INTO sign_in_codes (id, account_id, expires_at) VALUES ($1, $2, $3)';
  await changeRows(db, insert, [id, accountId, expiresAt]);
}

/**
 * Exchanges a code for a session. A failure leaves the code as it was.
 *
 * @param codeId hash of the code
 * @returns false: there is no such code, or it has expired
 */
export function redeemSignInCode(
  pool: Pool,
  codeId: string,
  session: Pick<NewSession, 'id' | 'expiresAt'>,
): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const accountId = await findValue<string>(
      tx,
      // The account is locked before the code, as by a move of the account, which deletes its codes.
      `WITH account AS (
         SELECT a.id FROM accounts a JOIN sign_in_codes c ON c.account_id = a.id WHERE c.id = $1 FOR KEY SHARE OF a)
       DELETE FROM sign_in_codes c USING account
        WHERE c.id = $1 AND c.account_id = account.id AND c.expires_at > now() RETURNING c.account_id`,
      [codeId],
    );
    if (accountId !== null) await createSession(tx, { ...session, accountId, tokenId: null, keyId: null });
    return accountId !== null;
  });
}
