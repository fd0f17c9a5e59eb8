/** `/media/{id}` and `/sessions/{id}/media`: the bytes behind an attachment's `mediaId`, for the account's agent runtimes. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { findMedia } from '../../db/accounts/media.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { fileBytes, jsonBody, storedText } from '../../service/http/schemas.ts';
import { asDownload } from './download.ts';
import { putSessionMedia } from './session-media.ts';
import { requireSession, type SessionServices, sessionParams } from './session-services.ts';

const NAME_MAX_CHARS = 255;

const mediaResource = z
  .strictObject({
    id: z.string().describe('The `mediaId` of attachments.'),
    name: z.string().nullable(),
    mediaType: z.string().describe('The type that was detected from the bytes.'),
    sizeBytes: z.int(),
  })
  .meta({ id: 'Media', description: 'A file of the account, behind attachments of messages.' });

const shapes = {
  put: {
    summary: 'Keeps a file with a session, for attachments of its messages',
    details:
      'The file stays until the session is cleared or deleted. Equal bytes have the same id. Its size counts towards the quota of media and is at most 2 MiB.',
    problems: ['too_many', 'quota_exceeded'],
    params: sessionParams,
    body: jsonBody({
      name: storedText(NAME_MAX_CHARS).optional().describe('The name of the file that people see.'),
      data: z.base64().describe('The bytes, in base64.'),
    }),
    response: { 201: mediaResource },
  },
  bytes: {
    summary: 'The bytes of a media file',
    details: 'Sends the file as a download, so that a browser does not run it.',
    params: z.object({ mediaId: z.string() }),
    response: { 200: { content: { '*/*': { schema: fileBytes } } } },
  },
} satisfies Record<string, FastifySchema>;

export function mediaRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const { pool, blobs } = services;
  return async (app) => {
    groupRoutes(app, 'Media');
    app.post('/sessions/:sessionId/media', { schema: shapes.put }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { data, name = null } = request.body;
      const content = Buffer.from(data, 'base64');
      const { id, mediaType, sizeBytes, name: kept } = await putSessionMedia(services, session, { content, name });
      return reply.code(201).header('location', `/media/${id}`).send({ id, name: kept, mediaType, sizeBytes });
    });

    app.get('/media/:mediaId', { schema: shapes.bytes }, async (request, reply) => {
      const found = await findMedia(pool, requireCaller(request).id, request.params.mediaId);
      if (!found) throw new Problem('not_found', 'No media file has this id.');
      const bytes = await blobs.read(found.sha256);
      return asDownload(reply, { name: found.name ?? found.id, mediaType: found.mediaType }).send(bytes);
    });
  };
}
