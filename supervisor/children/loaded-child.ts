/** One version of an installation, loaded in one child: its calls, host calls and log lines. */
import { addAbortListener } from 'node:events';
import type { Blobs } from '../../db/files/blobs.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { withLogIds, withOnlyLogIds } from '../../service/telemetry/log-ids.ts';
import { currentTrace, isTracing, traced } from '../../service/telemetry/tracing.ts';
import type { TokenBucket } from '../../service/timing/token-bucket.ts';
import type { LinkResult } from '../calls/chain.ts';
import type { HostCallRouter } from '../calls/host-call-router.ts';
import type { Invocations } from '../calls/invocations.ts';
import { formatSource, formatSourceName, type PluginCall } from '../calls/plugin-call.ts';
import type { LiveInstallation } from '../host/live-installation.ts';
import type { LogSink } from '../records/log-sink.ts';
import type { SecretMask, SecretMasks } from '../records/secret-mask.ts';
import { AnswerDeltas } from './answer-deltas.ts';
import { fromOutcome, maskError, maskResult } from './call-results.ts';
import type { Child, ChildLogLine } from './child.ts';
import type { ChildEnd } from './child-end.ts';
import { ChildError } from './child-errors.ts';
import { withinBudget } from './deadline.ts';
import type { Spare } from './spare-children.ts';
import { waitUntilReady } from './start-failure.ts';

export interface LoadedChildDeps {
  readonly blobs: Blobs;
  readonly hostCallRouter: HostCallRouter;
  readonly invocations: Invocations;
  readonly logs: LogSink;
  readonly masks: SecretMasks;
  /** How long a bundle may take to load and register, milliseconds. Default: `limits.loadBudgetMs`. */
  readonly loadWithinMs?: number | undefined;
}
export interface LoadedChildHandlers {
  /** The current installation: grants and settings may have changed since the load. */
  readonly installation: LiveInstallation;
  /** Limits the output of all children of the installation. */
  readonly output: TokenBucket;
  onExit(loadedChild: LoadedChild, end: ChildEnd): void;
}

/** Abort reason of a handler's host calls. A constant, because an exception for each would cost more than the call. */
const HANDLER_ENDED = 'the handler has ended';

/** After a timeout, how long to wait for a hung child to be killed before it counts as slow. Milliseconds. */
const HANG_CHECK_MS = 100;
/** Source of log lines written outside any handler: while loading, from timers, after the answer. */
const BACKGROUND = 'background';

