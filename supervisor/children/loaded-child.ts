/** One version of one installation in one child: loaded, called, moved out. */
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
import type { Child, ChildLogLine } from './child.ts';
import type { Outcome } from './child-calls.ts';
import type { ChildEnd } from './child-end.ts';
import { ChildError } from './child-errors.ts';
import { HANG_CHECK_MS } from './fleet-bounds.ts';
import type { Spare } from './spare-children.ts';

export interface LoadedChildDeps {
  readonly blobs: Blobs;
  readonly hostCallRouter: HostCallRouter;
  readonly invocations: Invocations;
  readonly logs: LogSink;
}
export interface LoadedChildHandlers {
  /** The installation as it stands now: grants and settings may have changed since the load. */
  readonly installation: LiveInstallation;
  /** Limits the installation's output, whichever child it comes from. */
  readonly output: TokenBucket;
  onExit(loadedChild: LoadedChild, end: ChildEnd): void;
}

/** Why a handler's own host calls end. One object: making an exception for each would cost more than the call. */
const OVER = 'the handler is over';

/** The source of what a plugin says outside any handler: while it loads, from timers, after its answer. */
const BACKGROUND = 'background';

export class LoadedChild {
  /** As it was loaded. */
  readonly plugin: InstalledPlugin;
  readonly child: Child;
  readonly startedAt = Date.now();
  lastUsedAt = Date.now();
  running = 0;
  #sampledMs = 0;
  /** Whether its end was our wish: then it is no crash. */
  leaving = false;
  /** Set after a timeout, until it is known whether the child was slow or hung. */
  hangCheck: Promise<unknown> | null = null;
  /** Whether its child can be inspected. */
  get inspectable(): boolean {
    return this.child.inspector !== null;
  }
  readonly #deps: LoadedChildDeps;
  readonly #gone = new AbortController();

  private constructor(deps: LoadedChildDeps, plugin: InstalledPlugin, spare: Spare, handlers: LoadedChildHandlers) {
    this.#deps = deps;
    this.plugin = plugin;
    this.child = spare.child;
    spare.adopt({
      onHostCall: (call) => {
        const { invocationId } = call;
        const ids = { installationId: plugin.installationId, ...(invocationId === null ? {} : { invocationId }) };
        return withOnlyLogIds(ids, () =>
          deps.hostCallRouter.handleCall(handlers.installation, call, this.#gone.signal),
        );
      },
      onLog: (line) => this.#log(line),
      onExit: (end) => {
        this.#gone.abort();
        handlers.onExit(this, end);
      },
    });
  }

  /**
   * Moves an installation into a child.
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
      // Read again at every start, and checked against its hash: a flipped bit in storage runs nowhere.
      const bundle = await deps.blobs.read(plugin.bundleSha256);
      await loadedChild.child.ready;
      loadedChild.child.chargeOutputTo(handlers.output);
      await loadedChild.child.load({
        bundle: bundle.toString('utf8') + (loadedChild.inspectable ? await sourceMapComment(deps.blobs, plugin) : ''),
        sourceName: formatSourceName(plugin),
        members: deps.hostCallRouter.listMembers(plugin.granted),
        settings: plugin.settings,
        secretNames: plugin.secretNames,
        expected: plugin.registrations,
      });
      return loadedChild;
    } catch (error) {
      loadedChild.leaving = true;
      await loadedChild.child.kill('it did not start');
      throw error;
    }
  }

  /** Whether this child can be asked for a target. */
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
    return withLogIds({ invocationId: call.invocationId, installationId }, () => this.#traced(call));
  }

  #traced(call: PluginCall): Promise<LinkResult> {
    if (!isTracing()) return this.#call(call);
    const { kind, name } = call.target;
    const { slug, installationId, semVer } = this.plugin;
    const facts = { kind, name, slug, installationId, semVer, invocationId: call.invocationId };
    return traced('call', { facts }, async (span) => {
      const result = await this.#call(call);
      span.note({ outcome: result.kind });
      if (result.kind !== 'answered' && result.kind !== 'cancelled') span.fail();
      return result;
    });
  }

