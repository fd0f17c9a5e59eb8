/** Rosters in memory, so that a hook call asks no database: loaded once an account, dropped at a notice. */
import type { Pool } from 'pg';
import { loadRoster, mayRun, type RosterEntry } from '../../db/installations/account-plugins.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';

/** Accounts kept; the one used longest ago goes first. An account takes some kilobytes. */
const ACCOUNTS_MAX = 5_000;

export interface ToolRef {
  readonly entry: RosterEntry;
  readonly tool: string;
}
/** An account's runnable installations, indexed by what is asked of them. Blocked ones are in `byHook` only. */
export interface Roster {
  readonly entries: readonly RosterEntry[];
  /** In hook order; blocked ones keep their place, for the trace to say why they are passed over. */
  readonly byHook: ReadonlyMap<string, readonly RosterEntry[]>;
  /** Those that would take part in a hook, were they not paused or without their configuration. */
  readonly idleByHook: ReadonlyMap<string, readonly RosterEntry[]>;
  /** By `<slug>__<tool>`. */
  readonly tools: ReadonlyMap<string, ToolRef>;
}

/** Told about fresh entries; answers them as they serve now: a failed update keeps the old version. */
export type OnLoaded = (accountId: string, entries: readonly RosterEntry[]) => readonly RosterEntry[];

export class RosterCache {
  readonly #pool: Pool;
  readonly #onLoaded: OnLoaded;
  readonly #rosters = new Map<string, Roster>();
  readonly #loading = new Map<string, Promise<Roster>>();
  readonly #watchers = new Set<(accountId: string | null) => void>();

  constructor(pool: Pool, onLoaded: OnLoaded) {
    this.#pool = pool;
    this.#onLoaded = onLoaded;
  }

  /** The roster if it is here and fresh: the hot path awaits nothing. */
  peek(accountId: string): Roster | undefined {
    const roster = this.#rosters.get(accountId);
    if (roster && this.#rosters.size > ACCOUNTS_MAX / 2) {
      this.#rosters.delete(accountId);
      this.#rosters.set(accountId, roster);
    }
    return roster;
  }

  /** The roster, read if need be. */
  async get(accountId: string): Promise<Roster> {
    return this.peek(accountId) ?? this.#loading.get(accountId) ?? this.#load(accountId);
  }

  /** Accounts that are loaded: what a notice may concern. */
  has(accountId: string): boolean {
    return this.#rosters.has(accountId) || this.#loading.has(accountId);
  }

  /** The account changed: the next call reads again, also where a reading is under way with older news. */
  drop(accountId: string): void {
    this.#rosters.delete(accountId);
    this.#loading.delete(accountId);
    for (const watcher of this.#watchers) watcher(accountId);
  }

  dropAll(): void {
    this.#rosters.clear();
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

  #load(accountId: string): Promise<Roster> {
    const loading: Promise<Roster> = loadRoster(this.#pool, accountId).then((entries) => {
      const idle = entries.filter((entry) => !mayRun(entry));
      const roster = indexRoster(this.#onLoaded(accountId, entries.filter(mayRun)), idle);
      // A drop meanwhile made this reading stale: it serves who waited, and is not kept.
      if (this.#loading.get(accountId) === loading) this.#keep(accountId, roster);
      return roster;
    });
    this.#loading.set(accountId, loading);
    const forget = () => {
      if (this.#loading.get(accountId) === loading) this.#loading.delete(accountId);
    };
    loading.then(forget, forget);
    return loading;
  }

  #keep(accountId: string, roster: Roster): void {
    this.#rosters.set(accountId, roster);
    if (this.#rosters.size <= ACCOUNTS_MAX) return;
    const oldest = this.#rosters.keys().next().value;
    if (oldest !== undefined) this.#rosters.delete(oldest);
  }
}

/** Builds the indexes of a roster. */
function indexRoster(entries: readonly RosterEntry[], idle: readonly RosterEntry[]): Roster {
  const tools = new Map<string, ToolRef>();
  for (const entry of entries) {
    if (entry.blockedReason !== null) continue;
    for (const tool of Object.keys(entry.registrations.tools)) tools.set(`${entry.slug}__${tool}`, { entry, tool });
  }
  const running = entries.filter(({ blockedReason }) => blockedReason === null);
  return { entries: running, byHook: byHook(entries), idleByHook: byHook(idle), tools };
}

function byHook(entries: readonly RosterEntry[]): ReadonlyMap<string, readonly RosterEntry[]> {
  const found = new Map<string, RosterEntry[]>();
  for (const entry of entries) {
    for (const hook of entry.registrations.hooks) {
      const list = found.get(hook);
      if (list) list.push(entry);
      else found.set(hook, [entry]);
    }
  }
  return found;
}

const NOBODY: readonly RosterEntry[] = [];
/** Whom a chain of this hook leaves out though they are installed. */
export const idleOf = (roster: Roster, hook: HookName): readonly RosterEntry[] => roster.idleByHook.get(hook) ?? NOBODY;

/** The links of one hook, in order. Compaction asks the first that may run only. */
export function linksOf(roster: Roster, hook: HookName): readonly RosterEntry[] {
  const links = roster.byHook.get(hook) ?? [];
  if (hook !== 'compaction.summarize') return links;
  return links.filter(({ blockedReason }) => blockedReason === null).slice(0, 1);
}