export class LoadedChild {
  /** The installation at the time of the load. */
  readonly plugin: InstalledPlugin;
  readonly child: Child;
  /** Its grants and settings. An update gives each version its own. */
  readonly installation: LiveInstallation;
  readonly startedAt = Date.now();
  /** By the monotonic clock: that of the machine may step. Milliseconds. */
  readonly #loadedAt = performance.now();
  /** The last call of the installation, also by the child before, or the start for one. 0: only an update started the child. */
  lastCalledAt = 0;
  running = 0;
  /** Number of calls that the child has answered: no refused one, and none that was aborted. */
  answered = 0;
  #sampledMs = 0;
  /** Whether the supervisor is stopping the child, so that its exit is not a crash. */
  isStopping = false;
  /** Whether the child has loaded the bundle. An exit before that fails the start. */
  hasLoaded = false;
  /** Pending after a timeout, until it is known whether the child was slow or hung. */
  hangCheck: Promise<unknown> | null = null;
  get lastUsedAt(): number {
    return Math.max(this.#loadedAt, this.lastCalledAt);
  }
  get inspectable(): boolean {
    return this.child.inspector !== null;
  }
  readonly #deps: LoadedChildDeps;
  readonly #gone = new AbortController();

  private constructor(deps: LoadedChildDeps, plugin: InstalledPlugin, spare: Spare, handlers: LoadedChildHandlers) {
    this.#deps = deps;
    this.plugin = plugin;
    this.child = spare.child;
    this.installation = handlers.installation;
    spare.setHandlers({
      onHostCall: (call) => {
        const { invocationId } = call;
        const ids = { installationId: plugin.installationId, ...(invocationId === null ? {} : { invocationId }) };
        return withOnlyLogIds(ids, () =>
          deps.hostCallRouter.handleCall(handlers.installation, plugin, call, this.#gone.signal),
        );
      },
      onLog: (line) => this.#writeLog(line),
      onExit: (end) => {
        this.#gone.abort();
        handlers.onExit(this, this.#mask.isEmpty ? end : this.#maskEnd(end));
      },
    });
  }

  /**
   * Loads an installation into a child.
   *
   * @throws ChildError when the bundle does not load; Error when it cannot be read or does not match its hash
   */
  static async start(
    deps: LoadedChildDeps,
    plugin: InstalledPlugin,
    spare: Spare,
    handlers: LoadedChildHandlers,
  ): Promise<LoadedChild> {
    const loadedChild = new LoadedChild(deps, plugin, spare, handlers);
    try {
      // Read at every start, because the read checks the hash: a bundle damaged on disk must not run.
      const [bundle] = await Promise.all([
        deps.blobs.read(plugin.bundleSha256),
        deps.hostCallRouter.maskSecrets(plugin),
      ]);
      await waitUntilReady(loadedChild.child);
      loadedChild.child.chargeOutputTo(handlers.output);
      await loadedChild.child.load(
        {
          bundle:
            bundle.toString('utf8') + (loadedChild.inspectable ? await readSourceMapComment(deps.blobs, plugin) : ''),
          sourceName: formatSourceName(plugin),
          members: deps.hostCallRouter.listMembers(plugin.granted),
          settings: plugin.settings,
          secretNames: plugin.secretNames.filter((name) => Object.hasOwn(plugin.secretUses, name)),
          expected: plugin.registrations,
        },
        deps.loadWithinMs,
      );
      loadedChild.hasLoaded = true;
      return loadedChild;
    } catch (error) {
      loadedChild.isStopping = true;
      await loadedChild.child.kill('it did not start');
      throw error instanceof ChildError ? maskError(loadedChild.#mask, error) : error;
    }
  }

  /** Kills the child of an update that is not carried out. */
  async discard(): Promise<void> {
    this.isStopping = true;
    this.installation.withdraw();
    await this.child.kill('its update was not carried out');
  }

  registers(call: PluginCall): boolean {
    const { kind, name } = call.target;
    const known = this.plugin.registrations;
    if (kind === 'hook') return known.hooks.includes(name);
    if (kind === 'event') return known.events.includes(name);
    if (kind === 'channel') return known.channel[name as 'receive' | 'send' | 'handshake'] === true;
    return Object.hasOwn(known[kind], name);
  }

  /** Calls a handler. Never rejects. */
  invoke(call: PluginCall): Promise<LinkResult> {
    const { installationId } = this.plugin;
    return withLogIds({ invocationId: call.invocationId, installationId }, () => this.#traceCall(call));
  }

  #traceCall(call: PluginCall): Promise<LinkResult> {
    if (!isTracing()) return this.#runCall(call);
    const { kind, name } = call.target;
    const { slug, installationId, semVer } = this.plugin;
    const attributes = { kind, name, slug, installationId, semVer, invocationId: call.invocationId };
    return traced('call', { attributes }, async (span) => {
      const result = await this.#runCall(call);
      span.setAttributes({ outcome: result.kind });
      if (result.kind !== 'answered' && result.kind !== 'cancelled') span.markFailed();
      return result;
    });
  }

  async #runCall(call: PluginCall): Promise<LinkResult> {
    if (call.versionId !== undefined && call.versionId !== this.plugin.versionId)
      return { kind: 'unavailable', message: 'another version has become current' };
    const { invocationId } = call;
    // Created on first use: most handlers make no host call, and aborting costs 20 µs.
    let over: AbortController | null = null;
    this.running += 1;
    this.lastCalledAt = performance.now();
    this.#deps.invocations.begin({
      id: invocationId,
      installationId: this.plugin.installationId,
      session: call.session,
      kind: call.target.kind,
      source: formatSource(call.target),
      trace: currentTrace(),
      get over() {
        over ??= new AbortController();
        return over.signal;
      },
      beginHostCall: (budget) => this.child.beginHostCall(invocationId, budget),
    });
    // Opened, because the plugin may read its first secret between two deltas.
    const mask = call.onDelta && this.#deps.masks.open(this.plugin.installationId);
    const deltas = call.onDelta && mask ? new AnswerDeltas(mask, call.onDelta, call.signal) : null;
    try {
      const outcome = await this.child.invoke(call.target, call.context, {
        invocationId,
        deadlineAt: call.deadlineAt,
        signal: deltas?.signal ?? call.signal,
        onDelta: deltas?.receive,
        onUncounted: call.onUncounted,
      });
      this.answered += 1;
      const result = this.#finishResult(fromOutcome(outcome));
      return deltas ? await endInTime(deltas, result, call) : result;
    } catch (error) {
      if (error instanceof ChildError && error.kind === 'timeout') this.#startHangCheck();
      const result = this.#finishResult(fromError(error));
      return deltas ? await endInTime(deltas, result, call) : result;
    } finally {
      this.running -= 1;
      this.lastCalledAt = performance.now();
      this.#deps.invocations.end(invocationId);
      (over as AbortController | null)?.abort(HANDLER_ENDED);
    }
  }

  /** A handler that fails after its grants were withdrawn, as by a pause, was interrupted. */
  #finishResult(result: LinkResult): LinkResult {
    const masked = maskResult(this.#mask, result);
    return masked.kind === 'error' && this.installation.isWithdrawn ? { ...masked, interrupted: true } : masked;
  }

  /** Looked up each time: the secrets are read while the child starts. */
  get #mask(): SecretMask {
    return this.#deps.masks.get(this.plugin.installationId);
  }

