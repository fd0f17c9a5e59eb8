/**
 * What the author of a draft does with their own installation of it while they write: `POST /installations/{id}/wake`
 * answers when what was saved last serves, `POST /installations/{id}/fire` sends it an event and tells what came of it.
 */
import { randomUUIDv7 } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { json } from '../../sdk/contract/payloads.ts';
import { type EventName, events } from '../../sdk/contract/protocol.ts';
import { stackOf } from '../calls/plugin-call.ts';
import { eventCall } from '../delivery/event-call.ts';
import { read, readBody } from './input.ts';
import { requireOwnDraft } from './own-draft.ts';
import type { SessionServices } from './session-services.ts';

const names = Object.keys(events) as [EventName, ...EventName[]];
const fireBody = z.object({
  event: z.enum(names, `must be one of ${names.join(', ')}`),
  /** Over the example of the event's row. */
  data: z.record(z.string(), json).default({}),
});

/** Installs the routes. */
export function installDraftTrials(app: FastifyInstance, services: SessionServices): void {
  app.post<{ Params: { id: string } }>('/installations/:id/wake', async (request) => {
    const plugin = await requireOwnDraft(services.pool, request.accountId, request.params.id);
    const started = performance.now();
    const reason = await services.wake(plugin);
    if (reason !== null) throw new Problem('not_running', `The draft does not start: ${reason}.`);
    return { versionId: plugin.versionId, ms: Math.round(performance.now() - started) };
  });

  app.post<{ Params: { id: string } }>('/installations/:id/fire', async (request) => {
    const plugin = await requireOwnDraft(services.pool, request.accountId, request.params.id);
    const { event, data } = readBody(fireBody, request.body);
    if (!plugin.registrations.events.includes(event))
      throw new Problem('not_found', `The draft has no handler events.${event}. It has ${handlersOf(plugin)}.`);
    const { example, data: schema } = events[event];
    return fire(services, plugin, event, read(schema as z.ZodType<object>, { ...example, ...data }, 'data'));
  });
}

const handlersOf = ({ registrations }: InstalledPlugin): string =>
  registrations.events.map((name) => `events.${name}`).join(', ') || 'none at all';

/** One attempt, kept nowhere: it is the author's to try again. */
async function fire({ invoker, logs }: SessionServices, plugin: InstalledPlugin, event: EventName, data: object) {
  const [id, started] = [randomUUIDv7(), performance.now()];
  const { installationId, pluginId, versionId, semVer } = plugin;
  const call = eventCall({
    ...{ id, type: event, occurredAt: new Date().toISOString(), attempt: 1 },
    ...{ installationId, pluginId, versionId, semVer, data },
  });
  const result = await invoker.invoke(plugin, call);
  const ms = Math.round(performance.now() - started);
  const error = 'message' in result ? result.message : null;
  if (error !== null) {
    const detail = { invocationId: call.invocationId, data: { eventId: id, ...stackOf(result) } };
    logs.system(plugin, 'error', `events.${event}, fired by its author: ${error}`, detail);
  }
  return { id, event, outcome: error === null ? 'delivered' : 'failed', error, ms };
}
