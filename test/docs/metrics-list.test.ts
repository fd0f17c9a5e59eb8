import { readFileSync } from 'node:fs';
import t from 'tap';
import { apiMetrics } from '../../api/telemetry/metric-table.ts';
import { metricsPage } from '../../docs/generate/metrics-list.ts';
import { supervisorMetrics } from '../../supervisor/records/metric-table.ts';

t.test('docs/metrics.md lists every metric: else node docs/generate/metrics-list.ts > docs/metrics.md', async (t) => {
  t.equal(readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8'), metricsPage());
});

t.test('metrics are named as Prometheus wants them', async (t) => {
  for (const [name, { type, labels }] of Object.entries({ ...supervisorMetrics, ...apiMetrics })) {
    t.match(name, /^bulkhead_[a-z]+(_[a-z]+)*$/, name);
    t.equal(name.endsWith('_total'), type === 'counter', `${name}: counters, and only they, end in _total`);
    t.notOk(
      labels.some((label) => /id$|session|account|message/i.test(label)),
      `${name} has no label without bounds`,
    );
  }
});
