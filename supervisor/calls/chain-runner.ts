/** Runs a hook's chain: calls one link after another and folds their results. */
import { randomUUIDv7 } from 'node:crypto';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { mayRun } from '../../db/installations/run-rule.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { traced } from '../../service/telemetry/tracing.ts';
import { unstalledNow } from '../../service/timing/loop-stalls.ts';
import { type AccountPlugins, findHookLink, listHookLinks } from '../children/account-plugins-cache.ts';
import type { LogSink } from '../records/log-sink.ts';
import type { Metrics } from '../records/metrics.ts';
import { appendStep, type ChainState, type Fold, foldLink, isOutdated, type LinkResult, startChain } from './chain.ts';
import { ChainTime } from './chain-time.ts';
import { digestGuards } from './guards.ts';
import { type PluginInvoker, pickStack, type UncountedTime } from './plugin-call.ts';
import type { HookRequest } from './plugin-port.ts';

export interface ChainDeps {
  readonly invoker: PluginInvoker;
  readonly logs: LogSink;
  readonly metrics: Metrics;
  readonly clock?: Clock;
}

/** Both in milliseconds. */
interface Clock {
  /** Is paused while the event loop is blocked. */
  budgetNow(): number;
  /** Since the epoch. */
  now(): number;
}
const realClock: Clock = { budgetNow: unstalledNow, now: Date.now };

interface ChainRequest extends Omit<HookRequest, 'accountId' | 'noticeId'> {
  /** The account's plugins as they are now. Called before each link, so that a change of the account counts at once. */
  loadPlugins(): AccountPlugins | Promise<AccountPlugins>;
}

const OUT_OF_TIME: LinkResult = {
  kind: 'unavailable',
  message: 'earlier links used up the chain’s time',
  isOutOfTime: true,
};
const NOTHING_UNCOUNTED: UncountedTime = { pausedMs: 0, hostDelayMs: 0 };
/** Compaction asks one plugin, also where that is uninstalled meanwhile. */
const ONE_LINK_HOOK: HookName = 'compaction.summarize';

/**
 * Runs a chain until the last link or the first cancel. The links that are left when its time is over are not called: they
 * are skipped, or cancel the operation where they are required. A required link is called once more where others
 * changed the context after it.
 */
export function runChain(deps: ChainDeps, request: ChainRequest): Promise<ChainState> {
  return traced('chain', { attributes: { hook: request.hook } }, async (span) => {
    const state = await runLinks(deps, request);
    span.setAttributes({ links: state.trace.length });
    return state;
  });
}

async function runLinks(deps: ChainDeps, request: ChainRequest): Promise<ChainState> {
  const { hook } = request;
  const { budgetNow } = deps.clock ?? realClock;
  const time = new ChainTime(hook);
  const ownWork = async <T>(work: () => T | Promise<T>): Promise<T> => {
    const startedAt = budgetNow();
    const result = await work();
    time.subtractHostWork(budgetNow() - startedAt);
    return result;
  };
  const started = performance.now();
  const called = new Set<string>();
  let plugins = await ownWork(() => request.loadPlugins());
  let state = startChain(request.context, digestGuards(plugins, hook));
  for (const plugin of plugins.idleByHook.get(hook) ?? []) logSkippedLink(deps, request, plugin, describeIdle(plugin));
  for (;;) {
    const plugin = findNext(listLinks(plugins, request), called, state);
    if (!plugin) break;
    called.add(plugin.installationId);
    state = await traceLink(plugin, () => runLink(deps, request, plugin, state, time));
    if (state.cancelled) break;
    const { completeChange } = request;
    const { context } = state;
    if (completeChange && state.trace.at(-1)?.outcome === 'changed')
      state = { ...state, context: await ownWork(() => completeChange(context)) };
    if (hook === ONE_LINK_HOOK) break;
    plugins = await ownWork(() => request.loadPlugins());
  }
  deps.metrics.chainRan(hook, performance.now() - started);
  return state;
}

const listLinks = (plugins: AccountPlugins, { hook, excludedInstallationId, isRepeated }: ChainRequest) =>
  listHookLinks(plugins, hook).filter(
    ({ installationId, required }) => installationId !== excludedInstallationId && (required || !isRepeated),
  );

/** The next link that was not called, or else a required one whose answer is about an earlier form of the context. */
function findNext(
  links: readonly InstalledPlugin[],
  called: ReadonlySet<string>,
  state: ChainState,
): InstalledPlugin | undefined {
  const next = links.find(({ installationId }) => !called.has(installationId));
  if (next) return next;
  const earlier = new Set<string>();
  return links.find(({ installationId, required }) => {
    if (required && isOutdated(state, installationId, earlier)) return true;
    earlier.add(installationId);
    return false;
  });
}

function traceLink({ slug, installationId }: InstalledPlugin, run: () => Promise<ChainState>): Promise<ChainState> {
  return traced('link', { attributes: { slug, installationId } }, async (span) => {
    const state = await run();
    span.setAttributes({ outcome: state.trace.at(-1)?.outcome ?? '' });
    return state;
  });
}

function notRunnable(plugin: InstalledPlugin): LinkResult {
  const advice =
    plugin.blockedReason === null
      ? 'Configure the plugin, or pause it to continue without it.'
      : 'Pause the plugin to continue without it.';
  return { kind: 'unavailable', message: describeIdle(plugin), advice };
}

