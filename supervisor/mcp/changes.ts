/**
 * Notifies MCP clients when the lists of a session have changed. Most changes of an installation do not affect them.
 */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { type AccountPlugins, addUnconfigured } from '../children/account-plugins-cache.ts';
import { listCommands } from '../sessions/commands.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { listSkills } from '../sessions/skills.ts';
import { digestTools } from '../sessions/tools.ts';
import { digestOf, digestOfOffer } from '../sessions/turn-answers.ts';

export interface Lists {
  readonly tools: unknown;
  readonly prompts: unknown;
  readonly resources: unknown;
}
/** `asking`: for clients that can ask their user for missing settings. They are also offered plugins that only lack configuration. */
interface Digests {
  readonly ready: Lists;
  readonly asking: Lists;
}
interface Watcher {
  /** Whether the client can ask its user. Known once it is initialized. */
  asks(): boolean;
  onChanged(list: keyof Lists): void;
}
/** Delay that groups notifications into one comparison. Milliseconds. */
const SETTLE_MS = 50;

/** @returns a function that stops watching */
export function watchLists(
  { pluginsCache }: Pick<SessionServices, 'pluginsCache'>,
  { accountId }: Session,
  { asks, onChanged }: Watcher,
): () => void {
  let known: Promise<Digests | null> = pluginsCache.get(accountId).then(digest, () => null);
  let timer: NodeJS.Timeout | undefined;
  const compareLists = async (): Promise<void> => {
    const before = await known;
    known = pluginsCache.get(accountId).then(digest, () => before);
    const now = await known;
    if (!before || !now) return;
    const offer = asks() ? 'asking' : 'ready';
    for (const list of ['tools', 'prompts', 'resources'] as const)
      if (before[offer][list] !== now[offer][list]) onChanged(list);
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

/** Computed once for all connections of an account. */
const digests = new WeakMap<AccountPlugins, Digests>();

function digest(accountPlugins: AccountPlugins): Digests {
  const known = digests.get(accountPlugins) ?? digestAll(accountPlugins);
  digests.set(accountPlugins, known);
  return known;
}

function digestAll(accountPlugins: AccountPlugins): Digests {
  const ready = digestLists(accountPlugins);
  if (accountPlugins.unconfigured.length === 0) return { ready, asking: ready };
  return { ready, asking: { ...digestLists(addUnconfigured(accountPlugins)), resources: ready.resources } };
}

function digestLists(accountPlugins: AccountPlugins): Lists {
  const { plugins } = accountPlugins;
  return {
    tools: digestTools(accountPlugins),
    prompts: digestOf(
      plugins.map((plugin) => [plugin.slug, digestCommands(plugin)]).filter(([, some]) => some !== NONE),
    ),
    // Skills change only with the version.
    resources: digestOf(listSkills(plugins).map(({ plugin, text }) => [plugin.slug, plugin.versionId, text.name])),
  };
}

const NONE = digestOf([]);

const digestCommands = (plugin: InstalledPlugin): string =>
  digestOfOffer(plugin.registrations.commands, () =>
    listCommands([plugin]).map(({ name, description }) => [name, description]),
  );
