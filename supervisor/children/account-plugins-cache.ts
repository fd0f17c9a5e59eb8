/** The plugins of accounts in memory, so that a hook call asks no database: loaded once an account, dropped at a notice. */

import type { Pool } from 'pg';
import { type InstalledPlugin, loadAccountPlugins } from '../../db/installations/account-plugins.ts';
import { isActive, mayRun } from '../../db/installations/run-rule.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';

/** Accounts kept; the one used longest ago goes first. An account takes some kilobytes. */
const ACCOUNTS_MAX = 5_000;

export interface ToolRef {
  readonly plugin: InstalledPlugin;
  readonly tool: string;
}
/**
 * An account's installations, indexed by what is asked of them. `byHook` also has those that cannot run: blocked ones, and
 * required ones without their configuration.
 */
export interface AccountPlugins {
  readonly plugins: readonly InstalledPlugin[];
  /** In hook order. Links that cannot run keep their place, so that the chain reports them or stops. */
  readonly byHook: ReadonlyMap<string, readonly InstalledPlugin[]>;
  /** Those that would take part in a hook, were they not paused or without their configuration. */
  readonly idleByHook: ReadonlyMap<string, readonly InstalledPlugin[]>;
  /** By `<slug>__<tool>`. */
  readonly tools: ReadonlyMap<string, ToolRef>;
}

/** Told about fresh entries; answers them as they serve now: a failed update keeps the old version. */
export type OnLoaded = (accountId: string, plugins: readonly InstalledPlugin[]) => readonly InstalledPlugin[];

export class AccountPluginsCache {
  readonly #pool: Pool;
  readonly #onLoaded: OnLoaded;
  readonly #byAccount = new Map<string, AccountPlugins>();
  readonly #loading = new Map<string, Promise<AccountPlugins>>();
  readonly #watchers = new Set<(accountId: string | null) => void>();

  constructor(pool: Pool, onLoaded: OnLoaded) {
    this.#pool = pool;
    this.#onLoaded = onLoaded;
  }

  /** The plugins if they are here and fresh: the hot path awaits nothing. */
  peek(accountId: string): AccountPlugins | undefined {
    const accountPlugins = this.#byAccount.get(accountId);
    if (accountPlugins && this.#byAccount.size > ACCOUNTS_MAX / 2) {
      this.#byAccount.delete(accountId);
      this.#byAccount.set(accountId, accountPlugins);
    }
    return accountPlugins;
  }

  /** The plugins as they are now: from memory, or a promise that reads them. */
  current(accountId: string): AccountPlugins | Promise<AccountPlugins> {
    return this.peek(accountId) ?? this.get(accountId);
  }

  /** The plugins, read if need be. */
  async get(accountId: string): Promise<AccountPlugins> {
    return this.peek(accountId) ?? this.#loading.get(accountId) ?? this.#load(accountId);
  }

  /** The account changed: the next call reads again, also where a reading is under way with older news. */
  drop(accountId: string): void {
    this.#byAccount.delete(accountId);
    this.#loading.delete(accountId);
    for (const watcher of this.#watchers) watcher(accountId);
  }

  dropAll(): void {
    this.#byAccount.clear();
    this.#loading.clear();
    for (const watcher of this.#watchers) watcher(null);
  }

  /**
   * Tells whenever an account may have changed; null: any may have.
   *
   * @returns ends it
   */
  watch(watcher: (accountId: string | null) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  #load(accountId: string): Promise<AccountPlugins> {
    const loading: Promise<AccountPlugins> = loadAccountPlugins(this.#pool, accountId).then((plugins) => {
      const served = this.#onLoaded(accountId, plugins.filter(isActive));
      const byId = new Map(served.map((plugin) => [plugin.installationId, plugin]));
      const accountPlugins = indexAccountPlugins(plugins.map((plugin) => byId.get(plugin.installationId) ?? plugin));
      // A drop meanwhile made this reading stale: it serves who waited, and is not kept.
      if (this.#loading.get(accountId) === loading) this.#keep(accountId, accountPlugins);
      return accountPlugins;
    });
    this.#loading.set(accountId, loading);
    const forget = () => {
      if (this.#loading.get(accountId) === loading) this.#loading.delete(accountId);
    };
    loading.then(forget, forget);
    return loading;
  }

  #keep(accountId: string, accountPlugins: AccountPlugins): void {
    this.#byAccount.set(accountId, accountPlugins);
    if (this.#byAccount.size <= ACCOUNTS_MAX) return;
    const oldest = this.#byAccount.keys().next().value;
    if (oldest !== undefined) this.#byAccount.delete(oldest);
  }
}

/** Whether chains have a link for it. Its owner's pause takes it out of them, a missing configuration only if not required. */
const isLink = (plugin: InstalledPlugin): boolean =>
  isActive(plugin) || (plugin.required && plugin.status !== 'paused');

/** Builds the indexes. */
export function indexAccountPlugins(all: readonly InstalledPlugin[]): AccountPlugins {
  const plugins = all.filter(mayRun);
  const tools = new Map<string, ToolRef>();
  for (const plugin of plugins) {
    for (const tool of Object.keys(plugin.registrations.tools)) tools.set(`${plugin.slug}__${tool}`, { plugin, tool });
  }
  const links = all.filter(isLink);
  const idle = all.filter((plugin) => !isLink(plugin));
  return { plugins, byHook: byHook(links), idleByHook: byHook(idle), tools };
}

function byHook(plugins: readonly InstalledPlugin[]): ReadonlyMap<string, readonly InstalledPlugin[]> {
  const found = new Map<string, InstalledPlugin[]>();
  for (const plugin of plugins) {
    for (const hook of plugin.registrations.hooks) {
      const list = found.get(hook);
      if (list) list.push(plugin);
      else found.set(hook, [plugin]);
    }
  }
  return found;
}

const NOBODY: readonly InstalledPlugin[] = [];
/** Whom a chain of this hook leaves out though they are installed. */
export const idleOf = (accountPlugins: AccountPlugins, hook: HookName): readonly InstalledPlugin[] =>
  accountPlugins.idleByHook.get(hook) ?? NOBODY;

/**
 * The links of one hook, in order. Compaction asks one plugin only: the first required one, otherwise the first that is not
 * blocked.
 */
export function linksOf(accountPlugins: AccountPlugins, hook: HookName): readonly InstalledPlugin[] {
  const links = accountPlugins.byHook.get(hook) ?? [];
  if (hook !== 'compaction.summarize') return links;
  const link = links.find(({ required }) => required) ?? links.find(({ blockedReason }) => blockedReason === null);
  return link ? [link] : [];
}
