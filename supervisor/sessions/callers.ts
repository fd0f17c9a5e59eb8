/** Who calls the session API: bearer tokens, remembered until they expire so that a hook call verifies no signature. */
import type { Pool } from 'pg';
import { accountOf } from '../../db/accounts.ts';
import { InvalidTokenError, IssuerUnavailableError, type TokenVerifier } from '../../db/identity.ts';
import { Problem } from '../../sdk/errors.ts';

/** Tokens remembered at most. */
const TOKENS_MAX = 10_000;
/** Remembered this long at most: an issuer's keys or an account may change meanwhile. Milliseconds. */
const REMEMBER_MS = 60_000;
const RETRY_AFTER_S = 5;

interface Known {
  readonly accountId: string;
  readonly until: number;
}

export class Callers {
  readonly #pool: Pool;
  readonly #verifier: TokenVerifier;
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();

  constructor(pool: Pool, verifier: TokenVerifier, now: () => number = Date.now) {
    this.#pool = pool;
    this.#verifier = verifier;
    this.#now = now;
  }

  /** The account of a remembered token: nothing is awaited on the hot path. */
  peek(header: string | undefined): string | null {
    const known = header === undefined ? undefined : this.#known.get(header);
    return known && known.until > this.#now() ? known.accountId : null;
  }

  /** The account behind an `Authorization` header. @throws Problem `unauthenticated` or `unavailable` */
  async identify(header: string | undefined): Promise<string> {
    const token = /^Bearer ([\w~+/.=-]+)$/i.exec(header ?? '')?.[1];
    if (header === undefined || token === undefined)
      throw new Problem('unauthenticated', 'Send Authorization: Bearer <token>.');
    const identity = await this.#verifier.verify(token).catch((error: unknown) => {
      if (error instanceof InvalidTokenError)
        throw new Problem('unauthenticated', 'The token is not valid or expired.');
      if (error instanceof IssuerUnavailableError)
        throw new Problem('unavailable', 'The identity provider is away.', { retryAfter: RETRY_AFTER_S });
      throw error;
    });
    const account = await accountOf(this.#pool, identity.subject);
    this.#remember(header, { accountId: account.id, until: Math.min(identity.expiresAt, this.#now() + REMEMBER_MS) });
    return account.id;
  }

  #remember(header: string, known: Known): void {
    if (this.#known.size >= TOKENS_MAX) {
      const oldest = this.#known.keys().next().value;
      if (oldest !== undefined) this.#known.delete(oldest);
    }
    this.#known.set(header, known);
  }
}
