/**
 * The reference model: plugins, versions, listings, drafts and installations as the specification tells of them, in
 * memory, one step at a time. It shares no code with the service.
 */
import { isStable, isWithin, type ModelPackage, malformed, numbers } from './packages.ts';

export type Policy = 'Latest' | 'Pinned' | 'Draft';
export interface ModelVersion {
  /** As the service calls it, once it has answered. */
  id: string;
  /** Null: a draft. */
  readonly semVer: string | null;
  readonly of: ModelPackage;
  yanked: boolean;
}
export interface ModelPlugin {
  id: string;
  readonly owner: string;
  readonly slug: string;
  visibility: 'private' | 'listed' | 'delisted';
  message: string | null;
  versions: ModelVersion[];
  draft: ModelVersion | null;
  deleted: boolean;
}
export interface ModelInstallation {
  id: string;
  readonly account: string;
  readonly plugin: ModelPlugin;
  policy: Policy;
  pinned: ModelVersion | null;
  current: ModelVersion;
  pending: ModelVersion | null;
  /** The version to which it moves once it may run that version. */
  target: ModelVersion | null;
  granted: readonly string[];
  settings: Record<string, string>;
  secrets: string[];
  paused: boolean;
  hookOrder: number;
  required: boolean;
  gone: boolean;
  readonly events: ModelEvent[];
  /** The version before the last undelivered move: later moves merge with it. */
  movedFrom: ModelVersion | null;
}
interface ModelEvent {
  readonly type: string;
  readonly data: Readonly<Record<string, string>>;
}
export interface Outcome {
  readonly status: number;
  readonly code?: string;
  /** The created object of the model. The service's response has its id. */
  readonly made?: { id: string };
}
export interface Change {
  readonly policy?: Policy | undefined;
  readonly pinned?: ModelVersion | undefined;
  readonly hookOrder?: number | undefined;
  readonly required?: boolean | undefined;
}
export interface Configuration {
  readonly settings: Readonly<Record<string, string | null>>;
  readonly secrets: Readonly<Record<string, string | null>>;
}

const ok: Outcome = { status: 200 };
const refused = (status: number, code: string): Outcome => ({ status, code });
const unknown = refused(404, 'not_found');
const draftName = (version: ModelVersion): string => version.semVer ?? '0.0.0-draft';

export const latestOf = (plugin: ModelPlugin): ModelVersion | null => {
  const published = plugin.versions.filter((version) => !version.yanked);
  const rank = (version: ModelVersion) =>
    numbers.indexOf(version.semVer ?? '') + (isStable(version.semVer ?? '') ? 1000 : 0);
  return published.sort((a, b) => rank(a) - rank(b)).at(-1) ?? null;
};

/** The settings and secrets that a version needs and the installation lacks. */
const lacksOf = ({ settings, secrets }: ModelInstallation, { of }: ModelVersion): string[] => [
  ...Object.keys(of.settings).filter((name) => !of.settings[name]?.includes(settings[name] ?? '')),
  ...of.secrets.filter((name) => !secrets.includes(name)),
];
/** The settings and secrets that a version lacks and the running one does not. */
export const newlyLacks = (one: ModelInstallation, version: ModelVersion): string[] =>
  lacksOf(one, version).filter((name) => !lacksOf(one, one.current).includes(name));

export const statusOf = (one: ModelInstallation): string => {
  if (one.paused) return 'paused';
  return lacksOf(one, one.current).length > 0 ? 'needs_configuration' : 'ready';
};

export class Model {
  readonly plugins: ModelPlugin[] = [];
  readonly installations: ModelInstallation[] = [];

  create(owner: string, slug: string): Outcome {
    if (this.plugins.some((plugin) => plugin.slug === slug && !plugin.deleted)) return refused(409, 'slug_taken');
    const made: ModelPlugin = {
      id: '',
      owner,
      slug,
      visibility: 'private',
      message: null,
      versions: [],
      draft: null,
      deleted: false,
    };
    this.plugins.push(made);
    return { status: 201, made };
  }

