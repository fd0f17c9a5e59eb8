/** Verifies and issues bearer tokens: signed with the key in DATA_DIR, or by an OpenID Connect issuer. */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createLocalJWKSet, importJWK, type JWTPayload, type JWTVerifyGetKey, jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import type { SharedSettings } from '../settings/settings.ts';
import { IssuerUnavailableError, openIssuerKeys } from './oidc.ts';

export { IssuerUnavailableError } from './oidc.ts';

const ALGORITHM = 'EdDSA';
/** Issuer and audience of Bulkhead's tokens. Tokens that the same key signed for another purpose are rejected. */
const BULKHEAD = 'bulkhead';
/** 30 days, in seconds: short enough that a lost token expires, long enough not to annoy users. */
const TOKEN_LIFETIME_S = 30 * 24 * 3_600;
/** Tolerated clock difference between two machines. Seconds. */
const CLOCK_TOLERANCE_S = 5;
/** Longer tokens are rejected before any work. Characters. */
const TOKEN_MAX_CHARS = 16_384;

const privateJwk = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string(),
  d: z.string(),
  kid: z.string(),
});
type PrivateJwk = z.infer<typeof privateJwk>;

/** A valid user name: 1-200 characters without control characters. */
export const userName = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u);

/** The token lacks a claim, is expired or forged, or is for another audience. */
export class InvalidTokenError extends Error {
  override readonly name = 'InvalidTokenError';
}

interface Identity {
  /** The token's `sub`. */
  readonly subject: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface TokenVerifier {
  /**
   * Checks signature, issuer, audience and expiry.
   *
   * @throws InvalidTokenError (401) or IssuerUnavailableError (503)
   */
  verify(token: string): Promise<Identity>;
}

/**
 * Creates the verifier that the settings select. Without OIDC_ISSUER, creates a missing signing key. With it, fetches the
 * issuer's keys at the first token, so that start-up does not depend on another service.
 *
 * @param now clock for the age of the issuer's keys, milliseconds since 1970
 */
export async function openVerifier(
  settings: Pick<SharedSettings, 'DATA_DIR' | 'OIDC_ISSUER' | 'OIDC_AUDIENCE'>,
  now: () => number = Date.now,
): Promise<TokenVerifier> {
  if (settings.OIDC_ISSUER !== undefined && settings.OIDC_AUDIENCE !== undefined) {
    const readKeys = openIssuerKeys(settings.OIDC_ISSUER, now);
    const audience = settings.OIDC_AUDIENCE;
    return {
      async verify(token) {
        requireShortToken(token);
        const { keys, issuer, algorithms } = await readKeys();
        return verifyClaims(token, keys, { issuer, audience, algorithms });
      },
    };
  }
  const { d: _, ...publicKey } = await readKey(settings.DATA_DIR);
  const keys = createLocalJWKSet({ keys: [publicKey] });
  return {
    verify: (token) => verifyClaims(token, keys, { issuer: BULKHEAD, audience: BULKHEAD, algorithms: [ALGORITHM] }),
  };
}

export interface TokenIssuer {
  /**
   * Signs a token.
   *
   * @param subject the user's name
   * @param lifetime seconds until it expires
   */
  issue(subject: string, lifetime?: number): Promise<string>;
}

/** Opens the signing key of a data directory, and creates a missing one. */
export async function openIssuer(dataDir: string): Promise<TokenIssuer> {
  const jwk = await readKey(dataDir);
  const key = await importJWK(jwk, ALGORITHM);
  return {
    async issue(subject, lifetime = TOKEN_LIFETIME_S) {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT()
        .setProtectedHeader({ alg: ALGORITHM, kid: jwk.kid })
        .setSubject(userName.parse(subject))
        .setIssuer(BULKHEAD)
        .setAudience(BULKHEAD)
        .setIssuedAt(now)
        .setExpirationTime(now + lifetime)
        .sign(key);
    },
  };
}

function requireShortToken(token: string): void {
  if (token.length > TOKEN_MAX_CHARS) throw new InvalidTokenError('the token is too long');
}

interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly algorithms: string[];
}

async function verifyClaims(token: string, keys: JWTVerifyGetKey, expected: Expected): Promise<Identity> {
  requireShortToken(token);
  const options = { ...expected, requiredClaims: ['sub', 'exp'], clockTolerance: CLOCK_TOLERANCE_S };
  const payload = await jwtVerify(token, keys, options).then(
    (verified): JWTPayload => verified.payload,
    (error: unknown) => {
      // Any other error means that the token is invalid: its key may not fit its algorithm, for example.
      if (error instanceof IssuerUnavailableError) throw error;
      throw new InvalidTokenError(error instanceof Error ? error.message : String(error));
    },
  );
  const subject = userName.safeParse(payload.sub);
  if (!subject.success) throw new InvalidTokenError('the subject is not a user name');
  return { subject: subject.data, expiresAt: (payload.exp ?? 0) * 1000 };
}

async function readKey(dataDir: string): Promise<PrivateJwk> {
  const folder = join(dataDir, 'keys');
  const file = join(folder, 'identity.jwk.json');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const read = async (): Promise<PrivateJwk> => privateJwk.parse(JSON.parse(await readFile(file, 'utf8')));
  return read().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    await makeKey(folder, file);
    return read();
  });
}

/**
 * Safe for concurrent processes: `link` never replaces a file, so the first key wins and is never seen half-written.
 */
async function makeKey(folder: string, file: string): Promise<void> {
  const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid: randomUUID() };
  const unfinished = join(folder, `${randomUUID()}.new`);
  const handle = await open(unfinished, 'wx', 0o600);
  try {
    await handle.writeFile(JSON.stringify(jwk));
    await handle.sync();
    await link(unfinished, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  } finally {
    await handle.close();
    await rm(unfinished, { force: true });
  }
}
