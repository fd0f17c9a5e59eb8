/**
 * Exchanges a service's token of an OpenID Connect issuer for a short-lived token of an account that allowed it (RFC 8693).
 * The service's token is the subject token, and `audience` names the account.
 */
import type { JWTPayload } from 'jose';
import { decodeJwt } from 'jose/jwt/decode';
import type { Pool } from 'pg';
import { BUILT_IN_ISSUER } from '../../db/accounts/accounts.ts';
import { findDelegation, recordExchange } from '../../db/accounts/delegations.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { perMinute, TokenBuckets } from '../timing/token-bucket.ts';
import { openIssuerKeys } from './oidc.ts';
import { isAllowed, type Scope, scopeNames } from './scopes.ts';
import {
  type Identity,
  InvalidTokenError,
  IssuerUnavailableError,
  requireShortToken,
  type TokenIssuer,
  userName,
  verifyClaims,
} from './tokens.ts';

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:';
const ACCESS_TOKEN = `${TOKEN_TYPE}access_token`;
const SUBJECT_TOKEN_TYPES = ['jwt', 'access_token', 'id_token'].map((type) => TOKEN_TYPE + type);
/** The new token ends with the service's own token, and after this time at the latest. Seconds. */
const LIFETIME_MAX_S = 3_600;
/** Exchanges of one service. */
const EXCHANGES_PER_MINUTE = 60;
const UNAVAILABLE_RETRY_AFTER_S = 5;
/** Codes of RFC 6749 and RFC 8693. The last two are those of the authorization endpoint, for errors that may pass. */
type ErrorCode =
  | 'invalid_request'
  | 'unsupported_grant_type'
  | 'invalid_target'
  | 'invalid_scope'
  | 'temporarily_unavailable'
  | 'server_error';
const PARAMETERS = new Set([
  'grant_type',
  'subject_token',
  'subject_token_type',
  'audience',
  'scope',
  'requested_token_type',
  'client_id',
]);

