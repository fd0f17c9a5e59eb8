/** The routes of a version's files: as a list, and as one archive. */

import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { requireCaller } from '../../service/http/authentication.ts';
import type { DownloadPlaces } from '../../service/http/download-places.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { LIMIT_MAX, page, pageLimit, pageQuery } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { packTree } from './blob-archive.ts';
import { versionParams } from './plugin-input.ts';
import { fileResource } from './plugin-resource.ts';
import {
  createGone,
  createSavedProblem,
  decodePathCursor,
  findFileRange,
  requireFiles,
  requireOwnedVersion,
  type VersionFilePages,
} from './version-files.ts';

export function fileRoutes(
  services: Services,
  filePages: VersionFilePages,
  archives: DownloadPlaces,
): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Authoring');
    const findOwnVersion = (request: FastifyRequest, params: z.output<typeof versionParams>) =>
      requireOwnedVersion(services.pool, requireCaller(request), params);

    app.get(
      '/plugins/:id/versions/:versionId/files',
      {
        // A HEAD request would read the files and send none of them.
        exposeHeadRoute: false,
        schema: {
          summary: 'The files of a version',
          details:
            'With “draft” for versionId: those of the saved draft. A page ends early at 2 MiB of JSON: continue while there is a nextCursor. If the draft is saved between two pages, its cursor is refused with 400: read from the start. The archive has the files whose contentText is null.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          // The list of most versions is one page.
          querystring: pageQuery.extend({ limit: pageLimit(LIMIT_MAX) }),
          response: { 200: page(fileResource) },
        },
      },
      async (request, reply) => {
        const { version } = await findOwnVersion(request, request.params);
        const { limit, cursor } = request.query;
        const range = await findFileRange(services.pool, version.id, limit, decodePathCursor(version, cursor));
        // Every version has files, and files follow every cursor: if none is found, they were removed meanwhile.
        if (range.files.length === 0)
          throw version.status === 'draft' ? createSavedProblem() : createGone(version.semVer);
        return filePages.read(requireCaller(request).id, reply.raw, range);
      },
    );

    app.get(
      '/plugins/:id/versions/:versionId/archive',
      {
        // The framework would read the whole archive and drop it.
        exposeHeadRoute: false,
        schema: {
          summary: 'The files of a version as a zip',
          details:
            'The accepted tree, not the bytes that were uploaded: without wrapper folder, sorted, not compressed. The same tree is the same archive, so its ETag is sourceSha256. With “draft” for versionId: the saved draft.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          response: { 200: { content: { 'application/zip': { schema: z.string() } } } },
        },
      },
      async (request, reply) => {
        const { plugin, version } = await findOwnVersion(request, request.params);
        await archives.hold(requireCaller(request).id, reply.raw, async () => {
          const files = await requireFiles(services.pool, version);
          const name = `${plugin.slug}-${version.semVer ?? 'draft'}-source.zip`;
          reply.type('application/zip').header('content-disposition', `attachment; filename="${name}"`);
          reply.header('etag', `"${version.sourceSha256}"`);
          // A stream bypasses the serializer, so the response type does not match.
          reply.send(packTree(services.blobs, files) as never);
        });
        return reply;
      },
    );
  };
}
