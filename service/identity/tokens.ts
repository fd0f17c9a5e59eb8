/** Verifies and issues bearer tokens: signed with the key in DATA_DIR, or by an OpenID Connect issuer. */
import { generateKeyPairSync } from 'node:crypto';
// Not from 'jose', which loads the code of all algorithms and key formats.
import type { JWTPayload, JWTVerifyGetKey, JWTVerifyResult } from 'jose';
import { decodeJwt } from 'jose/jwt/decode';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import { importJWK } from 'jose/key/import';
import { z } from 'zod';
import { BUILT_IN_ISSUER } from '../../db/accounts/accounts.ts';
import { createKeyId, isOrderedId, type KeyStore, openKeyFiles } from '../../db/files/key-files.ts';
import { refuseHidden } from '../../sdk/contract/manifest.ts';
import type { SharedSettings } from '../settings/settings.ts';
import { LazyLoad } from '../timing/lazy-load.ts';
import { ACCESS_TOKEN_TYPE, type AccessTokenRule, findAccessTokenFault, readClient } from './access-token.ts';
import { IssuerUnavailableError, openIssuerKeys } from './oidc.ts';

export { IssuerUnavailableError } from './oidc.ts';

const ALGORITHM = 'EdDSA';
/** Audience of Bulkhead's own tokens. A token that the same key signed for another purpose is rejected. */
const BUILT_IN_AUDIENCE = 'bulkhead';
/** 30 days: users rarely need a new token, and a lost one expires. Seconds. */
export const TOKEN_LIFETIME_S = 30 * 24 * 3_600;
/** Longest name of a token. Characters. */
export const TOKEN_NAME_MAX_CHARS = 100;
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

/** A valid user name: one line of 1-200 visible characters. A path of a URL cannot name `.` and `..`, and operators' routes have to. */
export const userName = z
  .string()
  .min(1, 'must not be empty')
  .max(200, 'must be at most 200 characters')
  .refine((name) => name !== '.' && name !== '..', 'must not be . or ..')
  .superRefine(refuseHidden('line'));

/** The token lacks a claim, has expired, is forged, or is for another audience. */
export class InvalidTokenError extends Error {
  override readonly name = 'InvalidTokenError';
}

/** The issuer's token is valid, but not an access token for this service. The client may see the message: it says what to change. */
export class WrongTokenError extends InvalidTokenError {}

/** The token's key is unknown and the stored keys cannot be read, so the token cannot be verified now. The message is for operators. */
export class SigningKeysUnavailableError extends IssuerUnavailableError {
  override readonly name = 'SigningKeysUnavailableError';
}

/** The claims of a verified token. */
export interface Identity {
  /** `BUILT_IN_ISSUER`, or the address of the OpenID Connect issuer without a slash at the end. */
  readonly issuer: string;
  /** The token's `sub`. */
  readonly subject: string;
  /** The token's `jti`, if Bulkhead issued it and has a record of it. */
  readonly tokenId: string | null;
  /** Id of Bulkhead's key that signed the token; null: an OpenID Connect issuer signed it. */
  readonly keyId: string | null;
  /** The client that the issuer made the token for; null: Bulkhead signed it, or it is a session of the console. */
  readonly client: string | null;
  /** Milliseconds since 1970; null: the token has no `iat`. */
  readonly issuedAt: number | null;
  /** When it is accepted no longer: its `exp` and the tolerated clock difference. Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface TokenVerifier {
  /**
   * Checks signature, issuer, audience and expiry, and that it is an access token for an accepted client.
   *
   * @throws InvalidTokenError (401), or IssuerUnavailableError or SigningKeysUnavailableError (503)
   */
  verify(token: string): Promise<Identity>;
}

/** Verifies the tokens that the settings accept. */
export interface ServiceVerifier extends TokenVerifier {
  /** The issuer of all tokens but exchanged ones: `BUILT_IN_ISSUER`, or OIDC_ISSUER. */
  readonly issuer: string;
}

