/** All children of this supervisor: at most so many, started on demand, stopped when idle, the longest unused first. */
import type { Pool } from 'pg';
import { type InstalledPlugin, isBlocked } from '../../db/installations/account-plugins.ts';
import { markFailed, type Runtime, saveRuntimes } from '../../db/installations/installation-runtimes.ts';
import { limits } from '../../sdk/contract/limits.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { PluginCall, PluginInvoker } from '../calls/plugin-call.ts';
import type { Metrics } from '../records/metrics.ts';
import type { Child, ChildHandlers } from './child.ts';
import { CpuScheduler, type ScheduledChild, UPDATE_EVERY_MS } from './cpu-scheduler.ts';
import { DRAIN_MS, IDLE_STOP_MS, SAVE_MS, SPARES, STOP_GRACE_MS, SWEEP_MS } from './fleet-bounds.ts';
import { type Inspector, InstallationRunner, type RunnerDeps } from './installation-runner.ts';
import type { LoadedChild, LoadedChildDeps } from './loaded-child.ts';
import { makeSpare, type Spare, SpareChildren } from './spare-children.ts';
import { type Places, StartQueue } from './start-queue.ts';

export interface FleetOptions extends LoadedChildDeps {
  readonly pool: Pool;
  /** This supervisor's number. */
  readonly lease: number;
  readonly metrics: Metrics;
  /** Starts a jailed child. */
  start(handlers: ChildHandlers): Child;
  /** Starts one that can be inspected; absent where there are none. */
  startInspectable?: ((handlers: ChildHandlers) => Child) | undefined;
  /** Children at most, the spare not counted. */
  readonly childrenMax: number;
  /** Why other accounts' plugins may not run here; null: the sandbox is whole. */
  readonly degraded: string | null;
  /** What one installation's log lines and host calls may weigh. */
  readonly outputBytesPerSecond?: number | undefined;
  readonly idleStopMs?: number;
  readonly spares?: number;
  /** The clock of backoff and of the trial after ten minutes. */
  readonly now?: () => number;
  /** The account's chains are made of other entries now. */
  onServing(accountId: string): void;
  onError(error: Error): void;
}

/** Its child runs for `pluginUninstalled` alone; no AccountPlugins lists it, and the removal stops it. */
const hasLastWord = (runner: InstallationRunner): boolean => runner.plugin.status === 'uninstalling';

