/** Signs in to the console: what it needs to know before, and the exchange of a token or a code for its cookie. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB } from '../../sdk/contract/limits.ts';
import { type ConsoleSite, formatSessionCookie, isFromConsole } from '../../service/http/console-requests.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import type { ConsoleSessions } from '../../service/identity/console-sessions.ts';
import { accountResource } from './account-resource.ts';

/** More than the longest token. Bytes. */
const BODY_MAX_BYTES = 32 * KIB;

const signInFacts = z
  .object({
    sessionApiUrl: z.string().nullable().describe('Address of the session API.'),
    oidc: z
      .object({ issuer: z.string(), clientId: z.string(), audience: z.string() })
      .nullable()
      .describe('The issuer that signs users in (code flow with PKCE). Null: the operator issues tokens.'),
  })
  .meta({ id: 'SignInFacts', description: 'How to sign in, and where the session API is.' });
export type SignInFacts = z.infer<typeof signInFacts>;

const proof = z.union(
  [
    z.strictObject({ token: z.string().min(1).describe('A bearer token.') }),
    z.strictObject({ code: z.string().min(1).describe('The code of a sign-in link. It is used up.') }),
  ],
  'must have a token or the code of a sign-in link',
);

export const signInRoutes = (
  facts: SignInFacts,
  sessions: ConsoleSessions,
  site: ConsoleSite,
): FastifyPluginAsyncZod => {
  return async (app) => {
    groupRoutes(app, 'Account');

    app.get(
      '/sign-in',
      {
        schema: {
          summary: 'How to sign in, and where the session API is',
          open: true,
          response: { 200: signInFacts },
        },
      },
      () => facts,
    );

    app.post(
      '/sign-in',
      {
        bodyLimit: BODY_MAX_BYTES,
        schema: {
          summary: 'Sign in to the console',
          details: `Exchanges a token, or the code of a sign-in link, for the console’s cookie, which only pages of the console can use.
Other clients send the token itself in the header \`Authorization\`.`,
          open: true,
          body: proof,
          response: { 200: accountResource },
          problems: ['unauthenticated', 'account_suspended', 'unavailable'],
        },
      },
      async (request, reply) => {
        if (!isFromConsole(request, site))
          throw new Problem(
            'bad_request',
            'Only pages of the console get a cookie. Send the token in the header “Authorization: Bearer <token>”.',
          );
        const { body } = request;
        const started = 'token' in body ? await sessions.start(body.token) : await sessions.redeem(body.code);
        const maxAgeS = Math.floor((started.expiresAt.getTime() - Date.now()) / 1000);
        reply.header('set-cookie', formatSessionCookie(site, started.secret, maxAgeS));
        reply.header('cache-control', 'no-store');
        const { id, name, operator } = started.account;
        return { id, name, operator };
      },
    );
  };
};
