/**
 * Signs in with the operator's OpenID Connect issuer: the code flow with PKCE. A separate chunk, loaded only with an
 * issuer. The flow's secrets are in session storage until the issuer answers, and removed afterwards; the token is exchanged
 * for the console's cookie.
 */
import { UserManager, WebStorageStateStore } from 'oidc-client-ts';
import type { components } from '../../sdk/rest/schema.d.ts';
import { RETURN_PATH } from './return-path.ts';
import { exchangeProof } from './sign-in-requests.ts';

export type IssuerFacts = NonNullable<components['schemas']['SignInFacts']['oidc']>;

/** A code is valid once, but React may run an effect twice. */
let answer: Promise<string> | null = null;

/**
 * Opens the issuer's page.
 *
 * @param here the address to return to
 * @param asksAgain whether the issuer asks who signs in even if it knows the user
 */
export function redirectToIssuer(facts: IssuerFacts, here: string, asksAgain: boolean): Promise<void> {
  const prompt = asksAgain ? { prompt: 'login' } : {};
  return explainUnreachable(facts, createUserManager(facts).signinRedirect({ state: here, ...prompt }));
}

/**
 * Completes the sign-in with the parameters of the issuer's redirect.
 *
 * @returns the address to return to
 * @throws Error when the issuer refused, or the request did not come from this tab
 */
export function finishSignIn(facts: IssuerFacts): Promise<string> {
  answer ??= exchange(facts);
  return answer;
}

async function exchange(facts: IssuerFacts): Promise<string> {
  const manager = createUserManager(facts);
  const { access_token, state } = await explainUnreachable(facts, manager.signinRedirectCallback());
  await manager.removeUser();
  await exchangeProof({ token: access_token });
  return typeof state === 'string' && /^\/(?![/\\])/.test(state) ? state : '/';
}

/** A browser reports an address that is unreachable, and one that forbids requests from this page, as the same TypeError. */
async function explainUnreachable<T>({ issuer }: IssuerFacts, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const needs = `It must be running, and allow requests from ${location.origin} (CORS).`;
    throw new Error(`The identity provider ${issuer} is unreachable from this page. ${needs}`, { cause: error });
  }
}

function createUserManager({ issuer, clientId, audience }: IssuerFacts): UserManager {
  const store = new WebStorageStateStore({ store: sessionStorage });
  return new UserManager({
    authority: issuer,
    client_id: clientId,
    redirect_uri: location.origin + RETURN_PATH,
    scope: 'openid',
    // Most issuers use `audience`; RFC 8707 uses `resource`, which must be a URL.
    ...(audience === clientId ? {} : { extraQueryParams: { audience } }),
    ...(audience !== clientId && URL.canParse(audience) ? addResource(audience) : {}),
    userStore: store,
    stateStore: store,
    automaticSilentRenew: false,
    monitorSession: false,
    loadUserInfo: false,
  });
}

/** Some issuers need the parameters of the first request again. */
const addResource = (resource: string) => ({ resource, extraTokenParams: { resource } });
