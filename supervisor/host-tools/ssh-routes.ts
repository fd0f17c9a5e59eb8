/** `/sessions/{id}/ssh-…`: commands on the SSH hosts of the account. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import { abortWhenClosed } from '../sessions/closed-requests.ts';
import {
  CALL_BODY_MAX_BYTES,
  requireSession,
  type SessionServices,
  sessionParams,
} from '../sessions/session-services.ts';
import { startedBy } from './request-fields.ts';
import { listSshHosts, runSsh, sshCommandFields } from './ssh-tools.ts';

const sshHostResource = z
  .strictObject({ id: z.string(), name: z.string() })
  .meta({ id: 'SshHost', description: 'An SSH host of the account.' });

const shapes = {
  hosts: {
    summary: 'The SSH hosts of the account',
    params: sessionParams,
    querystring: wholeListQuery,
    response: { 200: page(sshHostResource) },
  },
  run: {
    summary: 'Runs a command over SSH',
    details:
      'Runs the hooks `sshCommand`, `sshCommandInput` if there is input, and `sshCommandOutput`, all with one `commandId`. Closing the request, or a timeout, tells the host to end the command, which some SSH servers let run on. The command is not repeated: after a lost connection, check whether it ran.',
    problems: ['cancelled'],
    params: sessionParams,
    body: jsonBody({
      ...sshCommandFields,
      trigger: startedBy,
    }),
    response: {
      200: z
        .strictObject({
          commandId: z.string().describe('The id that the three hooks received.'),
          host: sshHostResource,
          exitCode: z.int().nullable().describe('Null: a signal ended the command.'),
          stdout: z.string(),
          stderr: z.string(),
          durationMs: z.number(),
        })
        .meta({ id: 'SshResult', description: 'The result of a command, after the plugins’ changes.' }),
    },
  },
} satisfies Record<string, FastifySchema>;

export function sshRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Services');
    app.get('/sessions/:sessionId/ssh-hosts', { schema: shapes.hosts }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return pageWholeList(await listSshHosts(services, session), request.query, ({ id }) => id);
    });

    app.post(
      '/sessions/:sessionId/ssh',
      { bodyLimit: CALL_BODY_MAX_BYTES, config: { anyPropertyNames: true }, schema: shapes.run },
      async (request, reply) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const { trigger: started, ...command } = request.body;
        return runSsh(services, session, command, { trigger: started, signal: abortWhenClosed(reply) });
      },
    );
  };
}
