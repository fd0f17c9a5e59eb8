/** A real OpenID Connect issuer (`oidc-provider`) on a loopback port, whose keys can be changed while it runs. */
import { createServer, type RequestListener } from 'node:http';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import Provider, { type Configuration } from 'oidc-provider';
import { listenOn } from '../fixtures/listening-server.ts';
import type { Teardown } from '../runner/harness.ts';

export const AUDIENCE = 'urn:bulkhead:test';
const OTHER_AUDIENCE = 'urn:another:service';
const SECRET = 'a secret of the test that is long enough';
/** Clients of the issuer: each gets tokens about itself, so its id is the subject. */
export const CLIENT = 'ann';
export const OTHER_CLIENT = 'mallory';

export interface Issuer {
  readonly url: string;
  /** Times the keys were asked for. */
  readonly countKeyRequests: () => number;
  /** A token as the issuer's own token endpoint gives it: client credentials, JWT, for our audience. */
  token(audience?: string, client?: string): Promise<string>;
  /** A token for a client whose id is our audience. */
  tokenForClient(use: 'idtoken' | 'logout'): Promise<string>;
  /** Signs with these keys from now on, the first for new tokens, and publishes no others. */
  useKeys(...keys: JWK[]): void;
  /** Breaks every connection until `comeBack`. */
  goAway(): void;
  comeBack(): void;
}

/** A private key as a JWK set holds it. */
export async function makeKey(alg: 'RS256' | 'ES256', kid: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), alg, kid, use: 'sig' };
}

export async function startIssuer(test: Teardown, ...keys: JWK[]): Promise<Issuer> {
  let handle: RequestListener = () => undefined;
  let away = false;
  let requests = 0;
  const server = createServer((request, response) => {
    if (away) return void request.socket.destroy();
    if (request.url === '/jwks') requests += 1;
    return handle(request, response);
  });
  const { url } = await listenOn(test, server);
  let current: Provider | null = null;
  const useKeys = (...used: JWK[]) => {
    current = provider(url, used);
    handle = current.callback();
  };
  useKeys(...keys);
  return {
    url,
    countKeyRequests: () => requests,
    useKeys,
    token: (audience = AUDIENCE, client = CLIENT) => requestToken(url, audience, client),
    async tokenForClient(use) {
      const client = await current?.Client.find(AUDIENCE);
      if (!current || !client) throw new Error('the issuer does not run');
      const token = new current.IdToken({ sub: CLIENT }, { client } as never);
      Object.assign(token, { mask: { sub: null } });
      if (use === 'logout') token.set('events', { 'http://schemas.openid.net/event/backchannel-logout': {} });
      return token.issue({ use } as never);
    },
    goAway() {
      away = true;
      server.closeAllConnections();
    },
    comeBack() {
      away = false;
    },
  };
}

export { OTHER_AUDIENCE };

function provider(url: string, keys: JWK[]): Provider {
  const made = new Provider(url, {
    jwks: { keys } as never,
    clients: [CLIENT, OTHER_CLIENT, AUDIENCE].map((id) => ({
      client_id: id,
      client_secret: SECRET,
      id_token_signed_response_alg: (keys[0]?.alg ?? 'RS256') as 'RS256',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: issueJwts((keys[0]?.alg ?? 'RS256') as 'RS256'),
    },
  });
  made.on('server_error', (_context, error) => console.error(error));
  return made;
}

/** Issues access tokens as JWTs, for the audience that the client asks for. */
export const issueJwts = (alg: 'RS256'): NonNullable<Configuration['features']>['resourceIndicators'] => ({
  enabled: true,
  getResourceServerInfo: (_context, resource) => ({
    scope: '',
    audience: resource,
    accessTokenTTL: 60,
    accessTokenFormat: 'jwt',
    jwt: { sign: { alg } },
  }),
});

async function requestToken(url: string, resource: string, client: string): Promise<string> {
  const response = await fetch(`${url}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client}:${encodeURIComponent(SECRET)}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
  });
  const answer = (await response.json()) as { access_token?: string };
  if (answer.access_token === undefined) throw new Error(`the issuer gave no token: ${JSON.stringify(answer)}`);
  return answer.access_token;
}
