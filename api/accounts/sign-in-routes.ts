/** Serves the facts that the console needs before sign-in. Needs no token. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { groupRoutes } from '../../service/http/route-schema.ts';

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

export const signInRoutes = (facts: SignInFacts): FastifyPluginAsyncZod => {
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
  };
};
