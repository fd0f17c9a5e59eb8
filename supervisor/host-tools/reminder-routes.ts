/** `/sessions/{id}/notifications`: reminders. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { mapPage } from '../../db/postgres/cursors.ts';
import { pageComingReminders, pageReminders } from '../../db/sessions/reminders.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, pageQuery, timestamp } from '../../service/http/schemas.ts';
import { requireSession, type SessionServices, sessionParams } from '../sessions/session-services.ts';
import { newReminderFields } from './notify-tools.ts';
import { cancelReminder, describeReminder, requireReminder, scheduleReminder } from './reminders.ts';
import { ownId, startedBy } from './request-fields.ts';

const reminderParams = sessionParams.extend({ notifyId: z.string() });

const reminderResource = z
  .strictObject({
    id: z.string().describe('`notifyId` of the hook `notifySchedule`, `notify.id` of `notifyDeliver`.'),
    text: z.string(),
    to: z.string(),
    zone: z.string(),
    repeat: z.string().nullable(),
    startsAt: timestamp.describe('The first time.'),
    nextAt: timestamp.nullable().describe('The next time. Null: the reminder is over.'),
    remaining: z.int().nullable().describe('Number of times left, including the next one. Null: no end.'),
    lastAt: timestamp.nullable(),
    lastOutcome: z
      .enum(['delivered', 'cancelled', 'failed'])
      .nullable()
      .describe(
        'cancelled: a plugin cancelled it. failed: a required plugin did not run, the account was full, or an internal error came.',
      ),
    createdAt: timestamp,
  })
  .meta({ id: 'Reminder', description: 'A text that is delivered at a time, once or repeated.' });

const comingReminder = reminderResource
  .extend({ sessionId: z.string() })
  .meta({ id: 'ComingReminder', description: 'A reminder with its session.' });

const shapes = {
  schedule: {
    summary: 'Schedules a reminder',
    details:
      'Runs the hook `notifySchedule`; when the reminder is due, `notifyDeliver`, and `inboundMessage` if it is for the agent, else `outboundMessage`. A request with the id of an existing reminder returns that reminder.',
    problems: ['cancelled', 'id_reused', 'too_many', 'quota_exceeded'],
    params: sessionParams,
    body: jsonBody({
      id: ownId,
      ...newReminderFields,
      trigger: startedBy,
    }),
    response: { 201: reminderResource },
  },
  list: {
    summary: 'The reminders of a session, oldest first',
    details: 'Reminders that are over are kept for 30 days.',
    params: sessionParams,
    querystring: pageQuery,
    response: { 200: page(reminderResource) },
  },
  coming: {
    summary: 'The reminders of the account that are to come, oldest first',
    querystring: pageQuery,
    response: { 200: page(comingReminder) },
  },
  one: { summary: 'One reminder', params: reminderParams, response: { 200: reminderResource } },
  cancel: {
    summary: 'Cancels the times of a reminder that are to come',
    details: 'Returns the reminder before the change.',
    params: reminderParams,
    response: { 200: reminderResource },
  },
} satisfies Record<string, FastifySchema>;

export function reminderRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Services');
    app.post('/sessions/:sessionId/notifications', { schema: shapes.schedule }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { trigger: started, ...fields } = request.body;
      const reminder = await scheduleReminder(services, session, fields, started);
      return answerCreated(request, reply, encodeURIComponent(reminder.id)).send(reminder);
    });

    app.get('/notifications', { schema: shapes.coming }, async (request) => {
      const { id: accountId } = requireCaller(request);
      const rows = await pageComingReminders(services.pool, { accountId, ...request.query });
      return mapPage(rows, (row) => ({ ...describeReminder(row), sessionId: row.sessionId }));
    });

    app.get('/sessions/:sessionId/notifications', { schema: shapes.list }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      return mapPage(await pageReminders(services.pool, { sessionId, ...request.query }), describeReminder);
    });

    app.get('/sessions/:sessionId/notifications/:notifyId', { schema: shapes.one }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      const { notifyId: reminderId } = request.params;
      return describeReminder(await requireReminder(services, { sessionId, reminderId }));
    });

    app.delete('/sessions/:sessionId/notifications/:notifyId', { schema: shapes.cancel }, async (request) => {
      const { id: sessionId } = await requireSession(services, requireCaller(request), request.params);
      return cancelReminder(services, { sessionId, reminderId: request.params.notifyId });
    });
  };
}
