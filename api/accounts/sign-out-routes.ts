/** Ends sessions of the console. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { endAllSessions } from '../../db/accounts/console-sessions.ts';
import { KIB } from '../../sdk/contract/limits.ts';
import { signInSender } from '../../service/http/authentication.ts';
import { type ConsoleSite, formatSessionCookie, readSessionSecret } from '../../service/http/console-requests.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, noContent } from '../../service/http/schemas.ts';
import { refuseUnknownFields } from '../../service/http/unknown-fields.ts';
import type { ConsoleSessions } from '../../service/identity/console-sessions.ts';
import { REST_SCOPES } from '../../service/identity/scopes.ts';
import type { SignIn } from '../../service/identity/sign-in.ts';
import type { Services } from '../services.ts';

/** Bytes. */
const BODY_MAX_BYTES = KIB;

/** Register it in a scope without sign-in: a session’s cookie is enough to end it, also while its account is suspended. */
export const signOutRoutes = (
  { pool }: Pick<Services, 'pool'>,
  signIn: SignIn,
  sessions: ConsoleSessions,
  site: ConsoleSite,
): FastifyPluginAsyncZod => {
  return async (app) => {
    groupRoutes(app, 'Account');
    app.addHook('preValidation', async (request) => refuseUnknownFields(request));

    app.post(
      '/sign-out',
      {
        bodyLimit: BODY_MAX_BYTES,
        schema: {
          summary: 'Sign out of the console, here or everywhere',
          details:
            'Ends the session of the request’s cookie, also while its account is suspended, or all console sessions of the account. Tokens stay valid.',
          body: jsonBody({
            everywhere: z
              .boolean()
              .default(false)
              .describe('Ends the sessions of all browsers, and unused sign-in links.'),
          }),
          response: { 204: noContent },
        },
      },
      async (request, reply) => {
        const secret = readSessionSecret(request, site);
        if (secret === null || request.body.everywhere) {
          const { id } = await signInSender(request, signIn, site, REST_SCOPES);
          if (request.body.everywhere) await endAllSessions(pool, id);
        }
        if (secret !== null) await sessions.end(secret);
        reply.header('set-cookie', formatSessionCookie(site, '', 0)).code(204);
      },
    );
  };
};
