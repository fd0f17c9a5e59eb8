/** Who is calling: tokens signed with the key in DATA_DIR, or those of an OpenID Connect issuer. */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createLocalJWKSet, importJWK, type JWTPayload, type JWTVerifyGetKey, jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import type { SharedSettings } from '../settings/settings.ts';
import { IssuerUnavailableError, readIssuer } from './oidc.ts';

export { IssuerUnavailableError } from './oidc.ts';

const ALGORITHM = 'EdDSA';
/** Issuer and audience of our own tokens: a token made for something else with the same key is refused. */
const OURS = 'bulkhead';
/** Long enough not to be a nuisance, short enough for a lost one to die, seconds: 30 days. */
const TOKEN_LIFETIME_S = 30 * 24 * 3_600;
/** Two machines' clocks may differ by this much, seconds. */
const CLOCK_TOLERANCE_S = 5;
/** No honest token is longer, characters; refused before any work. */
const TOKEN_MAX_CHARS = 16_384;

const privateJwk = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string(),
  d: z.string(),
  kid: z.string(),
});
type PrivateJwk = z.infer<typeof privateJwk>;

/** A user's name as it may be in a token: 1-200 characters, none of them a control character. */
export const userName = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u);

/** The token is missing a claim, expired, forged or for somebody else. */
export class InvalidTokenError extends Error {
  override readonly name = 'InvalidTokenError';
}

export interface Identity {
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
 * Makes the verifier the settings ask for. Without OIDC_ISSUER it makes the signing key where there is none yet; with
 * it, the issuer is asked for its keys at the first token, so that start-up does not hang on another's service.
 *
 * @param now clock that the age of an issuer's keys is told by, milliseconds since 1970
 */
export async function openVerifier(
  settings: Pick<SharedSettings, 'DATA_DIR' | 'OIDC_ISSUER' | 'OIDC_AUDIENCE'>,
  now: () => number = Date.now,
): Promise<TokenVerifier> {
  if (settings.OIDC_ISSUER !== undefined && settings.OIDC_AUDIENCE !== undefined) {
    const readKeys = readIssuer(settings.OIDC_ISSUER, now);
    const audience = settings.OIDC_AUDIENCE;
    return {
      async verify(token) {
        refuseLong(token);
        const { keys, issuer, algorithms } = await readKeys();
        return check(token, keys, { issuer, audience, algorithms });
      },
    };
  }
  const { d: _, ...publicKey } = await readKey(settings.DATA_DIR);
  const keys = createLocalJWKSet({ keys: [publicKey] });
  return { verify: (token) => check(token, keys, { issuer: OURS, audience: OURS, algorithms: [ALGORITHM] }) };
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

/** Opens the signing key of a data directory, making it where there is none. */
export async function openIssuer(dataDir: string): Promise<TokenIssuer> {
  const jwk = await readKey(dataDir);
  const key = await importJWK(jwk, ALGORITHM);
  return {
    async issue(subject, lifetime = TOKEN_LIFETIME_S) {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT()
        .setProtectedHeader({ alg: ALGORITHM, kid: jwk.kid })
        .setSubject(userName.parse(subject))
        .setIssuer(OURS)
        .setAudience(OURS)
        .setIssuedAt(now)
        .setExpirationTime(now + lifetime)
        .sign(key);
    },
  };
}

function refuseLong(token: string): void {
  if (token.length > TOKEN_MAX_CHARS) throw new InvalidTokenError('the token is too long');
}

interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly algorithms: string[];
}

async function check(token: string, keys: JWTVerifyGetKey, expected: Expected): Promise<Identity> {
  refuseLong(token);
  const options = { ...expected, requiredClaims: ['sub', 'exp'], clockTolerance: CLOCK_TOLERANCE_S };
  const payload = await jwtVerify(token, keys, options).then(
    (verified): JWTPayload => verified.payload,
    (error: unknown) => {
      // Whatever else is wrong while a token is checked is wrong with the token: its key may be unfit for its algorithm.
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

/** Of any number of processes that make a key at once one wins: `link` never replaces, and shows a whole file or none. */
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
