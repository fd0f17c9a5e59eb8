/** The text of docs/metrics.md, made from the metrics that both processes declare. */
import { apiMetrics } from '../../api/telemetry/metric-table.ts';
import type { MetricTable } from '../../service/telemetry/meters.ts';
import { supervisorMetrics } from '../../supervisor/records/metric-table.ts';
import { escapeCell } from '../site/table-cell.ts';

function section(title: string, table: MetricTable): string[] {
  const rows = Object.entries(table).map(([name, { type, labels, help }]) => {
    const cells = [`\`${name}\``, type, labels.map((label) => `\`${label}\``).join(' '), escapeCell(help)];
    return `| ${cells.join(' | ')} |`;
  });
  return [`## ${title}`, '', '| Metric | Type | Labels | |', '|---|---|---|---|', ...rows, ''];
}

export function metricsPage(): string {
  return [
    '# Metrics',
    '',
    'Generated from `supervisor/records/metric-table.ts` and `api/telemetry/metric-table.ts` by `npm run -s generate`.',
    '',
    'Labels are keys of the protocol, route patterns and slugs. The first `METRICS_SLUGS` plugins have their own label, of one',
    'account at most as many as are left for the other accounts; the others count as `other`. Tools, commands and providers',
    'have the name `any`; `GET /installations/{id}/metrics` has their own names and the figures per installation.',
    '',
    'Both processes also have prom-client’s default metrics: processor, memory, garbage collection, event loop delay',
    '(`nodejs_eventloop_lag_p99_seconds`).',
    '',
    '**With several processes**, take the maximum of `bulkhead_queue_*` and `bulkhead_dead_letters`, because all supervisors read the',
    'same queues. Look at `bulkhead_children_busy_ratio`, `bulkhead_data_dir_*` and prom-client’s metrics of each process by itself. The sums',
    'of `bulkhead_ready`, `bulkhead_blob_store_available` and `bulkhead_sandbox`, which are 0 or 1, count processes. Take the sum of all others.',
    '',
    ...section('Supervisor: `SUPERVISOR_OPS_PORT`, `/metrics`', supervisorMetrics),
    ...section('API: `API_OPS_PORT`, `/metrics`', apiMetrics),
  ].join('\n');
}