export class Fleet implements PluginInvoker {
  readonly #options: FleetOptions;
  readonly #runners = new Map<string, InstallationRunner>();
  readonly #dirty = new Map<string, InstallationRunner>();
  /** Installations whose user was told why they do not run here, as they were changed last. */
  readonly #refused = new Map<string, string>();
  readonly #spares: SpareChildren;
  readonly #sweeper: NodeJS.Timeout;
  readonly #cpuScheduler = new CpuScheduler();
  readonly #cpuTimer: NodeJS.Timeout;
  readonly #deps: RunnerDeps;
  readonly #startQueue: StartQueue;
  #saver: NodeJS.Timeout | null = null;
  #saving: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#startQueue = new StartQueue({
      max: options.childrenMax,
      count: () => this.#countPlaces(),
      stopIdle: (accountId) => this.#stopIdle(accountId),
    });
    this.#spares = new SpareChildren(options.start, options.spares ?? SPARES);
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    this.#cpuTimer = setInterval(
      () => this.#cpuScheduler.update(this.#loadedChildren(), performance.now()),
      UPDATE_EVERY_MS,
    ).unref();
    this.#deps = {
      outputBytesPerSecond: options.outputBytesPerSecond ?? limits.outputBytesPerSecond,
      now: options.now ?? Date.now,
      blobs: options.blobs,
      hostCallRouter: options.hostCallRouter,
      invocations: options.invocations,
      logs: options.logs,
      startInTurn: (runner, start) => this.#startQueue.run(runner, start),
      takeChild: (installationId, inspectable) => this.#takeChild(installationId, inspectable),
      onChange: (runner) => this.#save(runner),
      onServing: (runner) => options.onServing(runner.plugin.accountId),
      onChildEnd: options.metrics.childEnded,
      onChildStart: options.metrics.childStarted,
      onRestart: (runner, reason) => options.metrics.childRestarted(runner.plugin, reason),
      onFailed: (runner, reason) => this.#noteFailed(runner, reason),
    };
  }

  /** Calls a plugin, starting or waking its child. */
  invoke(plugin: InstalledPlugin, call: PluginCall): Promise<LinkResult> {
    if (this.#closed) return Promise.resolve({ kind: 'unavailable', message: 'the supervisor is stopping' });
    const refused = this.refusalOf(plugin);
    if (refused !== null) return this.#refuse(plugin, refused);
    return this.#runnerOf(plugin).invoke(call);
  }

  /** Sees to it that an entry read just now serves. @returns why it does not; null: it does */
  async wake(plugin: InstalledPlugin): Promise<string | null> {
    return this.#closed ? 'the supervisor is stopping' : this.#runnerOf(plugin).wake();
  }

  /**
   * Runs an installation in a child that can be inspected, for whoever checked that its caller may.
   *
   * @returns what ends it, or the sentence that says why it cannot be
   */
  async inspect(plugin: InstalledPlugin, inspector: Inspector): Promise<(() => void) | string> {
    if (this.#closed) return 'the supervisor is stopping';
    const runner = this.#runnerOf(plugin);
    return (await runner.inspect(inspector)) ?? (() => runner.endInspection(inspector));
  }

  /** Why this machine may not run a plugin; null: it may. */
  refusalOf(plugin: InstalledPlugin): string | null {
    return plugin.pluginOwnerId === plugin.accountId ? null : this.#options.degraded;
  }

  /**
   * Takes over what the rows of an account say now: new versions start beside the old, what is gone stops.
   *
   * @returns the entries whose code answers calls now
   */
  sync(accountId: string, plugins: readonly InstalledPlugin[]): readonly InstalledPlugin[] {
    const present = new Set(plugins.map((plugin) => plugin.installationId));
    for (const runner of this.#runners.values())
      if (runner.plugin.accountId === accountId && !present.has(runner.installationId)) this.#leave(runner);
    return plugins.map((plugin) => {
      if (plugin.blockedReason !== null) {
        this.#block(plugin, plugin.blockedReason);
        return plugin;
      }
      const runner = this.#runners.get(plugin.installationId);
      runner?.update(plugin);
      return runner?.effective ?? plugin;
    });
  }

  #leave(runner: InstallationRunner): void {
    if (hasLastWord(runner)) this.#endIfBlocked(runner.installationId).catch(this.#options.onError);
    else void this.retire(runner.installationId);
  }

  /** Whether an account has children, so that a change of it concerns the fleet. */
  has(accountId: string): boolean {
    for (const runner of this.#runners.values()) if (runner.plugin.accountId === accountId) return true;
    return false;
  }

  /** The accounts that have runners. */
  accounts(): ReadonlySet<string> {
    return new Set([...this.#runners.values()].map((runner) => runner.plugin.accountId));
  }

  /** Ends a blocked plugin's child at once, with what it is doing. */
  #block(plugin: InstalledPlugin, reason: string): void {
    if (!this.#runners.has(plugin.installationId)) return;
    this.#options.logs.system(plugin, 'warn', `It is stopped: the operator blocked this plugin: ${reason}`);
    void this.retire(plugin.installationId, 0);
  }

  /** Stops an installation's child and forgets it; what runs may end first, within the grace, but reaches nothing. */
  async retire(installationId: string, graceMs = DRAIN_MS): Promise<void> {
    const runner = this.#runners.get(installationId);
    if (!runner) return;
    this.#runners.delete(installationId);
    runner.withdraw();
    this.#startQueue.cancel(runner);
    await runner.stop(graceMs);
  }

  /** Process id of an installation's serving child. */
  pidOf(installationId: string): number | null {
    return this.#runners.get(installationId)?.pid ?? null;
  }

  /** Children by state, for the metrics. */
  count(): Record<string, number> {
    const counts: Record<string, number> = { spare: this.#spares.count };
    for (const runner of this.#runners.values()) {
      const { state } = runner.describe();
      counts[state] = (counts[state] ?? 0) + 1;
    }
    return counts;
  }

  /** Resident bytes of running children by slug, for the metrics. */
  memory(): Map<string, number> {
    const held = new Map<string, number>();
    for (const { plugin, child } of this.#loadedChildren())
      held.set(plugin.slug, (held.get(plugin.slug) ?? 0) + child.rss());
    return held;
  }

  /** Ends every child; running calls may end within the grace. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    clearInterval(this.#cpuTimer);
    this.#startQueue.close();
    await this.#spares.close();
    await Promise.all([...this.#runners.values()].map((runner) => runner.stop(graceMs)));
    await this.#flush();
  }

  /** Says why where its user looks. The first child that serves it, on a whole sandbox, takes that back. */
  #refuse({ installationId, updatedAt }: InstalledPlugin, reason: string): Promise<LinkResult> {
    if (this.#refused.get(installationId) !== updatedAt) {
      this.#refused.set(installationId, updatedAt);
      markFailed(this.#options.pool, installationId, reason).catch(this.#options.onError);
    }
    return Promise.resolve({ kind: 'unavailable', message: reason });
  }

  #runnerOf(plugin: InstalledPlugin): InstallationRunner {
    const known = this.#runners.get(plugin.installationId);
    if (known && plugin.status === 'uninstalling' && !hasLastWord(known)) {
      // Its last word is said in a child of its own: what ran before the uninstall reaches nothing any more.
      void this.retire(plugin.installationId);
    } else if (known) {
      // Events carry an entry read just now; the notice of the same change may still be on its way.
      if (plugin.updatedAt > known.plugin.updatedAt) known.update(plugin);
      return known;
    }
    const runner = new InstallationRunner(this.#deps, plugin);
    this.#runners.set(plugin.installationId, runner);
    this.#endIfBlocked(runner.installationId).catch(this.#options.onError);
    return runner;
  }

  /**
   * A chain or an event may have read its entry just before the plugin was blocked, and the notice came while there was
   * nothing to stop yet. What is committed after this look comes as a notice.
   */
  async #endIfBlocked(installationId: string): Promise<void> {
    if (await isBlocked(this.#options.pool, installationId)) await this.retire(installationId, 0);
  }

  #takeChild(installationId: string, inspectable: boolean): Spare {
    const { startInspectable } = this.#options;
    const spare = inspectable && startInspectable ? makeSpare(startInspectable) : this.#spares.take();
    spare.child.yieldProcessor(this.#cpuScheduler.isBehind(installationId, performance.now()));
    return spare;
  }

  *#loadedChildren(): Generator<ScheduledChild & LoadedChild> {
    for (const runner of this.#runners.values()) yield* runner.loadedChildren();
  }

  #countPlaces(): ReturnType<Places['count']> {
    let total = 0;
    let busy = 0;
    const busyByAccount = new Map<string, number>();
    for (const runner of this.#runners.values()) {
      // A start that waits has no process yet.
      const waiting = this.#startQueue.isWaiting(runner) ? 1 : 0;
      const children = runner.children - waiting;
      total += children;
      if (!runner.busy) continue;
      const { accountId } = runner.plugin;
      busy += children;
      busyByAccount.set(accountId, (busyByAccount.get(accountId) ?? 0) + children);
    }
    return { total, busy, busyOf: (accountId) => busyByAccount.get(accountId) ?? 0 };
  }

  /** Stops the process that was unused longest, one of this account if it has an idle one. */
  async #stopIdle(accountId: string): Promise<boolean> {
    const idle = [...this.#runners.values()].filter((runner) => runner.pid !== null && !runner.busy);
    const own = idle.filter((runner) => runner.plugin.accountId === accountId);
    const [longest] = (own.length > 0 ? own : idle).sort((a, b) => a.lastUsedAt - b.lastUsedAt);
    await longest?.stop(STOP_GRACE_MS);
    return longest !== undefined;
  }

  #sweep(): void {
    for (const loadedChild of this.#loadedChildren()) {
      const sample = { residentBytes: loadedChild.child.rss(), processorMs: loadedChild.takeProcessorMs() };
      this.#options.metrics.sampled(loadedChild.plugin, sample);
    }
    const idleSince = Date.now() - (this.#options.idleStopMs ?? IDLE_STOP_MS);
    for (const runner of this.#runners.values()) {
      if (runner.pid === null) continue;
      runner.noteStable();
      if (!runner.busy && runner.lastUsedAt < idleSince) void runner.stop(STOP_GRACE_MS);
      this.#save(runner);
    }
  }

  #noteFailed(runner: InstallationRunner, reason: string | null): void {
    const text = reason === null ? 'It runs again' : `It failed too often and is stopped: ${reason}`;
    this.#options.logs.system(runner.plugin, reason === null ? 'info' : 'error', text);
    markFailed(this.#options.pool, runner.installationId, reason).catch(this.#options.onError);
  }

  #save(runner: InstallationRunner): void {
    this.#dirty.set(runner.installationId, runner);
    this.#saver ??= setTimeout(() => {
      this.#saver = null;
      void this.#flush();
    }, SAVE_MS).unref();
  }

  async #flush(): Promise<void> {
    const runtimes: Runtime[] = [...this.#dirty.values()].map((runner) => runner.describe());
    this.#dirty.clear();
    this.#saving = this.#saving
      .then(() => saveRuntimes(this.#options.pool, runtimes, this.#options.lease))
      .catch((error: Error) => this.#options.onError(error));
    await this.#saving;
  }
}
