/** The files of deploy/ for Prometheus and Grafana: held against each other, and against the metrics and the runbook. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { rows } from '../../deploy/grafana/dashboard.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook_url: string };
}
const rules: readonly Rule[] = parse(read('deploy/prometheus/alerts.yml')).groups.flatMap(
  (group: { rules: Rule[] }) => group.rules,
);

t.test('every alert has its page and its test', async (t) => {
  const alerts = rules.map(({ alert }) => alert);
  const pages = [...read('docs/runbook.md').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  t.same(
    pages,
    alerts,
    'docs/runbook.md has a section for each alert of deploy/prometheus/alerts.yml, in the same order',
  );
  for (const { alert, annotations } of rules)
    t.equal(
      annotations.runbook_url,
      `docs/runbook.md#${alert.toLowerCase()}`,
      `${alert} names its section as runbook_url`,
    );
  const tests = [...read('deploy/prometheus/alerts.test.yml').matchAll(/alertname: (\w+)/g)].map(([, name]) => name);
  t.same(
    [...new Set(tests)],
    alerts,
    'deploy/prometheus/alerts.test.yml has a test for each alert of alerts.yml, in the same order',
  );
});

const run = (...words: string[]) =>
  execFileSync('promtool', words, { cwd: join(ROOT, 'deploy/prometheus'), encoding: 'utf8' });

t.test('alerts fire', { skip: whyMissing('promtool') }, async (t) => {
  t.match(run('check', 'rules', 'alerts.yml'), /SUCCESS/);
  t.match(run('test', 'rules', 'alerts.test.yml'), /SUCCESS/);
  t.match(run('check', 'config', 'prometheus.yml'), /SUCCESS/);
});

t.test('Prometheus can parse the queries of the dashboard', { skip: whyMissing('promtool') }, async (t) => {
  const queries = Object.values(rows).flatMap((row) => row.flatMap((panel) => panel.queries.map(([, expr]) => expr)));
  const recorded = queries.map((expr, at) => ({ record: `query_${at}`, expr: replaceInterval(expr) }));
  const file = join(await temporaryFolder(t), 'queries.yml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
  t.match(run('check', 'rules', file), `SUCCESS: ${queries.length} rules`);
});

/** Grafana replaces it by a time. */
const replaceInterval = (expr: string): string => expr.replaceAll('$__rate_interval', '30s');

t.test('dashboard and alerts ask for metrics that there are', async (t) => {
  const listed = new Set([...read('docs/metrics.md').matchAll(/`(bulkhead_\w+)`/g)].map(([, name]) => name));
  const queries = `${read('deploy/grafana/dashboards/bulkhead.json')}${read('deploy/prometheus/alerts.yml')}`;
  for (const [name] of queries.matchAll(/bulkhead_[a-z_]+/g)) {
    const base = name.replace(/_(bucket|count|sum)$/, '');
    t.ok(listed.has(base), `docs/metrics.md lists ${base}`);
  }
});