  async #call(call: PluginCall): Promise<LinkResult> {
    const { invocationId } = call;
    // Made when a host call first asks: most handlers make none, and aborting one costs 20 µs.
    let over: AbortController | null = null;
    this.running += 1;
    this.lastUsedAt = Date.now();
    this.#deps.invocations.begin({
      id: invocationId,
      installationId: this.plugin.installationId,
      session: call.session,
      source: formatSource(call.target),
      trace: currentTrace(),
      get over() {
        over ??= new AbortController();
        return over.signal;
      },
      pauseBudget: () => this.#pause(invocationId),
    });
    try {
      const outcome = await this.child.invoke(call.target, call.context, {
        ...{ invocationId, deadlineAt: call.deadlineAt },
        ...(call.signal ? { signal: call.signal } : {}),
      });
      return fromOutcome(outcome);
    } catch (error) {
      if (error instanceof ChildError && error.kind === 'timeout') this.#startHangCheck();
      return fromError(error);
    } finally {
      this.running -= 1;
      this.lastUsedAt = Date.now();
      this.#deps.invocations.end(invocationId);
      (over as AbortController | null)?.abort(OVER);
    }
  }

  /** Processor time used since the last time this was asked, milliseconds. */
  takeProcessorMs(): number {
    const used = Math.max(this.#sampledMs, this.child.processorMs());
    const since = used - this.#sampledMs;
    this.#sampledMs = used;
    return since;
  }

  /** Takes over new settings and grants without a restart. */
  configure(plugin: InstalledPlugin): void {
    this.child.configure(plugin.settings, this.#deps.hostCallRouter.listMembers(plugin.granted));
  }

  /** Lets running calls end within the grace, then ends the child. */
  async leave(graceMs: number): Promise<void> {
    this.leaving = true;
    await this.child.stop({ graceMs });
  }

  /** A hung child is gone within this time of its deadline; a call sent meanwhile would only die with it. */
  #startHangCheck(): void {
    const { promise: patience, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, HANG_CHECK_MS);
    const doubt = Promise.race([patience, this.child.ended]).finally(() => {
      clearTimeout(timer);
      if (this.hangCheck === doubt) this.hangCheck = null;
    });
    this.hangCheck = doubt;
  }

  #pause(invocationId: string): () => void {
    this.child.pauseDeadline(invocationId);
    return () => this.child.resumeDeadline(invocationId);
  }

  #log(line: ChildLogLine): void {
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

/** A larger one would crowd the bundle out of its frame, bytes. */
const MAP_MAX_BYTES = 2 * MIB;
/** So that a debugger shows the author's own files. */
async function sourceMapComment(blobs: Blobs, { sourceMapSha256 }: InstalledPlugin): Promise<string> {
  const map = sourceMapSha256 === null ? null : await blobs.read(sourceMapSha256);
  if (map === null || map.byteLength > MAP_MAX_BYTES) return '';
  return `\n//# sourceMappingURL=data:application/json;base64,${map.toString('base64')}`;
}

function fromOutcome(outcome: Outcome): LinkResult {
  if (outcome.outcome === 'answered') return { kind: 'answered', answer: outcome.answer };
  if (outcome.outcome === 'cancelled') return { kind: 'cancelled', reason: outcome.reason };
  return { kind: 'error', message: outcome.message, stack: outcome.stack };
}

function fromError(error: unknown): LinkResult {
  if (!(error instanceof ChildError)) return { kind: 'error', message: 'the call failed inside' };
  if (error.kind === 'timeout') return { kind: 'timeout', message: error.message };
  if (error.kind === 'busy' || error.kind === 'aborted') return { kind: 'unavailable', message: error.message };
  return { kind: 'error', message: error.message, ...(error.interrupted ? { interrupted: true } : {}) };
}
