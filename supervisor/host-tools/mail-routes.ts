/** `/sessions/{id}/mail` and `/mail`: messages between agents. */
import { randomUUIDv7 } from 'node:crypto';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { mapPage } from '../../db/postgres/cursors.ts';
import { type MailRow, pageMail } from '../../db/sessions/mail.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, pageQuery, timestamp } from '../../service/http/schemas.ts';
import { requireSession, type SessionServices, sessionParams } from '../sessions/session-services.ts';
import { sendMail } from './mail.ts';
import { mailFields } from './mail-tools.ts';
import { ownId, startedBy } from './request-fields.ts';

const list = {
  summary: 'The mail between agents of the account, newest first',
  querystring: pageQuery,
  response: {
    200: page(
      z
        .strictObject({
          messageId: z.string(),
          sessionId: z.string().describe('The session of the receiver.'),
          fromAgentId: z.string(),
          toAgentId: z.string(),
          text: z.string(),
          at: timestamp,
        })
        .meta({ id: 'ReceivedMail', description: 'A message that an agent got from another one.' }),
    ),
  },
} satisfies FastifySchema;

const send = {
  summary: 'Sends a message to another agent of the account',
  details:
    'Runs `outboundMessage` and `agentMessage` for this session, then `inboundMessage` for the session of the receiver. A repeated request with the same id sends no second message; one for another agent or session, or with another text, is refused.',
  problems: ['cancelled', 'id_reused', 'quota_exceeded'],
  params: sessionParams,
  body: jsonBody({
    id: ownId,
    ...mailFields,
    trigger: startedBy,
  }),
  response: {
    200: z
      .strictObject({
        messageId: z
          .string()
          .describe('The id of the message in the receiver’s transcript. Open a turn there with this id.'),
        sessionId: z.string().describe('The session of the receiver.'),
        toAgentId: z.string(),
      })
      .meta({ id: 'SentMail', description: 'A message that another agent got.' }),
  },
} satisfies FastifySchema;

export function mailRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Services');
    app.get('/mail', { schema: list }, async (request) => {
      const { id: accountId } = requireCaller(request);
      return mapPage(await pageMail(services.pool, { accountId, ...request.query }), describeMail);
    });

    app.post('/sessions/:sessionId/mail', { schema: send }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { id = randomUUIDv7(), trigger: started, ...mail } = request.body;
      return sendMail(services, session, { ...mail, id }, started);
    });
  };
}

const describeMail = ({ messageId, sessionId, toAgentId, text, data, at }: MailRow) => ({
  messageId,
  sessionId,
  // A runtime may have added a message with any data.
  fromAgentId: typeof data.fromAgentId === 'string' ? data.fromAgentId : '',
  toAgentId,
  text,
  at,
});
