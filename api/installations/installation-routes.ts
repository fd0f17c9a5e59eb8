/** Routes of the caller's installations. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { readUsage } from '../../db/accounts/model-usage.ts';
import { STORED_MAX } from '../../db/installations/configuration.ts';
import { type Installation, pageInstallations } from '../../db/installations/installations.ts';
import { pageAudit } from '../../db/records/audit.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, noContent, page, pageQuery } from '../../service/http/schemas.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import type { Services } from '../services.ts';
import { configuration, newInstallation } from './installation-input.ts';
import { configure, install, rerunSetup, uninstall } from './installation-lifecycle.ts';
import { requireInstallation } from './installation-lookup.ts';
import { readInstallationMetrics } from './installation-metrics.ts';
import { auditEntryResource, setupEvent, usageResource } from './installation-records-resource.ts';
import { installationResource, showInstallation } from './installation-resource.ts';
import { metricsQuery, metricsResource, resolveRange } from './metric-resource.ts';

const shapes = {
  install: {
    summary: 'Installs a plugin, with consent to its capabilities',
    problems: [
      'not_found',
      'plugin_blocked',
      'draft_owner_only',
      'already_installed',
      'too_many_installations',
      'no_draft',
      'no_published_version',
      'invalid_pin',
      'not_pending',
    ],
    body: newInstallation,
    response: { 201: installationResource },
  },
  list: {
    summary: 'The caller’s installations',
    details:
      'Installations with large manifests or settings, or many channels, end a page before limit: continue while there is a nextCursor.',
    querystring: pageQuery,
    response: { 200: page(installationResource) },
  },
  one: {
    summary: 'One installation',
    params: idParams,
    response: { 200: installationResource },
  },
  audit: {
    summary: 'The host calls of the plugin, including denied ones, newest first',
    params: idParams,
    querystring: pageQuery,
    response: { 200: page(auditEntryResource) },
  },
  usage: {
    summary: 'The plugin’s usage of the operator’s models',
    params: idParams,
    response: { 200: usageResource },
  },
  metrics: {
    summary: 'Metrics over time: calls, errors, latency and resource use, in total and per handler',
    details:
      'Summed per minute and written every ten seconds. A point covers `stepSeconds` from `at`. Reads at most the newest 300,000 rows, one for each handler and minute in which it ran. Points before them are zero or incomplete. Operators may read any installation.',
    params: idParams,
    querystring: metricsQuery,
    response: { 200: metricsResource },
  },
  configure: {
    summary: 'Sets settings and secrets',
    details: `Omitted ones stay unchanged; null deletes a secret. Secrets are never returned. Of more than ${STORED_MAX} stored settings or secrets, those that no version in use declares are deleted. In use are the version that runs, the next one, the pinned one, the one before, and one that failed.`,
    problems: ['quota_exceeded'],
    params: idParams,
    body: configuration,
    response: { 200: installationResource },
  },
  rerunSetup: {
    summary: 'Sends pluginInstalled again',
    details: 'Not idempotent: a repeated request sends another event.',
    problems: ['quota_exceeded'],
    params: idParams,
    response: { 202: setupEvent },
  },
  uninstall: {
    summary: 'Uninstalls',
    details:
      'The plugin gets pluginUninstalled first. Then its agents and their sessions, channels, live connections and secrets are removed.',
    params: idParams,
    response: { 204: noContent },
  },
} satisfies Record<string, FastifySchema>;

/** @param quota installations an account may have */
export function installationRoutes(services: Services, quota: number): FastifyPluginAsyncZod {
  const show = (row: Installation) => showInstallation(row, services.webhookUrl, true);
  return async (app) => {
    groupRoutes(app, 'Installations');
    app.post('/installations', { schema: shapes.install }, async (request, reply) => {
      const made = await install(services, requireCaller(request), request.body, quota);
      return answerCreated(request, reply, made.id).send(show(made));
    });

    app.get('/installations', { schema: shapes.list }, async (request) => {
      const accountId = requireCaller(request).id;
      const found = await pageInstallations(services.pool, accountId, request.query);
      const slices = new LoopSlices(accountId);
      const items: ReturnType<typeof show>[] = [];
      for (const row of found.items) {
        await slices.pauseWhenOver();
        items.push(show(row));
      }
      return { items, nextCursor: found.nextCursor };
    });

    app.get('/installations/:id', { schema: shapes.one }, async (request) => {
      const caller = requireCaller(request);
      const row = await requireInstallation(services, caller, request.params.id, 'read');
      return showInstallation(row, services.webhookUrl, row.accountId === caller.id);
    });

    app.get('/installations/:id/audit', { schema: shapes.audit }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      return pageAudit(services.pool, { installationId: id, ...request.query });
    });

    app.get('/installations/:id/usage', { schema: shapes.usage }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      const { total, today, models, days } = await readUsage(services.pool, id);
      return { total, today, models: [...models], days: [...days] };
    });

    app.get('/installations/:id/metrics', { schema: shapes.metrics }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      return readInstallationMetrics(services.pool, id, resolveRange(request.query, Date.now()));
    });

    app.post('/installations/:id/configure', { schema: shapes.configure }, async (request) =>
      show(await configure(services, requireCaller(request), request.params.id, request.body)),
    );

    app.post('/installations/:id/rerun-setup', { schema: shapes.rerunSetup }, async (request, reply) => {
      const eventId = await rerunSetup(services, requireCaller(request), request.params.id);
      return reply.code(202).send({ eventId });
    });

    app.delete('/installations/:id', { schema: shapes.uninstall }, async (request, reply) => {
      await uninstall(services, requireCaller(request), request.params.id);
      return reply.code(204).send();
    });
  };
}
