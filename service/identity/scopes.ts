/** The scopes of tokens: each allows a part of what the account may do. */
export const scopes = {
  'sessions:read': 'Read sessions, transcripts, tools and streams of the session API.',
  'sessions:write': 'Everything in the session API but the logins of SSH hosts and the inspector.',
  'account:read': 'Read what the REST interface shows of the account.',
} as const;
export type Scope = keyof typeof scopes;
export const scopeNames = Object.keys(scopes) as [Scope, ...Scope[]];

/** The scopes that requests of an application need. */
export interface RequiredScopes {
  readonly read: Scope;
  /** Null: a token with scopes may change nothing. */
  readonly write: Scope | null;
}

export const REST_SCOPES: RequiredScopes = { read: 'account:read', write: null };

const IMPLIED_BY: Readonly<Partial<Record<Scope, Scope>>> = { 'sessions:read': 'sessions:write' };

/** @param granted null: all */
export function isAllowed(granted: readonly string[] | null, needed: Scope | null): boolean {
  if (granted === null) return true;
  if (needed === null) return false;
  const wider = IMPLIED_BY[needed];
  return granted.includes(needed) || (wider !== undefined && granted.includes(wider));
}
