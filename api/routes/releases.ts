/** Authoring: drafts, listing, yanking and deleting. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { saveDraft } from '../drafts.ts';
import { callerOf } from '../http/authentication.ts';
import {
  draftResource,
  pluginResource,
  showDraft,
  showPlugin,
  showVersion,
  versionResource,
} from '../plugin-resource.ts';
import { delistPlugin, listPlugin, removePlugin, yankVersion } from '../releases.ts';
import { delistBody, filesBody, idParams, versionParams } from '../schemas.ts';
import type { Services } from '../services.ts';
import { FILE_LIST_MAX_BYTES, notUtf8 } from '../text-files.ts';

const savedDraft = draftResource.extend({ warnings: z.array(z.string()) });

export function releaseRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    app.post(
      '/plugins/:id/draft',
      {
        bodyLimit: FILE_LIST_MAX_BYTES,
        config: { refuseNonText: notUtf8 },
        schema: { params: idParams, body: filesBody, response: { 200: savedDraft } },
      },
      async (request) => {
        const source = { kind: 'files', files: request.body.files } as const;
        const draft = await saveDraft(services, callerOf(request), request.params.id, source);
        return { ...showDraft(draft), warnings: [] };
      },
    );

    app.post(
      '/plugins/:id/listing',
      { schema: { params: idParams, response: { 200: pluginResource } } },
      async (request) => showPlugin(await listPlugin(services, callerOf(request), request.params.id)),
    );

    app.delete(
      '/plugins/:id/listing',
      { schema: { params: idParams, body: delistBody, response: { 200: pluginResource } } },
      async (request) => {
        const message = request.body?.deprecationMessage ?? null;
        return showPlugin(await delistPlugin(services, callerOf(request), request.params.id, message));
      },
    );

    app.post(
      '/plugins/:id/versions/:versionId/yank',
      { schema: { params: versionParams, response: { 200: versionResource } } },
      async (request) => {
        const { id, versionId } = request.params;
        return showVersion(await yankVersion(services, callerOf(request), id, versionId));
      },
    );

    app.delete(
      '/plugins/:id',
      { schema: { params: idParams, response: { 204: z.undefined() } } },
      async (request, reply) => {
        await removePlugin(services, callerOf(request), request.params.id);
        return reply.code(204).send();
      },
    );
  };
}
