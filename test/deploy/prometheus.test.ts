/** A real Prometheus scrapes the running service: every metric of dashboard and alerts is there, every query is answered, and alerts fire. */
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { rows } from '../../deploy/grafana/dashboard.ts';
import { mountSmallDisk } from '../fixtures/small-disk.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { freePorts, startServiceFixture } from './service-fixture.ts';
import { buildWorkshop } from './workshop.ts';

const read = (path: string): Promise<string> =>
  readFile(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

/** The service's DATA_DIR takes a third of it. */
const DISK_MEGABYTES = 256;

t.test('dashboard and alerts', { skip: whyMissing('prometheus') }, async (t) => {
  const disk = await mountSmallDisk(t, DISK_MEGABYTES);
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const DATA_DIR = join(disk?.folder ?? (await temporaryFolder(t)), 'data');
  const service = await startServiceFixture(t, { DATA_DIR, DATABASE_URL });
  const workshop = await buildWorkshop(service);
  const folder = await temporaryFolder(t);
  const { PORT: port } = await freePorts();
  const job = (name: string, target: string) => ({
    job_name: name,
    static_configs: [{ targets: [`127.0.0.1:${target}`] }],
  });
  const config = {
    global: { scrape_interval: '500ms', evaluation_interval: '500ms' },
    rule_files: [`${folder}/alerts.yml`],
    scrape_configs: [
      job('bulkhead-api', service.env.API_OPS_PORT),
      job('bulkhead-supervisor', service.env.SUPERVISOR_OPS_PORT),
    ],
  };
  const writeConfig = (jobs: object[]) =>
    writeFile(join(folder, 'prometheus.yml'), JSON.stringify({ ...config, scrape_configs: jobs }));
  await writeConfig(config.scrape_configs);
  await writeFile(join(folder, 'alerts.yml'), inSeconds(await read('deploy/prometheus/alerts.yml')));
  // A target that is taken away is missing after this time, not after five minutes.
  const lookBack = '--query.lookback-delta=10s';
  const words = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`, lookBack];
  const prometheus = spawn('prometheus', [...words, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' });
  t.teardown(() => new Promise((resolve) => prometheus.once('close', resolve) && prometheus.kill('SIGKILL')));

  const runQuery = async (query: string): Promise<{ metric: object; value: [number, string] }[]> => {
    const address = `http://127.0.0.1:${port}/api/v1/query?${new URLSearchParams({ query })}`;
    const answer = await fetch(address, { headers: { connection: 'close' } });
    const body = (await answer.json()) as { status: string; error?: string; data: { result: [] } };
    if (body.status !== 'success') throw new Error(`${query}: ${body.error}`);
    return body.data.result;
  };
  await eventually(async () => {
    // Rates need a change between two looks.
    await workshop.prompt();
    const calls = await runQuery('sum(rate(bulkhead_invocations_total{outcome="ok"}[30s]))').catch(() => []);
    return Number(calls[0]?.value[1]) > 0;
  });
  t.same(
    (await runQuery('up')).map(({ value }) => value[1]),
    ['1', '1'],
  );

  const { groups } = parse(await read('deploy/prometheus/alerts.yml'));
  const alerts: string[] = groups.flatMap((group: { rules: { expr: string }[] }) =>
    group.rules.map(({ expr }) => expr),
  );
  const queries = Object.values(rows).flatMap((row) => row.flatMap((panel) => panel.queries.map(([, expr]) => expr)));
  for (const expr of [...queries, ...alerts]) {
    const query = expr.replaceAll('$__rate_interval', '30s');
    t.ok(Array.isArray(await runQuery(query)), query.slice(0, 80));
  }
  const names = [...queries, ...alerts].flatMap((expr) =>
    [...expr.matchAll(/\b(?:bulkhead|nodejs|process)_\w+/g)].map(([name]) => name),
  );
  // A labelled metric has no series before its first event here, but its type is known.
  const metadata = (await (
    await fetch(`http://127.0.0.1:${port}/api/v1/metadata`, { headers: { connection: 'close' } })
  ).json()) as { data: Record<string, unknown> };
  for (const name of new Set(names.map((name) => name.replace(/_(bucket|count|sum)$/, ''))))
    t.ok(Object.hasOwn(metadata.data, name), `${name} is exposed`);
  const [added] = await runQuery('histogram_quantile(0.99, sum by (le) (rate(bulkhead_turn_hook_seconds_bucket[1m])))');
  t.ok(Number(added?.value[1]) > 0 && Number(added?.value[1]) < 5, `hooks add ${added?.value[1]} s`);
  const [running] = await runQuery('sum(bulkhead_children{state="running"})');
  t.equal(running?.value[1], '1');

  // The API's side: what the workshop asked for, and a vendor who has a wrong address.
  await fetch(`${service.url}/webhook/plugin/nobody`, { method: 'POST', body: '{}', headers: { connection: 'close' } });
  const figure = async (query: string): Promise<number> => Number((await runQuery(`sum(${query})`))[0]?.value[1]);
  await eventually(async () => (await figure('bulkhead_webhook_answer_seconds_count{status="404"}')) === 1);
  const answered = (labels: string) => figure(`bulkhead_http_request_seconds_count{${labels}}`);
  t.equal(await answered('method="POST",route=~".*/versions",status="201"'), 1, 'one publish');
  t.equal(await answered('method="POST",route=~".*/configure",status="200"'), 1, 'one change of settings');
  t.notOk((await answered('status=~"5.."')) > 0, 'no fault of the service');
  const publish = await figure('bulkhead_http_request_seconds_sum{route=~".*/versions",status="201"}');
  t.ok(publish > 0.01 && publish < 60, `the publish took ${publish} s`);
  for (const idle of ['bundler_busy', 'bundler_queue', 'webhooks_waiting', 'spool_bytes', 'spool_kept_files'])
    t.equal(await figure(`bulkhead_${idle}`), 0, `${idle}: at rest`);
  const connections = await figure('bulkhead_database_connections{job="bulkhead-api"}');
  t.ok(connections >= 1 && connections <= 20, `${connections} connections`);

  const listFiring = async (): Promise<string[]> =>
    (await runQuery('ALERTS{alertstate="firing"}')).map(({ metric }) => (metric as { alertname: string }).alertname);
  const fires = (name: string, provoke: () => Promise<unknown> = async () => undefined) =>
    eventually(async () => {
      await provoke();
      return (await listFiring()).includes(name);
    });
  const broken = ['WebhooksFailing', 'SessionsFailing', 'DiskFilling', 'TargetMissing', 'ProcessDown', 'NotReady'];
  const before = await listFiring();
  t.notOk(broken.some((name) => before.includes(`Bulkhead${name}`)));
  if (disk !== null) {
    await disk.fill();
    t.ok(await fires('BulkheadDiskFilling'), 'a full disk');
    await disk.empty();
  }
  // No connection is left, and none is let in.
  await pool.query(`ALTER DATABASE ${new URL(DATABASE_URL).pathname.slice(1)} CONNECTION LIMIT 0`);
  await pool.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  );
  t.ok(await fires('BulkheadNotReady'), 'no process is ready, also without a request');
  const webhook = () =>
    fetch(`${service.url}/webhook/plugin/${'a'.repeat(22)}`, {
      method: 'POST',
      body: '{}',
      headers: { connection: 'close' },
    });
  t.ok(await fires('BulkheadSessionsFailing', () => service.session('GET', '/sessions')), 'session calls get 503');
  t.ok(await fires('BulkheadWebhooksFailing', webhook), 'webhook requests get 503');
  await writeConfig(config.scrape_configs.slice(0, 1));
  prometheus.kill('SIGHUP');
  t.ok(await fires('BulkheadTargetMissing'), 'nobody scrapes the supervisor');
  service.kill('SIGTERM');
  t.ok(await fires('BulkheadProcessDown'), 'the API is down');
  await service.exited;
});

/** Shortens the times of the rules, for a test that does not wait for minutes. */
const inSeconds = (rules: string): string => rules.replaceAll(/for: \d+m/g, 'for: 0s').replaceAll(/\[\d+m\]/g, '[5s]');
