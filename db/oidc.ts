/** The keys of an OpenID Connect issuer, found by discovery. */
import { createRemoteJWKSet, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';

/** The issuer answers in this time or the caller gets 503, milliseconds. */
const DISCOVERY_TIMEOUT_MS = 5_000;
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

export interface IssuerKeys {
  readonly keys: JWTVerifyGetKey;
  /** As the issuer writes itself into `iss`: perhaps with a slash at the end that the setting has not. */
  readonly issuer: string;
  readonly algorithms: string[];
}

/**
 * Prepares to read an issuer's keys. They are fetched at the first call, kept, and fetched again when a token names a
 * key that is not among them.
 *
 * @param issuer its address, without a slash at the end
 * @returns a function that rejects while the issuer cannot be reached, and tries again at the next call
 */
export function readIssuer(issuer: string): () => Promise<IssuerKeys> {
  let known: Promise<IssuerKeys> | undefined;
  return () => {
    known ??= discover(issuer).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}

async function discover(issuer: string): Promise<IssuerKeys> {
  const response = await fetch(`${issuer}/.well-known/openid-configuration`, {
    signal: AbortSignal.timeout(DISCOVERY_TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`discovery answered ${response.status}`);
  const found = discovery.parse(await response.json());
  if (found.issuer.replace(/\/+$/, '') !== issuer) throw new Error(`discovery is that of ${found.issuer}`);
  const keys = createRemoteJWKSet(new URL(found.jwks_uri), { timeoutDuration: DISCOVERY_TIMEOUT_MS });
  return { keys, issuer: found.issuer, algorithms: ALGORITHMS };
}
