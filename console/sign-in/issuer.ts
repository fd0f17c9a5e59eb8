/**
 * Signing in with the issuer that the operator named: the code flow with PKCE. A chunk of its own, fetched only where
 * there is an issuer. Until it answers, the flow's own secrets are in session storage; afterwards nothing of it is left.
 */
import { UserManager, WebStorageStateStore } from 'oidc-client-ts';
import type { components } from '../rest/schema.d.ts';
import { RETURN_PATH } from './return-path.ts';
import { setToken } from './token.ts';

export type IssuerFacts = NonNullable<components['schemas']['SignInFacts']['oidc']>;

/** A code is good once, and a page may ask for its answer twice. */
let answer: Promise<string> | null = null;

/**
 * Leaves for the issuer's page.
 *
 * @param here where the user shall be afterwards
 */
export const redirectToIssuer = (facts: IssuerFacts, here: string): Promise<void> =>
  managerOf(facts).signinRedirect({ state: here });

/**
 * Signs in with what the issuer's page sent back with.
 *
 * @returns where the user was before
 * @throws Error where the issuer refused, or where nobody here had asked it
 */
export function finishSignIn(facts: IssuerFacts): Promise<string> {
  answer ??= exchange(facts);
  return answer;
}

async function exchange(facts: IssuerFacts): Promise<string> {
  const manager = managerOf(facts);
  const { id_token, access_token, state } = await manager.signinRedirectCallback();
  await manager.removeUser();
  // A token for the client itself is its identity; one for another audience is for calling that.
  setToken((facts.audience === facts.clientId ? id_token : undefined) ?? access_token);
  return typeof state === 'string' && /^\/(?![/\\])/.test(state) ? state : '/';
}

function managerOf({ issuer, clientId, audience }: IssuerFacts): UserManager {
  const store = new WebStorageStateStore({ store: sessionStorage });
  return new UserManager({
    authority: issuer,
    client_id: clientId,
    redirect_uri: location.origin + RETURN_PATH,
    scope: 'openid',
    // Most issuers know the audience by this name; RFC 8707 by the other one, which must be an address.
    ...(audience === clientId ? {} : { extraQueryParams: { audience } }),
    ...(audience !== clientId && URL.canParse(audience) ? resourceOf(audience) : {}),
    userStore: store,
    stateStore: store,
    automaticSilentRenew: false,
    monitorSession: false,
    loadUserInfo: false,
  });
}

/** Some issuers forget at the second step what was asked for at the first. */
const resourceOf = (resource: string) => ({ resource, extraTokenParams: { resource } });
