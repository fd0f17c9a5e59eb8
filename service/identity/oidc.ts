/** The keys of an OpenID Connect issuer, found by discovery, kept and renewed. */
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';

/** The issuer answers in this time or the caller gets 503, milliseconds. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Keys are asked for again when they are this old: so long a retired one still counts. Milliseconds. */
const FRESH_MS = 10 * 60_000;
/** While the issuer is away, keys it once gave count for this long. Milliseconds. */
const STALE_MAX_MS = 24 * 3_600_000;
/** Between two questions to an issuer that answered once, however many tokens name keys that nobody knows. Milliseconds. */
const COOLDOWN_MS = 1_000;
/** Public-key signatures only: with a shared-secret one, whoever knows the public key could sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

const discovery = z.object({ issuer: z.string(), jwks_uri: z.url() });
const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(1_000) });

/** The issuer's keys cannot be had now, so nothing is known about the token. */
export class IssuerUnavailableError extends Error {
  override readonly name = 'IssuerUnavailableError';
}

export interface IssuerKeys {
  readonly keys: JWTVerifyGetKey;
  /** As the issuer writes itself into `iss`: perhaps with a slash at the end that the setting has not. */
  readonly issuer: string;
  readonly algorithms: string[];
}
interface Known {
  readonly issuer: string;
  readonly find: JWTVerifyGetKey;
  readonly at: number;
}

/**
 * Prepares to read an issuer's keys. They are fetched at the first call, kept, and fetched again when they are old or a
 * token names a key that is not among them.
 *
 * @param issuer its address, without a slash at the end
 * @param now clock, milliseconds since 1970
 * @returns a function that throws IssuerUnavailableError while the issuer was never reached, and tries again at the next
 *   call
 */
export function readIssuer(issuer: string, now: () => number = Date.now): () => Promise<IssuerKeys> {
  const cache = new IssuerCache(issuer, now);
  return async () => {
    const known = await cache.current();
    return { issuer: known.issuer, algorithms: ALGORITHMS, keys: (header, token) => cache.find(header, token) };
  };
}

class IssuerCache {
  readonly #address: string;
  readonly #now: () => number;
  #known: Known | null = null;
  #refreshing: Promise<Known> | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Why the last question went unanswered; null: it was answered. */
  #trouble: IssuerUnavailableError | null = null;

  constructor(address: string, now: () => number) {
    this.#address = address;
    this.#now = now;
  }

  /** What is known, renewed if it is old and the issuer can be asked. */
  async current(): Promise<Known> {
    const age = this.#known ? this.#now() - this.#known.at : Number.POSITIVE_INFINITY;
    if (this.#known && age <= FRESH_MS) return this.#known;
    const renewing = this.#refresh();
    // Once it is known to be away, nobody waits for it whom the old keys can serve.
    if (this.#known && this.#trouble && age <= STALE_MAX_MS) return this.#known;
    const renewed = await renewing;
    if (renewed) return renewed;
    if (this.#known && age <= STALE_MAX_MS) return this.#known;
    throw this.#trouble ?? new IssuerUnavailableError(`${this.#address} was asked a moment ago`);
  }

  /** The key a token names. */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const known = await this.current();
    try {
      return await known.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      // A key made since, or none at all: only the issuer knows, and while it is away nobody does.
      const renewed = await this.#refresh();
      if (renewed) return renewed.find(header, token);
      throw this.#trouble ?? error;
    }
  };

  /** Asks the issuer, unless it was asked just now. Null: nothing new is known. */
  async #refresh(): Promise<Known | null> {
    const isTooSoon = this.#known !== null && this.#now() - this.#askedAt < COOLDOWN_MS;
    if (isTooSoon && !this.#refreshing) return null;
    this.#refreshing ??= this.#ask().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing.catch(() => null);
  }

  async #ask(): Promise<Known> {
    this.#askedAt = this.#now();
    try {
      this.#known = { ...(await fetchKeys(this.#address)), at: this.#now() };
      this.#trouble = null;
      return this.#known;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#trouble = new IssuerUnavailableError(`${this.#address}: ${reason}`);
      throw this.#trouble;
    }
  }
}

async function fetchKeys(address: string): Promise<Omit<Known, 'at'>> {
  const { issuer, jwks_uri } = await discoverIssuer(address, discovery);
  if (issuer.replace(/\/+$/, '') !== address) throw new Error(`discovery is that of ${issuer}`);
  const keys = keySet.parse(await fetchJson(jwks_uri));
  return { issuer, find: createLocalJWKSet(keys as JSONWebKeySet) };
}

/**
 * What an issuer says of itself.
 *
 * @param issuer its address
 * @param facts those that are wanted
 * @throws Error that it did not answer, or not with them
 */
export async function discoverIssuer<Facts>(issuer: string, facts: z.ZodType<Facts>): Promise<Facts> {
  return facts.parse(await fetchJson(`${issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`));
}

async function fetchJson(url: string): Promise<unknown> {
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response.json();
}
