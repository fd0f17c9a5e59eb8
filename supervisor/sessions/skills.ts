/** `/sessions/{id}/skills`: what agents may read when a task calls for it. */
import type { FastifyInstance } from 'fastify';
import type { RosterEntry } from '../../db/rosters.ts';
import { listFilesBelow } from '../../db/versions.ts';
import { Problem } from '../../sdk/errors.ts';
import { type PromptText, readText, skills } from './prompt-texts.ts';
import type { SessionParams, SessionServices } from './services.ts';
import { fullName } from './surface-call.ts';

/** Resources listed of one skill. */
const RESOURCES_MAX = 1_000;

interface Skill {
  readonly entry: RosterEntry;
  readonly text: PromptText;
}
const listSkills = (entries: readonly RosterEntry[]): Skill[] =>
  entries.flatMap((entry) => skills(entry).map((text) => ({ entry, text })));
const toItem = ({ entry, text }: Skill) => ({
  name: fullName(entry, text.name),
  description: text.description,
  installationId: entry.installationId,
  slug: entry.slug,
});

/** What lies beside SKILL.md, by its path in the skill's folder. */
async function listResources({ pool }: SessionServices, { entry, text }: Skill) {
  const folder = `skills/${text.name}`;
  const files = await listFilesBelow(pool, entry.versionId, folder, RESOURCES_MAX);
  return files
    .map(({ path, sizeBytes }) => ({ path: path.slice(folder.length + 1), sizeBytes }))
    .filter(({ path }) => path !== 'SKILL.md');
}

/** Installs the routes. */
export function installSkills(app: FastifyInstance, services: SessionServices): void {
  app.get<{ Params: SessionParams }>('/sessions/:sessionId/skills', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { entries } = await services.rosters.get(session.accountId);
    return { items: listSkills(entries).map(toItem), nextCursor: null };
  });
  app.get<{ Params: SessionParams & { name: string } }>('/sessions/:sessionId/skills/:name', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { entries } = await services.rosters.get(session.accountId);
    const skill = listSkills(entries).find(({ entry, text }) => fullName(entry, text.name) === request.params.name);
    if (!skill) throw new Problem('not_found', 'There is no skill of that name.');
    const [text, resources] = await Promise.all([readText(services.blobs, skill.text), listResources(services, skill)]);
    return { ...toItem(skill), text, resources };
  });
}
