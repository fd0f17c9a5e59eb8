/** `GET /media/{id}`: the bytes behind an attachment's `mediaId`, for the account's agent runtimes. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { findMedia } from '../../db/accounts/media.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { fileBytes } from '../../service/http/schemas.ts';
import { asDownload } from './download.ts';
import type { SessionServices } from './session-services.ts';

const shapes = {
  bytes: {
    summary: 'The bytes of a media file',
    params: z.object({ mediaId: z.string() }),
    response: { 200: { content: { '*/*': { schema: fileBytes } } } },
  },
} satisfies Record<string, FastifySchema>;

export function mediaRoutes({ pool, blobs }: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Media');
    app.get('/media/:mediaId', { schema: shapes.bytes }, async (request, reply) => {
      const found = await findMedia(pool, requireCaller(request).id, request.params.mediaId);
      if (!found) throw new Problem('not_found', 'No media file has this id.');
      const bytes = await blobs.read(found.sha256);
      return asDownload(reply, { name: found.name ?? found.id, mediaType: found.mediaType }).send(bytes);
    });
  };
}