  publish(account: string, plugin: ModelPlugin, semVer: string, of: ModelPackage): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (malformed.includes(semVer)) return refused(422, 'invalid_package');
    if (plugin.versions.some((version) => version.semVer === semVer)) return refused(409, 'version_exists');
    if (of.capabilities.length === 0) return refused(422, 'invalid_package');
    const made: ModelVersion = { id: '', semVer, of, yanked: false };
    this.#settle(plugin, () => plugin.versions.push(made));
    return { status: 201, made };
  }

  saveDraft(account: string, plugin: ModelPlugin, of: ModelPackage): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (of.capabilities.length === 0) return refused(422, 'invalid_package');
    const draft: ModelVersion = { id: '', semVer: null, of, yanked: false };
    plugin.draft = draft;
    for (const one of this.live(plugin)) if (one.policy === 'Draft') this.#begin(one, draft);
    return { status: 200, made: draft };
  }

  list(account: string, plugin: ModelPlugin): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (!latestOf(plugin)) return refused(409, 'no_published_version');
    Object.assign(plugin, { visibility: 'listed', message: null });
    return ok;
  }

  delist(account: string, plugin: ModelPlugin, message: string | null): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (plugin.visibility !== 'private') Object.assign(plugin, { visibility: 'delisted', message });
    return ok;
  }

  yank(account: string, plugin: ModelPlugin, version: ModelVersion | undefined): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (!version || !plugin.versions.includes(version)) return unknown;
    if (version.yanked) return ok;
    if (plugin.versions.filter(({ yanked }) => !yanked).length === 1) return refused(409, 'last_version');
    this.#settle(plugin, () => {
      version.yanked = true;
    });
    for (const one of this.live(plugin)) this.#withdraw(one, version);
    return ok;
  }

  remove(account: string, plugin: ModelPlugin): Outcome {
    const wrong = this.#owned(account, plugin);
    if (wrong) return wrong;
    if (latestOf(plugin)) return refused(409, 'published_version_exists');
    if (this.live(plugin).some((one) => one.required)) return refused(409, 'required_installation');
    for (const one of this.live(plugin)) this.#end(one, 'owner');
    plugin.deleted = true;
    return { status: 204 };
  }

  install(account: string, plugin: ModelPlugin, policy: Policy, pinned?: ModelVersion, required = false): Outcome {
    if (plugin.deleted || (plugin.visibility !== 'listed' && plugin.owner !== account)) return unknown;
    const chosen = this.#choose(account, plugin, policy, pinned);
    if ('status' in chosen) return chosen;
    const mine = this.installations.filter((one) => one.account === account && !one.gone);
    if (mine.some((one) => one.plugin === plugin)) return refused(409, 'already_installed');
    const made: ModelInstallation = {
      id: '',
      account,
      plugin,
      policy,
      pinned: policy === 'Pinned' ? chosen : null,
      current: chosen,
      pending: null,
      target: null,
      movedFrom: null,
      granted: chosen.of.capabilities,
      settings: {},
      secrets: [],
      paused: false,
      gone: false,
      hookOrder: (mine.length === 0 ? 0 : Math.max(...mine.map((one) => one.hookOrder))) + 1,
      required,
      events: [{ type: 'pluginInstalled', data: { reason: 'install' } }],
    };
    this.installations.push(made);
    return { status: 201, made };
  }

  changePolicy(account: string, one: ModelInstallation, change: Change): Outcome {
    if (this.#hidden(account, one)) return unknown;
    const policy = change.policy ?? one.policy;
    if (change.pinned && policy !== 'Pinned') return refused(422, 'invalid_pin');
    if (!change.policy && !change.pinned) {
      one.hookOrder = change.hookOrder ?? one.hookOrder;
      one.required = change.required ?? one.required;
      return ok;
    }
    const chosen = this.#choose(account, one.plugin, policy, change.pinned ?? one.pinned ?? undefined);
    if ('status' in chosen) return chosen;
    one.hookOrder = change.hookOrder ?? one.hookOrder;
    one.required = change.required ?? one.required;
    one.policy = policy;
    one.pinned = policy === 'Pinned' ? chosen : null;
    if (one.target !== chosen) one.target = null;
    if (policy === 'Draft') this.#moveTo(one, chosen);
    else this.#offer(one, chosen);
    return ok;
  }

  accept(account: string, one: ModelInstallation, version: ModelVersion | undefined): Outcome {
    if (this.#hidden(account, one)) return unknown;
    if (!version || one.pending !== version) return refused(409, 'not_pending');
    this.#begin(one, version);
    return ok;
  }

  configure(account: string, one: ModelInstallation, { settings, secrets }: Configuration): Outcome {
    if (this.#hidden(account, one)) return unknown;
    const key = {
      settings: { ...one.current.of.settings, ...one.target?.of.settings },
      secrets: [...one.current.of.secrets, ...(one.target?.of.secrets ?? [])],
    };
    // A stored value can always be removed, also after a version that no longer knows it.
    const fits = (name: string, value: string | null) =>
      value === null ? name in key.settings || name in one.settings : key.settings[name]?.includes(value);
    const isSecret = (name: string, value: string | null) =>
      key.secrets.includes(name) ? value !== '' : value === null && one.secrets.includes(name);
    if (!Object.entries(settings).every(([name, value]) => fits(name, value))) return refused(400, 'bad_request');
    if (!Object.entries(secrets).every(([name, value]) => isSecret(name, value))) return refused(400, 'bad_request');
    for (const [name, value] of Object.entries(settings)) {
      if (value === null) delete one.settings[name];
      else one.settings[name] = value;
    }
    for (const [name, value] of Object.entries(secrets)) {
      one.secrets = one.secrets.filter((known) => known !== name);
      if (value !== null) one.secrets = [...one.secrets, name].sort();
    }
    this.#offerPending(one);
    this.#finish(one);
    return ok;
  }

  setPaused(account: string, one: ModelInstallation, paused: boolean): Outcome {
    if (this.#hidden(account, one)) return unknown;
    one.paused = paused;
    this.#finish(one);
    return ok;
  }

  rerun(account: string, one: ModelInstallation): Outcome {
    if (this.#hidden(account, one)) return unknown;
    one.events.push({ type: 'pluginInstalled', data: { reason: 'rerun-setup' } });
    return { status: 202 };
  }

  uninstall(account: string, one: ModelInstallation): Outcome {
    if (this.#hidden(account, one)) return unknown;
    this.#end(one, 'user');
    return { status: 204 };
  }

  live(plugin: ModelPlugin): ModelInstallation[] {
    return this.installations.filter((one) => one.plugin === plugin && !one.gone);
  }

  #owned(account: string, plugin: ModelPlugin): Outcome | null {
    if (plugin.deleted) return unknown;
    if (plugin.owner === account) return null;
    return plugin.visibility === 'listed' ? refused(403, 'not_owner') : unknown;
  }

  #hidden = (account: string, one: ModelInstallation): boolean => one.gone || one.account !== account;

  #choose(account: string, plugin: ModelPlugin, policy: Policy, pinned: ModelVersion | undefined) {
    if (policy === 'Draft') {
      if (plugin.owner !== account) return refused(403, 'draft_owner_only');
      return plugin.draft ?? refused(409, 'no_draft');
    }
    if (policy === 'Latest') return latestOf(plugin) ?? refused(409, 'no_published_version');
    const fits = pinned && plugin.versions.includes(pinned) && !pinned.yanked;
    return fits ? pinned : refused(422, 'invalid_pin');
  }

  #settle(plugin: ModelPlugin, change: () => void): void {
    const before = latestOf(plugin);
    change();
    const latest = latestOf(plugin);
    if (!latest || latest === before) return;
    for (const one of this.live(plugin)) if (one.policy === 'Latest') this.#offer(one, latest);
  }

  /** Ends the question about a yanked version, and the move to it unless the user pinned it. */
  #withdraw(one: ModelInstallation, version: ModelVersion): void {
    if (one.pending === version) one.pending = null;
    if (one.policy === 'Pinned' || one.target !== version) return;
    one.target = null;
    const latest = latestOf(one.plugin);
    if (latest && one.policy === 'Latest') this.#offer(one, latest);
  }

  #offer(one: ModelInstallation, version: ModelVersion): void {
    const isCovered = version.of.capabilities.every((capability) => isWithin(one.granted, capability));
    const hasConsent = one.current === version || one.target === version;
    if (hasConsent || (isCovered && newlyLacks(one, version).length === 0)) this.#moveTo(one, version);
    else one.pending = version;
  }

  #moveTo(one: ModelInstallation, version: ModelVersion): void {
    if (one.current === version) Object.assign(one, { pending: null, target: null });
    else this.#begin(one, version);
  }

  #begin(one: ModelInstallation, version: ModelVersion): void {
    Object.assign(one, { pending: null, target: version });
    this.#finish(one);
  }

  /** The move, once the version may start. No event is delivered here, so a later move merges with the earlier one. */
  #finish(one: ModelInstallation): void {
    const { target } = one;
    if (!target || one.paused || one.gone || lacksOf(one, target).length > 0) return;
    const from = one.movedFrom ?? one.current;
    const last = one.events.findIndex(({ type }) => type === 'pluginUpdated');
    if (last >= 0) one.events.splice(last, 1);
    one.movedFrom = from === target ? null : from;
    if (from !== target)
      one.events.push({ type: 'pluginUpdated', data: { fromSemVer: draftName(from), toSemVer: draftName(target) } });
    Object.assign(one, { current: target, target: null, granted: target.of.capabilities });
    this.#offerPending(one);
  }

  /** What its user is asked about may need no consent after a change. */
  #offerPending(one: ModelInstallation): void {
    if (one.pending) this.#offer(one, one.pending);
  }

  #end(one: ModelInstallation, by: string): void {
    one.gone = true;
    one.events.push({ type: 'pluginUninstalled', data: { by } });
  }
}
