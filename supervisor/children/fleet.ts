/** Manages all children of this supervisor: starts them on demand, stops idle ones, and bounds their number. */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import {
  findBlocked,
  type InstalledPlugin,
  loadInstalledPlugin,
  loadUpdateTarget,
} from '../../db/installations/account-plugins.ts';
import { markFailed, saveRuntimes } from '../../db/installations/installation-runtimes.ts';
import { isActive, mayUpdate } from '../../db/installations/run-rule.ts';
import { beginRollback } from '../../db/installations/updates.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import { asService } from '../../db/postgres/shares.ts';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import type { RetryingWriter } from '../../service/timing/retrying-writer.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { PluginCall, PluginInvoker } from '../calls/plugin-call.ts';
import type { Ownership } from '../cluster/ownership.ts';
import type { Metrics } from '../records/metrics.ts';
import type { Child, ChildHandlers } from './child.ts';
import {
  CpuScheduler,
  LOADING_BUSY_MIN_MS,
  type ScheduledChild,
  type ScheduledPlugin,
  UPDATE_EVERY_MS,
} from './cpu-scheduler.ts';
import { countSharePlaces, RETIRE_MS, ROLLBACK_EXITS, STOP_GRACE_MS } from './fleet-bounds.ts';
import {
  type CrashLoop,
  type Inspector,
  InstallationRunner,
  type RecordUpdate,
  type RunnerDeps,
  type UpdateOutcome,
} from './installation-runner.ts';
import type { LoadedChild, LoadedChildDeps } from './loaded-child.ts';
import { makeSpare, type Spare, SpareChildren } from './spare-children.ts';
import { type Places, StartQueue } from './start-queue.ts';

export interface FleetOptions
  extends LoadedChildDeps,
    Pick<RunnerDeps, 'outputBytesPerSecond' | 'healthWithinMs' | 'now'> {
  readonly pool: Pool;
  readonly ownership: Pick<Ownership, 'holds' | 'fence' | 'pool'>;
  readonly metrics: Metrics;
  readonly queues: Queues;
  readonly writes: RetryingWriter;
  start(handlers: ChildHandlers): Child;
  /** Starts a child that can be inspected; absent if inspection is disabled. */
  startInspectable?: ((handlers: ChildHandlers) => Child) | undefined;
  /** Largest number of children, without the spare. */
  readonly childrenMax: number;
  /** Why code may not run here; null if it may. @param isOperators whether an operator wrote it for their own account */
  findRefusal(isOperators: boolean): string | null;
  /** A child without calls for this long is stopped; starting it again takes some tens of milliseconds. */
  readonly idleStopMs: number;
  /** Children started in advance. Default: `SPARES`. */
  readonly spares?: number | undefined;
  /** A spare that runs already. */
  readonly firstSpare?: Spare | null | undefined;
  /** Called when other versions serve the account's chains. */
  onServing(accountId: string): void;
  /** Called when a failed installation runs again, after this was recorded. */
  onRecovered(plugin: Pick<InstalledPlugin, 'accountId' | 'installationId'>): void;
  onError(error: Error): void;
}

/** Interval of sweeps, milliseconds. */
const SWEEP_MS = 15_000;
/** Spare children: one hides the start-up time, more would only use memory. */
const SPARES = 1;
/** Interval of saving the states of children, milliseconds. */
const SAVE_MS = 200;
/** Refusals that are known to be recorded, some hundred bytes each. To record one again changes nothing. */
const REFUSALS_MAX = 10_000;

/** A child that loads a plugin or will load one. */
interface LoadingChild extends ScheduledChild {
  readonly child: Child;
}

/** While an installation is uninstalled its child runs only `pluginUninstalled`, and the removal stops it. */
const isUninstalling = (runner: InstallationRunner): boolean => runner.plugin.status === 'uninstalling';

