/** `GET /media/{id}`: the bytes behind an attachment's `mediaId`, for the account's agent runtimes. */
import type { FastifyInstance } from 'fastify';
import { findMedia } from '../../db/accounts/media.ts';
import { isStorable } from '../../db/postgres/storable-text.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { asDownload } from './download.ts';
import type { SessionServices } from './session-services.ts';

/** Installs the route. */
export function installMedia(app: FastifyInstance, { pool, blobs }: SessionServices): void {
  app.get<{ Params: { mediaId: string } }>('/media/:mediaId', async (request, reply) => {
    const { mediaId } = request.params;
    const found = isStorable(mediaId) ? await findMedia(pool, request.accountId, mediaId) : null;
    if (!found) throw new Problem('not_found', 'There is no such media file.');
    return asDownload(reply, { name: found.name ?? found.id, mediaType: found.mediaType }).send(
      await blobs.read(found.sha256),
    );
  });
}
