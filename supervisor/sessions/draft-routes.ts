/** `/installations/{id}/wake` and `…/fire`: authors try their own installed draft while they write it. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { jsonObject } from '../../sdk/contract/payloads.ts';
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, jsonBody } from '../../service/http/schemas.ts';
import { parseInput } from '../../service/http/unknown-fields.ts';
import { pickStack } from '../calls/plugin-call.ts';
import { requireOwnDraft, requireSavedDraft } from '../children/own-draft.ts';
import { eventCall } from '../delivery/event-call.ts';
import type { SessionServices } from './session-services.ts';

const names = Object.keys(events) as [EventName, ...EventName[]];
const eventBody = jsonBody({
  event: z.enum(names, `must be one of ${names.join(', ')}`),
  data: jsonObject.default({}).describe('Replaces fields of the event’s example.'),
});

const firedEvent = z
  .strictObject({
    id: z.string(),
    event: z.enum(names),
    outcome: z.enum(['delivered', 'failed']),
    error: z.string().nullable(),
    ms: z.int(),
  })
  .meta({ id: 'FiredEvent', description: 'The result of a draft’s event handler.' });

const shapes = {
  wake: {
    summary: 'Starts the draft saved last',
    details: 'The response is sent when the draft can be called.',
    problems: ['not_a_draft', 'not_running'],
    params: idParams,
    response: { 200: z.strictObject({ versionId: z.string(), ms: z.int() }) },
  },
  fire: {
    summary: 'Sends the draft an event, once',
    problems: ['not_a_draft', 'not_running'],
    params: idParams,
    body: eventBody,
    response: { 200: firedEvent },
  },
} satisfies Record<string, FastifySchema>;

export function draftRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Drafts');
    app.post('/installations/:id/wake', { schema: shapes.wake }, async (request) => {
      const started = performance.now();
      const plugin = await requireSavedDraft(services, requireCaller(request).id, request.params.id);
      const reason = await services.wake(plugin);
      // The refusal of a machine without a sandbox is a sentence.
      if (reason !== null) throw new Problem('not_running', `The draft does not start: ${reason.replace(/\.$/, '')}.`);
      return { versionId: plugin.versionId, ms: Math.round(performance.now() - started) };
    });

    app.post('/installations/:id/fire', { schema: shapes.fire }, async (request) => {
      const plugin = await requireOwnDraft(services.pool, requireCaller(request).id, request.params.id);
      const { event, data } = request.body;
      if (!plugin.registrations.events.includes(event))
        throw new Problem('not_found', `The draft has no handler events.${event}. It has ${listHandlers(plugin)}.`);
      const { example, data: schema } = events[event];
      return fire(services, plugin, event, parseInput(schema as z.ZodType<object>, { ...example, ...data }, 'data'));
    });
  };
}

const listHandlers = ({ registrations }: InstalledPlugin): string =>
  registrations.events.map((name) => `events.${name}`).join(', ') || 'none at all';

/** Makes one attempt without storing it: the author may repeat it. */
async function fire(
  { invoker, logs }: SessionServices,
  plugin: InstalledPlugin,
  event: EventName,
  data: object,
): Promise<z.infer<typeof firedEvent>> {
  const id = randomUUIDv7();
  const started = performance.now();
  const { installationId, pluginId, versionId, semVer } = plugin;
  const call = eventCall({
    id,
    type: event,
    occurredAt: new Date().toISOString(),
    attempt: 1,
    installationId,
    pluginId,
    versionId,
    semVer,
    data,
  });
  const result = await invoker.invoke(plugin, call);
  const ms = Math.round(performance.now() - started);
  const error = 'message' in result ? result.message : null;
  if (error !== null) {
    const detail = { invocationId: call.invocationId, data: { eventId: id, ...pickStack(result) } };
    logs.system(plugin, 'error', `events.${event}, sent by its author: ${error}`, detail);
  }
  return { id, event, outcome: error === null ? 'delivered' : 'failed', error, ms };
}
