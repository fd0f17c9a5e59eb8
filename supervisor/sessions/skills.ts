/** `/sessions/{id}/skills`: what agents may read when a task calls for it. */
import type { FastifyInstance } from 'fastify';
import type { RosterEntry } from '../../db/rosters.ts';
import { Problem } from '../../sdk/errors.ts';
import { type PromptText, readText, skills } from './prompt-texts.ts';
import type { SessionParams, SessionServices } from './services.ts';
import { fullName } from './surface-call.ts';

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
    return { ...toItem(skill), text: await readText(services.blobs, skill.text) };
  });
}