export class Fleet implements PluginInvoker {
  readonly #options: FleetOptions;
  readonly #runners = new Map<string, InstallationRunner>();
  /** Retired runners whose children have not all ended. */
  readonly #leaving = new Set<InstallationRunner>();
  readonly #dirty = new Map<string, InstallationRunner>();
  /** `updatedAt` of the installations whose refusal is recorded, so that each is recorded once. */
  readonly #recordedRefusals = new LRUCache<string, string>({ max: REFUSALS_MAX });
  /** Runners whose block is looked up next. */
  readonly #blockable = new Set<string>();
  readonly #spares: SpareChildren;
  readonly #sweeper: NodeJS.Timeout;
  readonly #cpuScheduler = new CpuScheduler();
  readonly #loading = new Set<LoadingChild>();
  readonly #cpuTimer: NodeJS.Timeout;
  readonly #deps: RunnerDeps;
  readonly #startQueue: StartQueue;
  /** One at a time of an installation, so that an older one that is repeated does not replace a newer one. */
  readonly #statusWrites = new KeyedLocks();
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
    this.#spares = new SpareChildren(options.start, options.spares ?? SPARES, options.firstSpare);
    this.#sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref();
    this.#cpuTimer = setInterval(
      () => this.#cpuScheduler.update(this.#scheduledChildren(), performance.now()),
      UPDATE_EVERY_MS,
    ).unref();
    this.#deps = {
      ...options,
      startInTurn: (runner, start, signal) => this.#startQueue.run(runner, start, signal),
      takeChild: (plugin, inspectable) => this.#takeChild(plugin, inspectable),
      onChange: (runner) => this.#scheduleSave(runner),
      onServing: (runner) => options.onServing(runner.plugin.accountId),
      onEnded: (loadedChild) => this.#sample(loadedChild),
      onFailed: (runner, reason) => this.#recordFailed(runner, reason).catch(options.onError),
      onCrashLoop: (runner, loop) => this.#rollBack(runner, loop).catch(options.onError),
    };
  }

  /** Calls a plugin and starts its child if needed. */
  invoke(plugin: InstalledPlugin, call: PluginCall): Promise<LinkResult> {
    const stopped = this.#findStop(plugin);
    if (stopped !== null) return Promise.resolve({ kind: 'unavailable', message: stopped });
    const refused = this.findRefusal(plugin);
    if (refused !== null) return this.#refuseCall(plugin, refused);
    return this.#getRunner(plugin).invoke(call);
  }

  /** Starts the child of an installation that was just read. @returns why it does not run; null if it does */
  async wake(plugin: InstalledPlugin): Promise<string | null> {
    return this.#findStop(plugin) ?? this.findRefusal(plugin) ?? this.#getRunner(plugin).wake();
  }

  /**
   * Moves an installation to a version whose update is under way.
   *
   * @param target the installation with the new version and its grants
   */
  async update(plugin: InstalledPlugin, target: InstalledPlugin, record: RecordUpdate): Promise<UpdateOutcome> {
    if (this.#findStop(plugin) !== null) return { kind: 'dropped' };
    const refused = this.findRefusal(target);
    if (refused !== null) return { kind: 'postponed', reason: refused };
    const isNew = !this.#runners.has(plugin.installationId);
    const runner = this.#getRunner(plugin);
    const moved = runner.moveTo(target, record);
    // The rows may have been read just before a pause whose notification found no runner.
    if (isNew) this.#retireUnlessUpdated(runner).catch(this.#options.onError);
    return moved;
  }

  /**
   * Runs an installation in a child that can be inspected. The caller has checked the permission.
   *
   * @returns a function that ends the inspection, or why it cannot be inspected
   */
  async inspect(plugin: InstalledPlugin, inspector: Inspector): Promise<(() => void) | string> {
    const refused = this.#findStop(plugin) ?? this.findRefusal(plugin);
    if (refused !== null) return refused;
    const runner = this.#getRunner(plugin);
    return (await runner.inspect(inspector)) ?? (() => runner.endInspection(inspector));
  }

  /** Why no child of an account may start or be called now; null if it may. */
  #findStop({ accountId }: InstalledPlugin): string | null {
    if (this.#closed) return 'the supervisor is stopping';
    return this.#options.ownership.holds(accountId) ? null : 'the account moves to another supervisor';
  }

  /** Why this machine may not run a plugin; null if it may. */
  findRefusal(plugin: InstalledPlugin): string | null {
    return this.#options.findRefusal(plugin.isOperators && plugin.pluginOwnerId === plugin.accountId);
  }

  /**
   * Applies an account's current rows: starts new versions beside old ones and stops removed installations.
   *
   * @param readAt when the read of the rows began, on the monotonic clock. Milliseconds
   * @returns the installations with the versions that serve calls now
   */
  sync(accountId: string, plugins: readonly InstalledPlugin[], readAt: number): readonly InstalledPlugin[] {
    const present = new Set(plugins.map((plugin) => plugin.installationId));
    for (const runner of this.#runners.values())
      if (runner.plugin.accountId === accountId && !present.has(runner.installationId))
        this.#stopRemoved(runner, readAt);
    return plugins.map((plugin) => {
      if (plugin.blockedReason !== null) {
        this.#stopBlocked(plugin, plugin.blockedReason);
        return plugin;
      }
      const runner = this.#runners.get(plugin.installationId);
      // Its operator was demoted.
      if (runner && this.findRefusal(plugin) !== null) {
        void this.retire(plugin.installationId, 0);
        return plugin;
      }
      runner?.update(plugin);
      return runner?.resolveServed() ?? plugin;
    });
  }

  #stopRemoved(runner: InstallationRunner, readAt: number): void {
    if (isUninstalling(runner)) this.#endIfBlocked(runner.installationId);
    // One that lacked configuration is not among the account's plugins until its update is carried out.
    else if (runner.isUpdating && runner.pid === null) this.#retireUnlessUpdated(runner).catch(this.#options.onError);
    // An event may have started one that was installed or resumed after the rows were read.
    else if (runner.createdAt > readAt) void this.#stopUnlessActive(runner);
    else void this.retire(runner.installationId);
  }

  async #stopUnlessActive({ installationId }: InstallationRunner): Promise<void> {
    const plugin = await loadInstalledPlugin(this.#options.pool, installationId).catch((error: Error) => {
      this.#options.onError(error);
      // It stops: nothing else would stop one that was paused or uninstalled.
      return null;
    });
    const runner = this.#runners.get(installationId);
    if (runner && !(plugin && isActive(plugin))) this.#stopRemoved(runner, Number.POSITIVE_INFINITY);
  }

  async #retireUnlessUpdated({ installationId }: InstallationRunner): Promise<void> {
    const target = await loadUpdateTarget(this.#options.pool, installationId);
    const runner = this.#runners.get(installationId);
    const isWanted = target ? mayUpdate(target) : runner && isActive(runner.plugin);
    if (!isWanted) await this.retire(installationId);
  }

  /** Stops the children of accounts that another supervisor gets, and records that they are stopped. */
  async stopAccounts(isMoved: (accountId: string) => boolean, graceMs = STOP_GRACE_MS): Promise<void> {
    const isOfMoved = ({ plugin }: InstallationRunner) => isMoved(plugin.accountId);
    const moved = [...this.#runners.values()].filter(isOfMoved);
    const leaving = [...this.#leaving].filter(isOfMoved).map((runner) => runner.stop(graceMs));
    await Promise.all([...leaving, ...moved.map((runner) => this.retire(runner.installationId, graceMs))]);
    await this.#flush();
    for (const accountId of new Set(moved.map(({ plugin }) => plugin.accountId))) this.#options.onServing(accountId);
  }

  listAccounts(): ReadonlySet<string> {
    return new Set([...this.#runners.values()].map((runner) => runner.plugin.accountId));
  }

  /** Kills a blocked plugin's child with its running calls. */
  #stopBlocked(plugin: InstalledPlugin, reason: string): void {
    if (this.#runners.has(plugin.installationId)) this.#options.logs.system(plugin, 'warn', `Stopped: ${reason}`);
    void this.retire(plugin.installationId, 0);
  }

  /** Stops an installation's child and removes its runner. Running calls may end within the grace, but have no grants. */
  async retire(installationId: string, graceMs = RETIRE_MS): Promise<void> {
    // Children that drain already may get a shorter grace.
    for (const leaving of this.#leaving) if (leaving.installationId === installationId) void leaving.stop(graceMs);
    const runner = this.#runners.get(installationId);
    if (!runner) return;
    this.#runners.delete(installationId);
    this.#leaving.add(runner);
    runner.withdraw();
    this.#startQueue.cancel(runner);
    await runner.stop(graceMs).finally(() => this.#leaving.delete(runner));
  }

  /** Stops an installation's child after its running calls, which keep their grants, and forgets its failures. Later calls start another one. */
  async restart(installationId: string): Promise<void> {
    await this.#runners.get(installationId)?.restart();
  }

  /** Process id of the child that serves an installation. */
  getPid(installationId: string): number | null {
    return this.#runners.get(installationId)?.pid ?? null;
  }

  countByState(): Record<string, number> {
    const counts: Record<string, number> = { spare: this.#spares.count };
    for (const runner of this.#listAllRunners()) {
      const { state } = runner.describe();
      counts[state] = (counts[state] ?? 0) + 1;
    }
    return counts;
  }

  /** How full this supervisor is, for the metrics. */
  measureLoad(): { readonly busyRatio: number; readonly startsWaiting: number } {
    return { busyRatio: this.#startQueue.busyRatio, startsWaiting: this.#startQueue.waiting };
  }

  /** Resident bytes of each running child, for the metrics. */
  *measureMemory(): Generator<[InstalledPlugin, number]> {
    for (const { plugin, child } of this.#loadedChildren()) yield [plugin, child.rss()];
  }

  /** Ends of the last ten minutes that count against a plugin, of each installation, for the metrics. */
  *countRecentExits(): Generator<[InstalledPlugin, number]> {
    for (const { plugin, recentExits } of this.#runners.values()) if (recentExits > 0) yield [plugin, recentExits];
  }

  /** Stops every child. Running calls may end within the grace. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    clearInterval(this.#cpuTimer);
    this.#startQueue.close();
    for (const runner of this.#runners.values()) runner.closing = true;
    await this.#spares.close();
    await Promise.all([...this.#listAllRunners()].map((runner) => runner.stop(graceMs)));
    await this.#flush();
  }

  /** Records the refusal in the installation's status. The first child that serves it later clears the status. */
  #refuseCall({ installationId, accountId, updatedAt }: InstalledPlugin, reason: string): Promise<LinkResult> {
    if (this.#recordedRefusals.get(installationId) !== updatedAt) {
      this.#recordedRefusals.set(installationId, updatedAt);
      markFailed(this.#options.ownership.pool(accountId), installationId, reason).catch((error: Error) => {
        // The next call tries again.
        this.#recordedRefusals.delete(installationId);
        this.#options.onError(error);
      });
    }
    return Promise.resolve({ kind: 'unavailable', message: reason });
  }

  #getRunner(plugin: InstalledPlugin): InstallationRunner {
    const known = this.#runners.get(plugin.installationId);
    if (known && plugin.status === 'uninstalling' && !isUninstalling(known)) {
      // `pluginUninstalled` runs in a fresh child; the old one has lost its grants.
      void this.retire(plugin.installationId);
    } else if (known) {
      // An event may carry a newer row than the fleet, because the change notification has not arrived yet.
      if (plugin.updatedAt > known.plugin.updatedAt) known.update(plugin);
      return known;
    }
    const runner = new InstallationRunner(this.#deps, plugin);
    this.#runners.set(plugin.installationId, runner);
    this.#endIfBlocked(runner.installationId);
    return runner;
  }

  /**
   * A chain or an event may have read the row just before the plugin was blocked, and the notification may have come before
   * this runner existed. A block that is committed after this query arrives as a notification.
   */
  #endIfBlocked(installationId: string): void {
    // One query for all runners that are made together, so that they leave the database's connections to other accounts.
    if (this.#blockable.size === 0)
      setImmediate(() => asService(() => this.#endBlocked()).catch(this.#options.onError));
    this.#blockable.add(installationId);
  }

  async #endBlocked(): Promise<void> {
    const installationIds = [...this.#blockable];
    this.#blockable.clear();
    const blocked = await findBlocked(this.#options.pool, installationIds);
    await Promise.all(blocked.map((installationId) => this.retire(installationId, 0)));
  }

  #takeChild(plugin: InstalledPlugin, inspectable: boolean): Spare {
    const { startInspectable } = this.#options;
    const spare = inspectable && startInspectable ? makeSpare(startInspectable) : this.#spares.claim();
    spare.child.assignAccount(plugin.accountId);
    spare.child.setCpuClasses(this.#cpuScheduler.classifyStart(plugin, performance.now()));
    this.#loading.add({ child: spare.child, plugin, running: 1, busyMinMs: LOADING_BUSY_MIN_MS.plugin });
    return spare;
  }

  /** Limits and schedules a child that only loads code like those of the fleet. `plugin`: whom its use is counted for. */
  scheduleDraft(child: Child, plugin: ScheduledPlugin): void {
    child.assignAccount(plugin.accountId);
    this.#loading.add({ child, plugin, running: 1, busyMinMs: LOADING_BUSY_MIN_MS.draft });
  }

  /** Measures a loading child only once it is ready: its start uses as much CPU time as a CPU-bound child. */
  *#scheduledChildren(): Generator<ScheduledChild> {
    for (const loading of this.#loading) {
      const { state } = loading.child;
      if (state === 'ready') yield loading;
      else if (state !== 'spawning') this.#loading.delete(loading);
    }
    yield* this.#loadedChildren();
  }

  *#loadedChildren(): Generator<ScheduledChild & LoadedChild> {
    for (const runner of this.#listAllRunners()) yield* runner.loadedChildren();
  }

  /** An installation that was paused and resumed has several. */
  *#listAllRunners(): Generator<InstallationRunner> {
    yield* this.#runners.values();
    yield* this.#leaving;
  }

  #countPlaces(): ReturnType<Places['count']> {
    let total = 0;
    let busy = 0;
    const busyByAccount = new Map<string, number>();
    for (const runner of this.#listAllRunners()) {
      const children = this.#countProcesses(runner);
      total += children;
      const busyChildren = runner.busy ? children : runner.draining;
      if (busyChildren === 0) continue;
      const { accountId } = runner.plugin;
      busy += busyChildren;
      busyByAccount.set(accountId, (busyByAccount.get(accountId) ?? 0) + busyChildren);
    }
    return { total, busy, busyOf: (accountId) => busyByAccount.get(accountId) ?? 0 };
  }

  /** A waiting start has no process yet. */
  #countProcesses(runner: InstallationRunner): number {
    return runner.children - this.#startQueue.countWaiting(runner);
  }

  /**
   * Stops the idle child that was called longest ago, one of a required plugin last. An account that has its share of all places gives
   * up its own first, so that its many plugins do not stop those of all others.
   */
  #stopIdle(accountId: string): Promise<unknown> | null {
    const runners = [...this.#runners.values()];
    const isOwn = ({ plugin }: InstallationRunner): boolean => plugin.accountId === accountId;
    const own = runners.filter(isOwn).reduce((sum, runner) => sum + this.#countProcesses(runner), 0);
    const hasShare = own >= countSharePlaces(this.#options.childrenMax);
    const isKept = (runner: InstallationRunner) => Number(hasShare && !isOwn(runner));
    const isRequired = ({ plugin }: InstallationRunner) => Number(plugin.required);
    const [next] = runners
      .filter((runner) => runner.pid !== null && !runner.busy)
      .sort(
        (one, other) =>
          isKept(one) - isKept(other) ||
          isRequired(one) - isRequired(other) ||
          // A new version starts at thousands of followers: those do not take the places of plugins in use.
          one.lastCalledAt - other.lastCalledAt ||
          one.lastUsedAt - other.lastUsedAt,
      );
    return next?.stop(STOP_GRACE_MS) ?? null;
  }

  /** Samples the children, stops idle ones, and forgets what belongs to none. Runs every `SWEEP_MS`. */
  sweep(): void {
    for (const loadedChild of this.#loadedChildren()) this.#sample(loadedChild);
    const idleSince = performance.now() - this.#options.idleStopMs;
    for (const runner of this.#runners.values()) {
      // Nothing else saves the end of a backoff: the next call may come much later.
      if (runner.pid !== null || runner.describe().state !== runner.savedState) this.#scheduleSave(runner);
      if (runner.pid === null) continue;
      runner.recordStableRun();
      if (!runner.busy && runner.lastUsedAt < idleSince) void runner.stop(STOP_GRACE_MS);
    }
    // Saves again what the database did not take.
    if (this.#dirty.size > 0) this.#startSaver();
    this.#forgetStopped();
    // Not at the end of a child: a host call that it made may add another secret then, or write what must be masked.
    const kept = new Set([...this.#listAllRunners()].map(({ installationId }) => installationId));
    this.#options.masks.keepOnly((installationId) => kept.has(installationId));
  }

  /** Otherwise there would be a runner for every installation that has run since the start. */
  #forgetStopped(): void {
    for (const [installationId, runner] of this.#runners)
      if (runner.isForgettable && !this.#dirty.has(installationId)) this.#runners.delete(installationId);
  }

  /** Also called at the end of a child, so that one that dies between two sweeps is counted. */
  #sample(loadedChild: LoadedChild): void {
    const sample = { residentBytes: loadedChild.child.rss(), processorMs: loadedChild.takeProcessorMs() };
    this.#options.metrics.sampled(loadedChild.plugin, sample);
  }

  async #recordFailed({ plugin, installationId }: InstallationRunner, reason: string | null): Promise<void> {
    const text = reason === null ? 'It runs again' : `It failed too often and is stopped: ${reason}`;
    this.#options.logs.system(plugin, reason === null ? 'info' : 'error', text);
    const pool = this.#options.ownership.pool(plugin.accountId);
    await this.#writeStatus(installationId, () => markFailed(pool, installationId, reason));
    if (reason === null) this.#options.onRecovered(plugin);
  }

  async #rollBack(
    { installationId, plugin }: InstallationRunner,
    { versionId, reason, cause }: CrashLoop,
  ): Promise<void> {
    const text = `it ended ${ROLLBACK_EXITS} times soon after the update: ${reason}`;
    const update = { installationId, versionId };
    const pool = this.#options.ownership.pool(plugin.accountId);
    const begin = () => beginRollback(pool, this.#options.queues, update, { reason: text, cause });
    const start = await this.#writeStatus(installationId, begin);
    if (start.kind === 'not_due') return;
    const returns =
      start.kind === 'begun'
        ? 'returns to the previous version'
        : `does not return to the previous version (${start.why})`;
    this.#options.logs.system(plugin, 'error', `${plugin.semVer} ${returns}: ${text}`);
  }

  #writeStatus<T>(installationId: string, write: () => Promise<T>): Promise<T> {
    return this.#statusWrites.run(installationId, () => this.#options.writes.write(write));
  }

  #scheduleSave(runner: InstallationRunner): void {
    // A retired runner must not overwrite the state of the one that followed it.
    if (runner.retired && this.#runners.has(runner.installationId)) return;
    this.#dirty.set(runner.installationId, runner);
    this.#startSaver();
  }

  #startSaver(): void {
    this.#saver ??= setTimeout(() => {
      this.#saver = null;
      void this.#flush();
    }, SAVE_MS).unref();
  }

  async #flush(): Promise<void> {
    const { ownership } = this.#options;
    const runners = [...this.#dirty.values()].filter(({ plugin }) => ownership.holds(plugin.accountId));
    const runtimes = runners.map((runner) => {
      const runtime = runner.describe();
      runner.savedState = runtime.state;
      return { ...runtime, epoch: ownership.fence(runner.plugin.accountId).epoch };
    });
    this.#dirty.clear();
    this.#saving = this.#saving
      .then(() => asService(() => saveRuntimes(this.#options.pool, runtimes)))
      .catch((error: Error) => {
        for (const runner of runners) this.#saveAgain(runner);
        this.#options.onError(error);
      });
    await this.#saving;
  }

  /** Has the state saved with the next ones: that of the installation's present runner, if there is another by now. */
  #saveAgain(runner: InstallationRunner): void {
    const { installationId } = runner;
    if (!this.#dirty.has(installationId)) this.#dirty.set(installationId, this.#runners.get(installationId) ?? runner);
  }
}
