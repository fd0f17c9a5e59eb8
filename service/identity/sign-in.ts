/** Finds the account of a bearer token, caches verified tokens, and ends what outlives its token. */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { type Account, findAccount, findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { type TokenLimits, useToken } from '../../db/accounts/issued-tokens.ts';
import { isKeyRevoked } from '../../db/files/recorded-keys.ts';
import type { Listener, Subscription } from '../../db/postgres/listener.ts';
import { subscribeToAccounts } from '../../db/postgres/notifications.ts';
import { asService } from '../../db/postgres/shares.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from './caller.ts';
import { type Identity, InvalidTokenError, type TokenVerifier } from './tokens.ts';

/**
 * A verified token is cached for this long: sessions send many requests per second, and each check costs a signature
 * and three queries. A change of an account or its tokens takes effect at once, by a notification; if that is lost,
 * after this time. Milliseconds.
 */
const CACHE_MS = 30_000;
const CACHE_MAX = 10_000;
/** The longest time of a timer. Milliseconds. */
const TIMER_MAX_MS = 2 ** 31 - 1;

interface SignedIn {
  readonly account: Account & Caller;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}
interface CachedToken {
  readonly signedIn: Promise<SignedIn>;
  /** When its verification began. Later than now: the clock went back, so its age is unknown. Milliseconds since 1970. */
  readonly from: number;
  until: number;
  /** The token was valid at least once. */
  wasValid: boolean;
  /** Null: not known yet. */
  accountId: string | null;
}
interface Watcher {
  readonly token: string;
  /** The sign-in that the token gave when the watch began. */
  readonly began: Promise<SignedIn>;
  end(why: unknown): void;
}

export class SignIn {
  readonly #pool: Pool;
  readonly #verifier: TokenVerifier;
  readonly #now: () => number;
  readonly #cached = new LRUCache<string, CachedToken>({ max: CACHE_MAX });
  readonly #watchers = new Set<Watcher>();

  /** @param now clock, milliseconds since 1970 */
  constructor(pool: Pool, verifier: TokenVerifier, now: () => number = Date.now) {
    this.#pool = pool;
    this.#verifier = verifier;
    this.#now = now;
  }

  /**
   * Returns the account of a token; creates it if issuer and subject are new.
   *
   * @throws InvalidTokenError (401), Problem `account_suspended`, IssuerUnavailableError or SigningKeysUnavailableError (503), or the
   *   database's error
   */
  async signIn(token: string): Promise<Account & Caller> {
    return (await this.#find(token)).account;
  }

  /** Whether the token was valid when it was last verified in this process. */
  knows(token: string): boolean {
    return this.#cached.get(token)?.wasValid ?? false;
  }

  /**
   * Calls `onEnd` once when a token that was just accepted ends: it expires or is revoked, or its account is suspended or
   * demoted.
   *
   * @param onEnd receives what the next `signIn` would throw: also the error of an outage, if the token cannot be verified now
   * @returns a function that stops watching
   */
  watch(token: string, onEnd: (why: unknown) => void): () => void {
    let timer: NodeJS.Timeout | undefined;
    const stop = () => {
      clearTimeout(timer);
      this.#watchers.delete(watcher);
    };
    const watcher: Watcher = {
      token,
      began: this.#find(token),
      end(why) {
        stop();
        onEnd(why);
      },
    };
    this.#watchers.add(watcher);
    const awaitExpiry = (expiresAt: number): void => {
      const left = expiresAt - this.#now();
      if (!this.#watchers.has(watcher)) return;
      if (left <= 0) watcher.end(new InvalidTokenError('the token has expired'));
      else timer = setTimeout(() => awaitExpiry(expiresAt), Math.min(left, TIMER_MAX_MS)).unref();
    };
    watcher.began.then(
      ({ expiresAt }) => awaitExpiry(expiresAt),
      (error: unknown) => watcher.end(error),
    );
    return stop;
  }

  /** Follows changes of accounts and tokens that any process makes. */
  follow(listener: Listener): Promise<Subscription> {
    return subscribeToAccounts(
      listener,
      (accountId) => this.#checkAgain(accountId),
      () => this.#checkAgain(null),
    );
  }

  #find(token: string): Promise<SignedIn> {
    const known = this.#cached.get(token);
    const now = this.#now();
    if (known !== undefined && known.from <= now && now < known.until) return known.signedIn;
    const entry = this.#verify(token, known?.wasValid ?? false);
    this.#cached.set(token, entry);
    return entry.signedIn;
  }

  #verify(token: string, wasValid: boolean): CachedToken {
    const load = async (): Promise<SignedIn> => {
      const identity = await this.#verifier.verify(token);
      entry.until = Math.min(entry.until, identity.expiresAt);
      const account = await this.#findAccount(identity);
      entry.accountId = account.id;
      const { scopes, actor } = await this.#readLimits(identity, account);
      entry.wasValid = true;
      // A token with scopes acts for the account alone, whatever an operator may do to others.
      const operator = account.operator && scopes === null;
      const { tokenId, client, expiresAt } = identity;
      return { account: { ...account, operator, tokenId, client, scopes, actor }, expiresAt };
    };
    // Not in the share of a caller that watches its token: the keys that are read serve all accounts.
    const from = this.#now();
    const entry: CachedToken = { signedIn: asService(load), from, until: from + CACHE_MS, wasValid, accountId: null };
    entry.signedIn.catch((error: unknown) => {
      if (this.#cached.get(token) !== entry) return;
      // While the database or the issuer is unavailable, a token that was valid must not count as a stranger's.
      if (isTokenRefused(error) || !entry.wasValid) this.#cached.delete(token);
      else entry.until = 0;
    });
    return entry;
  }

  /** @throws InvalidTokenError if a token with a record has no account: it was moved to another issuer */
  async #findAccount({ tokenId, subject, issuer }: Identity): Promise<Account> {
    if (tokenId === null) return findOrCreateAccount(this.#pool, subject, issuer);
    // The record belongs to an account, so a new account would have no valid token.
    const account = await findAccount(this.#pool, subject, issuer);
    if (account === null) throw new InvalidTokenError('the account of the token was moved to another issuer');
    return account;
  }

  /** @throws InvalidTokenError for a revoked token or key, Problem `account_suspended` */
  async #readLimits({ tokenId, keyId, issuedAt }: Identity, account: Account): Promise<TokenLimits> {
    // The verifier knows the keys that it read last, and a session has only the key's id.
    if (keyId !== null && (await isKeyRevoked(this.#pool, keyId)))
      throw new InvalidTokenError('the key that signed the token was revoked');
    const limits = tokenId === null ? UNLIMITED : await useToken(this.#pool, account.id, tokenId);
    if (limits === null) throw new InvalidTokenError('the token was revoked');
    if (tokenId === null && account.tokensAfter !== null && !isLater(issuedAt, account.tokensAfter))
      throw new InvalidTokenError('all tokens of the account were revoked');
    if (account.suspendedReason === null) return limits;
    throw new Problem('account_suspended', `The operator suspended your account: ${account.suspendedReason}`);
  }

  /** Verifies tokens of an account again when they are used next, and now if something waits for their end. */
  #checkAgain(accountId: string | null): void {
    // An entry without an account is being verified, perhaps with rows from before the change.
    for (const entry of this.#cached.values())
      if (accountId === null || entry.accountId === null || entry.accountId === accountId) entry.until = 0;
    for (const watcher of this.#watchers) void this.#checkWatcher(watcher, accountId);
  }

  async #checkWatcher(watcher: Watcher, accountId: string | null): Promise<void> {
    let why: unknown = new InvalidTokenError('the account of the token was moved, promoted or demoted');
    try {
      const { account } = await watcher.began;
      if (accountId !== null && account.id !== accountId) return;
      const current = await this.#find(watcher.token);
      if (current.account.id === account.id && current.account.operator === account.operator) return;
    } catch (error) {
      // Ends the watch, too, if the token cannot be verified now: the client comes back with its token.
      why = error;
    }
    if (this.#watchers.has(watcher)) watcher.end(why);
  }
}

/** Whether an error of `SignIn.signIn` says that the token is not accepted. Otherwise it could not be verified. */
export const isTokenRefused = (error: unknown): boolean =>
  error instanceof InvalidTokenError || error instanceof Problem;

const UNLIMITED: TokenLimits = { scopes: null, actor: null };

/** Tokens name the second, so one of the same second counts as older. */
const isLater = (issuedAt: number | null, after: string): boolean =>
  issuedAt !== null && issuedAt > Math.floor(Date.parse(after) / 1000) * 1000;
