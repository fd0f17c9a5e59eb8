/** Routes for operators: child processes, costs, queues, and moderation of plugins and authors. */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { changeBlock, type Moderated, verifyAuthor } from '../../db/accounts/moderation.ts';
import { listDeadLetters, listFleet, listPluginCosts } from '../../db/records/operator-overview.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { readBacklogs } from '../../service/telemetry/backlogs.ts';
import { slugParams } from '../catalog/catalog-input.ts';
import type { Services } from '../services.ts';
import {
  blockBody,
  costsQuery,
  costsResource,
  fleetResource,
  moderated,
  nameParams,
  queuesResource,
  ROWS_MAX,
  verifiedResource,
} from './operator-resource.ts';

const common = { problems: ['operators_only'] } as const;
const shapes = {
  fleet: {
    ...common,
    summary: 'The plugin processes, by memory use, highest first',
    response: { 200: fleetResource },
  },
  plugins: {
    ...common,
    summary: 'The costs of plugins, by error rate, highest first',
    details: 'Also of those that were never called, so that they can be blocked and their authors verified.',
    querystring: costsQuery,
    response: { 200: costsResource },
  },
  queues: {
    ...common,
    summary: 'Waiting work by queue, and the newest dead letters',
    response: { 200: queuesResource },
  },
  block: {
    ...common,
    summary: 'Takes a plugin out of the catalog and stops it in every account',
    params: slugParams,
    body: blockBody,
    response: { 200: moderated },
  },
  unblock: { ...common, summary: 'Lets a plugin run again', params: slugParams, response: { 200: moderated } },
  verify: {
    ...common,
    summary: 'Shows an author’s identity on everything they publish',
    params: nameParams,
    response: { 200: verifiedResource },
  },
  unverify: {
    ...common,
    summary: 'Stops showing an author’s identity',
    params: nameParams,
    response: { 200: verifiedResource },
  },
} satisfies Record<string, FastifySchema>;

export function operatorRoutes({ pool }: Services): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Operators');
    requireOperator(app);

    app.get('/operator/fleet', { schema: shapes.fleet }, async () => {
      const rows = await listFleet(pool, null, ROWS_MAX);
      return { children: rows.map((row) => ({ ...row, lastExit: row.lastExit?.reason ?? null })) };
    });

    app.get('/operator/plugins', { schema: shapes.plugins }, async (request) => ({
      plugins: await listPluginCosts(pool, request.query.hours, request.query.search ?? null, ROWS_MAX),
    }));

    app.get('/operator/queues', { schema: shapes.queues }, async () => ({
      queues: await readBacklogs(pool),
      deadLetters: await listDeadLetters(pool, null, ROWS_MAX),
    }));

    app.post('/operator/plugins/:slug/block', { schema: shapes.block }, async (request) => {
      const { params, body } = request;
      return showModerated(await changeBlock(pool, params.slug, body.reason, requireCaller(request).name));
    });

    app.post('/operator/plugins/:slug/unblock', { schema: shapes.unblock }, async (request) =>
      showModerated(await changeBlock(pool, request.params.slug, null, requireCaller(request).name)),
    );

    for (const [word, verified] of [
      ['verify', true],
      ['unverify', false],
    ] as const) {
      app.post(`/operator/accounts/:name/${word}`, { schema: shapes[word] }, async (request) => {
        const { name } = request.params;
        if (await verifyAuthor(pool, name, verified, requireCaller(request).name)) return { name, verified };
        throw new Problem('not_found', 'No account has this name. The first sign-in creates it.');
      });
    }
  };
}

/**
 * Refuses the requests of all other accounts to a scope: before the body is validated, and again after `requireSignIn` has signed
 * the sender in once more, who may have been demoted since the request began.
 */
export function requireOperator(scope: FastifyInstance): void {
  const refuseOthers = async (request: FastifyRequest): Promise<void> => {
    if (!requireCaller(request).operator) throw new Problem('operators_only', 'Only operators may do this.');
  };
  scope.addHook('preValidation', refuseOthers);
  scope.addHook('preHandler', refuseOthers);
}

/** @throws Problem `not_found` */
function showModerated(done: Moderated | null) {
  if (!done) throw new Problem('not_found', 'No plugin has this slug.');
  return { slug: done.slug, blockedReason: done.reason, installations: done.installations };
}
