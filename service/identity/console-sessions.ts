/** Sign-ins of the console: a secret in a cookie, which stands for the token or the code that was exchanged for it. */
import { createHash, randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { type Account, isStillSignedIn } from '../../db/accounts/accounts.ts';
import {
  createSession,
  createSignInCode,
  endSession,
  findSession,
  redeemSignInCode,
} from '../../db/accounts/console-sessions.ts';
import { isStillRecorded } from '../../db/accounts/issued-tokens.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import type { Queryable } from '../../db/postgres/rows.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { SignIn } from './sign-in.ts';
import { type Identity, InvalidTokenError, type ServiceVerifier, type TokenVerifier } from './tokens.ts';

/** A sign-in link is opened at once: by the user who sees it, before others who may read the terminal. Milliseconds. */
const CODE_LIFETIME_MS = 5 * 60_000;
const SECRET_BYTES = 32;
const USED_LINK =
  'The sign-in link was used before or is older than five minutes. `npm run -s token -- <user> --link` makes a new one.';
/** Marks the credential of a cookie. No bearer token has a colon, so none passes as a session. */
const SESSION_MARK = 'session:';

/** The credential that `SignIn` takes for the secret of a cookie. */
export const sessionCredential = (secret: string): string => SESSION_MARK + secret;

/**
 * Extends a verifier by the credentials of cookies. A session ends with its token or its account, or when the key that signed the
 * token is revoked. Like tokens, sessions of another issuer than the configured one are refused.
 */
export function withConsoleSessions(pool: Pool, tokens: ServiceVerifier): TokenVerifier {
  return {
    verify: (credential) =>
      credential.startsWith(SESSION_MARK)
        ? verifySession(pool, credential.slice(SESSION_MARK.length), tokens.issuer)
        : tokens.verify(credential),
  };
}

async function verifySession(pool: Pool, secret: string, acceptedIssuer: string): Promise<Identity> {
  const session = await findSession(pool, hash(secret));
  if (session === null) throw new InvalidTokenError('the session has ended');
  const { subject, issuer, tokenId, isExchanged, keyId, createdAt, expiresAt } = session;
  if (issuer !== acceptedIssuer && !isExchanged) throw new InvalidTokenError('the session is of another issuer');
  // Like a token, it names the second: one of the second in which all were revoked counts as older.
  const issuedAt = Math.floor(Date.parse(createdAt) / 1000) * 1000;
  return { subject, issuer, tokenId, keyId, client: null, issuedAt, expiresAt: Date.parse(expiresAt) };
}

/** A session that has just begun. */
interface StartedSession {
  readonly account: Account;
  /** The value of the cookie. */
  readonly secret: string;
  readonly expiresAt: Date;
}

export interface ConsoleSessions {
  /** Exchanges a bearer token. @throws InvalidTokenError, or what else `SignIn.signIn` throws */
  start(token: string): Promise<StartedSession>;
  /** Exchanges the code of a sign-in link. @throws Problem `unauthenticated` if it was used, has expired or never was */
  redeem(code: string): Promise<StartedSession>;
  /** Ends the session of a cookie. Idempotent. */
  end(secret: string): Promise<void>;
}

interface Parts {
  readonly pool: Pool;
  /** Accepts bearer tokens. */
  readonly tokens: TokenVerifier;
  /** Accepts tokens and the credentials of cookies. */
  readonly signIn: SignIn;
  /** The client with which the console signs in at the issuer; null: there is no issuer. */
  readonly consoleClient: string | null;
  /** Longest life of a session. Milliseconds. */
  readonly lifetimeMs: number;
}

export function openConsoleSessions({ pool, tokens, signIn, consoleClient, lifetimeMs }: Parts): ConsoleSessions {
  /** @param store stores the session in the database */
  const begin = async (
    until: number,
    store: (session: { id: string; expiresAt: Date }) => Promise<void>,
  ): Promise<StartedSession> => {
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const expiresAt = new Date(until);
    await store({ id: hash(secret), expiresAt });
    return { account: await signIn.signIn(sessionCredential(secret)), secret, expiresAt };
  };
  return {
    async start(token) {
      const { tokenId, keyId, client, expiresAt } = await tokens.verify(token);
      const account = await signIn.signIn(token);
      const until = Date.now() + lifetimeMs;
      // The console's token lives for minutes, and its session stands for the sign-in at the issuer. A token of another client,
      // such as a runtime's, or one that Bulkhead signed gives no access for longer than itself.
      const isSignIn = client !== null && client === consoleClient;
      return begin(isSignIn ? until : Math.min(until, expiresAt), (session) =>
        inTransaction(pool, async (tx) => {
          if (!(await isStillSignedIn(tx, account)))
            throw new InvalidTokenError('all tokens of the account were revoked, or it was suspended');
          if (tokenId !== null && !(await isStillRecorded(tx, tokenId)))
            throw new InvalidTokenError('the token was revoked');
          await createSession(tx, { ...session, accountId: account.id, tokenId, keyId });
        }),
      );
    },
    async redeem(code) {
      return begin(Date.now() + lifetimeMs, async (session) => {
        if (!(await redeemSignInCode(pool, hash(code), session))) throw new Problem('unauthenticated', USED_LINK);
      });
    },
    end: (secret) => endSession(pool, hash(secret)),
  };
}

/** Makes a link that signs in to the console once. @param publicUrl address of the console, without a slash at the end */
export async function issueSignInLink(db: Queryable, accountId: string, publicUrl: string): Promise<string> {
  const code = randomBytes(SECRET_BYTES).toString('base64url');
  await createSignInCode(db, { id: hash(code), accountId, expiresAt: new Date(Date.now() + CODE_LIFETIME_MS) });
  return `${publicUrl}/#code=${code}`;
}

/** Not a password hash: the secrets are random and too long to be guessed. */
const hash = (secret: string): string => createHash('sha256').update(secret).digest('hex');
