/** The route of a version's files. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { findPlugin } from '../../db/catalog/plugins.ts';
import { listFiles } from '../../db/catalog/versions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { page } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import { versionParams } from './plugin-input.ts';
import { fileResource } from './plugin-resource.ts';
import { findVersionOrDraft, readVersionFiles } from './version-files.ts';

export function fileRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Authoring');
    app.get(
      '/plugins/:id/versions/:versionId/files',
      {
        schema: {
          summary: 'The files of a version',
          details: 'With “draft” for versionId: those of the saved draft.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          response: { 200: page(fileResource) },
        },
      },
      async (request) => {
        const plugin = requireOwnedPlugin(
          await findPlugin(services.pool, request.params.id),
          requireCaller(request),
          'read',
        );
        const version = await findVersionOrDraft(services.pool, plugin.id, request.params.versionId);
        if (version?.pluginId !== plugin.id)
          throw new Problem('not_found', `“${plugin.slug}” has no version with this id.`);
        const files = await listFiles(services.pool, version.id);
        if (files.length === 0)
          throw new Problem(
            'gone',
            `${version.semVer} is yanked and no installation uses it, so its files are removed.`,
          );
        return { items: await readVersionFiles(services.blobs, files), nextCursor: null };
      },
    );
  };
}