type IdentitySettings = Pick<SharedSettings, 'DATA_DIR' | 'OIDC_ISSUER' | 'OIDC_AUDIENCE'> &
  Partial<Omit<AccessTokenRule, 'OIDC_AUDIENCE'>>;
/** The defaults of the settings, for callers that pass only some. */
const STRICT: Omit<AccessTokenRule, 'OIDC_AUDIENCE'> = {
  OIDC_ACCESS_TOKENS: 'at+jwt',
  OIDC_CLIENTS: [],
  OIDC_CLIENT_ID: undefined,
};

/**
 * Creates the verifier that the settings select. Without OIDC_ISSUER, reads the signing keys, and creates one if there is none.
 * With it, fetches the issuer's keys at the first token, so that start-up does not depend on another service.
 *
 * @param now clock for the age of keys, milliseconds of a monotonic clock: with the wall clock, after a step back new keys would be
 *   refused and removed ones accepted for the size of the step
 * @param store where the signing keys are; default: the files of DATA_DIR
 */
export async function openVerifier(
  settings: IdentitySettings,
  now: () => number = () => performance.now(),
  store: KeyStore = openKeyFiles(settings.DATA_DIR),
): Promise<ServiceVerifier> {
  const { OIDC_ISSUER, OIDC_AUDIENCE } = settings;
  if (OIDC_ISSUER === undefined || OIDC_AUDIENCE === undefined)
    return { issuer: BUILT_IN_ISSUER, ...(await openBuiltInVerifier(store, now)) };
  // Opened for the first exchanged token, because a deployment without token exchange needs no signing key.
  const builtInVerifier = new LazyLoad(() => openBuiltInVerifier(store, now));
  const issuerVerifier = openIssuerVerifier(OIDC_ISSUER, { ...STRICT, ...settings, OIDC_AUDIENCE }, now);
  return {
    issuer: OIDC_ISSUER,
    verify: async (token) => (isExchanged(token) ? await builtInVerifier.get() : issuerVerifier).verify(token),
  };
}

/** Whether a token claims that Bulkhead issued it to a service by token exchange (RFC 8693). Does not verify it. */
function isExchanged(token: string): boolean {
  try {
    requireShortToken(token);
    const { iss, act, jti } = decodeJwt(token);
    return iss === BUILT_IN_ISSUER && act !== undefined && jti !== undefined;
  } catch {
    return false;
  }
}

async function openBuiltInVerifier(store: KeyStore, now: () => number): Promise<TokenVerifier> {
  const findKey = await openSigningKeys(store, now);
  const expected = { issuer: BUILT_IN_ISSUER, audience: BUILT_IN_AUDIENCE, algorithms: [ALGORITHM] };
  return {
    async verify(token) {
      let keyId: string | null = null;
      const readKey: JWTVerifyGetKey = async (header) => {
        const { d: _, ...publicKey } = await findKey(header);
        // Not the id in the header: a token may name no key.
        keyId = publicKey.kid;
        return importJWK(publicKey, ALGORITHM);
      };
      const verified = await verifyClaims(token, readKey, expected);
      // Tokens from releases before tokens were recorded have no type and no id.
      const { typ } = verified.protectedHeader;
      if (typ !== undefined && typ !== ACCESS_TOKEN_TYPE) throw new InvalidTokenError('not an access token');
      // `sub_iss` is the issuer of the account for which a service acts. Absent: Bulkhead itself.
      const { sub_iss: issuer = BUILT_IN_ISSUER } = verified.payload;
      return { ...readIdentity(verified, String(issuer)), tokenId: verified.payload.jti ?? null, keyId, client: null };
    },
  };
}

