/** The panels of the Grafana dashboard, from which `npm run -s generate` makes `dashboards/bulkhead.json`. */
interface Panel {
  readonly title: string;
  readonly what: string;
  readonly unit: string;
  /** Legend and query. */
  readonly queries: readonly (readonly [legend: string, expr: string])[];
  readonly kind?: 'timeseries' | 'stat';
}

const p99 = (metric: string, by: string): string =>
  `histogram_quantile(0.99, sum by (le, ${by}) (rate(${metric}_bucket[$__rate_interval])))`;

export const rows: Readonly<Record<string, readonly Panel[]>> = {
  'User experience': [
    {
      title: 'Time plugins add to an agent’s turn (p99)',
      what: 'All plugins of a chain together, by hook.',
      unit: 's',
      queries: [['{{hook}}', p99('bulkhead_turn_hook_seconds', 'hook')]],
    },
    {
      title: 'Calls of plugins by outcome',
      what: 'ok and cancelled are normal; see each plugin’s log for the others.',
      unit: 'reqps',
      queries: [['{{outcome}}', 'sum by (outcome) (rate(bulkhead_invocations_total[$__rate_interval]))']],
    },
    {
      title: 'Answers of the session API by status',
      what: '5xx: agents run without their plugins, or not at all.',
      unit: 'reqps',
      queries: [['{{status}}', 'sum by (status) (rate(bulkhead_session_request_seconds_count[$__rate_interval]))']],
    },
    {
      title: 'REST answers by status',
      what: 'Of the API.',
      unit: 'reqps',
      queries: [['{{status}}', 'sum by (status) (rate(bulkhead_http_request_seconds_count[$__rate_interval]))']],
    },
  ],
  Plugins: [
    {
      title: 'Failing calls by plugin',
      what: 'Errors, timeouts and calls that could not be made.',
      unit: 'reqps',
      queries: [
        [
          '{{slug}}',
          'topk(10, sum by (slug) (rate(bulkhead_invocations_total{outcome=~"error|timeout|unavailable"}[$__rate_interval])))',
        ],
      ],
    },
    {
      title: 'Slowest calls by plugin (p99)',
      what: 'From the request to the validated result.',
      unit: 's',
      queries: [['{{slug}}', `topk(10, ${p99('bulkhead_invocation_seconds', 'slug')})`]],
    },
    {
      title: 'Memory by plugin',
      what: 'Resident memory of running processes.',
      unit: 'bytes',
      queries: [['{{slug}}', 'topk(10, sum by (slug) (bulkhead_plugin_memory_bytes))']],
    },
    {
      title: 'Processor by plugin',
      what: 'Cores.',
      unit: 'short',
      queries: [['{{slug}}', 'topk(10, sum by (slug) (rate(bulkhead_plugin_cpu_seconds_total[$__rate_interval])))']],
    },
    {
      title: 'Processes by state',
      what: 'spare: started in advance for the next installation.',
      unit: 'short',
      queries: [['{{state}}', 'sum by (state) (bulkhead_children)']],
    },
    {
      title: 'Restarts by plugin',
      what: 'Ends and failed starts that count against a plugin.',
      unit: 'short',
      queries: [
        ['{{slug}} {{reason}}', 'sum by (slug, reason) (increase(bulkhead_child_restarts_total[$__rate_interval]))'],
      ],
    },
    {
      title: 'Starts of processes (p99)',
      what: 'From the request to the loaded bundle. A start counts into the first call.',
      unit: 's',
      queries: [
        ['p99', 'histogram_quantile(0.99, sum by (le) (rate(bulkhead_child_start_seconds_bucket[$__rate_interval])))'],
      ],
    },
    {
      title: 'Busy processes and waiting starts',
      what: 'busy: share of CHILDREN, by supervisor. From 1 on, starts wait.',
      unit: 'short',
      queries: [
        ['busy {{instance}}', 'max by (instance) (bulkhead_children_busy_ratio)'],
        ['waiting', 'sum(bulkhead_starts_waiting)'],
      ],
    },
    {
      title: 'Tokens of models by plugin',
      what: 'Input and output of configured models, per second.',
      unit: 'short',
      queries: [['{{slug}}', 'topk(10, sum by (slug) (rate(bulkhead_model_tokens_total[$__rate_interval])))']],
    },
    {
      title: 'Cost of models by plugin',
      what: 'In the last 24 hours, by the configured prices.',
      unit: 'short',
      queries: [['{{slug}}', 'topk(10, sum by (slug) (increase(bulkhead_model_cost_total[24h])))']],
    },
    {
      title: 'Denied host calls by plugin',
      what: 'Host calls without a declared capability, or beyond a quota.',
      unit: 'reqps',
      queries: [['{{slug}}', 'sum by (slug) (rate(bulkhead_denials_total[$__rate_interval]))']],
    },
  ],
  'Webhooks and events': [
    {
      title: 'Webhooks answered, by status',
      what: 'A request answered with 200 is stored durably.',
      unit: 'reqps',
      queries: [['{{status}}', 'sum by (status) (rate(bulkhead_webhook_answer_seconds_count[$__rate_interval]))']],
    },
    {
      title: 'From arrival to delivery (p50, p99)',
      what: 'From the arrival of a webhook request until its plugin has processed it.',
      unit: 's',
      queries: [
        ['p50', 'histogram_quantile(0.5, sum by (le) (rate(bulkhead_webhook_lag_seconds_bucket[$__rate_interval])))'],
        ['p99', 'histogram_quantile(0.99, sum by (le) (rate(bulkhead_webhook_lag_seconds_bucket[$__rate_interval])))'],
      ],
    },
    {
      title: 'Waiting, by queue',
      what: 'Unfinished deliveries and events.',
      unit: 'short',
      queries: [['{{queue}}', 'max by (queue) (bulkhead_queue_depth)']],
    },
    {
      title: 'Age of the oldest, by queue',
      what: 'Includes those that wait for their next attempt.',
      unit: 's',
      queries: [['{{queue}}', 'max by (queue) (bulkhead_queue_age_seconds)']],
    },
    {
      title: 'Dead letters',
      what: 'npm run -s operator -- dead-letters shows the reasons; replay repeats them.',
      unit: 'short',
      kind: 'stat',
      queries: [['{{queue}}', 'max by (queue) (bulkhead_dead_letters)']],
    },
    {
      title: 'Webhooks on disk',
      what: 'Accepted while the database is unavailable.',
      unit: 'bytes',
      kind: 'stat',
      queries: [['{{instance}}', 'max by (instance) (bulkhead_spool_bytes)']],
    },
    {
      title: 'Webhooks kept in files',
      what: 'Accepted and not delivered: refused by the database, or damaged on the disk. Should be 0.',
      unit: 'short',
      kind: 'stat',
      queries: [['{{kind}}', 'sum by (kind) (bulkhead_spool_kept_files)']],
    },
  ],
  Service: [
    {
      title: 'Failed checks of /readyz',
      what: 'Processes that fail each check. Should be 0.',
      unit: 'short',
      queries: [['{{job}} {{check}}', 'count by (job, check) (bulkhead_ready) - sum by (job, check) (bulkhead_ready)']],
    },
    {
      title: 'Sandbox',
      what: 'Supervisors by the state of their sandbox. Other than full: other people’s plugins do not run.',
      unit: 'short',
      queries: [['{{state}} {{limiter}}', 'sum by (state, limiter) (bulkhead_sandbox)']],
    },
    {
      title: 'Free space of DATA_DIR',
      what: 'Share of its file system. Below 0.1 an alert fires.',
      unit: 'percentunit',
      queries: [
        [
          '{{job}} {{instance}}',
          'min by (job, instance) (bulkhead_data_dir_free_bytes / bulkhead_data_dir_size_bytes)',
        ],
      ],
    },
    {
      title: 'Event loop (p99)',
      what: 'Delay of all work in each process.',
      unit: 's',
      queries: [['{{job}}', 'max by (job) (nodejs_eventloop_lag_p99_seconds{job=~"bulkhead-.*"})']],
    },
    {
      title: 'Memory of the processes',
      what: 'Resident.',
      unit: 'bytes',
      queries: [['{{job}}', 'max by (job) (process_resident_memory_bytes{job=~"bulkhead-.*"})']],
    },
    {
      title: 'Database connections',
      what: 'waiting should be 0. waiting_for_share: requests of the only account that waits, which uses up its own share.',
      unit: 'short',
      queries: [['{{job}} {{state}}', 'sum by (job, state) (bulkhead_database_connections)']],
    },
    {
      title: 'Builds',
      what: 'Running and waiting builds of publishes and drafts.',
      unit: 'short',
      queries: [
        ['busy', 'sum(bulkhead_bundler_busy)'],
        ['waiting', 'sum(bulkhead_bundler_queue)'],
      ],
    },
    {
      title: 'Log lines of plugins',
      what: 'dropped: over the limit per minute.',
      unit: 'short',
      queries: [['{{fate}}', 'sum by (fate) (rate(bulkhead_log_lines_total[$__rate_interval]))']],
    },
    {
      title: 'Host calls by outcome',
      what: 'Calls from plugins to the service.',
      unit: 'reqps',
      queries: [['{{outcome}}', 'sum by (outcome) (rate(bulkhead_host_calls_total[$__rate_interval]))']],
    },
  ],
};

