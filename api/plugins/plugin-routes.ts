/** Routes for authors: plugins and their versions. */
import { dirname } from 'node:path';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { requireRoom } from '../../db/accounts/usage.ts';
import { findPlugin, pagePlugins } from '../../db/catalog/plugins.ts';
import { findDraft } from '../../db/catalog/versions.ts';
import { listRollbacks } from '../../db/installations/updates.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import type { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, LIMIT_MAX, page, pageQuery } from '../../service/http/schemas.ts';
import { fileListOptions } from '../package/file-list.ts';
import { allowSilence } from '../package/silent-connection.ts';
import type { StagingSpace } from '../package/staging-space.ts';
import { readUploadBytes, receiveUpload, takeMultipart } from '../package/upload.ts';
import type { Services } from '../services.ts';
import { readAuthor } from './author.ts';
import { readNewestVersions } from './newest-versions.ts';
import { requireOwnedPlugin } from './plugin-access.ts';
import { newPlugin, pluginQuery, publishBody, uploadParts } from './plugin-input.ts';
import { createPlugin } from './plugin-lifecycle.ts';
import {
  pluginDetail,
  pluginResource,
  publishedVersion,
  showPlugin,
  showPluginDetail,
  showPluginWithDraft,
  showPublished,
} from './plugin-resource.ts';
import { publishVersion } from './publishing.ts';
import { findFileRange, type VersionFilePages } from './version-files.ts';

const publishProblems = [
  'not_owner',
  'version_exists',
  'too_many',
  'invalid_package',
  'bundler_busy',
  'quota_exceeded',
] as const;

const shapes = {
  make: {
    summary: 'Creates a plugin',
    details: 'displayName and description hold until the first version is published; then its frontmatter does.',
    problems: ['slug_taken', 'too_many'],
    body: newPlugin,
    response: { 201: pluginResource },
  },
  list: {
    summary: 'The caller’s plugins',
    querystring: pageQuery,
    response: { 200: page(pluginResource) },
  },
  one: {
    summary: 'One plugin with its versions',
    details:
      'With includeFiles: the first page of the files of the latest version, or of the draft if none is published.',
    problems: ['not_owner'],
    params: idParams,
    querystring: pluginQuery,
    response: { 200: pluginDetail },
  },
  publish: {
    summary: 'Publishes a version from text files',
    problems: [...publishProblems, 'text_files_only'],
    params: idParams,
    body: publishBody,
    response: { 201: publishedVersion },
  },
  publishZip: {
    summary: 'Publishes a version from a zip',
    problems: publishProblems,
    params: idParams,
    multipart: uploadParts,
    response: { 201: publishedVersion },
  },
} satisfies Record<string, FastifySchema>;

/**
 * @param uploads limits concurrent zip uploads; the memory for bodies limits concurrent file lists
 * @param space limits the temporary files of zip uploads
 * @param quota plugins an account may have
 */
export function pluginRoutes(
  services: Services,
  uploads: PlaceLimiter,
  space: StagingSpace,
  filePages: VersionFilePages,
  quota: number,
): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Authoring');
    app.post('/plugins', { schema: shapes.make }, async (request, reply) => {
      const plugin = await createPlugin(services, requireCaller(request), request.body, quota);
      return answerCreated(request, reply, plugin.id).send(showPluginWithDraft(plugin, null));
    });

    app.get('/plugins', { schema: shapes.list }, async (request) =>
      mapPage(await pagePlugins(services.pool, requireCaller(request).id, request.query), showPlugin),
    );

    // A HEAD request would read all that a GET request sends.
    app.get('/plugins/:id', { exposeHeadRoute: false, schema: shapes.one }, async (request, reply) => {
      const caller = requireCaller(request);
      const plugin = requireOwnedPlugin(await findPlugin(services.pool, request.params.id), caller, 'read');
      const draft = await findDraft(services.pool, plugin.id);
      const newest = plugin.latestVersionId ?? draft?.id;
      const readFiles = async () =>
        newest === undefined
          ? { items: [], nextCursor: null }
          : filePages.read(caller.id, reply.raw, await findFileRange(services.pool, newest, LIMIT_MAX));
      return showPluginDetail(plugin, {
        ...(await readNewestVersions(services.pool, plugin.id, caller.id)),
        draft,
        rollbacks: await listRollbacks(services.pool, plugin.id),
        files: request.query.includeFiles ? await readFiles() : null,
      });
    });

    app.post('/plugins/:id/versions', { ...fileListOptions, schema: shapes.publish }, async (request, reply) => {
      const { semVer, files } = request.body;
      const source = { kind: 'files', files } as const;
      const published = await publishVersion(services, readAuthor(request), request.params.id, semVer, source);
      return answerCreated(request, reply, `${published.version.id}/files`).send(showPublished(published));
    });

    await app.register(zipRoute(services, uploads, space));
  };
}

/** In a scope of its own, because no other route takes multipart bodies. */
function zipRoute(services: Services, uploads: PlaceLimiter, space: StagingSpace): FastifyPluginAsyncZod {
  return async (app) => {
    await takeMultipart(app);
    app.post('/plugins/:id/versions/zip', { schema: shapes.publishZip }, async (request, reply) => {
      const caller = requireCaller(request);
      // Check before receiving up to 256 MB.
      requireOwnedPlugin(await findPlugin(services.pool, request.params.id), caller);
      await requireRoom(services.pool, caller.id, 'versions', 1);
      const published = await uploads.run(caller.id, async () => {
        // Released after the files are removed: those of the zip here, and the unpacked ones at the end of the publish.
        using reservation = space.open(caller.id);
        await using staging = await services.blobs.stage();
        const folder = dirname(staging.scratch());
        await reservation.reserve(folder, readUploadBytes(request));
        const { path, semVer } = await receiveUpload(request, staging);
        await allowSilence(request);
        const reserve = async (bytes: number) => {
          await requireRoom(services.pool, caller.id, 'blobs', bytes);
          await reservation.reserve(folder, bytes);
        };
        return await publishVersion(services, readAuthor(request), request.params.id, semVer, {
          kind: 'zip',
          path,
          reserve,
        });
      });
      return answerCreated(request, reply, `${published.version.id}/files`).send(showPublished(published));
    });
  };
}
