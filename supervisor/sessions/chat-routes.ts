/** Below `/v1`: the plugins' model providers for clients that speak OpenAI's protocol. */
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import {
  chatRequest,
  formatChunkError,
  formatChunks,
  splitModel,
  toCompletion,
  toProviderRequest,
} from './chat-completions.ts';
import { abortWhenClosed, abortWhenOver } from './closed-requests.ts';
import { sendEvents } from './event-answers.ts';
import { askProvider, listProviders, streamProvider } from './providers.ts';
import type { SessionServices } from './session-services.ts';

const anyAnswer = z.unknown().meta({ description: 'A response of OpenAI’s API.' });
const openAiError = { content: { 'application/json': { schema: anyAnswer } } };
/** Errors are in OpenAI's form, which its clients read: `buildSessionApi` sets it for all addresses below /v1. */
const declareErrors = (...statuses: readonly number[]) =>
  Object.fromEntries(statuses.map((status) => [status, openAiError]));
const errors = declareErrors(400, 401, 403, 429, 500, 503);
const shapes = {
  models: {
    summary: 'The models of the account’s plugins, as OpenAI lists models',
    response: { 200: openAiError, ...errors },
  },
  model: {
    summary: 'One model of the account’s plugins, as OpenAI shows a model',
    params: z.object({ model: z.string() }),
    response: { 200: openAiError, ...errors, ...declareErrors(404) },
  },
  chat: {
    summary: 'Asks a model of a plugin in OpenAI’s protocol',
    details:
      'For frameworks that accept the address of an OpenAI-compatible server: use the address of the session API with `/v1`, and the token as the key. Errors are in OpenAI’s form. A stream sends each piece of the answer as soon as the plugin yields it. An error after the first piece is an event with `error`, which ends the stream. Closing the request aborts the call.',
    problems: ['not_found', 'invalid_arguments', 'cancelled', 'plugin_failed', 'plugin_timeout'],
    body: chatRequest,
    response: {
      200: { content: { 'application/json': { schema: anyAnswer }, 'text/event-stream': { schema: z.string() } } },
      ...errors,
      ...declareErrors(404, 409, 413, 415, 422, 502, 504),
    },
  },
} satisfies Record<string, FastifySchema>;

export function chatRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const listModels = async (request: FastifyRequest) => {
    const { plugins } = await services.pluginsCache.get(requireCaller(request).id);
    return listProviders(plugins).flatMap(({ name, slug, models }) =>
      models.map(({ id }) => ({ id: `${name}/${id}`, object: 'model', created: 0, owned_by: slug })),
    );
  };
  const findModel = async (request: FastifyRequest, wanted: string) => {
    const found = (await listModels(request)).find(({ id }) => id === wanted);
    if (!found) throw new Problem('not_found', 'No model has this id. GET /v1/models lists them.');
    return found;
  };
  return async (app) => {
    groupRoutes(app, 'Providers');
    app.get('/v1/models', { schema: shapes.models }, async (request) => {
      return { object: 'list', data: await listModels(request) };
    });

    app.get('/v1/models/:model', { schema: shapes.model }, (request) => findModel(request, request.params.model));
    // Clients that do not encode the slash of an id.
    app.get('/v1/models/*', { schema: { hide: true, params: z.object({ '*': z.string() }) } }, (request) =>
      findModel(request, request.params['*']),
    );

    app.post('/v1/chat/completions', { schema: shapes.chat }, async (request, reply) => {
      const { id: accountId } = requireCaller(request);
      const { body } = request;
      const { provider, model } = splitModel(body.model);
      const asked = { ...toProviderRequest(body), model };
      if (body.stream !== true) {
        const answer = await askProvider(services, { accountId }, provider, asked, abortWhenClosed(reply));
        return toCompletion(body.model, answer);
      }
      const deltas = streamProvider(services, { accountId }, provider, asked, abortWhenOver(request, reply));
      const chunks = formatChunks(body.model, deltas, body.stream_options?.include_usage === true);
      return sendEvents(request, reply, chunks, formatChunkError);
    });
  };
}
