/** Counts events for operators (the process's metrics) and for each installation (its rollups). */
import type { Pool } from 'pg';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { type Checks, setReady } from '../../service/lifecycle/readiness.ts';
import { bucketReaders } from '../../service/storage/bucket-watch.ts';
import { backlogReaders } from '../../service/telemetry/backlogs.ts';
import { diskReaders } from '../../service/telemetry/disk-use.ts';
import { type Meters, openMeters, SlugLabels } from '../../service/telemetry/meters.ts';
import { readPoolUse } from '../../service/telemetry/pool-use.ts';
import type { LinkOutcome } from '../calls/chain.ts';
import { supervisorMetrics } from './metric-table.ts';
import type { CallOutcome, CountedInstallation, Rollups } from './rollups.ts';

interface CountedPlugin extends CountedInstallation {
  readonly slug: string;
}
/** The called handler. Names chosen by authors (tools, commands, providers) appear in rollups only. */
interface CallTarget {
  readonly kind: string;
  readonly name: string;
}
export interface Metrics {
  readonly registry: Registry;
  linkRan(hook: string, plugin: CountedPlugin, outcome: LinkOutcome, ms: number): void;
  /** A whole chain of handlers. */
  chainRan(hook: string, ms: number): void;
  /** @param outcome kind of the call's result */
  targetRan(target: CallTarget, plugin: CountedPlugin, outcome: string, ms: number): void;
  hostCalled(member: string, outcome: string, plugin: CountedPlugin, ms: number): void;
  childEnded(reason: string): void;
  childRestarted(plugin: CountedPlugin, reason: string): void;
  childStarted(seconds: number): void;
  /** Resident memory of a running child, bytes, and processor time since the last sample, milliseconds. */
  sampled(plugin: CountedPlugin, sample: { readonly residentBytes: number; readonly processorMs: number }): void;
  logLines(written: number, dropped: number): void;
  auditEntries(written: number, dropped: number): void;
  /** One line of a plugin, written or over the limit. */
  lineTaken(installation: CountedInstallation, isKept: boolean): void;
  eventAttempted(type: string, outcome: string): void;
  deliveryDied(queue: DeliveryQueue): void;
  webhookDelivered(lagMs: number): void;
  /** A plugin's call of a configured model; the cost is in the operator's currency. */
  modelAnswered(plugin: CountedPlugin, provider: string, usage: ModelUsage, cost: number): void;
  sessionAnswered(method: string, route: string | undefined, status: number, ms: number): void;
  readyChecked(checks: Checks): void;
}
const DELIVERY_QUEUES = ['webhooks', 'replies', 'events'] as const;
type DeliveryQueue = (typeof DELIVERY_QUEUES)[number];
interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}
export interface Gauges {
  readonly dataDir: string;
  children(): Record<string, number>;
  load(): { readonly busyRatio: number; readonly startsWaiting: number };
  /** Resident bytes of each child. */
  memory(): Iterable<readonly [CountedPlugin, number]>;
  /** Ends of the last ten minutes that count against a plugin, of each installation. */
  recentExits(): Iterable<readonly [CountedPlugin, number]>;
  logQueue(): number;
  auditQueue(): number;
  isBlobStoreAvailable(): boolean;
  sandbox(): { readonly state: string; readonly limiter: string };
}
interface MetricsDeps {
  /** Supplies its queue length, and counts the pool's use. */
  readonly pool: Pool;
  readonly gauges: Gauges;
  readonly rollups: Rollups;
  /** Maximum number of slugs in labels. */
  readonly slugs: number;
}

type All = Meters<typeof supervisorMetrics>;
/** Names from the protocol, not chosen by authors. */
const NAMED_KINDS: ReadonlySet<string> = new Set(['hook', 'event', 'channel']);
const ANY_NAME = 'any';

