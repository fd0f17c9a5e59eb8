/** From a bearer token to the account it acts as: the first step of every request. */
import type { Pool } from 'pg';
import { type Account, findOrCreateAccount } from '../../db/accounts/accounts.ts';
import type { TokenVerifier } from './tokens.ts';

/**
 * How long a verified token is believed without another look, milliseconds. A session calls many times a second, and a
 * check costs a signature and a query; an account that becomes an operator's waits this long.
 */
const BELIEVED_MS = 30_000;
/** Tokens remembered at most; beyond, the one unused for the longest time goes. */
const REMEMBERED = 10_000;

export interface SignIn {
  /**
   * Answers with the account of a token, making it when the subject is new.
   *
   * @throws InvalidTokenError (401), IssuerUnavailableError (503), or the database's error
   */
  signIn(token: string): Promise<Account>;
  /** Whether the token was good when it was last looked at in this process. */
  knows(token: string): boolean;
}

interface Remembered {
  readonly account: Promise<Account>;
  until: number;
  /** It was good at least once. */
  proven: boolean;
}

/** @param now clock, milliseconds since 1970 */
export function openSignIn(pool: Pool, verifier: TokenVerifier, now: () => number = Date.now): SignIn {
  // A Map keeps insertion order: deleting and setting again moves an entry to the end, so the first is the oldest used.
  const remembered = new Map<string, Remembered>();
  const look = (token: string, proven: boolean): Remembered => {
    const entry: Remembered = { account: load(), until: now() + BELIEVED_MS, proven };
    async function load(): Promise<Account> {
      const { subject, expiresAt } = await verifier.verify(token);
      entry.until = Math.min(entry.until, expiresAt);
      const account = await findOrCreateAccount(pool, subject);
      entry.proven = true;
      return account;
    }
    entry.account.catch(() => {
      if (remembered.get(token) === entry) remembered.delete(token);
    });
    return entry;
  };
  return {
    signIn(token) {
      const known = remembered.get(token);
      remembered.delete(token);
      const entry = known !== undefined && known.until > now() ? known : look(token, known?.proven ?? false);
      remembered.set(token, entry);
      const [oldest] = remembered.keys();
      if (remembered.size > REMEMBERED && oldest !== undefined) remembered.delete(oldest);
      return entry.account;
    },
    knows: (token) => remembered.get(token)?.proven ?? false,
  };
}
