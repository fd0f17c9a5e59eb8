/** Installations of the caller's account. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pageInstallations } from '../../db/installations.ts';
import { callerOf } from '../http/authentication.ts';
import { installationResource, showInstallation } from '../installation-resource.ts';
import { configure, install, requireInstallation, rerunSetup, uninstall } from '../installing.ts';
import { page } from '../page.ts';
import { nothing, setupEvent } from '../resource.ts';
import { configuration, idParams, newInstallation, pageQuery } from '../schemas.ts';
import type { Services } from '../services.ts';

/** @param quota installations an account may have */
export function installationRoutes(services: Services, quota: number): FastifyPluginAsyncZod {
  return async (app) => {
    app.post(
      '/installations',
      {
        schema: {
          group: 'Installations',
          summary: 'Installs a plugin, and consents to what it asks for',
          problems: [
            'not_found',
            'plugin_blocked',
            'draft_owner_only',
            'already_installed',
            'no_draft',
            'no_published_version',
            'invalid_pin',
          ],
          body: newInstallation,
          response: { 201: installationResource },
        },
      },
      async (request, reply) => {
        const made = await install(services, callerOf(request), request.body, quota);
        return reply.code(201).send(showInstallation(made));
      },
    );

    app.get(
      '/installations',
      {
        schema: {
          group: 'Installations',
          summary: 'The caller’s installations',
          querystring: pageQuery,
          response: { 200: page(installationResource) },
        },
      },
      async (request) => {
        const found = await pageInstallations(services.pool, callerOf(request).id, request.query);
        return { items: found.items.map(showInstallation), nextCursor: found.nextCursor };
      },
    );

    app.get(
      '/installations/:id',
      {
        schema: {
          group: 'Installations',
          summary: 'One installation',
          params: idParams,
          response: { 200: installationResource },
        },
      },
      async (request) =>
        showInstallation(await requireInstallation(services, callerOf(request), request.params.id, 'read')),
    );

    app.post(
      '/installations/:id/configure',
      {
        schema: {
          group: 'Installations',
          summary: 'Sets settings and secrets',
          details: 'What is not named stays as it is; null forgets a secret. Secrets are never returned.',
          params: idParams,
          body: configuration,
          response: { 200: installationResource },
        },
      },
      async (request) =>
        showInstallation(await configure(services, callerOf(request), request.params.id, request.body)),
    );

    app.post(
      '/installations/:id/rerun-setup',
      {
        schema: {
          group: 'Installations',
          summary: 'Sends pluginInstalled again',
          params: idParams,
          response: { 202: setupEvent },
        },
      },
      async (request, reply) => {
        const eventId = await rerunSetup(services, callerOf(request), request.params.id);
        return reply.code(202).send({ eventId });
      },
    );

    app.delete(
      '/installations/:id',
      {
        schema: {
          group: 'Installations',
          summary: 'Uninstalls',
          details:
            'The plugin is told first; then its agents and their chats, channels, live connections and secrets are removed.',
          params: idParams,
          response: { 204: nothing },
        },
      },
      async (request, reply) => {
        await uninstall(services, callerOf(request), request.params.id);
        return reply.code(204).send();
      },
    );
  };
}
