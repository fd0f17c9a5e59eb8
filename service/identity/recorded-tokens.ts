/** Issues tokens of the built-in issuer with a record, by which they are listed, named and revoked. */
import type { Pool } from 'pg';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { recordToken } from '../../db/accounts/issued-tokens.ts';
import type { Scope } from './scopes.ts';
import { TOKEN_LIFETIME_S, type TokenIssuer } from './tokens.ts';

interface TokenRequest {
  /** The user's name; the account is created if it is new. */
  readonly subject: string;
  /** Shown in lists of tokens. */
  readonly name: string;
  /** Seconds. Default: 30 days. */
  readonly lifetime?: number;
  /** Null, the default: it may do all that its account may. */
  readonly scopes?: readonly Scope[] | null;
}

export async function issueRecordedToken(
  pool: Pool,
  issuer: TokenIssuer,
  { subject, name, lifetime = TOKEN_LIFETIME_S, scopes = null }: TokenRequest,
): Promise<string> {
  const { id: accountId } = await findOrCreateAccount(pool, subject);
  const expiresAt = new Date(Date.now() + lifetime * 1000);
  const id = await recordToken(pool, { accountId, name, expiresAt, ...(scopes ? { scopes } : {}) });
  return issuer.issue(subject, lifetime, id, scopes ? { scope: scopes.join(' ') } : {});
}
