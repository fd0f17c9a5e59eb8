/** Fetches the public keys of an OpenID Connect issuer by discovery, and caches them. */
import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose';
import * as errors from 'jose/errors';
import { createLocalJWKSet } from 'jose/jwks/local';
import { z } from 'zod';
import { readBounded } from '../../db/files/bounded-body.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';

/** An issuer that does not answer within this time is unavailable (503). Milliseconds. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Discovery documents and key sets have a few KiB, and with a thousand keys a few hundred. Bytes. */
const DOCUMENT_MAX_BYTES = MIB;
/** Keys are fetched again at this age, so a retired key is accepted for this long. Milliseconds. */
const FRESH_MS = 10 * 60_000;
/** Cached keys are accepted for this long while the issuer is unavailable. Milliseconds. */
const STALE_MAX_MS = 24 * 3_600_000;
/** Minimum time between two fetches: limits the load that tokens with unknown key ids cause. Milliseconds. */
const COOLDOWN_MS = 1_000;
/** Asymmetric signatures only: with a symmetric algorithm, the public key could be used to sign. */
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

/** The issuer's keys are unavailable, so the token cannot be verified now. */
export class IssuerUnavailableError extends Error {
  override readonly name: string = 'IssuerUnavailableError';
}

interface IssuerKeys {
  readonly keys: JWTVerifyGetKey;
  /** The `iss` value of the issuer's tokens. May end with a slash that the setting does not have. */
  readonly issuer: string;
  readonly algorithms: string[];
}
interface Known {
  readonly issuer: string;
  readonly find: JWTVerifyGetKey;
  readonly at: number;
}

/**
 * Creates a reader of an issuer's keys. It fetches them at the first call, and again when they are old or a token names
 * an unknown key.
 *
 * @param issuer its address, without a slash at the end
 * @param now milliseconds of a monotonic clock
 * @returns a function that throws IssuerUnavailableError when no valid keys are available
 */
export function openIssuerKeys(issuer: string, now: () => number = () => performance.now()): () => Promise<IssuerKeys> {
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
  /** Why the last fetch failed; null: it succeeded. */
  #trouble: IssuerUnavailableError | null = null;

  constructor(address: string, now: () => number) {
    this.#address = address;
    this.#now = now;
  }

  /** Returns the cached keys, refreshed if they are old and the issuer is available. */
  async current(): Promise<Known> {
    const age = this.#known ? this.#now() - this.#known.at : Number.POSITIVE_INFINITY;
    if (this.#known && age <= FRESH_MS) return this.#known;
    const renewing = this.#refresh();
    // While the issuer is unavailable, use the cached keys without waiting for the fetch.
    if (this.#known && this.#trouble && age <= STALE_MAX_MS) return this.#known;
    const renewed = await renewing;
    if (renewed) return renewed;
    if (this.#known && age <= STALE_MAX_MS) return this.#known;
    throw this.#trouble ?? new IssuerUnavailableError(`${this.#address} has no keys`);
  }

  /** Finds the key that a token names. */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const known = await this.current();
    try {
      return await known.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      // The key may be newer than the cache. While the issuer is unavailable, this cannot be decided.
      const renewed = await this.#refresh();
      if (renewed) return renewed.find(header, token);
      throw this.#trouble ?? error;
    }
  };

  /** Fetches the keys, unless the last fetch began less than `COOLDOWN_MS` ago. Null: no new keys. */
  async #refresh(): Promise<Known | null> {
    const isTooSoon = this.#now() - this.#askedAt < COOLDOWN_MS;
    if (isTooSoon && !this.#refreshing) return null;
    this.#refreshing ??= this.#refreshKeys().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing.catch(() => null);
  }

  async #refreshKeys(): Promise<Known> {
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
  if (removeTrailingSlashes(issuer) !== address) throw new Error(`the discovery document names the issuer ${issuer}`);
  const keys = keySet.parse(await fetchJson(jwks_uri));
  return { issuer, find: createLocalJWKSet(keys as JSONWebKeySet) };
}

/**
 * Fetches an issuer's discovery document.
 *
 * @param issuer its address
 * @param facts schema of the wanted fields
 * @throws Error when the issuer does not answer, or a field is missing
 */
export async function discoverIssuer<Facts>(issuer: string, facts: z.ZodType<Facts>): Promise<Facts> {
  return facts.parse(await fetchJson(`${removeTrailingSlashes(issuer)}/.well-known/openid-configuration`));
}

async function fetchJson(url: string): Promise<unknown> {
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
  if (!response.ok) {
    // Otherwise its connection stays open until the garbage is collected.
    await response.body?.cancel();
    throw new Error(`${url} answered ${response.status}`);
  }
  const body = await readBounded(response, DOCUMENT_MAX_BYTES);
  if (body.byteLength > DOCUMENT_MAX_BYTES)
    throw new Error(`${url} answered with more than ${DOCUMENT_MAX_BYTES} bytes`);
  return JSON.parse(new TextDecoder().decode(body));
}
