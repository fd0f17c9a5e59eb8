/** Finds the account of a bearer token, and caches verified tokens. */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { type Account, findOrCreateAccount } from '../../db/accounts/accounts.ts';
import type { TokenVerifier } from './tokens.ts';

/**
 * A verified token is cached for this long: sessions send many requests per second, and each check costs a signature
 * and a query. A change of an account's rights takes effect after this time. Milliseconds.
 */
const CACHE_MS = 30_000;
/** Maximum number of cached tokens. */
const CACHE_MAX = 10_000;

export interface SignIn {
  /**
   * Returns the account of a token; creates it if issuer and subject are new.
   *
   * @throws InvalidTokenError (401), IssuerUnavailableError (503), or the database's error
   */
  signIn(token: string): Promise<Account>;
  /** Whether the token was valid when it was last verified in this process. */
  knows(token: string): boolean;
}

interface CachedAccount {
  readonly account: Promise<Account>;
  until: number;
  /** The token was valid at least once. */
  wasValid: boolean;
}

/** @param now clock, milliseconds since 1970 */
export function openSignIn(pool: Pool, verifier: TokenVerifier, now: () => number = Date.now): SignIn {
  const cached = new LRUCache<string, CachedAccount>({ max: CACHE_MAX });
  const verifyToken = (token: string, wasValid: boolean): CachedAccount => {
    const entry: CachedAccount = { account: load(), until: now() + CACHE_MS, wasValid };
    async function load(): Promise<Account> {
      const identity = await verifier.verify(token);
      entry.until = Math.min(entry.until, identity.expiresAt);
      const account = await findOrCreateAccount(pool, identity.subject, identity.issuer);
      entry.wasValid = true;
      return account;
    }
    entry.account.catch(() => {
      if (cached.get(token) === entry) cached.delete(token);
    });
    return entry;
  };
  return {
    signIn(token) {
      const known = cached.get(token);
      if (known !== undefined && known.until > now()) return known.account;
      const entry = verifyToken(token, known?.wasValid ?? false);
      cached.set(token, entry);
      return entry.account;
    },
    knows: (token) => cached.get(token)?.wasValid ?? false,
  };
}
