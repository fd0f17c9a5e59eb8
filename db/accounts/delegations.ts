/** Services that an account allowed to act for it, and the tokens that they got. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Page } from '../postgres/cursors.ts';
import { notifyAccountChanged } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { inTransaction } from '../postgres/pool.ts';
import { changeRows, findRow, findValue, hasRow, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';
import { recordAccountAction } from './account-actions.ts';
import { type Account, isStillSignedIn, lockAccount } from './accounts.ts';
import { recordToken } from './issued-tokens.ts';

interface DelegationFields {
  readonly name: string;
  /** Address of the OpenID Connect issuer, without a slash at the end. */
  readonly issuer: string;
  /** Subject of the service's tokens. */
  readonly subject: string;
  readonly scopes: string[];
}
export interface Delegation extends DelegationFields {
  readonly id: string;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
}

const COLUMNS = 'id, name, issuer, subject, scopes, created_at AS "createdAt", last_used_at AS "lastUsedAt"';

/** Newest first. */
export const pageDelegations = (db: Queryable, accountId: string, query: PageQuery): Promise<Page<Delegation>> =>
  readPage<Delegation>(
    db,
    `SELECT ${COLUMNS} FROM delegations
      WHERE account_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [accountId],
    query,
  );

/**
 * @param by the sign-in that adds it
 * @returns null: the account has `maxDelegations` delegations, or one for this service
 * @throws Problem `unauthenticated`: it was revoked meanwhile
 */
export function addDelegation(
  pool: Pool,
  by: Pick<Account, 'id' | 'tokensAfter'> & { readonly tokenId: string | null },
  { name, issuer, subject, scopes }: DelegationFields,
  maxDelegations: number,
): Promise<Delegation | null> {
  const { id: accountId, tokenId } = by;
  return inTransaction(pool, async (tx) => {
    await lockAccount(tx, accountId);
    if (!(await isStillSignedIn(tx, by)))
      throw new Problem(
        'unauthenticated',
        'All tokens of the account were revoked, or it was suspended, while the request ran. Sign in again.',
      );
    const added = await findRow<Delegation>(
      tx,
      `INSERT INTO delegations (id, account_id, name, issuer, subject, scopes)
       SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM delegations WHERE account_id = $2) < $7
       ON CONFLICT DO NOTHING RETURNING ${COLUMNS}`,
      [orderedId(Date.now()), accountId, name, issuer, subject, scopes, maxDelegations],
    );
    const action = { action: 'delegation.add', subject: name, detail: `${subject} of ${issuer}: ${scopes.join(' ')}` };
    if (added) await recordAccountAction(tx, { accountId, ...action, tokenId, actor: null });
    return added;
  });
}

/** Removes a delegation with all tokens of the service: requests are refused at once, and streams end. */
export function removeDelegation(
  pool: Pool,
  { accountId, tokenId }: { readonly accountId: string; readonly tokenId: string | null },
  id: string,
): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const sql = 'DELETE FROM delegations WHERE account_id = $1 AND id = $2 RETURNING name';
    const name = await findValue<string>(tx, sql, [accountId, id]);
    if (name === null) return false;
    const action = { action: 'delegation.remove', subject: name, detail: null };
    await recordAccountAction(tx, { accountId, ...action, tokenId, actor: null });
    await notifyAccountChanged(tx, accountId);
    return true;
  });
}

/** A delegation with what a token for its account names. */
interface Delegated extends Pick<Delegation, 'id' | 'name' | 'scopes'> {
  readonly accountId: string;
  readonly accountIssuer: string;
  readonly accountSubject: string;
}

/** Null: the account did not allow the service, is suspended, or does not exist. */
export const findDelegation = (
  db: Queryable,
  accountId: string,
  { issuer, subject }: Pick<Delegation, 'issuer' | 'subject'>,
): Promise<Delegated | null> =>
  findRow(
    db,
    `SELECT d.id, d.name, d.scopes, a.id AS "accountId", a.issuer AS "accountIssuer", a.subject AS "accountSubject"
       FROM delegations d JOIN accounts a ON a.id = d.account_id
      WHERE d.account_id = $1 AND d.issuer = $2 AND d.subject = $3 AND a.suspended_reason IS NULL`,
    [accountId, issuer, subject],
  );

interface Exchange {
  readonly subjectToken: string;
  /** When that expires, and when the new token does. */
  readonly subjectExpiresAt: Date;
  readonly expiresAt: Date;
  readonly scopes: readonly string[];
  readonly actor: string;
}

/** `repeated`: the service's token was exchanged before. `removed`: the account has ended the delegation meanwhile. */
type RecordedExchange =
  | { readonly outcome: 'recorded'; readonly tokenId: string }
  | { readonly outcome: 'repeated' | 'removed' };

/** Records the token that a service gets. */
export function recordExchange(
  pool: Pool,
  { id: delegationId, accountId, name }: Delegated,
  { subjectToken, subjectExpiresAt, expiresAt, scopes, actor }: Exchange,
): Promise<RecordedExchange> {
  return inTransaction(pool, async (tx) => {
    // Its removal waits until the token is recorded, and then removes that, too.
    const isThere = await hasRow(tx, 'SELECT 1 FROM delegations WHERE id = $1 FOR KEY SHARE', [delegationId]);
    if (!isThere) return { outcome: 'removed' };
    await changeRows(tx, 'DELETE FROM exchanged_tokens WHERE expires_at < now() - make_interval(mins => 5)');
    const digest = createHash('sha256').update(subjectToken).digest('hex');
    const isNew = await changeRows(
      tx,
      'INSERT INTO exchanged_tokens (account_id, digest, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
      [accountId, digest, subjectExpiresAt],
    );
    if (isNew === 0) return { outcome: 'repeated' };
    const tokenId = await recordToken(tx, { accountId, name, expiresAt, scopes, delegationId });
    await changeRows(tx, 'UPDATE delegations SET last_used_at = now() WHERE id = $1', [delegationId]);
    const action = { action: 'token.exchange', subject: name, detail: scopes.join(' ') };
    await recordAccountAction(tx, { accountId, ...action, tokenId, actor });
    return { outcome: 'recorded', tokenId };
  });
}
