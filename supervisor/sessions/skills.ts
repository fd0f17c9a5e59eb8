/** The skills of an account's plugins: lists and finds them. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { skills } from './prompt-texts.ts';
import type { SessionServices } from './session-services.ts';
import type { Skill } from './skill-files.ts';

export const listSkills = (plugins: readonly InstalledPlugin[]): Skill[] =>
  plugins.flatMap((plugin) => skills(plugin).map((text) => ({ plugin, text })));

/** Finds a skill by its full name. @throws Problem `not_found` */
export async function findSkill({ pluginsCache }: SessionServices, session: Session, name: string): Promise<Skill> {
  const { plugins } = await pluginsCache.get(session.accountId);
  const found = listSkills(plugins).find(({ plugin, text }) => formatFullName(plugin, text.name) === name);
  if (!found) throw new Problem('not_found', 'No skill has this name.');
  return found;
}
