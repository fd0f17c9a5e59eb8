/** Routes that change an installation's version policy, accept updates, and pause or resume. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Installation } from '../../db/installations/installations.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { acceptBody, changesQuery, installationChanges } from './installation-input.ts';
import { installationResource, showInstallation } from './installation-resource.ts';
import { compareUpdate, updateChanges } from './update-changes.ts';
import { acceptUpdate, changePolicy, pause, restart, resume, retryUpdate } from './updates.ts';

/**
 * A comparison holds two texts of half a megabyte and up to 2.5 million characters of lines while it waits for its turns of the event
 * loop. One account may have six at once.
 */
const COMPARISONS = { places: 8, verb: 'comparing', works: 'updates', retryAfterS: 1 };

const shapes = {
  change: {
    summary: 'Changes policy, pin, hook order or whether the plugin is required',
    problems: ['draft_owner_only', 'no_draft', 'no_published_version', 'invalid_pin'],
    params: idParams,
    body: installationChanges,
    response: { 200: installationResource },
  },
  retry: {
    summary: 'Tries a failed update again',
    details:
      'Answers when the version runs or has failed again, at the latest after a few seconds. A version that drops a hook of a plugin that has become required waits for consent. Not idempotent: a repeated request starts the version once more if it has failed again by then.',
    problems: ['not_pending'],
    params: idParams,
    response: { 200: installationResource },
  },
  changes: {
    summary: 'The changes of the update besides access',
    details:
      'Compares the running version with the pending one, or with the one that is under way or has failed: the texts that models read, and the source. A process compares eight updates at once, six of them of one account, and answers others with 429 `rate_limited`.',
    problems: ['not_pending'],
    params: idParams,
    querystring: changesQuery,
    response: { 200: updateChanges },
  },
  accept: {
    summary: 'Accepts the pending update',
    details:
      'The version becomes current when it has started and answered. Answers then, at the latest after a few seconds.',
    problems: ['not_pending'],
    params: idParams,
    body: acceptBody,
    response: { 200: installationResource },
  },
  restart: {
    summary: 'Restarts an installation',
    details:
      'The process stops after its running calls, and its failure count is reset. The next call starts it, even after it has failed too often. Not idempotent: a repeated request restarts it again.',
    problems: ['not_running'],
    params: idParams,
    response: { 200: installationResource },
  },
} satisfies Record<string, FastifySchema>;

export function updateRoutes(services: Services): FastifyPluginAsyncZod {
  const show = (row: Installation) => showInstallation(row, services.webhookUrl, true);
  const comparisons = new PlaceLimiter(COMPARISONS);
  return async (app) => {
    groupRoutes(app, 'Installations');
    app.patch('/installations/:id', { schema: shapes.change }, async (request) =>
      show(await changePolicy(services, requireCaller(request), request.params.id, request.body)),
    );

    app.get('/installations/:id/update-changes', { schema: shapes.changes }, (request) => {
      const caller = requireCaller(request);
      const { params, query } = request;
      return comparisons.run(caller.id, () => compareUpdate(services, caller, params.id, query.versionId));
    });

    app.post('/installations/:id/accept-update', { schema: shapes.accept }, async (request) =>
      show(await acceptUpdate(services, requireCaller(request), request.params.id, request.body.versionId)),
    );

    app.post('/installations/:id/restart', { schema: shapes.restart }, async (request) =>
      show(await restart(services, requireCaller(request), request.params.id)),
    );

    app.post('/installations/:id/retry-update', { schema: shapes.retry }, async (request) =>
      show(await retryUpdate(services, requireCaller(request), request.params.id)),
    );

    for (const [name, summary, change] of [
      ['pause', 'Stops an installation', pause],
      ['resume', 'Lets a paused or failed installation run again', resume],
    ] as const) {
      app.post(
        `/installations/:id/${name}`,
        { schema: { summary, params: idParams, response: { 200: installationResource } } },
        async (request) => show(await change(services, requireCaller(request), request.params.id)),
      );
    }
  };
}