/** @param address of the issuer, without a slash at the end */
function openIssuerVerifier(address: string, rule: AccessTokenRule, now: () => number): TokenVerifier {
  const readKeys = openIssuerKeys(address, now);
  return {
    async verify(token) {
      requireShortToken(token);
      const { keys, issuer, algorithms } = await readKeys();
      const verified = await verifyClaims(token, keys, { issuer, audience: rule.OIDC_AUDIENCE, algorithms });
      const fault = findAccessTokenFault(verified.protectedHeader, verified.payload, rule);
      if (fault !== null) throw new WrongTokenError(`The token ${fault}.`);
      return { ...readIdentity(verified, address), tokenId: null, keyId: null, client: readClient(verified.payload) };
    },
  };
}

export interface TokenIssuer {
  /**
   * Signs a token.
   *
   * @param subject the user's name
   * @param lifetime seconds until it expires
   * @param id of the token's record; default: the token has no record, and can only be revoked together with all others
   * @param claims further claims, such as `act` of a service's token
   */
  issue(subject: string, lifetime?: number, id?: string, claims?: JWTPayload): Promise<string>;
}

/**
 * Opens the signing keys, and creates a missing one. Each token is signed with the key that is the newest then: an operator may
 * have added it, and removed the older ones, while the process runs.
 *
 * @param store default: the files of the folder
 */
export async function openIssuer(dataDir: string, store: KeyStore = openKeyFiles(dataDir)): Promise<TokenIssuer> {
  let known = await readOrCreateKeys(store);
  return {
    async issue(subject, lifetime = TOKEN_LIFETIME_S, id = undefined, claims = {}) {
      // The token's record is written already, so it must not fail now because the keys cannot be read.
      known = (await readNewerKeys(store, known)).keys;
      const jwk = [...known.values()].at(-1);
      if (jwk === undefined)
        throw new Error(
          `${store.place} has no key that signs tokens, or only revoked ones: copy the newest key from the folder in which it was made.`,
        );
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT(id === undefined ? claims : { ...claims, jti: id })
        .setProtectedHeader({ alg: ALGORITHM, kid: jwk.kid, typ: ACCESS_TOKEN_TYPE })
        .setSubject(userName.parse(subject))
        .setIssuer(BUILT_IN_ISSUER)
        .setAudience(BUILT_IN_AUDIENCE)
        .setIssuedAt(now)
        .setExpirationTime(now + lifetime)
        .sign(await importJWK(jwk, ALGORITHM));
    },
  };
}

export function requireShortToken(token: string): void {
  if (token.length > TOKEN_MAX_CHARS) throw new InvalidTokenError('the token is too long');
}

interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly algorithms: string[];
}

export async function verifyClaims(token: string, keys: JWTVerifyGetKey, expected: Expected): Promise<JWTVerifyResult> {
  requireShortToken(token);
  const options = { ...expected, requiredClaims: ['sub', 'exp'], clockTolerance: CLOCK_TOLERANCE_S };
  return jwtVerify(token, keys, options).catch((error: unknown) => {
    // Any other error means that the token is invalid, for example that its key does not fit its algorithm.
    if (error instanceof IssuerUnavailableError) throw error;
    throw new InvalidTokenError(error instanceof Error ? error.message : String(error));
  });
}

function readIdentity({ payload }: JWTVerifyResult, issuer: string): Omit<Identity, 'tokenId' | 'keyId' | 'client'> {
  const subject = userName.safeParse(payload.sub);
  if (!subject.success) throw new InvalidTokenError('the subject is not a user name');
  const issuedAt = payload.iat === undefined ? null : payload.iat * 1000;
  return { issuer, subject: subject.data, issuedAt, expiresAt: ((payload.exp ?? 0) + CLOCK_TOLERANCE_S) * 1000 };
}

/**
 * The keys are read again after this time, so a process verifies tokens with a removed key for this long. `SignIn` accepts a token
 * that was verified just before for as long again. Milliseconds.
 */
const KEYS_MAX_AGE_MS = 30_000;
/** An unknown key id makes the process read the keys again, but not more often than this: forged tokens name unknown keys. Milliseconds. */
const KEYS_MIN_AGE_MS = 250;

