/** Which version an installation runs, and whether it runs at all. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { callerOf } from '../http/authentication.ts';
import { installationResource, showInstallation } from '../installation-resource.ts';
import { acceptBody, idParams, installationChanges } from '../schemas.ts';
import type { Services } from '../services.ts';
import { acceptUpdate, changePolicy, pause, resume } from '../updates.ts';

export function updateRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    app.patch(
      '/installations/:id',
      { schema: { params: idParams, body: installationChanges, response: { 200: installationResource } } },
      async (request) =>
        showInstallation(await changePolicy(services, callerOf(request), request.params.id, request.body)),
    );

    app.post(
      '/installations/:id/accept-update',
      { schema: { params: idParams, body: acceptBody, response: { 200: installationResource } } },
      async (request) => {
        const { versionId } = request.body;
        return showInstallation(await acceptUpdate(services, callerOf(request), request.params.id, versionId));
      },
    );

    for (const [name, change] of [
      ['pause', pause],
      ['resume', resume],
    ] as const) {
      app.post(
        `/installations/:id/${name}`,
        { schema: { params: idParams, response: { 200: installationResource } } },
        async (request) => showInstallation(await change(services, callerOf(request), request.params.id)),
      );
    }
  };
}
