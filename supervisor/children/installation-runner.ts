/** One installation in the fleet: the child that serves it, the one being started, and when a dead one may start again. */
import { randomInt } from 'node:crypto';
import { DRAFT_SEM_VER, type InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { LastExit, Runtime, RuntimeState } from '../../db/installations/installation-runtimes.ts';
import { stalledMs } from '../../service/timing/loop-stalls.ts';
import { perSecond, TokenBucket } from '../../service/timing/token-bucket.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { PluginCall } from '../calls/plugin-call.ts';
import { LiveInstallation } from '../host/live-installation.ts';
import type { Child } from './child.ts';
import type { ChildEnd } from './child-end.ts';
import { withinBudget } from './deadline.ts';
import { DRAIN_MS, STABLE_AFTER_MS, WAIT_OUT_MS } from './fleet-bounds.ts';
import { LoadedChild, type LoadedChildDeps, type LoadedChildHandlers } from './loaded-child.ts';
import { afterExit, afterStableRun, afterStart, decide, fresh, type RestartState } from './restart-policy.ts';
import type { Spare } from './spare-children.ts';
import { NoRoomError, stackOf, startFailure } from './start-failure.ts';
import { sameConfiguration, startKey, versionKey } from './start-key.ts';

export interface RunnerDeps extends LoadedChildDeps {
  /** Log lines and host calls of one installation. The bucket outlives its children, so no plugin gains by starting again. */
  readonly outputBytesPerSecond: number;
  /** What the restart policy reckons with, milliseconds since the epoch. */
  readonly now: () => number;
  /** Runs a start when there is room and it is its turn. @throws NoRoomError where that does not come in time */
  startInTurn<T>(runner: InstallationRunner, start: () => Promise<T>): Promise<T>;
  takeChild(installationId: string, inspectable: boolean): Spare;
  /** The runner's state changed: write it down when convenient. */
  onChange(runner: InstallationRunner): void;
  /** The version that serves changed: what the account's chains are made of. */
  onServing(runner: InstallationRunner): void;
  onChildEnd(reason: string): void;
  onChildStart(seconds: number): void;
  /** An end or a failed start that counts against the plugin. */
  onRestart(runner: InstallationRunner, reason: string): void;
  /** The installation fails for good, with the reason its user reads; null: it works again. */
  onFailed(runner: InstallationRunner, reason: string | null): void;
}

/** Who debugs an installation's child: told which one serves, and when there will be none any more. */
export interface Inspector {
  serve(child: Child): void;
  end(reason: string): void;
}

type Acquired = { readonly loadedChild: LoadedChild } | { readonly refusal: string };
const PERCENT = 100;

export class InstallationRunner {
  readonly installationId: string;
  retired = false;
  readonly #installation: LiveInstallation;
  readonly #deps: RunnerDeps;
  readonly #handlers: LoadedChildHandlers;
  #serving: LoadedChild | null = null;
  readonly #draining = new Set<LoadedChild>();
  #starting: Promise<string | null> | null = null;
  #policy: RestartState = fresh;
  #chance = 0.5;
  /** The version whose start failed while another one served: not tried again until something changes. */
  #refused: string | null = null;
  #inspector: Inspector | null = null;
  #failedShown = false;
  #restarts = 0;
  #lastExit: LastExit | null = null;

  constructor(deps: RunnerDeps, plugin: InstalledPlugin) {
    this.#deps = deps;
    this.#installation = new LiveInstallation(plugin);
    this.#handlers = {
      installation: this.#installation,
      output: new TokenBucket(perSecond(deps.outputBytesPerSecond)),
      onExit: (loadedChild, end) => this.#ended(loadedChild, end),
    };
    this.installationId = plugin.installationId;
    this.#failedShown = plugin.status === 'failed';
  }

  /** The installation as its row says now. */
  get plugin(): InstalledPlugin {
    return this.#installation.plugin;
  }
  /** Children of this runner, the leaving ones among them. */
  get children(): number {
    return (this.#serving ? 1 : 0) + (this.#starting ? 1 : 0) + this.#draining.size;
  }
  get busy(): boolean {
    // Who debugs it looks at a child that does nothing just now.
    return this.#starting !== null || this.#inspector !== null || (this.#serving?.running ?? 0) > 0;
  }
  get lastUsedAt(): number {
    return this.#serving?.lastUsedAt ?? 0;
  }
  get pid(): number | null {
    return this.#serving?.child.pid ?? null;
  }

  /** Everything of it that runs. */
  *loadedChildren(): Generator<LoadedChild> {
    if (this.#serving) yield this.#serving;
    yield* this.#draining;
  }

  /** The entry whose code answers calls: the old version's while a new one does not start. */
  get effective(): InstalledPlugin {
    if (!this.#serving || this.#refused !== this.#wanted) return this.plugin;
    const { versionId, semVer, registrations, texts, discovered, bundleSha256 } = this.#serving.plugin;
    return { ...this.plugin, versionId, semVer, registrations, texts, discovered, bundleSha256 };
  }

  /** Calls a handler, starting or waking the child. Never rejects. */
  async invoke(call: PluginCall): Promise<LinkResult> {
    const stalledBefore = stalledMs();
    const serving = this.#serving;
    if (serving && this.#serves(serving)) return serving.invoke(call);
    if (serving?.hangCheck) await serving.hangCheck;
    // It was slow, not hung.
    if (serving && this.#serves(serving)) return serving.invoke(call);
    // Killed, but not gone yet: what comes now waits for its successor.
    if (serving?.child.state === 'dead') await withinBudget(serving.child.ended, call.deadlineAt - Date.now());
    const acquired = await this.#acquire(call);
    if ('refusal' in acquired) return { kind: 'unavailable', message: acquired.refusal };
    return acquired.loadedChild.invoke({ ...call, deadlineAt: call.deadlineAt + stalledMs() - stalledBefore });
  }

  /** Whether it is well and runs what the row wants. */
  #serves(loadedChild: LoadedChild): boolean {
    return (
      this.#serving === loadedChild &&
      isWell(loadedChild) &&
      startKey(loadedChild.plugin, loadedChild.inspectable) === this.#wanted
    );
  }

  /** What the row and its owner want to run. */
  get #wanted(): string {
    return startKey(this.plugin, this.#inspector !== null);
  }

  get inspected(): boolean {
    return this.#inspector !== null;
  }

  /**
   * Runs it in a child that can be inspected, until `endInspection`.
   *
   * @returns why that cannot be had; null: it runs
   */
  async inspect(inspector: Inspector): Promise<string | null> {
    this.#inspector = inspector;
    this.#refused = null;
    const started = await this.wake();
    if (started !== null) this.endInspection(inspector);
    return started;
  }

  /**
   * Sees to it that what the row wants serves, for its author.
   *
   * @returns why it does not; null: it does
   */
  async wake(): Promise<string | null> {
    // What is being started may be what was wanted before.
    await this.#starting;
    return this.#serving && this.#serves(this.#serving) ? null : this.#start();
  }

  /** Back to an ordinary child. Safe to call again. */
  endInspection(inspector: Inspector): void {
    if (this.#inspector !== inspector) return;
    this.#inspector = null;
    this.#refused = null;
    if (this.#serving && !this.retired) this.#replace();
    this.#deps.onChange(this);
  }

  /** Takes over what the row says now. */
  update(plugin: InstalledPlugin): void {
    const before = this.plugin;
    this.#installation.update(plugin);
    if (before.updatedAt !== plugin.updatedAt) {
      // A new version, a configure, a resume: whatever was wrong may be right now.
      this.#policy = fresh;
      this.#refused = null;
    }
    if (plugin.semVer !== DRAFT_SEM_VER) this.#inspector?.end('the installation has left its draft');
    const serving = this.#serving;
    if (!serving) return;
    if (startKey(serving.plugin, serving.inspectable) !== this.#wanted) this.#replace();
    else if (!sameConfiguration(before, plugin)) serving.configure(plugin);
  }

  /** It may not run any more: host calls under way end, and there are no further ones. */
  withdraw(): void {
    this.retired = true;
    this.#installation.withdraw();
    this.#inspector?.end('the plugin was stopped or uninstalled');
  }

  /** Stops the child; calls that run may end first. */
  async stop(graceMs: number): Promise<void> {
    await this.#starting;
    const serving = this.#serving;
    this.#serving = null;
    if (serving) await this.#drain(serving, graceMs);
    await Promise.all([...this.#draining].map((loadedChild) => loadedChild.leave(graceMs)));
    this.#deps.onChange(this);
  }

  /** Tells the restart policy that the child has been well for a while. */
  noteStable(): void {
    const serving = this.#serving;
    if (serving && Date.now() - serving.startedAt >= STABLE_AFTER_MS) this.#policy = afterStableRun(this.#policy);
  }

  describe(): Runtime {
    const serving = this.#serving;
    return {
      installationId: this.installationId,
      state: this.#state(),
      restarts: this.#restarts,
      lastExit: this.#lastExit,
      startedAt: serving ? new Date(serving.startedAt).toISOString() : null,
      rssBytes: serving ? serving.child.rss() : null,
      inspected: this.inspected,
    };
  }

  #state(): RuntimeState {
    if (this.#serving) return 'running';
    if (this.#starting) return 'starting';
    const decision = decide(this.#policy, this.#deps.now(), this.#chance);
    if (decision.kind === 'failed') return 'failed';
    if (decision.kind === 'wait') return 'backoff';
    return this.#draining.size > 0 ? 'draining' : 'stopped';
  }

  async #acquire(call: PluginCall): Promise<Acquired> {
    const serving = this.#serving;
    if (serving) {
      this.#replace();
      if (serving.registers(call)) return { loadedChild: serving };
    } else {
      const refusal = await this.#mayStart(call.deadlineAt);
      if (refusal !== null) return { refusal };
    }
    const started = await withinBudget(this.#start(), call.deadlineAt - Date.now());
    if (started === undefined) return { refusal: 'it is still starting' };
    if (started !== null) return { refusal: started };
    return this.#serving ? { loadedChild: this.#serving } : { refusal: 'it stopped right after its start' };
  }

  /** Null: yes. A short pause is waited out; a longer one fails at once, with the reason. */
  async #mayStart(deadlineAt: number): Promise<string | null> {
    if (this.#starting) return null;
    const decision = decide(this.#policy, this.#deps.now(), this.#chance);
    if (decision.kind === 'start') return null;
    const wait = decision.until - this.#deps.now();
    if (decision.kind === 'failed') return `it failed too often: ${this.#lastExit?.reason ?? 'it did not start'}`;
    if (wait > WAIT_OUT_MS || Date.now() + wait >= deadlineAt)
      return `it crashed and starts again in ${Math.ceil(wait / 1000)} s`;
    await new Promise((resolve) => setTimeout(resolve, wait));
    return null;
  }

  /** Starts the wanted version beside the serving one, unless it was tried and failed. */
  #replace(): void {
    if (this.#starting || this.#refused === this.#wanted) return;
    this.#start();
  }

  /** One start at a time. Resolves with null, or with why there is no child. */
  #start(): Promise<string | null> {
    // In a later step: the start queue counts this runner as starting.
    this.#starting ??= Promise.resolve()
      .then(() => this.#tryStart())
      .finally(() => {
        this.#starting = null;
        this.#deps.onChange(this);
      });
    this.#deps.onChange(this);
    return this.#starting;
  }

  async #tryStart(): Promise<string | null> {
    const { plugin } = this;
    const inspector = this.#inspector;
    this.#policy = afterStart(this.#policy);
    try {
      const loadedChild = await this.#deps.startInTurn(this, async () => {
        const started = performance.now();
        const spare = this.#deps.takeChild(plugin.installationId, inspector !== null);
        const child = await LoadedChild.start(this.#deps, plugin, spare, this.#handlers);
        this.#deps.onChildStart((performance.now() - started) / 1000);
        return child;
      });
      this.#serve(loadedChild);
      return null;
    } catch (error) {
      return this.#notStarted(plugin, inspector !== null, error);
    }
  }

  #serve(loadedChild: LoadedChild): void {
    const old = this.#serving;
    const before = this.effective;
    this.#serving = loadedChild;
    if (this.retired) void this.stop(0);
    else if (old) {
      if (versionKey(old.plugin) !== versionKey(loadedChild.plugin)) this.#tellSuccession(old, loadedChild);
      void this.#drain(old, DRAIN_MS);
    }
    if (loadedChild.inspectable) this.#inspector?.serve(loadedChild.child);
    // Changed while it started.
    if (
      versionKey(loadedChild.plugin) === versionKey(this.plugin) &&
      !sameConfiguration(loadedChild.plugin, this.plugin)
    )
      loadedChild.configure(this.plugin);
    if (this.#failedShown) {
      this.#failedShown = false;
      this.#deps.onFailed(this, null);
    }
    if (before.versionId !== this.effective.versionId) this.#deps.onServing(this);
  }

  #tellSuccession(old: LoadedChild, { plugin }: LoadedChild): void {
    this.#deps.logs.system(plugin, 'info', `${plugin.semVer} is ready and takes over from ${old.plugin.semVer}`);
  }

  async #drain(loadedChild: LoadedChild, graceMs: number): Promise<void> {
    this.#draining.add(loadedChild);
    this.#deps.onChange(this);
    await loadedChild.leave(graceMs);
    this.#draining.delete(loadedChild);
    this.#deps.onChange(this);
  }

  #notStarted(plugin: InstalledPlugin, inspected: boolean, error: unknown): string {
    const reason = startFailure(error);
    const old = this.#serving;
    if (old) {
      this.#refused = startKey(plugin, inspected);
      this.#deps.logs.system(
        plugin,
        'error',
        `${plugin.semVer} does not start, ${old.plugin.semVer} goes on: ${reason}`,
      );
      this.#deps.onServing(this);
      return reason;
    }
    if (error instanceof NoRoomError) return reason;
    this.#deps.logs.system(plugin, 'error', `It does not start: ${reason}`, stackOf(error));
    this.#deps.onRestart(this, 'not_started');
    this.#count(reason, null, 0);
    return reason;
  }

  #ended(loadedChild: LoadedChild, end: ChildEnd): void {
    const kind = loadedChild.leaving ? 'stopped' : end.outOfMemory ? 'memory' : end.asked ? 'killed' : 'crashed';
    this.#deps.onChildEnd(kind);
    if (loadedChild.leaving) return;
    this.#deps.onRestart(this, kind);
    if (this.#serving === loadedChild) this.#serving = null;
    const excerpt = end.stderr.trim().slice(-STDERR_MAX_CHARS);
    this.#deps.logs.system(loadedChild.plugin, 'error', `The plugin's process ended: ${end.reason}`, {
      data: {
        code: end.code,
        signal: end.signal,
        ranMs: Math.round(end.ranMs),
        ...(excerpt ? { stderr: excerpt } : {}),
      },
    });
    this.#count(end.reason, end, end.ranMs);
    this.#deps.onChange(this);
  }

  #count(reason: string, end: ChildEnd | null, ranMs: number): void {
    this.#restarts += 1;
    this.#lastExit = { at: new Date().toISOString(), reason, code: end?.code ?? null, signal: end?.signal ?? null };
    // Whoever was killed from outside did not fail.
    if (end?.interrupted) return;
    this.#policy = afterExit(this.#policy, this.#deps.now(), ranMs);
    this.#chance = randomInt(PERCENT) / PERCENT;
    if (this.#policy.phase !== 'open' || this.#failedShown) return;
    this.#failedShown = true;
    this.#deps.onFailed(this, reason);
  }
}

/** Stderr shown in a log line's data, characters. */
const STDERR_MAX_CHARS = 4_000;

const isWell = (loadedChild: LoadedChild): boolean =>
  loadedChild.hangCheck === null && loadedChild.child.state === 'loaded';
