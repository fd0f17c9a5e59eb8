/** `/sessions/{id}/skills`: what agents may read when a task calls for it. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { fullName } from '../calls/surface-call.ts';
import { asDownload } from './download.ts';
import { read, readBody, storedText } from './input.ts';
import { skills } from './prompt-texts.ts';
import type { SessionParams, SessionServices } from './session-services.ts';
import { listResources, openSkillFile, readSkillFile, SKILL_TEXT, type Skill } from './skill-files.ts';

/** No package has longer ones. */
const PATH_MAX_CHARS = 1_024;
type SkillParams = SessionParams & { readonly name: string };
const path = storedText(PATH_MAX_CHARS).min(1);
const wantedFile = z.object({ path: path.default(SKILL_TEXT) });
const fileQuery = z.object({ path });

/** The skills of an account's installations. */
export const listSkills = (plugins: readonly InstalledPlugin[]): Skill[] =>
  plugins.flatMap((plugin) => skills(plugin).map((text) => ({ plugin, text })));
const toItem = ({ plugin, text }: Skill) => ({
  name: fullName(plugin, text.name),
  description: text.description,
  installationId: plugin.installationId,
  slug: plugin.slug,
});

/** A skill by its full name. @throws Problem `not_found` */
export async function findSkill({ pluginsCache }: SessionServices, session: Session, name: string): Promise<Skill> {
  const { plugins } = await pluginsCache.get(session.accountId);
  const found = listSkills(plugins).find(({ plugin, text }) => fullName(plugin, text.name) === name);
  if (!found) throw new Problem('not_found', 'There is no skill of that name.');
  return found;
}

/** Installs the routes. */
export function installSkills(app: FastifyInstance, services: SessionServices): void {
  const find = async (accountId: string, { sessionId, name }: SkillParams) =>
    findSkill(services, await services.sessions.get(accountId, sessionId), name);
  app.get<{ Params: SessionParams }>('/sessions/:sessionId/skills', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { plugins } = await services.pluginsCache.get(session.accountId);
    return { items: listSkills(plugins).map(toItem), nextCursor: null };
  });
  app.get<{ Params: SkillParams }>('/sessions/:sessionId/skills/:name', async (request) => {
    const skill = await find(request.accountId, request.params);
    const [file, resources] = await Promise.all([
      readSkillFile(services, skill, SKILL_TEXT),
      listResources(services, skill),
    ]);
    return { ...toItem(skill), text: file.content, resources };
  });
  app.post<{ Params: SkillParams }>('/sessions/:sessionId/skills/:name', async (request) => {
    const skill = await find(request.accountId, request.params);
    const wanted = readBody(wantedFile, request.body);
    const file = await readSkillFile(services, skill, wanted.path);
    const query = new URLSearchParams({ path: wanted.path });
    const url = `/sessions/${request.params.sessionId}/skills/${encodeURIComponent(request.params.name)}/files?${query}`;
    const resources = wanted.path === SKILL_TEXT ? await listResources(services, skill) : [];
    return { name: fullName(skill.plugin, skill.text.name), ...file, url, resources };
  });
  app.get<{ Params: SkillParams }>(
    '/sessions/:sessionId/skills/:name/files',
    { exposeHeadRoute: false },
    async (request, reply) => {
      const skill = await find(request.accountId, request.params);
      const wanted = read(fileQuery, request.query);
      const { sizeBytes, bytes } = await openSkillFile(services, skill, wanted.path);
      const name = wanted.path.split('/').at(-1) ?? wanted.path;
      return asDownload(reply, { name, mediaType: 'application/octet-stream' })
        .header('content-length', sizeBytes)
        .send(bytes);
    },
  );
}
