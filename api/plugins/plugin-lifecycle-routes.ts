/** Routes for authors: drafts, listing, yanking and deleting. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Plugin } from '../../db/catalog/plugins.ts';
import { findDraft } from '../../db/catalog/versions.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, noContent } from '../../service/http/schemas.ts';
import { fileListOptions } from '../package/file-list.ts';
import type { Services } from '../services.ts';
import { readAuthor } from './author.ts';
import { saveDraft } from './drafts.ts';
import { changedPlugin, delistBody, draftBody, versionParams } from './plugin-input.ts';
import { changeNames, delistPlugin, listPlugin, removePlugin, yankVersion } from './plugin-lifecycle.ts';
import {
  pluginResource,
  savedDraft,
  showDraft,
  showPluginWithDraft,
  showVersion,
  versionResource,
} from './plugin-resource.ts';

const shapes = {
  draft: {
    summary: 'Saves the draft',
    details: 'Builds and checks the draft like a version. Installations with the policy Draft use it at once.',
    problems: ['not_owner', 'draft_changed', 'invalid_package', 'text_files_only', 'bundler_busy', 'quota_exceeded'],
    params: idParams,
    body: draftBody,
    response: { 200: savedDraft },
  },
  rename: {
    summary: 'Names and describes a plugin without published versions',
    details: 'Once a version is published, the frontmatter of the latest one is the name and description.',
    problems: ['not_owner', 'published_version_exists'],
    params: idParams,
    body: changedPlugin,
    response: { 200: pluginResource },
  },
  list: {
    summary: 'Lists a plugin in the catalog',
    problems: ['not_owner', 'no_published_version'],
    params: idParams,
    response: { 200: pluginResource },
  },
  delist: {
    summary: 'Takes a plugin out of the catalog',
    details: 'Installations keep working and show the deprecation message.',
    problems: ['not_owner'],
    params: idParams,
    body: delistBody,
    response: { 200: pluginResource },
  },
  yank: {
    summary: 'Yanks a version',
    problems: ['not_owner', 'last_version'],
    params: versionParams,
    response: { 200: versionResource },
  },
  remove: {
    summary: 'Deletes a plugin without published versions',
    problems: ['not_owner', 'published_version_exists', 'required_installation'],
    params: idParams,
    response: { 204: noContent },
  },
} satisfies Record<string, FastifySchema>;

export function pluginLifecycleRoutes(services: Services): FastifyPluginAsyncZod {
  const showOne = async (plugin: Plugin) => showPluginWithDraft(plugin, await findDraft(services.pool, plugin.id));
  return async (app) => {
    groupRoutes(app, 'Authoring');
    app.post('/plugins/:id/draft', { ...fileListOptions, schema: shapes.draft }, async (request) => {
      const { files, replaces } = request.body;
      const save = { pluginId: request.params.id, source: { kind: 'files', files }, replaces } as const;
      const { version, warnings } = await saveDraft(services, readAuthor(request), save);
      return { ...showDraft(version), warnings: [...warnings] };
    });

    app.patch('/plugins/:id', { schema: shapes.rename }, async (request) =>
      showOne(await changeNames(services, requireCaller(request), request.params.id, request.body)),
    );

    app.post('/plugins/:id/listing', { schema: shapes.list }, async (request) =>
      showOne(await listPlugin(services, requireCaller(request), request.params.id)),
    );

    app.delete('/plugins/:id/listing', { schema: shapes.delist }, async (request) => {
      const message = request.body?.deprecationMessage ?? null;
      return showOne(await delistPlugin(services, requireCaller(request), request.params.id, message));
    });

    app.post('/plugins/:id/versions/:versionId/yank', { schema: shapes.yank }, async (request) => {
      const { id, versionId } = request.params;
      return showVersion(await yankVersion(services, requireCaller(request), id, versionId));
    });

    app.delete('/plugins/:id', { schema: shapes.remove }, async (request, reply) => {
      await removePlugin(services, requireCaller(request), request.params.id);
      return reply.code(204).send();
    });
  };
}