const COLUMNS = 3;
const WIDTH = 24 / COLUMNS;
const HEIGHT = 8;

/** Returns the dashboard as Grafana's JSON. */
export function printDashboard(): string {
  let y = 0;
  let id = 0;
  const panels = Object.entries(rows).flatMap(([title, row]) => {
    const heading = { id: ++id, type: 'row', title, collapsed: false, panels: [], gridPos: { x: 0, y, w: 24, h: 1 } };
    y += 1;
    const shown = row.map((panel, index) => {
      const place = { x: (index % COLUMNS) * WIDTH, y: y + Math.floor(index / COLUMNS) * HEIGHT, w: WIDTH, h: HEIGHT };
      return createPanel(panel, ++id, place);
    });
    y += Math.ceil(row.length / COLUMNS) * HEIGHT;
    return [heading, ...shown];
  });
  const dashboard = {
    uid: 'bulkhead',
    title: 'Bulkhead',
    tags: ['bulkhead'],
    schemaVersion: 41,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    panels,
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

function createPanel({ title, what, unit, queries, kind = 'timeseries' }: Panel, id: number, gridPos: object): object {
  const datasource = { type: 'prometheus', uid: 'prometheus' };
  return {
    id,
    type: kind,
    title,
    description: what,
    gridPos,
    datasource,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([legendFormat, expr], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource,
      expr,
      legendFormat,
    })),
  };
}
