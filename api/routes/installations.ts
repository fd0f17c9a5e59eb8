/** Installations of the caller's account. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageInstallations } from '../../db/installations.ts';
import { callerOf } from '../http/authentication.ts';
import { installationResource, showInstallation } from '../installation-resource.ts';
import { configure, install, requireInstallation, rerunSetup, uninstall } from '../installing.ts';
import { page } from '../page.ts';
import { configuration, idParams, newInstallation, pageQuery } from '../schemas.ts';
import type { Services } from '../services.ts';

/** @param quota installations an account may have */
export function installationRoutes(services: Services, quota: number): FastifyPluginAsyncZod {
  return async (app) => {
    app.post(
      '/installations',
      { schema: { body: newInstallation, response: { 201: installationResource } } },
      async (request, reply) => {
        const made = await install(services, callerOf(request), request.body, quota);
        return reply.code(201).send(showInstallation(made));
      },
    );

    app.get(
      '/installations',
      { schema: { querystring: pageQuery, response: { 200: page(installationResource) } } },
      async (request) => {
        const found = await pageInstallations(services.pool, callerOf(request).id, request.query);
        return { items: found.items.map(showInstallation), nextCursor: found.nextCursor };
      },
    );

    app.get(
      '/installations/:id',
      { schema: { params: idParams, response: { 200: installationResource } } },
      async (request) =>
        showInstallation(await requireInstallation(services, callerOf(request), request.params.id, 'read')),
    );

    app.post(
      '/installations/:id/configure',
      { schema: { params: idParams, body: configuration, response: { 200: installationResource } } },
      async (request) =>
        showInstallation(await configure(services, callerOf(request), request.params.id, request.body)),
    );

    app.post(
      '/installations/:id/rerun-setup',
      { schema: { params: idParams, response: { 202: z.object({ eventId: z.string() }) } } },
      async (request, reply) => {
        const eventId = await rerunSetup(services, callerOf(request), request.params.id);
        return reply.code(202).send({ eventId });
      },
    );

    app.delete(
      '/installations/:id',
      { schema: { params: idParams, response: { 204: z.undefined() } } },
      async (request, reply) => {
        await uninstall(services, callerOf(request), request.params.id);
        return reply.code(204).send();
      },
    );
  };
}