/** Why a plugin that may not run is not called. */
export function describeIdle({ status, blockedReason }: InstalledPlugin): string {
  if (blockedReason !== null) return blockedReason;
  return status === 'paused' ? 'the installation is paused' : 'a setting or secret that it requires is missing';
}

/** Tells the author why the plugin does nothing. Deduplicated, because hooks run before every model call. */
function logSkippedLink(
  { logs }: ChainDeps,
  { hook, session }: ChainRequest,
  plugin: InstalledPlugin,
  reason: string,
): void {
  const detail = { sessionId: session?.id ?? null, data: { hook } };
  logs.sometimes(plugin, hook, 'warn', `${hook} was not called: ${reason}`, detail);
}

async function runLink(
  deps: ChainDeps,
  request: ChainRequest,
  plugin: InstalledPlugin,
  state: ChainState,
  time: ChainTime,
): Promise<ChainState> {
  const { hook, session } = request;
  if (!mayRun(plugin) && !plugin.required) {
    const reason = describeIdle(plugin);
    logSkippedLink(deps, request, plugin, reason);
    // A blocked plugin that is not required counts as not installed: it cancels nothing, even where a failing link does.
    return { ...state, trace: appendStep(state, plugin, 'skipped_unavailable', 0, reason) };
  }
  const { now, budgetNow } = deps.clock ?? realClock;
  const startedAt = now();
  const started = performance.now();
  const invocationId = randomUUIDv7();
  const budgetMs = time.linkBudgetMs;
  const deadlineAt = startedAt + budgetMs;
  const onEnd = request.onLink?.(invocationId);
  const call = async (): Promise<LinkResult> => {
    const calledAt = budgetNow();
    let uncounted: UncountedTime = NOTHING_UNCOUNTED;
    const answered = await deps.invoker.invoke(plugin, {
      target: { kind: 'hook', name: hook },
      invocationId,
      session,
      deadlineAt,
      context: buildContext(request, plugin, state, { invocationId, at: startedAt, deadlineAt }),
      onUncounted: (ofCall) => {
        uncounted = ofCall;
      },
    });
    time.subtract(budgetNow() - calledAt, uncounted);
    return answered;
  };
  let result: LinkResult = OUT_OF_TIME;
  if (!mayRun(plugin)) result = notRunnable(plugin);
  else if (budgetMs > 0) result = await call();
  onEnd?.();
  const ms = Math.round((performance.now() - started) * 1000) / 1000;
  let folded = foldLink(hook, state, plugin, result, ms);
  const fault = folded.state.context === state.context ? null : request.findFault?.(folded.state.context);
  if (fault) {
    result = { kind: 'error', message: `${hook}: ${fault}` };
    folded = foldLink(hook, state, plugin, result, ms);
  }
  const fold = folded.fault === null ? folded : await foldFailure(request, plugin, state, result, ms);
  recordLink(deps, hook, plugin, fold, { sessionId: session?.id ?? null, invocationId, ...pickStack(result) });
  return fold.state;
}

/**
 * Folds a failed link as its installation is by now: if it was paused or uninstalled meanwhile, it is not required any
 * more; if it was blocked, that is why it failed.
 */
async function foldFailure(
  request: ChainRequest,
  plugin: InstalledPlugin,
  state: ChainState,
  result: LinkResult,
  ms: number,
): Promise<Fold> {
  const present = findHookLink(await request.loadPlugins(), request.hook, plugin.installationId);
  const link = { ...plugin, required: present?.required ?? false };
  return foldLink(request.hook, state, link, present && !mayRun(present) ? notRunnable(present) : result, ms);
}

/** Records a link's outcome in the metrics, and what its author should know in the plugin's log. */
function recordLink(
  deps: ChainDeps,
  hook: HookName,
  plugin: InstalledPlugin,
  { state, fault }: Fold,
  { stack, ...details }: { sessionId: string | null; invocationId: string; stack?: string },
): void {
  const step = state.trace.at(-1);
  if (!step) return;
  const { outcome, ms } = step;
  deps.metrics.linkRan(hook, plugin, outcome, ms);
  if (outcome === 'skipped_unavailable' || outcome === 'vetoed_unavailable')
    deps.logs.sometimes(plugin, hook, 'error', `${hook} (${outcome}): ${fault}`, {
      ...details,
      data: { hook, outcome },
    });
  else if (fault !== null)
    deps.logs.system(plugin, 'error', `${hook} (${outcome}): ${fault}`, {
      ...details,
      data: { hook, outcome, ms, ...(stack ? { stack } : {}) },
    });
  else if (outcome === 'cancelled')
    deps.logs.system(plugin, 'info', `${hook} cancelled: ${state.cancelled?.reason}`, details);
}

function buildContext(
  { hook, session, actor, trigger, isRepeated }: ChainRequest,
  plugin: InstalledPlugin,
  { context, trace }: ChainState,
  call: { invocationId: string; at: number; deadlineAt: number },
): Record<string, unknown> {
  const { installationId, slug } = actor ?? plugin;
  const wasCalled = trace.some((step) => step.installationId === plugin.installationId);
  return {
    ...context,
    hook,
    invocationId: call.invocationId,
    settings: plugin.settings,
    agent: session ? { id: session.agentId, name: session.agentName } : { id: installationId, name: slug },
    session: { id: session?.id ?? installationId, channelId: session?.channelId ?? null },
    trigger,
    at: new Date(call.at).toISOString(),
    deadlineAt: new Date(call.deadlineAt).toISOString(),
    ...(isRepeated || wasCalled ? { repeated: true } : {}),
  };
}
