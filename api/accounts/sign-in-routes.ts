/** What a console must know before anybody is signed in. Open to everybody. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';

export const signInFacts = z
  .object({
    sessionApiUrl: z.string().nullable().describe('Where the session API is reached.'),
    oidc: z
      .object({ issuer: z.string(), clientId: z.string(), audience: z.string() })
      .nullable()
      .describe('The issuer that signs users in (code flow with PKCE). Null: tokens are made by the operator.'),
  })
  .meta({ id: 'SignInFacts', description: 'How to sign in, and where the session API is.' });
export type SignInFacts = z.infer<typeof signInFacts>;

export const signInRoutes = (facts: SignInFacts): FastifyPluginAsyncZod => {
  return async (app) => {
    app.get(
      '/sign-in',
      {
        schema: {
          ...{ group: 'Account', summary: 'How to sign in, and where the session API is', open: true },
          response: { 200: signInFacts },
        },
      },
      () => facts,
    );
  };
};