export function createMetrics({ pool, gauges, rollups, slugs }: MetricsDeps): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const labels = new SlugLabels(slugs);
  const all = openMeters(registry, supervisorMetrics, createReaders(pool, gauges, rollups, labels));
  // Without an earlier value, Prometheus does not see the first increase.
  for (const queue of DELIVERY_QUEUES) all.bulkhead_deliveries_dead_total.inc({ queue }, 0);
  const count = callCounter(all, labels);
  const called = ({ kind, name }: CallTarget, plugin: CountedPlugin, outcome: CallOutcome, ms: number) => {
    count(kind, NAMED_KINDS.has(kind) ? name : ANY_NAME, plugin, outcome, ms);
    rollups.called(plugin, kind, name, outcome, ms);
  };
  return {
    registry,
    linkRan: (hook, plugin, outcome, ms) => called({ kind: 'hook', name: hook }, plugin, outcomes[outcome], ms),
    targetRan: (target, plugin, outcome, ms) => called(target, plugin, toOutcome(outcome), ms),
    hostCalled: (member, outcome, plugin, ms) => {
      all.bulkhead_host_calls_total.inc({ member, outcome });
      all.bulkhead_host_call_seconds.observe({ member }, ms / 1000);
      rollups.used(plugin, 'hostCalls');
      if (outcome !== 'denied') return;
      all.bulkhead_denials_total.inc({ slug: labels.getLabel(plugin) });
      rollups.used(plugin, 'denials');
    },
    lineTaken: (installation, isKept) => rollups.used(installation, isKept ? 'logLines' : 'droppedLines'),
    childEnded: (reason) => all.bulkhead_child_exits_total.inc({ reason }),
    childStarted: (seconds) => all.bulkhead_child_start_seconds.observe(seconds),
    childRestarted: (plugin, reason) => {
      all.bulkhead_child_restarts_total.inc({ slug: labels.getLabel(plugin), reason });
      rollups.used(plugin, 'restarts');
    },
    sampled: (plugin, { residentBytes, processorMs }) => {
      all.bulkhead_plugin_cpu_seconds_total.inc({ slug: labels.getLabel(plugin) }, processorMs / 1000);
      rollups.resident(plugin, residentBytes);
      if (processorMs > 0) rollups.used(plugin, 'processorMs', processorMs);
    },
    chainRan: (hook, ms) => all.bulkhead_turn_hook_seconds.observe({ hook }, ms / 1000),
    logLines: countFates(all.bulkhead_log_lines_total),
    auditEntries: countFates(all.bulkhead_audit_entries_total),
    deliveryDied: (queue) => all.bulkhead_deliveries_dead_total.inc({ queue }),
    readyChecked: (checks) => setReady(all.bulkhead_ready, checks),
    eventAttempted: (type, outcome) => all.bulkhead_event_attempts_total.inc({ type, outcome }),
    webhookDelivered: (lagMs) => all.bulkhead_webhook_lag_seconds.observe(lagMs / 1000),
    sessionAnswered: (method, route, status, ms) =>
      all.bulkhead_session_request_seconds.observe(
        { method, route: route ?? 'unknown', status: String(status) },
        ms / 1000,
      ),
    modelAnswered: (plugin, provider, { inputTokens, outputTokens }, cost) => {
      const slug = labels.getLabel(plugin);
      all.bulkhead_model_answers_total.inc({ slug, provider });
      all.bulkhead_model_tokens_total.inc({ slug, provider, direction: 'input' }, inputTokens);
      all.bulkhead_model_tokens_total.inc({ slug, provider, direction: 'output' }, outputTokens);
      all.bulkhead_model_cost_total.inc({ slug, provider }, cost);
    },
  };
}

/** Counts what was written and what was dropped. */
const countFates =
  (entries: { inc(labels: { readonly fate: string }, value: number): void }) =>
  (written: number, dropped: number): void => {
    if (written) entries.inc({ fate: 'written' }, written);
    if (dropped) entries.inc({ fate: 'dropped' }, dropped);
  };

function createReaders(pool: Pool, gauges: Gauges, rollups: Rollups, labels: SlugLabels) {
  return {
    bulkhead_children: (gauge) => {
      for (const [state, count] of Object.entries(gauges.children())) gauge.set({ state }, count);
    },
    bulkhead_children_busy_ratio: (gauge) => gauge.set(gauges.load().busyRatio),
    bulkhead_starts_waiting: (gauge) => gauge.set(gauges.load().startsWaiting),
    bulkhead_plugin_memory_bytes: (gauge) => {
      for (const [plugin, bytes] of gauges.memory()) gauge.inc({ slug: labels.getLabel(plugin) }, bytes);
    },
    bulkhead_plugin_recent_exits: (gauge) => {
      for (const [plugin, count] of gauges.recentExits()) gauge.inc({ slug: labels.getLabel(plugin) }, count);
    },
    bulkhead_sandbox: (gauge) => {
      const { state, limiter } = gauges.sandbox();
      gauge.set({ state, limiter }, 1);
    },
    bulkhead_log_queue_lines: (gauge) => gauge.set(gauges.logQueue()),
    bulkhead_audit_queue_entries: (gauge) => gauge.set(gauges.auditQueue()),
    bulkhead_rollups_dropped: (gauge) => gauge.set(rollups.dropped),
    bulkhead_database_connections: readPoolUse(pool),
    ...backlogReaders(pool),
    ...diskReaders(gauges.dataDir),
    ...bucketReaders(gauges.isBlobStoreAvailable),
  } satisfies Parameters<typeof openMeters<typeof supervisorMetrics>>[2];
}

const outcomes: Readonly<Record<LinkOutcome, CallOutcome>> = {
  changed: 'ok',
  unchanged: 'ok',
  cancelled: 'cancelled',
  skipped_error: 'error',
  skipped_timeout: 'timeout',
  skipped_unavailable: 'unavailable',
  vetoed_error: 'error',
  vetoed_timeout: 'timeout',
  vetoed_unavailable: 'unavailable',
};
const KNOWN: ReadonlySet<string> = new Set(['cancelled', 'timeout', 'unavailable'] satisfies CallOutcome[]);

function toOutcome(kind: string): CallOutcome {
  if (kind === 'answered') return 'ok';
  return KNOWN.has(kind) ? (kind as CallOutcome) : 'error';
}

/** The counters of one handler. */
interface CallRecord {
  readonly seconds: { observe(seconds: number): void };
  readonly counts: Map<CallOutcome, { inc(): void }>;
}

/** Caches a handler's counters, because prom-client sorts and joins the labels of every call. */
function callCounter(all: All, labels: SlugLabels) {
  const records = new Map<string, CallRecord>();
  return (kind: string, name: string, plugin: CountedPlugin, outcome: CallOutcome, ms: number): void => {
    const slug = labels.getLabel(plugin);
    const key = `${slug} ${kind} ${name}`;
    let record = records.get(key);
    if (!record) {
      record = { seconds: all.bulkhead_invocation_seconds.labels({ slug, kind, name }), counts: new Map() };
      records.set(key, record);
    }
    let count = record.counts.get(outcome);
    if (!count) {
      count = all.bulkhead_invocations_total.labels({ slug, kind, name, outcome });
      record.counts.set(outcome, count);
    }
    count.inc();
    record.seconds.observe(ms / 1000);
  };
}
