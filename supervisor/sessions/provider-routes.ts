/** `/sessions/{id}/providers`: lists and calls the model providers of the account's plugins. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { completionRequest, model } from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { formatEvent } from '../../service/http/event-text.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { anyJson, jsonBody, page, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import type { ProviderDelta } from '../children/answer-deltas.ts';
import { abortWhenClosed, abortWhenOver } from './closed-requests.ts';
import { sendEvents } from './event-answers.ts';
import { askProvider, listProviders, type ProviderAnswer, streamProvider, toSessionAnswer } from './providers.ts';
import { offerParams, requireSession, type SessionServices, sessionParams } from './session-services.ts';

const providerResource = z
  .strictObject({
    name: z.string().describe('`<slug>__<provider>`'),
    models: z.array(model),
    installationId: z.string(),
    slug: z.string(),
  })
  .meta({ id: 'Provider', description: 'A model provider of a plugin.' });

const completionResource = z
  .strictObject({
    text: z.string(),
    json: anyJson.optional().describe('The answer that fits the schema of the request.'),
    model: z.string(),
    usage: z.strictObject({ inputTokens: z.int(), outputTokens: z.int() }),
  })
  .meta({ id: 'Completion', description: 'The answer of a model.' });

const shapes = {
  list: {
    summary: 'The model providers of the account’s plugins',
    params: sessionParams,
    querystring: wholeListQuery,
    response: { 200: page(providerResource) },
  },
  ask: {
    summary: 'Calls a model of a provider',
    details:
      'Closing the request aborts the call. With `stream`, the answer is a stream of server-sent events: `delta` with a piece of the text as `text`, as soon as the plugin yields it, and at the end `answer` with the Completion, or `problem` with a Problem.',
    problems: ['invalid_arguments', 'cancelled', 'plugin_failed', 'plugin_timeout'],
    params: offerParams,
    body: jsonBody({
      request: completionRequest,
      stream: z.boolean().optional().describe('Default: false, the answer as one body.'),
    }),
    response: {
      200: {
        content: {
          'application/json': { schema: completionResource },
          'text/event-stream': { schema: z.string() },
        },
      },
    },
  },
} satisfies Record<string, FastifySchema>;

export function providerRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Providers');
    app.get('/sessions/:sessionId/providers', { schema: shapes.list }, async (request) => {
      const { accountId } = await requireSession(services, requireCaller(request), request.params);
      const { plugins } = await services.pluginsCache.get(accountId);
      return pageWholeList(listProviders(plugins), request.query, ({ name }) => name);
    });

    app.post('/sessions/:sessionId/providers/:name', { schema: shapes.ask }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { name } = request.params;
      const { request: asked, stream } = request.body;
      if (stream !== true)
        return toSessionAnswer(await askProvider(services, session, name, asked, abortWhenClosed(reply)));
      const events = formatAnswer(streamProvider(services, session, name, asked, abortWhenOver(request, reply)));
      return sendEvents(request, reply, events, (problem) => formatEvent({ type: 'problem', data: problem }));
    });
  };
}

async function* formatAnswer(deltas: AsyncGenerator<ProviderDelta, ProviderAnswer>): AsyncGenerator<string> {
  let next = await deltas.next();
  for (; !next.done; next = await deltas.next()) {
    const { text } = next.value;
    if (text !== undefined) yield formatEvent({ type: 'delta', data: { text } });
  }
  yield formatEvent({ type: 'answer', data: toSessionAnswer(next.value) });
}
