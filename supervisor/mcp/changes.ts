/**
 * Notifies MCP clients when the lists of a session have changed. Most changes of an installation do not affect them.
 */
import { createHash } from 'node:crypto';
import type { Session } from '../../db/sessions/sessions.ts';
import type { AccountPlugins } from '../children/account-plugins-cache.ts';
import { listCommands } from '../sessions/commands.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { listSkills } from '../sessions/skills.ts';
import { listTools } from '../sessions/tools.ts';

export interface Lists {
  readonly tools: unknown;
  readonly prompts: unknown;
  readonly resources: unknown;
}
/** Delay that groups notifications into one comparison. Milliseconds. */
const SETTLE_MS = 50;

/** @returns a function that stops watching */
export function watchLists(
  { pluginsCache }: Pick<SessionServices, 'pluginsCache'>,
  { accountId }: Session,
  onChanged: (list: keyof Lists) => void,
): () => void {
  let known: Promise<Lists | null> = pluginsCache.get(accountId).then(digest, () => null);
  let timer: NodeJS.Timeout | undefined;
  const compareLists = async (): Promise<void> => {
    const before = await known;
    known = pluginsCache.get(accountId).then(digest, () => before);
    const now = await known;
    if (!before || !now) return;
    for (const list of ['tools', 'prompts', 'resources'] as const) if (before[list] !== now[list]) onChanged(list);
  };
  const stop = pluginsCache.watch((changed) => {
    if (changed !== null && changed !== accountId) return;
    clearTimeout(timer);
    timer = setTimeout(() => void compareLists(), SETTLE_MS).unref();
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}

function digest(accountPlugins: AccountPlugins): Lists {
  const { plugins } = accountPlugins;
  return {
    tools: hashList(listTools(accountPlugins)),
    prompts: hashList(listCommands(plugins).map(({ plugin, name, description }) => [plugin.slug, name, description])),
    // Files of a skill change only with the version.
    resources: hashList(listSkills(plugins).map(({ plugin, text }) => [plugin.slug, plugin.versionId, text])),
  };
}

const hashList = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('base64');
