/**
 * A real issuer (`oidc-provider`) whose page asks for a name and a password, and believes both. Its token endpoint is on
 * another host than its pages, as that of some issuers is.
 */
import type { RequestListener } from 'node:http';
import Provider from 'oidc-provider';
import { serve } from '../fixtures/listening-server.ts';
import type { Teardown } from '../runner/harness.ts';
import { issueJwts, makeKey } from '../service/issuer.ts';

export const AUDIENCE = 'urn:bulkhead:test';
export const CLIENT = 'console';

export interface SignInIssuer {
  readonly url: string;
  /** The console signs in from here: it must be known to the issuer before anybody does. */
  serve(redirectUri: string): Promise<void>;
}

export async function startSignInIssuer(t: Teardown): Promise<SignInIssuer> {
  let handle: RequestListener = (_request, response) => void response.writeHead(503).end();
  const server = await serve(t, (request, response) => handle(request, response));
  const url = `http://localhost:${server.port}`;
  const key = await makeKey('RS256', 'one');
  return {
    url,
    async serve(redirectUri) {
      const provider = new Provider(url, { ...settings(redirectUri), jwks: { keys: [key] } as never });
      const elsewhere = url.replace('localhost', '127.0.0.1');
      provider.use(async (context, next) => {
        await next();
        const document = context.body as { token_endpoint?: string };
        if (context.path.endsWith('/openid-configuration'))
          context.body = { ...document, token_endpoint: document.token_endpoint?.replace(url, elsewhere) };
      });
      provider.on('server_error', (_context, error) => console.error(error));
      handle = provider.callback();
    },
  };
}

const settings = (redirectUri: string): ConstructorParameters<typeof Provider>[1] => ({
  clients: [
    {
      client_id: CLIENT,
      // A console in a browser can keep no secret: it proves itself with PKCE.
      token_endpoint_auth_method: 'none',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code'],
      response_types: ['code'],
    },
  ],
  clientBasedCORS: () => true,
  cookies: { keys: ['only for this test'] },
  features: {
    // Its own pages, with a form for any name and any password.
    devInteractions: { enabled: true },
    resourceIndicators: issueJwts('RS256'),
  },
});
