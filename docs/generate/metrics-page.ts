/** The text of docs/metrics.md, made from the metrics that both processes declare. */
import { apiMetrics } from '../../api/telemetry/metric-table.ts';
import type { MetricTable } from '../../service/telemetry/meters.ts';
import { supervisorMetrics } from '../../supervisor/records/metric-table.ts';

const escaped = (text: string): string => text.replaceAll('|', '\\|');

function section(title: string, table: MetricTable): string[] {
  const rows = Object.entries(table).map(([name, { type, labels, help }]) => {
    const cells = [`\`${name}\``, type, labels.map((label) => `\`${label}\``).join(' '), escaped(help)];
    return `| ${cells.join(' | ')} |`;
  });
  return [`## ${title}`, '', '| Metric | Type | Labels | |', '|---|---|---|---|', ...rows, ''];
}

/** The page, as it must be. */
export function metricsPage(): string {
  return [
    '# Metrics',
    '',
    'Generated from `supervisor/records/metric-table.ts` and `api/telemetry/metric-table.ts` by `npm run -s generate`.',
    '',
    'Labels hold the protocol’s keys, route patterns and slugs. The first `METRICS_SLUGS` plugins are told apart, the rest',
    'counts as `other`. Tools, commands and providers have the name `any`: their own names, and everything by installation,',
    'are in `GET /installations/{id}/metrics`. Besides these, both processes have prom-client’s defaults: processor, memory,',
    'garbage collection, event-loop delay (`nodejs_eventloop_lag_p99_seconds`). Several supervisors read the same queues: take',
    'the maximum of `bulkhead_queue_*` and `bulkhead_dead_letters`, and the sum of the rest.',
    '',
    ...section('Supervisor: `SUPERVISOR_OPS_PORT`, `/metrics`', supervisorMetrics),
    ...section('API: `API_OPS_PORT`, `/metrics`', apiMetrics),
  ].join('\n');
}
