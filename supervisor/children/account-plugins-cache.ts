/** Caches the plugins of accounts in memory, so that a hook call needs no query. A change notification drops an entry. */

import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { areUnchanged, type InstalledPlugin, loadAccountPlugins } from '../../db/installations/account-plugins.ts';
import { isActive, mayRun } from '../../db/installations/run-rule.ts';
import type { OutboundMode } from '../../db/sessions/turn-outputs.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { readOrLastKnown } from '../../service/storage/last-known.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';

/** Maximum number of cached accounts, a few kilobytes each. */
const ACCOUNTS_MAX = 5_000;
/** What the registrations of all cached accounts take in memory at most: a few accounts could fill it. Bytes. */
const REGISTRATIONS_MAX_BYTES = 64 * MIB;

export interface ToolRef {
  readonly plugin: InstalledPlugin;
  readonly tool: string;
}
/**
 * An account's installations, indexed by hook and tool. `byHook` includes links that cannot run: blocked plugins, and
 * required plugins that lack configuration.
 */
export interface AccountPlugins {
  readonly plugins: readonly InstalledPlugin[];
  /** In chain order. Links that cannot run keep their place, so that the chain reports them or stops. */
  readonly byHook: ReadonlyMap<string, readonly InstalledPlugin[]>;
  /** Plugins that register the hook but are left out, because they are paused or lack configuration. */
  readonly idleByHook: ReadonlyMap<string, readonly InstalledPlugin[]>;
  /** Plugins that may not run: blocked, paused, or without configuration. */
  readonly idle: readonly InstalledPlugin[];
  /** Plugins that only lack configuration. */
  readonly unconfigured: readonly InstalledPlugin[];
  /** By `<slug>__<tool>`. */
  readonly tools: ReadonlyMap<string, ToolRef>;
}

/**
 * Runtimes send all tools of an account with every prompt. The first plugins in hook order whose registrations fit together are
 * offered, and the later ones are not. No model takes as many. Bytes of JSON.
 */
const TOOLS_MAX_BYTES = 4 * MIB;
/**
 * Called with the rows just read. Returns them as they are served now: after a failed update the old version serves.
 *
 * @param readAt when the read began, on the monotonic clock. Milliseconds
 */
type OnLoaded = (accountId: string, plugins: readonly InstalledPlugin[], readAt: number) => readonly InstalledPlugin[];

interface CacheOptions {
  readonly onLoaded: OnLoaded;
  /** Whether this process is notified of changes. While it is not, what it knows may be old. */
  isNotified(): boolean;
}

/** The plugins of an account as they were read. */
interface Entry {
  readonly accountPlugins: AccountPlugins;
  /** A reload takes what their versions offer from here. */
  readonly rows: readonly InstalledPlugin[];
  /** Whether the account has not changed since. */
  isCurrent: boolean;
}
/** A load under way. */
interface Load {
  readonly result: Promise<AccountPlugins>;
  /** The account has changed since the load began: its rows may be old. */
  isStale: boolean;
  /** The load that follows, for calls that came after a change or while nothing is notified. */
  next: Promise<AccountPlugins> | null;
}

