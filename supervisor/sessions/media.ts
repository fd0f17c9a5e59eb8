/** `GET /media/{id}`: the bytes behind an attachment's `mediaId`, for the account's agent runtimes. */
import type { FastifyInstance } from 'fastify';
import { findMedia } from '../../db/media.ts';
import { isStorable } from '../../db/storable.ts';
import { Problem } from '../../sdk/errors.ts';
import type { SessionServices } from './services.ts';

/** Installs the route. Plugins made these bytes: a browser may save them and do nothing else with them. */
export function installMedia(app: FastifyInstance, { pool, blobs }: SessionServices): void {
  app.get<{ Params: { mediaId: string } }>('/media/:mediaId', async (request, reply) => {
    const { mediaId } = request.params;
    const found = isStorable(mediaId) ? await findMedia(pool, request.accountId, mediaId) : null;
    if (!found) throw new Problem('not_found', 'There is no such media file.');
    const name = encodeURIComponent((found.name ?? found.id).toWellFormed()).replace(/['()*]/g, percent);
    return reply
      .header('content-type', found.mediaType)
      .header('content-disposition', `attachment; filename*=UTF-8''${name}`)
      .header('content-security-policy', "default-src 'none'; sandbox")
      .header('x-content-type-options', 'nosniff')
      .header('cross-origin-resource-policy', 'same-origin')
      .header('cache-control', 'private, no-store')
      .send(await blobs.read(found.sha256));
  });
}

/** RFC 8187 takes fewer characters than a URL does. */
const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
