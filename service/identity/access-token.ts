/** Tells the access tokens of an OpenID Connect issuer from its other tokens, which the same keys sign. */
import type { JWTHeaderParameters, JWTPayload } from 'jose';
import type { SharedSettings } from '../settings/settings.ts';

/** How the issuer marks access tokens, and for which clients it may have made them. */
export type AccessTokenRule = Pick<SharedSettings, 'OIDC_ACCESS_TOKENS' | 'OIDC_CLIENTS' | 'OIDC_CLIENT_ID'> & {
  readonly OIDC_AUDIENCE: string;
};

/** The type of access tokens (RFC 9068). */
export const ACCESS_TOKEN_TYPE = 'at+jwt';
/** Claims of ID tokens, which tell a client who signed in, and of logout tokens. No access token has them. */
const FOREIGN_CLAIMS = ['nonce', 'at_hash', 'c_hash', 's_hash', 'events'];
/** Claims in which issuers name the client that they made the token for. */
const CLIENT_CLAIMS = ['azp', 'client_id', 'appid', 'cid'];

/** Returns why a token with a valid signature is refused, as the end of a sentence; null: it is an access token. */
export function findAccessTokenFault(
  header: JWTHeaderParameters,
  payload: JWTPayload,
  rule: AccessTokenRule,
): string | null {
  return findTypeFault(header, payload, rule) ?? findBindingFault(payload) ?? findClientFault(payload, rule);
}

function findTypeFault(
  { typ = 'JWT' }: JWTHeaderParameters,
  payload: JWTPayload,
  { OIDC_ACCESS_TOKENS: accepted }: AccessTokenRule,
): string | null {
  const type = typ.toLowerCase().replace(/^application\//, '');
  if (type === ACCESS_TOKEN_TYPE) return null;
  if (accepted === 'at+jwt') {
    return `has the type “${typ}”, and access tokens have “${ACCESS_TOKEN_TYPE}”. If the issuer does not mark access tokens so, see OIDC_ACCESS_TOKENS`;
  }
  if (type !== 'jwt') return `has the type “${typ}”, which is not an access token`;
  const foreign = FOREIGN_CLAIMS.find((claim) => payload[claim] !== undefined);
  if (foreign !== undefined) return `has the claim “${foreign}”, which access tokens do not have`;
  return findPlainTokenFault(payload);
}

/** An unmarked token must say by a claim that it is an access token: the absence of others proves nothing. */
function findPlainTokenFault({ typ, token_use: use, scope, scp }: JWTPayload): string | null {
  if (typ !== undefined && typ !== 'Bearer') return `is of the kind “${String(typ)}”, which is not an access token`;
  if (use !== undefined && use !== 'access') return `is of the kind “${String(use)}”, which is not an access token`;
  const isMarked = [typ, use, scope, scp].some((claim) => claim !== undefined);
  return isMarked ? null : 'does not say that it is an access token: it has no scope';
}

/** A token that is bound to a key is worth nothing without a proof of that key, and a bearer sends none. */
const findBindingFault = ({ cnf }: JWTPayload): string | null =>
  cnf === undefined ? null : 'is bound to a key of its client (DPoP, mTLS), which is not supported';

/** The client that the issuer made a token for. A token whose claims name several is that of none of them alone. */
export const readClient = (payload: JWTPayload): string => [...new Set(listClients(payload))].join(' ');

const listClients = (payload: JWTPayload): unknown[] =>
  CLIENT_CLAIMS.map((claim) => payload[claim]).filter((claim) => claim !== undefined);

function findClientFault(payload: JWTPayload, rule: AccessTokenRule): string | null {
  const { OIDC_CLIENTS: clients, OIDC_CLIENT_ID: console, OIDC_AUDIENCE: audience } = rule;
  const named = listClients(payload);
  if (named.length === 0) return 'does not name the client that it was made for';
  if (clients.includes('*')) return null;
  const accepted: readonly unknown[] = [...clients, console ?? audience];
  const other = named.find((client) => !accepted.includes(client));
  return other === undefined ? null : `was made for the client “${String(other)}”, which OIDC_CLIENTS does not list`;
}
