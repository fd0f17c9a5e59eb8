/** `/sessions/{id}/skills`: lists and reads the skills of the account's plugins. */

import type { Readable } from 'node:stream';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { DownloadPlaces } from '../../service/http/download-places.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { fileBytes, jsonBody, page, storedText, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { asDownload } from './download.ts';
import { offerParams, requireSession, type SessionServices, sessionParams } from './session-services.ts';
import {
  findSkillFile,
  listResources,
  readSkillFile,
  SKILL_FILE_BYTES,
  SKILL_TEXT,
  type Skill,
} from './skill-files.ts';
import { findSkill, listSkills } from './skills.ts';

/** The maximum length of a path in a package. */
const PATH_MAX_CHARS = 1_024;
const path = storedText(PATH_MAX_CHARS).min(1);
/**
 * Files of more than `SKILL_FILE_BYTES` that are sent at once, of which one account may download two thirds. Each holds up to 2 MiB until
 * its client has read them.
 */
const DOWNLOADS_AT_ONCE = 32;

const skillFields = {
  name: z.string().describe('`<slug>__<skill>`'),
  description: z.string(),
  installationId: z.string(),
  slug: z.string(),
};
const resources = z
  .array(z.strictObject({ path: z.string(), sizeBytes: z.int() }))
  .describe('The other files of the skill.');
const skillResource = z.strictObject(skillFields).meta({ id: 'Skill', description: 'A skill of a plugin.' });
const skillDetail = z
  .strictObject({ ...skillFields, text: z.string().nullable().describe('SKILL.md below its frontmatter.'), resources })
  .meta({ id: 'SkillDetail', description: 'A skill with its text.' });
const skillFile = z
  .strictObject({
    name: z.string(),
    path: z.string(),
    mediaType: z.string(),
    sizeBytes: z.int(),
    encoding: z.enum(['utf8', 'base64']).nullable(),
    content: z.string().nullable().describe('Null if the file is larger than 1 MiB: download it from the url.'),
    url: z.string().describe('Address of the exact bytes, relative to the session API.'),
    resources,
  })
  .meta({ id: 'SkillFile', description: 'One file of a skill.' });

const showSkill = ({ plugin, text }: Skill) => ({
  name: formatFullName(plugin, text.name),
  description: text.description,
  installationId: plugin.installationId,
  slug: plugin.slug,
});

const shapes = {
  list: {
    summary: 'The skills of the account’s plugins',
    params: sessionParams,
    querystring: wholeListQuery,
    response: { 200: page(skillResource) },
  },
  one: { summary: 'A skill with its text', params: offerParams, response: { 200: skillDetail } },
  file: {
    summary: 'Reads one file of a skill',
    params: offerParams,
    body: jsonBody({ path: path.default(SKILL_TEXT) }),
    response: { 200: skillFile },
  },
  bytes: {
    summary: 'The exact bytes of a file of a skill',
    params: offerParams,
    querystring: z.object({ path }),
    response: { 200: { content: { 'application/octet-stream': { schema: fileBytes } } } },
  },
} satisfies Record<string, FastifySchema>;

export function skillRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const find = async (caller: Caller, params: z.infer<typeof offerParams>): Promise<Skill> =>
    findSkill(services, await requireSession(services, caller, params), params.name);
  const downloads = new DownloadPlaces(DOWNLOADS_AT_ONCE, 'large files of skills');
  return async (app) => {
    groupRoutes(app, 'Skills');
    app.get('/sessions/:sessionId/skills', { schema: shapes.list }, async (request) => {
      const { accountId } = await requireSession(services, requireCaller(request), request.params);
      const { plugins } = await services.pluginsCache.get(accountId);
      return pageWholeList(listSkills(plugins).map(showSkill), request.query, ({ name }) => name);
    });

    app.get('/sessions/:sessionId/skills/:name', { schema: shapes.one }, async (request) => {
      const skill = await find(requireCaller(request), request.params);
      const [file, others] = await Promise.all([
        readSkillFile(services, skill, SKILL_TEXT),
        listResources(services, skill),
      ]);
      return { ...showSkill(skill), text: file.content, resources: others };
    });

    app.post('/sessions/:sessionId/skills/:name', { schema: shapes.file }, async (request) => {
      const { sessionId, name } = request.params;
      const skill = await find(requireCaller(request), request.params);
      const wanted = request.body.path;
      const file = await readSkillFile(services, skill, wanted);
      const url = `/sessions/${sessionId}/skills/${encodeURIComponent(name)}/files?${new URLSearchParams({ path: wanted })}`;
      const others = wanted === SKILL_TEXT ? await listResources(services, skill) : [];
      return { name: formatFullName(skill.plugin, skill.text.name), ...file, url, resources: others };
    });

    app.get(
      '/sessions/:sessionId/skills/:name/files',
      {
        exposeHeadRoute: false,
        schema: shapes.bytes,
      },
      async (request, reply) => {
        const caller = requireCaller(request);
        const wanted = request.query.path;
        const { sha256, sizeBytes } = await findSkillFile(services, await find(caller, request.params), wanted);
        const name = wanted.split('/').at(-1) ?? wanted;
        const send = (bytes: Uint8Array | Readable) =>
          asDownload(reply, { name, mediaType: 'application/octet-stream' })
            .header('content-length', sizeBytes)
            .send(bytes);
        if (sizeBytes <= SKILL_FILE_BYTES) return send(await services.blobs.read(sha256));
        await downloads.hold(caller.id, reply.raw, async () => void send(services.blobs.stream(sha256)));
        return reply;
      },
    );
  };
}
