/** Declares every metric of the supervisor. docs/metrics.md is generated from this table. */
import { readyMetrics } from '../../service/lifecycle/readiness.ts';
import { bucketMetrics } from '../../service/storage/bucket-watch.ts';
import { backlogMetrics } from '../../service/telemetry/backlogs.ts';
import { diskMetrics } from '../../service/telemetry/disk-use.ts';
import type { MetricTable } from '../../service/telemetry/meters.ts';
import { poolMetrics } from '../../service/telemetry/pool-use.ts';

/** Seconds. A jailed hook call takes well under a millisecond; budgets end at 60 s. */
const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];
/** Seconds. Few buckets, because there is one histogram per plugin. */
const PLUGIN_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 15, 60];
/** Seconds. Webhooks may wait for a retry, or for a supervisor to return. */
const LAG_BUCKETS = [0.01, 0.05, 0.25, 1, 5, 30, 120, 600, 3_600];

export const supervisorMetrics = {
  bulkhead_invocations_total: {
    type: 'counter',
    help: 'Calls of handlers, by outcome: ok, cancelled, error, timeout, unavailable.',
    labels: ['slug', 'kind', 'name', 'outcome'],
  },
  bulkhead_invocation_seconds: {
    type: 'histogram',
    help: 'Time of one call of a handler, from the request to the validated result.',
    labels: ['slug', 'kind', 'name'],
    buckets: PLUGIN_BUCKETS,
  },
  bulkhead_turn_hook_seconds: {
    type: 'histogram',
    help: "Time all plugins together added to an agent's turn, by hook.",
    labels: ['hook'],
    buckets: CALL_BUCKETS,
  },
  bulkhead_host_calls_total: {
    type: 'counter',
    help: 'Host calls of plugins, by outcome, including denied ones.',
    labels: ['member', 'outcome'],
  },
  bulkhead_host_call_seconds: {
    type: 'histogram',
    help: 'Time to answer a host call.',
    labels: ['member'],
    buckets: CALL_BUCKETS,
  },
  bulkhead_denials_total: { type: 'counter', help: 'Host calls that were denied, by plugin.', labels: ['slug'] },
  bulkhead_children: { type: 'gauge', help: 'Children by state.', labels: ['state'] },
  bulkhead_children_busy_ratio: {
    type: 'gauge',
    help: 'Busy children as a share of CHILDREN. From 1, starts wait.',
    labels: [],
  },
  bulkhead_starts_waiting: {
    type: 'gauge',
    help: 'Starts of children that wait for room or for their turn.',
    labels: [],
  },
  bulkhead_child_start_seconds: {
    type: 'histogram',
    help: 'Time from the request for a child to its loaded bundle.',
    labels: [],
    buckets: CALL_BUCKETS,
  },
  bulkhead_child_exits_total: {
    type: 'counter',
    help: 'Children that ended, by reason: stopped, crashed, killed, memory.',
    labels: ['reason'],
  },
  bulkhead_child_restarts_total: {
    type: 'counter',
    help: 'Ends and failed starts that count against a plugin, by reason: crashed, killed, memory, not_started.',
    labels: ['slug', 'reason'],
  },
  // A gauge: the counter above appears with its first values, and `increase` misses those of a crash loop, which takes 15 s.
  bulkhead_plugin_recent_exits: {
    type: 'gauge',
    help: 'Ends and failed starts of the last ten minutes that count against a plugin: at most 5 for each installation.',
    labels: ['slug'],
  },
  bulkhead_plugin_memory_bytes: { type: 'gauge', help: 'Resident memory of running children.', labels: ['slug'] },
  bulkhead_plugin_cpu_seconds_total: {
    type: 'counter',
    help: 'Processor time of children, sampled every 15 s.',
    labels: ['slug'],
  },
  bulkhead_sandbox: {
    type: 'gauge',
    help: '1 for the state of the sandbox and the limiter of memory in use.',
    labels: ['state', 'limiter'],
  },
  bulkhead_event_attempts_total: { type: 'counter', help: 'Attempts to deliver events.', labels: ['type', 'outcome'] },
  bulkhead_webhook_lag_seconds: {
    type: 'histogram',
    help: 'Time from the arrival of a webhook request, its replay, or the time at which its installation could run again, to its delivery.',
    labels: [],
    buckets: LAG_BUCKETS,
  },
  ...backlogMetrics,
  bulkhead_deliveries_dead_total: {
    type: 'counter',
    help: 'Deliveries and events that became dead letters, by queue: webhooks, replies, events.',
    labels: ['queue'],
  },
  bulkhead_log_lines_total: {
    type: 'counter',
    help: 'Log lines of plugins and of the host about them, by result: written, or dropped over the limit, without memory or by the database.',
    labels: ['fate'],
  },
  bulkhead_log_queue_lines: { type: 'gauge', help: 'Log lines waiting to be written.', labels: [] },
  bulkhead_audit_entries_total: {
    type: 'counter',
    help: 'Audit entries by result: written, or dropped without memory or by the database.',
    labels: ['fate'],
  },
  bulkhead_audit_queue_entries: { type: 'gauge', help: 'Audit entries waiting to be written.', labels: [] },
  bulkhead_rollups_dropped: {
    type: 'gauge',
    help: 'Calls that GET /installations/{id}/metrics does not count because memory for them was full, since the start.',
    labels: [],
  },
  bulkhead_model_answers_total: {
    type: 'counter',
    help: 'Answers of configured models to plugins.',
    labels: ['slug', 'provider'],
  },
  bulkhead_model_tokens_total: {
    type: 'counter',
    help: 'Tokens of those answers.',
    labels: ['slug', 'provider', 'direction'],
  },
  bulkhead_model_cost_total: {
    type: 'counter',
    help: 'Cost of those answers, by the configured prices.',
    labels: ['slug', 'provider'],
  },
  bulkhead_session_request_seconds: {
    type: 'histogram',
    help: 'Time to answer a request of the session API, by route. Status 499: the client left before the answer.',
    labels: ['method', 'route', 'status'],
    buckets: CALL_BUCKETS,
  },
  ...readyMetrics,
  ...poolMetrics,
  ...diskMetrics,
  ...bucketMetrics,
} as const satisfies MetricTable;