  #maskEnd(end: ChildEnd): ChildEnd {
    return { ...end, reason: this.#mask.maskText(end.reason), stderr: this.#mask.maskText(end.stderr) };
  }

  /** Returns the CPU time used since the last call of this method, milliseconds. */
  takeProcessorMs(): number {
    const used = Math.max(this.#sampledMs, this.child.processorMs());
    const since = used - this.#sampledMs;
    this.#sampledMs = used;
    return since;
  }

  /** Applies new settings and grants without a restart. */
  configure(plugin: InstalledPlugin): void {
    this.child.configure(plugin.settings, this.#deps.hostCallRouter.listMembers(plugin.granted));
  }

  /** Stops the child. Running calls may end within the grace. */
  async stop(graceMs: number): Promise<void> {
    this.isStopping = true;
    await this.child.stop({ graceMs });
  }

  /** Holds new calls back until it is known whether the child hangs: a call sent to a hung child would be lost with it. */
  #startHangCheck(): void {
    const hangCheck = withinBudget(this.child.ended, HANG_CHECK_MS).finally(() => {
      if (this.hangCheck === hangCheck) this.hangCheck = null;
    });
    this.hangCheck = hangCheck;
  }

  #writeLog(line: ChildLogLine): void {
    const invocation = this.#deps.invocations.find(line.invocationId, this.plugin.installationId);
    this.#deps.logs.write(
      {
        plugin: this.plugin,
        sessionId: invocation?.session?.id ?? null,
        invocationId: invocation?.id ?? null,
        source: invocation?.source ?? BACKGROUND,
      },
      line,
    );
  }
}

/** Time to read an answer whose budget was paused or got longer, milliseconds. */
const READ_MIN_MS = 1_000;

/** A caller that does not read, or has left, must not keep the call open. */
async function endInTime(
  deltas: AnswerDeltas,
  result: LinkResult,
  { deadlineAt, signal }: PluginCall,
): Promise<LinkResult> {
  const { promise: left, resolve } = Promise.withResolvers<LinkResult>();
  const onAbort = (): void => resolve({ kind: 'unavailable', message: 'its caller left before it read the answer' });
  using _listening = signal && addAbortListener(signal, onAbort);
  const ms = Math.max(deadlineAt - Date.now(), READ_MIN_MS);
  const ended = await withinBudget(Promise.race([deltas.end(result), left]), ms);
  return ended ?? { kind: 'timeout', message: 'its caller did not read the answer in time' };
}

/** A larger source map would leave too little of the frame for the bundle. Bytes. */
const MAP_MAX_BYTES = 2 * MIB;
/** Returns the source map as a comment, so that a debugger shows the author's files. */
async function readSourceMapComment(blobs: Blobs, { sourceMapSha256 }: InstalledPlugin): Promise<string> {
  const map = sourceMapSha256 === null ? null : await blobs.read(sourceMapSha256);
  if (map === null || map.byteLength > MAP_MAX_BYTES) return '';
  return `\n//# sourceMappingURL=data:application/json;base64,${map.toString('base64')}`;
}

function fromError(error: unknown): LinkResult {
  if (!(error instanceof ChildError)) return { kind: 'error', message: 'the call failed inside the supervisor' };
  if (error.kind === 'timeout') return { kind: 'timeout', message: error.message, cause: error.blockedBy };
  if (error.kind === 'busy') return { kind: 'unavailable', message: error.message, overLimit: true, isUnsent: true };
  if (error.isUnsent) return { kind: 'unavailable', message: error.message, isUnsent: true };
  if (error.kind === 'aborted') return { kind: 'unavailable', message: error.message };
  return { kind: 'error', message: error.message, ...(error.interrupted ? { interrupted: true } : {}) };
}