/** A refusal in the shape of RFC 6749. The description may be shown. */
export class ExchangeError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, description: string, status = 400, retryAfter?: number) {
    super(description);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

interface ExchangedToken {
  readonly access_token: string;
  readonly issued_token_type: string;
  readonly token_type: 'Bearer';
  /** Seconds. */
  readonly expires_in: number;
  readonly scope: string;
}

interface ExchangeOptions {
  readonly pool: Pool;
  readonly issuer: TokenIssuer;
  /** Addresses of the issuers whose tokens services may exchange, without a slash at the end. Empty: none. */
  readonly issuers: readonly string[];
  /** The audience that the service's tokens must name. */
  readonly audience: string;
}

export type TokenExchange = (form: URLSearchParams) => Promise<ExchangedToken>;

/** Of a service whose operator configured no issuer. */
export const refuseExchange: TokenExchange = async () => {
  throw new ExchangeError(
    'unsupported_grant_type',
    'This service exchanges no tokens: its operator has configured no issuer.',
  );
};

/** @returns a function that throws ExchangeError, or the database's error */
export function openTokenExchange({ pool, issuer, issuers, audience }: ExchangeOptions): TokenExchange {
  const keysOf = new Map(issuers.map((address) => [address, openIssuerKeys(address)]));
  const buckets = new TokenBuckets(perMinute(EXCHANGES_PER_MINUTE));

  /** @throws ExchangeError that does not tell why a token is invalid: a description would help to forge one */
  async function verifyService(token: string): Promise<Service> {
    const address = readIssuer(token);
    const readKeys = address === null ? undefined : keysOf.get(address);
    if (address === null || readKeys === undefined)
      throw invalidRequest('The operator has not configured the issuer of the subject_token.');
    const { keys, issuer: iss, algorithms } = await readKeys();
    const { payload } = await verifyClaims(token, keys, { issuer: iss, audience, algorithms });
    return readService(address, payload);
  }

  return async (form) => {
    const { subjectToken, accountId, scope } = readRequest(form);
    const service = await verifyService(subjectToken).catch(toExchangeError);
    const bucket = buckets.get(`${service.issuer} ${service.subject}`);
    if (!bucket.consume()) {
      const wait = bucket.secondsUntil(1);
      const rule = `${EXCHANGES_PER_MINUTE} exchanges per minute of one service`;
      throw new ExchangeError(
        'temporarily_unavailable',
        `Rate limit exceeded: ${rule}. Retry after ${wait} s.`,
        429,
        wait,
      );
    }
    // No id has a character that PostgreSQL refuses.
    const delegation = isStorable(accountId) ? await findDelegation(pool, accountId, service) : null;
    if (delegation === null) throw notAllowed();
    const granted = chooseScopes(delegation.scopes, scope);
    const lifetime = Math.min(LIFETIME_MAX_S, Math.floor((service.expiresAt - Date.now()) / SECOND));
    if (lifetime < 1) throw invalidSubject();
    const recorded = await recordExchange(pool, delegation, {
      // Without the signature, which can often be written in several ways.
      subjectToken: subjectToken.slice(0, subjectToken.lastIndexOf('.')),
      subjectExpiresAt: new Date(service.expiresAt),
      expiresAt: new Date(Date.now() + lifetime * SECOND),
      scopes: granted,
      actor: `${service.subject} of ${service.issuer}`,
    });
    if (recorded.outcome !== 'recorded') throw recorded.outcome === 'removed' ? notAllowed() : repeatedSubject();
    const { accountIssuer, accountSubject } = delegation;
    const claims = {
      scope: granted.join(' '),
      act: { sub: service.subject, iss: service.issuer },
      ...(accountIssuer === BUILT_IN_ISSUER ? {} : { sub_iss: accountIssuer }),
    };
    return {
      access_token: await issuer.issue(accountSubject, lifetime, recorded.tokenId, claims),
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: lifetime,
      scope: claims.scope,
    };
  };
}

type Service = Pick<Identity, 'issuer' | 'subject' | 'expiresAt'>;
interface ExchangeRequest {
  readonly subjectToken: string;
  readonly accountId: string;
  /** Null: all that the account allows. */
  readonly scope: readonly string[] | null;
}

const invalidRequest = (description: string) => new ExchangeError('invalid_request', description);
const notAllowed = () =>
  new ExchangeError('invalid_target', 'No account with the id of audience allowed this service to act for it.');
const repeatedSubject = () =>
  invalidRequest('The subject_token was exchanged for this account before. Ask its issuer for a new one.');
const invalidSubject = () => invalidRequest('The subject_token is invalid or expired.');

function readRequest(form: URLSearchParams): ExchangeRequest {
  for (const name of new Set(form.keys())) {
    if (form.getAll(name).length > 1) throw invalidRequest(`Send ${describeName(name)} once.`);
    if (!PARAMETERS.has(name)) throw invalidRequest(`${describeName(name)} is not supported here.`);
  }
  const grantType = readParameter(form, 'grant_type');
  if (grantType !== GRANT_TYPE) throw new ExchangeError('unsupported_grant_type', `Send grant_type=${GRANT_TYPE}.`);
  const subjectToken = readParameter(form, 'subject_token');
  if (!SUBJECT_TOKEN_TYPES.includes(readParameter(form, 'subject_token_type')))
    throw invalidRequest(`Send one of these as subject_token_type: ${SUBJECT_TOKEN_TYPES.join(', ')}.`);
  const requested = form.get('requested_token_type') || ACCESS_TOKEN;
  if (requested !== ACCESS_TOKEN && requested !== `${TOKEN_TYPE}jwt`)
    throw invalidRequest(`Only the requested_token_type ${ACCESS_TOKEN} is supported.`);
  const scope =
    form
      .get('scope')
      ?.split(' ')
      .filter((word) => word !== '') ?? [];
  return { subjectToken, accountId: readParameter(form, 'audience'), scope: scope.length > 0 ? scope : null };
}

/** RFC 6749: a parameter without a value counts as missing. */
function readParameter(form: URLSearchParams, name: string): string {
  const value = form.get(name);
  if (value) return value;
  throw invalidRequest(`Send ${name}${name === 'audience' ? ': the id of the account' : ''}.`);
}

const NAME = /^[a-z_]{1,40}$/;
/** RFC 6749 allows no quotes and no line breaks in a description. */
const describeName = (name: string): string => (NAME.test(name) ? name : 'One of the parameters');

function chooseScopes(allowed: readonly string[], wanted: readonly string[] | null): readonly string[] {
  if (wanted === null) return allowed;
  const refused = wanted.find((word) => !isKnown(word) || !isAllowed(allowed, word));
  if (refused !== undefined)
    throw new ExchangeError(
      'invalid_scope',
      `The account allows this service: ${allowed.join(' ')}. Ask for no other scope.`,
    );
  return [...new Set(wanted)];
}
const isKnown = (word: string): word is Scope => (scopeNames as readonly string[]).includes(word);

/** The issuer that a token claims to have, without a slash at the end; null: it is not a token. Not verified. */
function readIssuer(token: string): string | null {
  try {
    requireShortToken(token);
    const { iss } = decodeJwt(token);
    return typeof iss === 'string' ? iss.replace(/\/$/, '') : null;
  } catch {
    return null;
  }
}

/** @throws InvalidTokenError */
function readService(issuer: string, { sub, exp, cnf, events }: JWTPayload): Service {
  const subject = userName.safeParse(sub);
  if (!subject.success || exp === undefined) throw new InvalidTokenError('the token names no service');
  if (cnf !== undefined) throw new InvalidTokenError('the token is bound to a key');
  if (events !== undefined) throw new InvalidTokenError('the token is a logout token');
  return { issuer, subject: subject.data, expiresAt: exp * SECOND };
}

function toExchangeError(error: unknown): never {
  if (error instanceof InvalidTokenError) throw invalidSubject();
  if (error instanceof IssuerUnavailableError)
    throw new ExchangeError(
      'temporarily_unavailable',
      'The issuer of the subject_token is unavailable. Retry shortly.',
      503,
      UNAVAILABLE_RETRY_AFTER_S,
    );
  throw error;
}
