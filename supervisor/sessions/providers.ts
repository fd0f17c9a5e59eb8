/** `/sessions/{id}/providers`: model providers of plugins. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { completionRequest } from '../../sdk/contract/payloads.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';
import { asFailure, callSurface, fullName } from '../calls/surface-call.ts';
import { readBody } from './input.ts';
import type { SessionParams, SessionServices } from './session-services.ts';

/** Models that a refusal names. */
const MODELS_NAMED = 20;
const providerBody = z.object({ request: completionRequest });

/** The first there is when none is named. @throws Problem `invalid_arguments` for one that the provider does not have */
function chooseModel(provider: string, models: readonly { readonly id: string }[], wanted: string | undefined): string {
  const found = wanted === undefined ? models[0] : models.find(({ id }) => id === wanted);
  if (found) return found.id;
  const names = models.slice(0, MODELS_NAMED).map(({ id }) => id);
  throw new Problem('invalid_arguments', `${provider} has no such model; it has ${names.join(', ') || 'none'}.`, {
    errors: [{ field: 'request.model', message: 'is no model of this provider' }],
  });
}

/** Installs the routes. */
export function installProviders(app: FastifyInstance, services: SessionServices): void {
  app.get<{ Params: SessionParams }>('/sessions/:sessionId/providers', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { plugins } = await services.pluginsCache.get(session.accountId);
    const items = plugins.flatMap((plugin) =>
      Object.entries(plugin.registrations.providers).map(([name, { models }]) => ({
        name: fullName(plugin, name),
        models,
        installationId: plugin.installationId,
        slug: plugin.slug,
      })),
    );
    return { items, nextCursor: null };
  });
  app.post<{ Params: SessionParams & { name: string } }>('/sessions/:sessionId/providers/:name', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { plugins } = await services.pluginsCache.get(session.accountId);
    const wanted = request.params.name;
    const plugin = plugins.find((candidate) => wanted.startsWith(`${candidate.slug}__`));
    const name = wanted.slice((plugin?.slug.length ?? 0) + 2);
    if (!plugin || !Object.hasOwn(plugin.registrations.providers, name))
      throw new Problem('not_found', 'There is no provider of that name.');
    const { request: asked } = readBody(providerBody, request.body);
    const { models } = plugin.registrations.providers[name] ?? { models: [] };
    const fields = { request: { ...asked, model: chooseModel(wanted, models, asked.model) } };
    const result = await callSurface(services, { kind: 'providers', name, plugin, session, fields });
    if (result.kind !== 'answered') throw asFailure(wanted, result);
    const checked = surfaces.providers.result.safeParse(result.answer);
    if (!checked.success) throw new Problem('plugin_failed', `${wanted} answered with no completion.`);
    return checked.data;
  });
}
