/** Runs one installation: the child that serves it, the one being started, the ones that drain, and the restart policy. */
import { randomInt } from 'node:crypto';
import { DRAFT_SEM_VER, type InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { LastExit, Runtime, RuntimeState } from '../../db/installations/installation-runtimes.ts';
import type { RollbackCause } from '../../db/installations/updates.ts';
import { stalledMs } from '../../service/timing/loop-stalls.ts';
import { perSecond, TokenBucket } from '../../service/timing/token-bucket.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { PluginCall } from '../calls/plugin-call.ts';
import { LiveInstallation } from '../host/live-installation.ts';
import type { Metrics } from '../records/metrics.ts';
import type { Child } from './child.ts';
import { type ChildEnd, STOPPED } from './child-end.ts';
import { ChildError } from './child-errors.ts';
import { withinBudget } from './deadline.ts';
import { DRAIN_MS, ROLLBACK_EXITS } from './fleet-bounds.ts';
import { LoadedChild, type LoadedChildDeps, type LoadedChildHandlers } from './loaded-child.ts';
import {
  admitInterruption,
  afterExit,
  afterLoad,
  afterPreventedStart,
  afterStableRun,
  afterStart,
  decide,
  fresh,
  listRecentExits,
  pickMainReason,
  type RestartState,
  STABLE_AFTER_MS,
} from './restart-policy.ts';
import type { Spare } from './spare-children.ts';
import {
  describeFailedStart,
  describeStartFailure,
  isStartPostponed,
  isStartPrevented,
  NoRoomError,
  pickPluginStack,
  type StartFailure,
} from './start-failure.ts';
import { hasSameConfiguration, startKey, versionKey } from './start-key.ts';

export interface RunnerDeps extends LoadedChildDeps {
  /** Rate limit of log lines and host calls. The bucket outlives the children, so that a restart does not refill it. */
  readonly outputBytesPerSecond: number;
  /** How long a freshly loaded version may take to answer, milliseconds. Default: `HEALTH_WITHIN_MS`. */
  readonly healthWithinMs?: number | undefined;
  /** Monotonic clock of the restart policy: a step of the wall clock must neither lengthen a backoff nor end it. Milliseconds. */
  readonly now: () => number;
  readonly metrics: Pick<Metrics, 'childEnded' | 'childStarted' | 'childRestarted'>;
  /**
   * Runs a start when the start queue allows it.
   *
   * @param signal gives up a start that still waits for its turn
   * @throws NoRoomError if that takes too long
   */
  startInTurn<T>(runner: InstallationRunner, start: () => Promise<T>, signal?: AbortSignal): Promise<T>;
  takeChild(plugin: InstalledPlugin, inspectable: boolean): Spare;
  /** Called when the runner's state changed and must be saved. */
  onChange(runner: InstallationRunner): void;
  /** Called when what `resolveServed` returns has changed, which changes the account's chains. */
  onServing(runner: InstallationRunner): void;
  /** Called when a child has ended in any way, before anything else is made of its end. */
  onEnded(loadedChild: LoadedChild): void;
  /** Called when a version crash-loops that may still be rolled back. */
  onCrashLoop(runner: InstallationRunner, loop: CrashLoop): void;
  /** Called when the installation has failed too often, with the reason for its user; with null when it works again. */
  onFailed(runner: InstallationRunner, reason: string | null): void;
}

/** The debugging session of an installation. */
export interface Inspector {
  /** Called when a child starts to serve the installation. */
  serve(child: Child): void;
  /** Called when no further child will serve it. */
  end(reason: string): void;
}

export interface CrashLoop {
  readonly versionId: string;
  /** One sentence for the user. */
  readonly reason: string;
  readonly cause: RollbackCause;
}

/** Makes a version current. @returns the installation as it is then; null: the update no longer counts */
export type RecordUpdate = () => Promise<InstalledPlugin | null>;

/**
 * `moved`: the new version serves. `failed`: it did not start, with the reason for its user. `dropped`: the update no
 * longer counts. `postponed`: it could not be tried now.
 */
export type UpdateOutcome =
  | { readonly kind: 'moved' | 'dropped' }
  | { readonly kind: 'failed' | 'postponed'; readonly reason: string };

/** A new version that runs and has answered, while it becomes current. */
interface Handover {
  readonly loadedChild: LoadedChild;
  /** Resolves when it serves, or never will. */
  readonly ended: Promise<void>;
}

type Acquired = { readonly loadedChild: LoadedChild } | { readonly refusal: string };
/** Longest restart backoff that a call waits for instead of failing: only the first backoff is this short. */
const WAIT_OUT_MS = 1_500;
/** A version that loads answers within milliseconds; a processor that others use too takes seconds. Milliseconds. */
const HEALTH_WITHIN_MS = 5_000;
/** How long calls wait while an update is recorded, before the old version answers them. Milliseconds. */
const HANDOVER_WAIT_MS = 1_000;
/** How long calls do not start a version again whose start failed while another one runs. Milliseconds. */
const REFUSED_PAUSE_MS = 60_000;
/** The same, where the machine prevented the start. Milliseconds. */
const POSTPONED_PAUSE_MS = 5_000;
const PERCENT = 100;
const CALLER_LEFT = 'the caller aborted the call before it began';

export class InstallationRunner {
  readonly installationId: string;
  /** On the monotonic clock. Milliseconds. */
  readonly createdAt = performance.now();
  retired = false;
  /** The supervisor is stopping: no update is carried out any more. */
  closing = false;
  /** The state that was saved last. */
  savedState: RuntimeState = 'stopped';
  #installation: LiveInstallation;
  readonly #deps: RunnerDeps;
  readonly #output: TokenBucket;
  #serving: LoadedChild | null = null;
  /** When `#serving` began to serve, by the clock of the restart policy. */
  #servingSince = 0;
  /** Calls that run or wait for a child. */
  #calls = 0;
  readonly #draining = new Set<LoadedChild>();
  /** Children of the start and of the update in progress. */
  readonly #loading = new Set<Child>();
  #starting: Promise<StartFailure | null> | null = null;
  /** Gives up that start while it waits for its turn. */
  #startCancel = new AbortController();
  /** Calls that wait for this start and whose callers have not left. */
  readonly #startCallers = new Set<PluginCall>();
  /** Whether the start continues without a caller. */
  #isStartKept = false;
  #updating: Promise<UpdateOutcome> | null = null;
  #handover: Handover | null = null;
  /** Grants of the version that an update is starting. */
  #candidate: LiveInstallation | null = null;
  #policy: RestartState = fresh;
  /** Times of the kills from outside that did not count as exits. A new version or a resume does not clear them. */
  #interruptions: readonly number[] = [];
  #chance = 0.5;
  /** Key of the version whose start failed while another one served, and when calls may start it again. */
  #refused: { readonly key: string; readonly until: number } | null = null;
  #inspector: Inspector | null = null;
  #failedShown = false;
  /** Reasons of the last ends, oldest first. */
  #endReasons: readonly string[] = [];
  #restarts = 0;
  #lastExit: LastExit | null = null;
  /** The reason of the last exit, for callers. */
  #lastRefusal = 'it did not start';
  /** Key of what `resolveServed` returned last. */
  #resolvedKey: string;

  constructor(deps: RunnerDeps, plugin: InstalledPlugin) {
    this.#deps = deps;
    this.#installation = new LiveInstallation(plugin);
    this.#output = new TokenBucket(perSecond(deps.outputBytesPerSecond));
    this.installationId = plugin.installationId;
    this.#failedShown = plugin.status === 'failed';
    this.#resolvedKey = chainKey(plugin);
  }

  /** The installation as last read from the database. */
  get plugin(): InstalledPlugin {
    return this.#installation.plugin;
  }
  /** Number of children, including starting and draining ones. */
  get children(): number {
    return (this.#serving ? 1 : 0) + (this.#starting ? 1 : 0) + (this.#updating ? 1 : 0) + this.#draining.size;
  }
  /** Number of children that run on to end their calls. */
  get draining(): number {
    return this.#draining.size;
  }
  get busy(): boolean {
    // A child with a debugger attached counts as busy even between calls, and one that has just started for a call before it.
    return this.#starting !== null || this.#updating !== null || this.#inspector !== null || this.#calls > 0;
  }
  /** How many ends of the last ten minutes count against the plugin. */
  get recentExits(): number {
    return listRecentExits(this.#policy, this.#deps.now()).length;
  }
  /** Whether a new runner would do the same: nothing runs, starts or has failed, and the output is not in debt. */
  get isForgettable(): boolean {
    const hasFailed = this.#restarts > 0 || this.#interruptions.length > 0 || this.#refused !== null;
    const isStopped = this.children === 0 && !this.busy && this.savedState === 'stopped';
    return isStopped && !hasFailed && this.#output.overdraw(0);
  }
  get isUpdating(): boolean {
    return this.#updating !== null;
  }
  get #isLeaving(): boolean {
    return this.retired || this.closing;
  }
  get lastUsedAt(): number {
    return this.#serving?.lastUsedAt ?? 0;
  }
  get lastCalledAt(): number {
    return this.#serving?.lastCalledAt ?? 0;
  }
  get pid(): number | null {
    return this.#serving?.child.pid ?? null;
  }

  *loadedChildren(): Generator<LoadedChild> {
    if (this.#serving) yield this.#serving;
    yield* this.#draining;
  }

  /** Returns the installation as chains use it until `onServing`. */
  resolveServed(): InstalledPlugin {
    const served = this.#served;
    this.#resolvedKey = chainKey(served);
    return served;
  }

  /**
   * While a new version starts: that version with the hooks of both, because the old one still runs its own, and what no
   * version ran must not pass. If the new version does not start: the old one, also with the hooks of both if it is required.
   */
  get #served(): InstalledPlugin {
    const serving = this.#serving?.plugin;
    if (!serving || versionKey(serving) === versionKey(this.plugin)) return this.plugin;
    const { registrations, required } = this.plugin;
    const hooks = [...new Set([...registrations.hooks, ...serving.registrations.hooks])];
    if (this.#refused?.key === this.#wanted) {
      const { versionId, semVer, texts, discovered, bundleSha256 } = serving;
      const served = required ? { ...serving.registrations, hooks } : serving.registrations;
      return { ...this.plugin, versionId, semVer, registrations: served, texts, discovered, bundleSha256 };
    }
    // The old version may judge whole messages only.
    const streams = (registrations.streams ?? []).filter(
      (hook) => !serving.registrations.hooks.includes(hook) || serving.registrations.streams?.includes(hook),
    );
    return { ...this.plugin, registrations: { ...registrations, hooks, streams } };
  }

  #setServing(serving: LoadedChild | null): void {
    this.#serving = serving;
    this.#servingSince = this.#deps.now();
    this.#announceServed();
  }

  #announceServed(): void {
    if (chainKey(this.#served) !== this.#resolvedKey) this.#deps.onServing(this);
  }

  /** Calls a handler and starts the child if needed. Never rejects. */
  async invoke(call: PluginCall): Promise<LinkResult> {
    this.#calls += 1;
    try {
      return await this.#invoke(call);
    } finally {
      this.#calls -= 1;
    }
  }

  async #invoke(call: PluginCall): Promise<LinkResult> {
    const stalledBefore = stalledMs();
    // Waits for the new version if it registers this handler. Otherwise the old one answers at once.
    if (this.#handover?.loadedChild.registers(call))
      await withinBudget(this.#handover.ended, Math.min(HANDOVER_WAIT_MS, call.deadlineAt - Date.now()));
    const serving = this.#serving;
    // After a timeout, it is not known yet whether the child was slow or hangs.
    if (serving?.hangCheck) await serving.hangCheck;
    if (serving && this.#isCurrent(serving)) return serving.invoke(call);
    // The child was killed but has not ended yet: this call waits for the next one.
    if (serving?.child.state === 'dead') await withinBudget(serving.child.ended, call.deadlineAt - Date.now());
    const acquired = await this.#acquireChild(call);
    if ('refusal' in acquired) return { kind: 'unavailable', message: acquired.refusal, isUnsent: true };
    if (call.signal?.aborted) return { kind: 'unavailable', message: CALLER_LEFT, isUnsent: true };
    return acquired.loadedChild.invoke({ ...call, deadlineAt: call.deadlineAt + stalledMs() - stalledBefore });
  }

  /** Whether the child serves, lives and runs the wanted version. One whose hang check is pending does: usually it is only slow. */
  #isCurrent(loadedChild: LoadedChild): boolean {
    return (
      this.#serving === loadedChild &&
      loadedChild.child.state === 'loaded' &&
      startKey(loadedChild.plugin, loadedChild.inspectable) === this.#wanted
    );
  }

  /** Key of the version and kind of child that should run. */
  get #wanted(): string {
    return startKey(this.plugin, this.#inspector !== null);
  }

  get #isRefused(): boolean {
    return this.#refused?.key === this.#wanted && this.#deps.now() < this.#refused.until;
  }

  get inspected(): boolean {
    return this.#inspector !== null;
  }

  /**
   * Runs the installation in a child that can be inspected, until `endInspection`.
   *
   * @returns why it does not run; null if it does
   */
  async inspect(inspector: Inspector): Promise<string | null> {
    this.#inspector = inspector;
    this.#refused = null;
    this.#announceServed();
    const started = await this.wake();
    if (started !== null) this.endInspection(inspector);
    return started;
  }

  /**
   * Starts the wanted version unless it already serves.
   *
   * @returns why it does not run; null if it does
   */
  async wake(): Promise<string | null> {
    // The start in progress may be of the previous version.
    await this.#starting;
    if (this.#serving && this.#isCurrent(this.#serving)) {
      // An update may have started it, which is no call: the call that this prepares finds it running.
      this.#serving.lastCalledAt = performance.now();
      return null;
    }
    return (await this.#start())?.reason ?? null;
  }

  /** Returns to an ordinary child. Idempotent. */
  endInspection(inspector: Inspector): void {
    if (this.#inspector !== inspector) return;
    this.#inspector = null;
    this.#refused = null;
    this.#announceServed();
    if (this.#serving && !this.retired) this.#replace();
    this.#deps.onChange(this);
  }

  /**
   * Starts a version beside the one that serves, has it recorded as current, and moves the traffic to it. Until then the
   * old version answers. One update at a time.
   *
   * @param target the installation with the new version and its grants
   * @param record makes the version current
   */
  async moveTo(target: InstalledPlugin, record: RecordUpdate): Promise<UpdateOutcome> {
    await this.#starting;
    // Its grants were withdrawn meanwhile, and the new version must not start with its own.
    if (this.#isLeaving) return { kind: 'postponed', reason: STOPPED };
    // In a later microtask, after `#updating` is set: the start queue counts this runner as starting.
    this.#updating = Promise.resolve()
      .then(() => this.#tryUpdate(target, record))
      .finally(() => {
        this.#updating = null;
        this.#candidate = null;
        this.#deps.onChange(this);
      });
    return this.#updating;
  }

  async #tryUpdate(target: InstalledPlugin, record: RecordUpdate): Promise<UpdateOutcome> {
    let loadedChild: LoadedChild;
    try {
      loadedChild = await this.#startPatiently(target);
    } catch (error) {
      const reason = describeStartFailure(error);
      const isInterrupted =
        this.#isLeaving ||
        isStartPrevented(error) ||
        (error instanceof ChildError && error.interrupted && this.#admitInterruption());
      if (isInterrupted) return { kind: 'postponed', reason };
      this.#deps.logs.system(target, 'error', `${target.semVer} does not start: ${reason}`, pickPluginStack(error));
      return { kind: 'failed', reason };
    }
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#handover = { loadedChild, ended };
    try {
      const recorded = this.#isLeaving ? null : await record();
      if (recorded === null) {
        await loadedChild.discard();
        return this.#isLeaving ? { kind: 'postponed', reason: STOPPED } : { kind: 'dropped' };
      }
      // Its settings may have changed since `target` was read.
      if (this.#handover) this.#adopt(recorded);
      return { kind: 'moved' };
    } catch (error) {
      // If it was recorded after all, the row is read again and starts the version once more.
      if (this.#handover) await loadedChild.discard();
      throw error;
    } finally {
      this.#handover = null;
      end();
    }
  }

  /** On a busy machine a good version may take too long once, so only the second time counts. */
  async #startPatiently(target: InstalledPlugin): Promise<LoadedChild> {
    try {
      return await this.#startHealthy(target);
    } catch (error) {
      const isTimeout = error instanceof ChildError && error.kind === 'timeout';
      if (!isTimeout || this.#isLeaving) throw error;
      return this.#startHealthy(target);
    }
  }

  /** Starts a version with grants of its own. Its end counts as a failure of the installation only once it serves. */
  async #startHealthy(target: InstalledPlugin): Promise<LoadedChild> {
    const installation = new LiveInstallation(target);
    this.#candidate = installation;
    const handlers = {
      installation,
      output: this.#output,
      onExit: (loadedChild: LoadedChild, end: ChildEnd) => {
        if (loadedChild.installation === this.#installation) this.#handleExit(loadedChild, end);
        else this.#deps.metrics.childEnded(classifyExit(loadedChild, end));
      },
    };
    const loadedChild = await this.#startInTurn(target, this.#inspector !== null, handlers);
    try {
      await loadedChild.child.checkHealth(this.#deps.healthWithinMs ?? HEALTH_WITHIN_MS);
      return loadedChild;
    } catch (error) {
      await loadedChild.discard();
      throw error;
    } finally {
      this.#loading.delete(loadedChild.child);
    }
  }

  /** Moves the traffic to the version that has become current. */
  #adopt(plugin: InstalledPlugin): void {
    const loadedChild = this.#handover?.loadedChild;
    this.#handover = null;
    if (!loadedChild) return;
    // Its children still run calls while they drain, and one may be starting.
    this.#installation.restrictTo(plugin);
    this.#installation = loadedChild.installation;
    this.#installation.update(plugin);
    this.#restrictDraining();
    this.#policy = fresh;
    this.#refused = null;
    this.#endInspectionOfDraft(plugin);
    this.#switchTo(loadedChild);
  }

  /** Revokes from the children of replaced versions what the current one does not have. */
  #restrictDraining(): void {
    for (const { installation } of this.#draining)
      if (installation !== this.#installation) installation.restrictTo(this.plugin);
  }

  #endInspectionOfDraft({ semVer }: InstalledPlugin): void {
    if (semVer !== DRAFT_SEM_VER) this.#inspector?.end('the installation has left its draft');
  }

  /** Applies the current row. */
  update(plugin: InstalledPlugin): void {
    const before = this.plugin;
    // Read before a change that this runner knows already.
    if (plugin.updatedAt < before.updatedAt) return;
    // The row was read before the update that wrote it has heard of its commit.
    if (this.#handover && versionKey(this.#handover.loadedChild.plugin) === versionKey(plugin)) {
      this.#adopt(plugin);
      return;
    }
    this.#installation.update(plugin);
    this.#restrictDraining();
    if (before.updatedAt !== plugin.updatedAt) {
      // A new version, a configure or a resume may have fixed the failure.
      this.#policy = fresh;
      this.#refused = null;
      this.#failedShown = plugin.status === 'failed';
      this.#deps.onChange(this);
    }
    this.#endInspectionOfDraft(plugin);
    const serving = this.#serving;
    if (!serving) return;
    if (startKey(serving.plugin, serving.inspectable) !== this.#wanted) this.#replace();
    else if (!hasSameConfiguration(before, plugin)) serving.configure(plugin);
  }

  /** Withdraws the grants: running host calls end and further ones are refused. */
  withdraw(): void {
    this.retired = true;
    this.#installation.withdraw();
    this.#candidate?.withdraw();
    for (const { installation } of this.#draining) installation.withdraw();
    this.#inspector?.end('the plugin was stopped or uninstalled');
  }

  /** Stops the children. Running calls may end within the grace. */
  async stop(graceMs: number): Promise<void> {
    // At once: a start or an update beside them may take seconds.
    const stopped = this.#stopLoaded(graceMs);
    // No call runs in them.
    if (this.#isLeaving) for (const child of this.#loading) void child.kill(STOPPED);
    await this.#starting;
    if (this.#isLeaving) await this.#updating?.catch(() => undefined);
    await Promise.all([stopped, this.#stopLoaded(graceMs)]);
    this.#deps.onChange(this);
  }

  /** Stops the children after their running calls. Later calls start another one at once, also after failures. */
  async restart(): Promise<void> {
    this.#policy = fresh;
    this.#refused = null;
    const stopped = this.#stopLoaded(DRAIN_MS);
    this.#inspector?.end('the plugin was restarted');
    this.#deps.onChange(this);
    await stopped;
  }

  async #stopLoaded(graceMs: number): Promise<void> {
    const draining = [...this.#draining].map((loadedChild) => loadedChild.stop(graceMs));
    await Promise.all([this.#stopServing(graceMs), ...draining]);
  }

  async #stopServing(graceMs: number): Promise<void> {
    const serving = this.#serving;
    if (!serving) return;
    this.#setServing(null);
    await this.#drain(serving, graceMs);
  }

  /** Reports a stable run to the restart policy. */
  recordStableRun(): void {
    const ranMs = this.#deps.now() - this.#servingSince;
    if (this.#serving && ranMs >= STABLE_AFTER_MS) this.#policy = afterStableRun(this.#policy);
  }

  describe(): Runtime {
    const serving = this.#serving;
    return {
      installationId: this.installationId,
      state: this.#describeState(),
      restarts: this.#restarts,
      lastExit: this.#lastExit,
      startedAt: serving ? new Date(serving.startedAt).toISOString() : null,
      rssBytes: serving ? serving.child.rss() : null,
      inspected: this.inspected,
    };
  }

  #describeState(): RuntimeState {
    if (this.#serving) return 'running';
    if (this.#starting) return 'starting';
    if (this.retired) return this.#draining.size > 0 ? 'draining' : 'stopped';
    const decision = decide(this.#policy, this.#deps.now(), this.#chance);
    if (decision.kind === 'failed') return 'failed';
    if (decision.kind === 'wait') return 'backoff';
    return this.#draining.size > 0 ? 'draining' : 'stopped';
  }

  async #acquireChild(call: PluginCall): Promise<Acquired> {
    const serving = this.#serving;
    // Dead: its end is not known yet, or it died while its update was recorded.
    if (serving && serving.child.state !== 'dead') {
      this.#replace();
      if (serving.registers(call)) return { loadedChild: serving };
      if (this.#isRefused) return { refusal: 'its current version does not start' };
    } else {
      const refusal = await this.#waitForBackoff(call.deadlineAt);
      if (refusal !== null) return { refusal };
    }
    if (call.signal?.aborted) return { refusal: CALLER_LEFT };
    const started = await withinBudget(this.#startFor(call), call.deadlineAt - Date.now());
    if (started === undefined) {
      // The next call finds it started.
      this.#isStartKept = true;
      return { refusal: 'it is still starting' };
    }
    if (started !== null) return { refusal: started.refusal };
    return this.#serving ? { loadedChild: this.#serving } : { refusal: 'it stopped right after its start' };
  }

  /** Waits for a short backoff. @returns why there can be no start in time; null if there can */
  async #waitForBackoff(deadlineAt: number): Promise<string | null> {
    if (this.#starting) return null;
    const decision = decide(this.#policy, this.#deps.now(), this.#chance);
    if (decision.kind === 'start') return null;
    const wait = decision.until - this.#deps.now();
    if (decision.kind === 'failed') return `it failed too often: ${this.#lastRefusal}`;
    const why = this.#policy.prevented ? `it did not start (${this.#lastRefusal})` : 'it crashed';
    if (wait > WAIT_OUT_MS || Date.now() + wait >= deadlineAt)
      return `${why}; the first call after ${Math.ceil(wait / 1000)} s starts it again`;
    await new Promise((resolve) => setTimeout(resolve, wait));
    return null;
  }

  /** Starts the wanted version beside the serving one, unless that failed before. */
  #replace(): void {
    if (this.#starting || this.#isRefused) return;
    this.#start();
  }

  /** As `#start`, but a start that still waits for its turn is given up when all its callers have left. */
  #startFor(call: PluginCall): Promise<StartFailure | null> {
    const { signal } = call;
    const wasKept = this.#starting !== null && this.#isStartKept;
    const started = this.#start();
    if (!signal || wasKept) return started;
    this.#isStartKept = false;
    this.#startCallers.add(call);
    const leave = () => {
      if (!this.#startCallers.delete(call) || this.#startCallers.size > 0 || this.#isStartKept) return;
      this.#startCancel.abort();
    };
    signal.addEventListener('abort', leave, { once: true });
    return started.finally(() => signal.removeEventListener('abort', leave));
  }

  /** Starts a child, one at a time. Resolves with null, or with why it did not start. */
  #start(): Promise<StartFailure | null> {
    this.#isStartKept = true;
    if (!this.#starting) this.#startCancel = new AbortController();
    // In a later microtask, after `#starting` is set: the start queue counts this runner as starting.
    this.#starting ??= Promise.resolve()
      .then(() => this.#tryStart())
      .finally(() => {
        this.#starting = null;
        this.#startCallers.clear();
        this.#deps.onChange(this);
      });
    this.#deps.onChange(this);
    return this.#starting;
  }

  async #tryStart(): Promise<StartFailure | null> {
    const { plugin } = this;
    const inspector = this.#inspector;
    this.#policy = afterStart(this.#policy);
    try {
      const handlers: LoadedChildHandlers = {
        installation: this.#installation,
        output: this.#output,
        onExit: (child, end) => this.#handleExit(child, end),
      };
      const loadedChild = await this.#startInTurn(plugin, inspector !== null, handlers, this.#startCancel.signal);
      this.#loading.delete(loadedChild.child);
      this.#policy = afterLoad(this.#policy);
      // Its caller may have left, and call again: the process must not be the first to give way until then.
      loadedChild.lastCalledAt = performance.now();
      const serving = this.#serving;
      // An update was carried out meanwhile.
      if (serving && versionKey(plugin) !== versionKey(this.plugin) && this.#isCurrent(serving))
        await this.#drain(loadedChild, 0);
      else this.#switchTo(loadedChild);
      return null;
    } catch (error) {
      return this.#handleFailedStart(plugin, inspector !== null, error);
    }
  }

  /** The child is in `#loading`: the caller removes it when it serves, or not. */
  #startInTurn(
    plugin: InstalledPlugin,
    inspected: boolean,
    handlers: LoadedChildHandlers,
    signal?: AbortSignal,
  ): Promise<LoadedChild> {
    const start = async () => {
      if (this.#isLeaving) throw new NoRoomError(STOPPED);
      const started = performance.now();
      const spare = this.#deps.takeChild(plugin, inspected);
      this.#loading.add(spare.child);
      try {
        const loadedChild = await LoadedChild.start(this.#deps, plugin, spare, handlers);
        this.#deps.metrics.childStarted((performance.now() - started) / 1000);
        return loadedChild;
      } catch (error) {
        this.#loading.delete(spare.child);
        throw error;
      }
    };
    return this.#deps.startInTurn(this, start, signal);
  }

  /** Moves the traffic to a child that has just started and drains the previous one. */
  #switchTo(loadedChild: LoadedChild): void {
    const old = this.#serving;
    loadedChild.lastCalledAt = Math.max(loadedChild.lastCalledAt, old?.lastCalledAt ?? 0);
    this.#setServing(loadedChild);
    if (this.retired) void this.stop(0);
    else if (old) {
      const { plugin } = loadedChild;
      if (versionKey(old.plugin) !== versionKey(plugin))
        this.#deps.logs.system(plugin, 'info', `${plugin.semVer} is ready and takes over from ${old.plugin.semVer}`);
      void this.#drain(old, DRAIN_MS);
    }
    if (loadedChild.inspectable) this.#inspector?.serve(loadedChild.child);
    // The configuration changed while the child started.
    if (
      versionKey(loadedChild.plugin) === versionKey(this.plugin) &&
      !hasSameConfiguration(loadedChild.plugin, this.plugin)
    )
      loadedChild.configure(this.plugin);
    if (this.#failedShown) {
      this.#failedShown = false;
      this.#deps.onFailed(this, null);
    }
  }

  async #drain(loadedChild: LoadedChild, graceMs: number): Promise<void> {
    this.#draining.add(loadedChild);
    this.#deps.onChange(this);
    await loadedChild.stop(graceMs);
    this.#draining.delete(loadedChild);
    this.#deps.onChange(this);
  }

  #handleFailedStart(plugin: InstalledPlugin, inspected: boolean, error: unknown): StartFailure {
    const failure = describeFailedStart(error);
    const { reason } = failure;
    const old = this.#serving;
    if (old) {
      const pauseMs = isStartPrevented(error) ? POSTPONED_PAUSE_MS : REFUSED_PAUSE_MS;
      this.#refused = { key: startKey(plugin, inspected), until: this.#deps.now() + pauseMs };
      const message = `${plugin.semVer} does not start, ${old.plugin.semVer} keeps running: ${reason}`;
      this.#deps.logs.sometimes(plugin, 'update', 'error', message, { data: {} });
      this.#announceServed();
      return failure;
    }
    if (isStartPostponed(error) || this.#isLeaving) return failure;
    const interrupted = error instanceof ChildError && error.interrupted;
    const end = { code: null, signal: null, interrupted };
    const message = `It does not start: ${reason}`;
    if (isStartPrevented(error)) {
      this.#deps.logs.sometimes(plugin, 'start', 'error', message, { data: {} });
      this.#recordEnd(failure, end);
      this.#policy = afterPreventedStart(this.#policy, this.#deps.now());
      this.#chance = randomInt(PERCENT) / PERCENT;
      return failure;
    }
    this.#deps.metrics.childRestarted(this.plugin, 'not_started');
    this.#deps.logs.system(plugin, 'error', message, pickPluginStack(error));
    this.#recordFailure(failure, end, { ranMs: 0, cause: 'not_started' });
    return failure;
  }

  #handleExit(loadedChild: LoadedChild, end: ChildEnd): void {
    this.#deps.onEnded(loadedChild);
    const kind = classifyExit(loadedChild, end);
    this.#deps.metrics.childEnded(kind);
    const isDiscarded = this.#isLeaving && end.requested && !loadedChild.hasLoaded;
    if (kind === 'stopped' || isDiscarded) return;
    if (this.#serving === loadedChild) this.#setServing(null);
    const excerpt = end.stderr.trim().slice(-STDERR_MAX_CHARS);
    this.#deps.logs.system(loadedChild.plugin, 'error', `The plugin's process ended: ${end.reason}`, {
      data: {
        code: end.code,
        signal: end.signal,
        ranMs: Math.round(end.ranMs),
        ...(excerpt ? { stderr: excerpt } : {}),
      },
    });
    // `#handleFailedStart` counts it.
    if (!loadedChild.hasLoaded) return;
    this.#deps.metrics.childRestarted(this.plugin, kind);
    this.#recordFailure({ reason: end.reason, refusal: end.reason }, end, { ranMs: end.ranMs, cause: kind });
    this.#deps.onChange(this);
  }

  /** A version that became current recently returns to the previous one. */
  #reportCrashLoop(reason: string, cause: RollbackCause): void {
    const { rollbackUntil, versionId } = this.plugin;
    // The database stores this time, so the wall clock decides.
    const isOver = rollbackUntil === null || Date.parse(rollbackUntil) < Date.now();
    if (isOver || this.#policy.exits.length < ROLLBACK_EXITS) return;
    this.#deps.onCrashLoop(this, { versionId, reason, cause });
  }

  /** Records a kill from outside. Returns false if it counts as an exit of the plugin. */
  #admitInterruption(): boolean {
    const admitted = admitInterruption(this.#interruptions, this.#deps.now());
    this.#interruptions = admitted ?? this.#interruptions;
    return admitted !== null;
  }

  /** Adds to `restarts`, and remembers the last end for the user and for callers. */
  #recordEnd({ reason, refusal }: StartFailure, { code, signal }: Pick<ChildEnd, 'code' | 'signal'>): void {
    this.#restarts += 1;
    this.#lastExit = { at: new Date().toISOString(), reason, code, signal };
    this.#lastRefusal = refusal;
  }

  /** @param cause of a return to the previous version */
  #recordFailure(
    failure: StartFailure,
    end: Pick<ChildEnd, 'code' | 'signal' | 'interrupted'>,
    { ranMs, cause }: { ranMs: number; cause: RollbackCause },
  ): void {
    const { reason } = failure;
    this.#recordEnd(failure, end);
    // SIGKILL from outside is not a crash of the plugin.
    if (end.interrupted && this.#admitInterruption()) return;
    this.#policy = afterExit(this.#policy, this.#deps.now(), ranMs);
    this.#endReasons = [...this.#endReasons, reason].slice(-this.#policy.exits.length);
    this.#reportCrashLoop(reason, cause);
    this.#chance = randomInt(PERCENT) / PERCENT;
    if (this.#policy.phase !== 'open' || this.#failedShown) return;
    this.#failedShown = true;
    this.#deps.onFailed(this, pickMainReason(this.#endReasons));
  }
}

/** Changes with what an account's chains use of the installation. */
const chainKey = ({ versionId, registrations }: InstalledPlugin): string =>
  `${versionId} ${registrations.hooks.toSorted().join()} ${registrations.streams?.toSorted().join() ?? ''}`;

/** Length of stderr in a log line's data, characters. */
const STDERR_MAX_CHARS = 4_000;

function classifyExit(loadedChild: LoadedChild, end: ChildEnd): 'stopped' | 'memory' | 'killed' | 'crashed' {
  if (loadedChild.isStopping) return 'stopped';
  if (end.outOfMemory) return 'memory';
  return end.requested ? 'killed' : 'crashed';
}