export class AccountPluginsCache {
  readonly #pool: Pool;
  readonly #options: CacheOptions;
  readonly #byAccount = new LRUCache<string, Entry>({
    max: ACCOUNTS_MAX,
    maxSize: REGISTRATIONS_MAX_BYTES,
  });
  readonly #loads = new Map<string, Load>();
  readonly #watchers = new Set<(accountId: string | null) => void>();

  constructor(pool: Pool, options: CacheOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** Returns the cached plugins without a promise, for the hot path. */
  peek(accountId: string): AccountPlugins | undefined {
    return this.#options.isNotified() ? this.#findCurrent(accountId) : undefined;
  }

  #findCurrent(accountId: string): AccountPlugins | undefined {
    const entry = this.#byAccount.get(accountId);
    return entry?.isCurrent ? entry.accountPlugins : undefined;
  }

  /** Returns the cached plugins, or a promise that loads them. */
  current(accountId: string): AccountPlugins | Promise<AccountPlugins> {
    return this.peek(accountId) ?? this.get(accountId);
  }

  /** Returns the plugins and loads them on a cache miss. */
  async get(accountId: string): Promise<AccountPlugins> {
    if (!this.#options.isNotified()) return this.#loadUnnotified(accountId);
    return this.peek(accountId) ?? this.#loadOnce(accountId);
  }

  /** As `get`, for a plugin that was not found: its user's request may arrive before the notification that it was installed. */
  async getNewest(accountId: string): Promise<AccountPlugins> {
    const entry = this.#byAccount.peek(accountId);
    if (entry?.isCurrent && !(await areUnchanged(this.#pool, accountId, entry.rows))) this.drop(accountId);
    return this.get(accountId);
  }

  /** A plugin may have been installed or required since the last notification, or since the load under way began. */
  #loadUnnotified(accountId: string): Promise<AccountPlugins> {
    const known = this.#findCurrent(accountId);
    const load = this.#loads.get(accountId);
    return readOrLastKnown(load ? this.#loadAfter(load, accountId) : this.#load(accountId), known);
  }

  /** Drops an account's entry. A load under way may hold older rows, so later calls wait for another one. */
  drop(accountId: string): void {
    const entry = this.#byAccount.peek(accountId);
    if (entry) entry.isCurrent = false;
    const load = this.#loads.get(accountId);
    if (load) load.isStale = true;
    for (const watcher of this.#watchers) watcher(accountId);
  }

  /** Drops all entries. No later call waits for a load under way: its connection may be lost. */
  dropAll(): void {
    this.#byAccount.clear();
    this.#loads.clear();
    for (const watcher of this.#watchers) watcher(null);
  }

  /**
   * Calls `watcher` when an account may have changed; with null when any account may have.
   *
   * @returns a function that removes the watcher
   */
  watch(watcher: (accountId: string | null) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /**
   * One load of an account runs at a time, because it can take a connection and much of the event loop for a second. Calls that
   * came after a change wait until the load under way has ended, and share the next one.
   */
  #loadOnce(accountId: string): Promise<AccountPlugins> {
    const load = this.#loads.get(accountId);
    if (load === undefined) return this.#load(accountId);
    return load.isStale ? this.#loadAfter(load, accountId) : load.result;
  }

  #loadAfter(load: Load, accountId: string): Promise<AccountPlugins> {
    const loadNext = () => this.get(accountId);
    load.next ??= load.result.then(loadNext, loadNext);
    return load.next;
  }

  #load(accountId: string): Promise<AccountPlugins> {
    const isLatest = (): boolean => this.#loads.get(accountId) === load;
    const result = this.#read(accountId)
      .then(({ accountPlugins, rows }) => {
        const entry = { accountPlugins, rows, isCurrent: !load.isStale };
        // The cache requires a size of at least one, and keeps none above its own: each call would read all plugins again.
        const bytes = rows.reduce((sum, { memoryBytes }) => sum + memoryBytes, 1);
        const size = Math.min(bytes, REGISTRATIONS_MAX_BYTES / 2);
        if (isLatest()) this.#byAccount.set(accountId, entry, { size });
        return accountPlugins;
      })
      .finally(() => {
        if (isLatest()) this.#loads.delete(accountId);
      });
    const load: Load = { result, isStale: false, next: null };
    this.#loads.set(accountId, load);
    return result;
  }

  async #read(accountId: string): Promise<Omit<Entry, 'isCurrent'>> {
    const slices = new LoopSlices(accountId);
    const readAt = performance.now();
    const rows = await loadAccountPlugins(this.#pool, accountId, {
      known: this.#byAccount.peek(accountId)?.rows ?? [],
      pause: () => slices.pauseWhenOver(),
    });
    const served = this.#options.onLoaded(accountId, rows.filter(isActive), readAt);
    const byId = new Map(served.map((plugin) => [plugin.installationId, plugin]));
    return { accountPlugins: indexAccountPlugins(rows.map((row) => byId.get(row.installationId) ?? row)), rows };
  }
}

/** A pause removes a plugin from its chains. Missing configuration removes it only if it is not required. */
const isLink = (plugin: InstalledPlugin): boolean =>
  isActive(plugin) || (plugin.required && plugin.status !== 'paused');

export function indexAccountPlugins(all: readonly InstalledPlugin[]): AccountPlugins {
  const plugins = all.filter(mayRun);
  const unconfigured = all.filter(
    ({ status, blockedReason }) => status === 'needs_configuration' && blockedReason === null,
  );
  const idle = all.filter((plugin) => !mayRun(plugin));
  const hooks = {
    byHook: byHook(all.filter(isLink)),
    idleByHook: byHook(all.filter((plugin) => !isLink(plugin))),
  };
  return { plugins, ...hooks, idle, unconfigured, tools: indexTools(plugins) };
}

/** The account's plugins as if those that only lack configuration had it. */
export function addUnconfigured(accountPlugins: AccountPlugins): AccountPlugins {
  const plugins = [...accountPlugins.plugins, ...accountPlugins.unconfigured];
  return { ...accountPlugins, plugins, tools: indexTools(plugins) };
}

function indexTools(plugins: readonly InstalledPlugin[]): ReadonlyMap<string, ToolRef> {
  const tools = new Map<string, ToolRef>();
  let bytes = 0;
  for (const plugin of plugins) {
    bytes += plugin.registrationBytes;
    if (bytes > TOOLS_MAX_BYTES) break;
    for (const tool of Object.keys(plugin.registrations.tools))
      tools.set(formatFullName(plugin, tool), { plugin, tool });
  }
  return tools;
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

const OUTBOUND: HookName = 'middleware.outboundMessage';

/** How the plugins judge the agent's messages now. */
export function readOutboundMode(accountPlugins: AccountPlugins): OutboundMode {
  const links = listHookLinks(accountPlugins, OUTBOUND);
  if (links.length === 0) return 'none';
  return links.every(({ registrations }) => registrations.streams?.includes(OUTBOUND)) ? 'pieces' : 'whole';
}

/** Finds an installation's link, also one that compaction would not ask now. Undefined if it is paused or was uninstalled. */
export const findHookLink = (
  accountPlugins: AccountPlugins,
  hook: HookName,
  installationId: string | undefined,
): InstalledPlugin | undefined =>
  accountPlugins.byHook.get(hook)?.find((link) => link.installationId === installationId);

/**
 * Lists the links of one hook, in order. Compaction calls one plugin only: the first required one, otherwise the first that is
 * not blocked.
 */
export function listHookLinks(accountPlugins: AccountPlugins, hook: HookName): readonly InstalledPlugin[] {
  const links = accountPlugins.byHook.get(hook) ?? [];
  if (hook !== 'compaction.summarize') return links;
  const link = links.find(({ required }) => required) ?? links.find(({ blockedReason }) => blockedReason === null);
  return link ? [link] : [];
}
