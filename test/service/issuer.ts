/** A real OpenID Connect issuer (`oidc-provider`) on a loopback port, whose keys can be changed while it runs. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import Provider from 'oidc-provider';
import type { Teardown } from '../runner/harness.ts';

export const AUDIENCE = 'urn:bulkhead:test';
const OTHER_AUDIENCE = 'urn:another:service';
const CLIENT = { id: 'ann', secret: 'a secret of the test that is long enough' };

export interface Issuer {
  readonly url: string;
  /** Times the keys were asked for. */
  readonly asked: () => number;
  /** A token as the issuer's own token endpoint gives it: client credentials, JWT, for our audience. */
  token(audience?: string): Promise<string>;
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
  let asked = 0;
  const server = createServer((request, response) => {
    if (away) return void request.socket.destroy();
    if (request.url === '/jwks') asked += 1;
    return handle(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const useKeys = (...used: JWK[]) => {
    handle = provider(url, used).callback();
  };
  useKeys(...keys);
  return {
    url,
    asked: () => asked,
    useKeys,
    token: (audience = AUDIENCE) => requestToken(url, audience),
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
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        id_token_signed_response_alg: (keys[0]?.alg ?? 'RS256') as 'RS256',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, resource) => ({
          scope: '',
          audience: resource,
          accessTokenTTL: 60,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: (keys[0]?.alg ?? 'RS256') as 'RS256' } },
        }),
      },
    },
  });
  made.on('server_error', (_context, error) => console.error(error));
  return made;
}

async function requestToken(url: string, resource: string): Promise<string> {
  const response = await fetch(`${url}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${CLIENT.id}:${encodeURIComponent(CLIENT.secret)}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
  });
  const answer = (await response.json()) as { access_token?: string };
  if (answer.access_token === undefined) throw new Error(`the issuer gave no token: ${JSON.stringify(answer)}`);
  return answer.access_token;
}