/** Reads the signing keys and finds them by the id in a token. Reads them again for an unknown id: another process may have added the key. */
async function openSigningKeys(
  store: KeyStore,
  now: () => number,
): Promise<(header: { readonly kid?: string }) => Promise<PrivateJwk>> {
  let known = await readOrCreateKeys(store);
  let fault: string | null = null;
  let readAt = now();
  let reading: Promise<void> | null = null;
  const reread = (): Promise<void> => {
    readAt = now();
    reading ??= readNewerKeys(store, known).then((newer) => {
      known = newer.keys;
      fault = newer.fault;
      reading = null;
    });
    return reading;
  };
  return async ({ kid }) => {
    const find = (): PrivateJwk | undefined => (kid === undefined ? known.values().next().value : known.get(kid));
    if (find() === undefined && reading !== null) await reading;
    const age = now() - readAt;
    if (age > (find() === undefined ? KEYS_MIN_AGE_MS : KEYS_MAX_AGE_MS)) await reread();
    const key = find();
    if (key !== undefined) return key;
    // A 401 would end the use of a valid token, and nothing would say what is wrong with this process.
    if (fault !== null) throw new SigningKeysUnavailableError(fault);
    throw new InvalidTokenError('no key has this id');
  };
}

type SigningKeys = ReadonlyMap<string, PrivateJwk>;

/** Reads the signing keys by id, oldest first. */
async function readSigningKeys(store: KeyStore): Promise<SigningKeys> {
  const keys = [...(await store.list('identity')).values()].map((content) =>
    privateJwk.parse(JSON.parse(content.toString('utf8'))),
  );
  return new Map(keys.sort((a, b) => (getSortKey(a) < getSortKey(b) ? -1 : 1)).map((key) => [key.kid, key]));
}

/** As `readSigningKeys`. Creates a key if the store is empty. */
async function readOrCreateKeys(store: KeyStore): Promise<SigningKeys> {
  const keys = await readSigningKeys(store);
  if (keys.size > 0) return keys;
  await addSigningKey(store, true);
  return readSigningKeys(store);
}

interface NewerKeys {
  readonly keys: SigningKeys;
  /** Why the stored keys could not be read. Null: they were. */
  readonly fault: string | null;
}

const OTHER_CLUSTER_KEY =
  'The keys that sign tokens are sealed under another cluster key than that of this process. Set the current key of the cluster and restart the process.';

/**
 * Reads the signing keys again. The known ones stay in use while the folder or the database cannot be read, and after a change of
 * the cluster's key: until it restarts, a process with the old one opens none of those that are stored. Key files that are all gone
 * or revoked were removed on purpose. None is created then: other processes would not know it.
 */
async function readNewerKeys(store: KeyStore, known: SigningKeys): Promise<NewerKeys> {
  try {
    const keys = await readSigningKeys(store);
    return keys.size === 0 && store.fingerprint !== null
      ? { keys: known, fault: OTHER_CLUSTER_KEY }
      : { keys, fault: null };
  } catch (error) {
    return {
      keys: known,
      fault: `The keys that sign tokens cannot be read from ${store.place}: ${(error as Error).message}`,
    };
  }
}

/** Sorts by age. The random ids of older releases come before the ids that contain a time. */
const getSortKey = ({ kid }: PrivateJwk): string => `${isOrderedId(kid) ? 1 : 0}${kid}`;

/**
 * Adds a signing key, which signs new tokens from now on. Older keys verify the tokens that they signed until they are removed.
 *
 * @param onlyFirst does nothing if another process has already created a key
 * @returns the id of the new key
 */
export async function addSigningKey(store: KeyStore, onlyFirst = false): Promise<string> {
  const kid = createKeyId((await store.list('identity')).keys());
  const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid };
  await store.add('identity', kid, Buffer.from(JSON.stringify(jwk)), onlyFirst);
  return kid;
}
