/** Ends sessions of the console. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { endAllSessions } from '../../db/accounts/console-sessions.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { type ConsoleSite, formatSessionCookie, readSessionSecret } from '../../service/http/console-requests.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, noContent } from '../../service/http/schemas.ts';
import type { ConsoleSessions } from '../../service/identity/console-sessions.ts';
import type { Services } from '../services.ts';

export const signOutRoutes = (
  { pool }: Pick<Services, 'pool'>,
  sessions: ConsoleSessions,
  site: ConsoleSite,
): FastifyPluginAsyncZod => {
  return async (app) => {
    groupRoutes(app, 'Account');

    app.post(
      '/sign-out',
      {
        schema: {
          summary: 'Sign out of the console, here or everywhere',
          details:
            'Ends the session of the request’s cookie, or all console sessions of the account. Tokens stay valid.',
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
        const { id } = requireCaller(request);
        const secret = readSessionSecret(request, site);
        if (secret !== null) await sessions.end(id, secret);
        if (request.body.everywhere) await endAllSessions(pool, id);
        reply.header('set-cookie', formatSessionCookie(site, '', 0)).code(204);
      },
    );
  };
};
