/** Runs a hook's chain: calls one link after another and folds their results. */
import { randomUUIDv7 } from 'node:crypto';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { traced } from '../../service/telemetry/tracing.ts';
import type { LogSink } from '../records/log-sink.ts';
import type { Metrics } from '../records/metrics.ts';
import {
  type ChainState,
  chainDeadline,
  type Fields,
  type Fold,
  foldLink,
  type LinkResult,
  linkDeadline,
  startChain,
} from './chain.ts';
import { type PluginInvoker, pickStack } from './plugin-call.ts';
import type { HookRequest } from './plugin-port.ts';

export interface ChainDeps {
  readonly invoker: PluginInvoker;
  readonly logs: LogSink;
  readonly metrics: Metrics;
  readonly now?: () => number;
}
interface ChainRequest extends Pick<HookRequest, 'hook' | 'session' | 'actor' | 'trigger' | 'context' | 'onLink'> {
  /** The links, in order. */
  readonly links: readonly InstalledPlugin[];
  /** Installations that are paused or not configured. They are not called; their own logs say so. */
  readonly idle: readonly InstalledPlugin[];
}

const OUT_OF_TIME: LinkResult = { kind: 'unavailable', message: 'earlier links used up the chain’s time' };

/** Runs a chain until the last link or the first cancel. Links that are left when its time is over are not called. */
export function runChain(deps: ChainDeps, request: ChainRequest): Promise<ChainState> {
  const facts = { hook: request.hook, links: request.links.length };
  return traced('chain', { facts }, () => runLinks(deps, request));
}

async function runLinks(deps: ChainDeps, request: ChainRequest): Promise<ChainState> {
  const now = deps.now ?? Date.now;
  const endsAt = chainDeadline(request.hook, now());
  const started = performance.now();
  let state = startChain(request.context);
  for (const plugin of request.idle) logSkippedLink(deps, request, plugin, describeIdle(plugin));
  for (const plugin of request.links) {
    if (state.cancelled) break;
    if (plugin.blockedReason !== null) {
      state = skipBlockedLink(state, plugin, plugin.blockedReason);
      logSkippedLink(deps, request, plugin, state.trace.at(-1)?.reason ?? '');
    } else state = await traceLink(plugin, () => runLink(deps, request, plugin, state, endsAt, now));
  }
  deps.metrics.chainRan(request.hook, performance.now() - started);
  return state;
}

/** A blocked plugin counts as not installed: it cancels nothing, even in a hook whose unavailable links do. */
function skipBlockedLink(state: ChainState, { installationId, slug }: InstalledPlugin, why: string): ChainState {
  const reason = `the operator blocked this plugin: ${why}`;
  const step = { installationId, slug, ms: 0, outcome: 'skipped_unavailable', reason } as const;
  return { ...state, trace: [...state.trace, step] };
}

function traceLink({ slug, installationId }: InstalledPlugin, run: () => Promise<ChainState>): Promise<ChainState> {
  return traced('link', { facts: { slug, installationId } }, async (span) => {
    const state = await run();
    span.note({ outcome: state.trace.at(-1)?.outcome ?? '' });
    return state;
  });
}

const describeIdle = ({ status }: InstalledPlugin): string =>
  status === 'paused' ? 'the installation is paused' : 'a setting or secret that it requires is missing';

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
  endsAt: number,
  now: () => number,
): Promise<ChainState> {
  const { hook, session } = request;
  const startedAt = now();
  const started = performance.now();
  const invocationId = randomUUIDv7();
  const deadlineAt = linkDeadline(hook, endsAt, startedAt);
  const onEnd = request.onLink?.(invocationId);
  const result =
    startedAt >= endsAt
      ? OUT_OF_TIME
      : await deps.invoker.invoke(plugin, {
          target: { kind: 'hook', name: hook },
          invocationId,
          session,
          deadlineAt,
          context: buildContext(request, plugin, state.context, { invocationId, at: startedAt, deadlineAt }),
        });
  onEnd?.();
  const ms = Math.round((performance.now() - started) * 1000) / 1000;
  const fold = foldLink(hook, state, { installationId: plugin.installationId, slug: plugin.slug }, result, ms);
  recordLink(deps, hook, plugin, fold, { sessionId: session?.id ?? null, invocationId, ...pickStack(result) });
  return fold.state;
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
  { hook, session, actor, trigger }: ChainRequest,
  plugin: InstalledPlugin,
  fields: Fields,
  call: { invocationId: string; at: number; deadlineAt: number },
): Record<string, unknown> {
  const { installationId, slug } = actor ?? plugin;
  return {
    ...fields,
    hook,
    invocationId: call.invocationId,
    settings: plugin.settings,
    agent: session ? { id: session.agentId, name: session.agentName } : { id: installationId, name: slug },
    session: { id: session?.id ?? installationId, channelId: session?.channelId ?? null },
    trigger,
    at: new Date(call.at).toISOString(),
    deadlineAt: new Date(call.deadlineAt).toISOString(),
  };
}
