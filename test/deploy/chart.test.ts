/** The chart, rendered by Helm: what comes out is what Kubernetes takes, and names what is there. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { parse } from 'yaml';
import { apiMetrics } from '../../api/telemetry/metric-table.ts';
import { valuesSchema } from '../../docs/generate/helm-values-schema.ts';
import { HANDOVER_TIMEOUT_MS } from '../../service/lifecycle/parent.ts';
import { apiSettings } from '../../service/settings/api-settings.ts';
import { RELEASE } from '../../service/settings/release.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';
import { supervisorMetrics } from '../../supervisor/records/metric-table.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { soakTest } from '../runner/soak.ts';
import { CHART, type Helm, type Labels, type Manifest, ROOT, unpackHelm } from './chart.ts';

const run = promisify(execFile);
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const DATABASE = 'database.url=postgres://user:secret@db:5432/bulkhead';
/** Everything that can be switched on, and the other choice of everything that is one. */
const EVERYTHING = [
  ...[
    'database.existingSecret=pg',
    'keys.existingSecret=keys',
    'supervisor.filesSecret=files',
    'database.caSecret=pg-ca',
    'trustProxy=10.0.0.0/8',
  ],
  ...['supervisor.sandbox=gvisor', 'storage.accessMode=ReadWriteOnce', 'storage.className=fast', 'image.tag=v1'],
  ...['ingress.enabled=true', 'ingress.host=a.test', 'ingress.sessionHost=s.test', 'ingress.className=nginx'],
  ...['ingress.tls[0].secretName=tls', 'ingress.tls[0].hosts[0]=a.test', 'imagePullSecrets[0].name=pull'],
  ...['monitoring.serviceMonitor.enabled=true', 'monitoring.prometheusRule.enabled=true'],
  ...['monitoring.dashboard.enabled=true', 'settings.LOG_LEVEL=debug', 'supervisor.settings.CHILDREN=20'],
  ...[
    'api.settings.UPLOADS_AT_ONCE=3',
    'publicUrl=https://a.test/',
    'webhookUrl=https://hooks.test',
    'api.nodeSelector.disk=fast',
  ],
];
/** No volume is shared, and pods come and go by their load. */
const OWN_FOLDERS = [
  DATABASE,
  ...['database.sessionUrl=postgres://user:secret@primary:5432/bulkhead', 'clusterKey.existingSecret=cluster'],
  ...['blobs.store=s3://bucket/one', 'blobs.s3.endpoint=https://s3.test', 'blobs.s3.existingSecret=bucket'],
  ...['api.autoscaling.enabled=true', 'supervisor.autoscaling.enabled=true', 'supervisor.workspacesClaim=work'],
  ...['networkPolicy.clientsFrom[0].namespaceSelector.matchLabels.name=ingress', 'storage.className=fast'],
];
/** Where the types of each kind are. */
const MODULES: Readonly<Record<string, string>> = {
  'apps/v1 Deployment': 'kubernetes-models/apps/v1',
  'apps/v1 StatefulSet': 'kubernetes-models/apps/v1',
  'autoscaling/v2 HorizontalPodAutoscaler': 'kubernetes-models/autoscaling/v2',
  'batch/v1 Job': 'kubernetes-models/batch/v1',
  'policy/v1 PodDisruptionBudget': 'kubernetes-models/policy/v1',
  'networking.k8s.io/v1 Ingress': 'kubernetes-models/networking.k8s.io/v1',
  'networking.k8s.io/v1 NetworkPolicy': 'kubernetes-models/networking.k8s.io/v1',
  'v1 ConfigMap': 'kubernetes-models/v1',
  'v1 Pod': 'kubernetes-models/v1',
  'v1 PersistentVolumeClaim': 'kubernetes-models/v1',
  'v1 Secret': 'kubernetes-models/v1',
  'v1 Service': 'kubernetes-models/v1',
  'monitoring.coreos.com/v1 PrometheusRule': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
  'monitoring.coreos.com/v1 ServiceMonitor': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
};

const isHere = process.arch === 'x64';
const helm: Helm = isHere
  ? await unpackHelm(await temporaryFolder(t))
  : { lint: async () => '', render: async () => [] };
const [plain, full, own, empty] = [
  await helm.render([DATABASE]),
  await helm.render(EVERYTHING),
  await helm.render(OWN_FOLDERS),
  await helm.render([DATABASE, 'api.replicas=0', 'supervisor.replicas=0']),
];
const rendered = [plain, full, own, empty];
const options = { skip: !isHere && 'Helm is carried for x64 only' };

const selectKind = (manifests: readonly Manifest[], kind: string): readonly Manifest[] =>
  manifests.filter((manifest) => manifest.kind === kind);
const fits = (wanted: Labels, labels: Labels): boolean =>
  Object.entries(wanted).every(([name, value]) => labels[name] === value);
const podOf = ({ spec }: Manifest) => spec.template;
const isWorkload = ({ kind }: Manifest): boolean => ['Deployment', 'StatefulSet', 'Job'].includes(kind);

t.test('large numbers of a values file reach the processes as they were written', options, async (t) => {
  const file =
    'settings: { VERSION_BYTES: 8589934592, DRAFT_BYTES: "5000000" }\nsupervisor: { settings: { CHILDREN: 20 } }';
  const workloads = selectKind(await helm.render([DATABASE], file), 'Deployment');
  const values = Object.fromEntries(
    workloads.flatMap((workload) =>
      podOf(workload).spec.containers[0].env.map(({ name, value }: Labels) => [name, value]),
    ),
  );
  t.match(values, { VERSION_BYTES: '8589934592', DRAFT_BYTES: '5000000', CHILDREN: '20' });
});

t.test('Helm accepts the chart and reports missing values', options, async (t) => {
  t.match(await helm.lint([DATABASE]), /0 chart\(s\) failed/);
  await t.rejects(helm.render([]), /Set database\.url, or database\.existingSecret/);
  await t.rejects(helm.render([DATABASE, 'ingress.enabled=true']), /Set ingress\.host/);
  await t.rejects(helm.render([DATABASE, 'settings.CHILDERN=1']), /CHILDERN/);
  await t.rejects(helm.render([DATABASE, 'settings.PORT=1']), /PORT/, 'the chart’s own');
  await t.rejects(helm.render([DATABASE, 'storage.accessMode=Often']), /accessMode/);
  await t.rejects(helm.render([DATABASE, 'blobs.store=s3://bucket']), /Set blobs\.s3\.existingSecret/);
  await t.rejects(
    helm.render([DATABASE, 'clusterKey.existingSecret=a', 'keys.existingSecret=b']),
    /keys\.existingSecret is for keys in files/,
  );
  const chart = parse(read('deploy/helm/bulkhead/Chart.yaml'));
  t.equal(chart.appVersion, RELEASE);
});

/** Types of TypeScript know every field, so they also find the misspelt ones that the schemas let pass. */
async function complaintsOfTypes(
  folder: string,
  files: Readonly<Record<string, readonly Manifest[]>>,
): Promise<string[]> {
  for (const [name, manifests] of Object.entries(files))
    await writeFile(join(folder, name), typed(manifests).join('\n'));
  const flags = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2024'];
  const tsc = join(ROOT, 'test/node_modules/typescript-7/bin/tsc');
  const { stdout } = await run(tsc, [...flags, '--singleThreaded', '--ignoreConfig', ...Object.keys(files)], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  return stdout.split('\n').filter((line) => line !== '');
}

/** Each manifest as a constant of its type. */
function typed(manifests: readonly Manifest[]): string[] {
  return manifests.map((manifest, index) => {
    const from = join(ROOT, 'test/node_modules', MODULES[`${manifest.apiVersion} ${manifest.kind}`] ?? '', 'index.js');
    const type = `import(${JSON.stringify(from)}).I${manifest.kind}`;
    return `export const a${index}: ${type} = ${JSON.stringify(manifest)};`;
  });
}

t.test('Kubernetes knows every kind, field and value', options, async (t) => {
  for (const manifest of rendered.flat()) {
    const module = MODULES[`${manifest.apiVersion} ${manifest.kind}`];
    if (!t.ok(module, `${manifest.apiVersion} ${manifest.kind}`)) continue;
    const { [manifest.kind]: Model } = await import(`${module}/${manifest.kind}`);
    t.doesNotThrow(() => new Model(manifest).validate(), `${manifest.kind} ${manifest.metadata.name}`);
  }
});

soakTest(t, 'Kubernetes knows every field, also those that its schemas do not forbid', options, async (t) => {
  const folder = await temporaryFolder(t);
  const misspelt = structuredClone(selectKind(plain, 'Deployment').slice(0, 1));
  for (const { spec } of misspelt) spec.template.spec.containers[0].redinessProbe = {};
  const complaints = await complaintsOfTypes(folder, { 'good.mts': rendered.flat(), 'bad.mts': misspelt });
  t.same(
    complaints.filter((line) => line.startsWith('good.mts')),
    [],
  );
  t.match(complaints.join('\n'), /^bad\.mts.*redinessProbe/m, 'the check checks');
});

t.test('everything that the manifests refer to exists', options, async (t) => {
  const settings = { ...apiSettings, ...supervisorSettings };
  for (const manifests of rendered) {
    const workloads = manifests.filter(isWorkload);
    const pods = workloads.map((manifest) => podOf(manifest));
    for (const { spec: workload } of workloads) {
      const { metadata, spec } = workload.template;
      const claims = (workload.volumeClaimTemplates ?? []).map((claim: Manifest) => claim.metadata);
      const volumes = [...(spec.volumes ?? []), ...claims].map(({ name }: { name: string }) => name);
      for (const container of [...spec.containers, ...(spec.initContainers ?? [])]) {
        const [, script = ''] = container.args ?? container.command;
        t.ok(existsSync(join(ROOT, script)), script);
        for (const { name } of container.env ?? []) t.ok(Object.hasOwn(settings, name), `${name} is a setting`);
        for (const { name } of container.volumeMounts ?? []) t.ok(volumes.includes(name), `volume ${name}`);
        t.match(container.securityContext, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
      }
      t.match(spec.securityContext, {
        runAsNonRoot: true,
        runAsUser: Number(/^USER (\d+)$/m.exec(read('deploy/Dockerfile'))?.[1]),
      });
      t.match(metadata.labels, { 'app.kubernetes.io/instance': 'prod' });
    }
    for (const service of selectKind(manifests, 'Service')) {
      const behind = pods.filter(({ metadata }) => fits(service.spec.selector, metadata.labels));
      t.equal(behind.length, 1, `${service.metadata.name} leads to pods of one kind`);
      const ports = behind[0]?.spec.containers[0].ports.map(({ name }: { name: string }) => name);
      for (const { targetPort } of service.spec.ports) t.ok(ports.includes(targetPort), `port ${targetPort}`);
    }
    for (const budget of selectKind(manifests, 'PodDisruptionBudget'))
      t.equal(pods.filter(({ metadata }) => fits(budget.spec.selector.matchLabels, metadata.labels)).length, 1);
    for (const workload of manifests.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet'))
      t.ok(fits(workload.spec.selector.matchLabels, podOf(workload).metadata.labels));
    for (const { spec } of selectKind(manifests, 'NetworkPolicy')) {
      const behind = pods.filter(({ metadata }) => fits(spec.podSelector.matchLabels, metadata.labels));
      const open = spec.ingress.flatMap(({ ports }: { ports: { port: number }[] }) => ports.map(({ port }) => port));
      t.equal(behind.length, 1);
      t.same(
        open,
        behind[0]?.spec.containers[0].ports.map(({ containerPort }: { containerPort: number }) => containerPort),
        'each port is open to somebody',
      );
    }
    t.equal(selectKind(manifests, 'NetworkPolicy').length, 2);
  }
});

t.test('with a cluster key and blobs elsewhere no volume is shared', options, async (t) => {
  t.same(selectKind(own, 'PersistentVolumeClaim'), []);
  const [api] = selectKind(own, 'StatefulSet');
  const [supervisor] = selectKind(own, 'Deployment');
  t.match(api?.spec, {
    serviceName: 'prod-bulkhead-api-ops',
    volumeClaimTemplates: [{ spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '4Gi' } } } }],
  });
  t.ok(
    own.some(
      ({ kind, metadata, spec }) =>
        kind === 'Service' && metadata.name === api?.spec.serviceName && spec.clusterIP === 'None',
    ),
  );
  t.match(podOf(supervisor as Manifest).spec.volumes, [{ name: 'data', emptyDir: {} }]);
  const { properties: values } = JSON.parse(read('deploy/helm/bulkhead/values.schema.json'));
  for (const workload of [api, supervisor] as Manifest[]) {
    const { topologySpreadConstraints, terminationGracePeriodSeconds, containers } = podOf(workload).spec;
    t.same(
      topologySpreadConstraints.map(({ topologyKey }: { topologyKey: string }) => topologyKey),
      ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'],
    );
    const [, pause] = containers[0].lifecycle.preStop.exec.command;
    const part = workload.metadata.name.endsWith('-api') ? 'api' : 'supervisor';
    const { minimum } = values[part].properties.terminationGracePeriodSeconds;
    t.ok(
      (minimum - pause) * 1000 > HANDOVER_TIMEOUT_MS,
      'the shortest grace period that the schema allows covers the drain',
    );
    t.ok(terminationGracePeriodSeconds >= minimum);
    const env = new Map(containers[0].env.map((variable: { name: string }) => [variable.name, variable]));
    t.match(env.get('BLOBS'), { value: 's3://bucket/one' });
    t.match(env.get('CLUSTER_KEY_FILE'), { value: '/etc/bulkhead-key/key' });
    t.match(env.get('DATABASE_SESSION_URL'), { valueFrom: { secretKeyRef: { key: 'sessionUrl' } } });
    t.match(env.get('AWS_SECRET_ACCESS_KEY'), { valueFrom: { secretKeyRef: { name: 'bucket' } } });
    t.equal(workload.spec.replicas, undefined, 'the autoscaler decides');
  }
  for (const { spec } of selectKind(own, 'HorizontalPodAutoscaler')) {
    const { kind, name } = spec.scaleTargetRef;
    t.equal(
      spec.behavior.scaleDown.selectPolicy === 'Disabled',
      kind === 'StatefulSet',
      `${name}: a pod with a volume of its own is never removed, because webhooks may be on it`,
    );
    t.ok(
      own.some((manifest) => manifest.kind === kind && manifest.metadata.name === name),
      `${kind} ${name}`,
    );
    const known = name.endsWith('-api') ? apiMetrics : supervisorMetrics;
    for (const { pods } of spec.metrics)
      t.ok(Object.hasOwn(known, pods.metric.name) || pods.metric.name.startsWith('nodejs_'), pods.metric.name);
  }
  t.equal(selectKind(own, 'HorizontalPodAutoscaler').length, 2);
  t.equal(selectKind(plain, 'Deployment').length, 2);
});

t.test('a backup is restored by a pod with the volume of a release without pods', options, async (t) => {
  for (const { kind, spec } of empty.filter(isWorkload)) t.equal(spec.replicas, kind === 'Job' ? undefined : 0);
  t.equal(selectKind(empty, 'PodDisruptionBudget').length, 2);
  const manifest = parse(read('deploy/helm/restore-pod.yaml'));
  const { Pod } = await import(`${MODULES['v1 Pod']}/Pod`);
  t.doesNotThrow(() => new Pod(manifest).validate());
  const [claim] = selectKind(empty, 'PersistentVolumeClaim');
  const api = podOf(selectKind(empty, 'Deployment').find(({ metadata }) => metadata.name.endsWith('-api')) as Manifest);
  const [pod, [container]] = [api.spec, api.spec.containers];
  const { fsGroupChangePolicy, seccompProfile, ...user } = pod.securityContext;
  t.same(manifest.spec.securityContext, user);
  t.same(manifest.spec.containers[0].securityContext, container.securityContext);
  t.match(manifest.spec.containers[0].volumeMounts, [container.volumeMounts[0]]);
  t.match(manifest.spec.volumes, [
    { ...pod.volumes[0], persistentVolumeClaim: { claimName: claim?.metadata.name.replace('prod-', '') } },
  ]);
});

t.test('the supervisor’s pod lets jails be built, and no other does more than it must', options, async (t) => {
  const security = (manifests: readonly Manifest[], name: string) =>
    podOf(selectKind(manifests, 'Deployment').find(({ metadata }) => metadata.name === name) as Manifest).spec;
  t.match(security(plain, 'prod-bulkhead-api').securityContext, { seccompProfile: { type: 'RuntimeDefault' } });
  t.match(security(plain, 'prod-bulkhead-supervisor').securityContext, {
    seccompProfile: { type: 'Unconfined' },
    appArmorProfile: { type: 'Unconfined' },
  });
  const boxed = security(full, 'prod-bulkhead-supervisor');
  t.match(boxed, { runtimeClassName: 'gvisor', securityContext: { seccompProfile: { type: 'RuntimeDefault' } } });
  t.match(boxed.containers[0].env, [{ name: 'DATABASE_URL', valueFrom: { secretKeyRef: { name: 'pg', key: 'url' } } }]);
});

t.test('every process that connects to PostgreSQL can check its certificate', options, async (t) => {
  const mount = { name: 'database-ca', mountPath: '/etc/bulkhead-database', readOnly: true };
  const workloads = full.filter(isWorkload);
  t.equal(workloads.length, 3, 'API, supervisor and migration');
  for (const workload of workloads) {
    const { volumes, containers } = podOf(workload).spec;
    t.match(
      volumes.find(({ name }: { name: string }) => name === mount.name),
      { secret: { secretName: 'pg-ca' } },
    );
    t.match(
      containers[0].volumeMounts.filter(({ name }: { name: string }) => name === mount.name),
      [mount],
      workload.metadata.name,
    );
  }
  const values = read('deploy/helm/bulkhead/values.yaml');
  for (const text of [values, read('docs/operating.md')])
    t.match(text, `?sslmode=verify-full&sslrootcert=${mount.mountPath}/ca.crt`);
});

t.test('metrics are scraped under the names that alerts and dashboard use', options, async (t) => {
  const services = selectKind(full, 'Service');
  for (const monitor of selectKind(full, 'ServiceMonitor')) {
    const found = services.filter(({ metadata }) => fits(monitor.spec.selector.matchLabels, metadata.labels));
    t.equal(found.length, 1, monitor.metadata.name);
    t.same(found[0]?.spec.ports[0].name, monitor.spec.endpoints[0].port);
    t.match(monitor.spec.endpoints[0].relabelings[0].replacement, /^bulkhead-(api|supervisor)$/);
  }
  t.equal(selectKind(full, 'ServiceMonitor').length, 2);
  const rules = read('deploy/prometheus/alerts.yml').replaceAll('docs/runbook.md#', 'https://a.test/docs/runbook#');
  t.same(selectKind(full, 'PrometheusRule')[0]?.spec, parse(rules));
  t.same(
    JSON.parse(selectKind(full, 'ConfigMap')[0]?.data?.['bulkhead.json'] ?? ''),
    JSON.parse(read('deploy/grafana/dashboards/bulkhead.json')),
  );
  t.same(
    [selectKind(plain, 'ServiceMonitor'), selectKind(plain, 'PrometheusRule'), selectKind(plain, 'Ingress')],
    [[], [], []],
  );
});

t.test('the schema of the values is the one its table makes', async (t) => {
  t.same(JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8')), valuesSchema());
});

const KEY_ID = '019a0000-0000-7000-8000-000000000000';
const SECRET_KEY = Buffer.alloc(32, 7).toString('base64');

t.test('keys of a Secret are placed once, and never replace one', async (t) => {
  const [secret, DATA_DIR] = [await temporaryFolder(t), await temporaryFolder(t)];
  const id = KEY_ID;
  await writeFile(join(secret, 'identity.jwk.json'), '{"kid":"first"}');
  await writeFile(join(secret, `${id}.key`), SECRET_KEY);
  await writeFile(join(secret, 'README'), 'nothing of ours');
  const place = () =>
    run(process.execPath, [join(ROOT, 'deploy/place-keys.ts'), secret], { cwd: '/', env: { DATA_DIR } });
  await place();
  await writeFile(join(secret, 'identity.jwk.json'), '{"kid":"second"}');
  t.match((await place()).stdout, /identity\.jwk\.json: exists already/);
  t.equal(await readFile(join(DATA_DIR, 'keys/identity.jwk.json'), 'utf8'), '{"kid":"first"}');
  t.equal(await readFile(join(DATA_DIR, 'keys/secrets', `${id}.key`), 'utf8'), SECRET_KEY);
  t.equal((await stat(join(DATA_DIR, 'keys/identity.jwk.json'))).mode & 0o777, 0o600);
  t.same(await readdir(join(DATA_DIR, 'keys/secrets')), [`${id}.key`], 'nothing unfinished is left');
});

t.test('a file of a Secret that is no key is refused, and nothing is placed before it is corrected', async (t) => {
  const wrong = [
    ['identity.jwk.json', 'kid', /identity\.jwk\.json is not a key: it is not JSON\./],
    ['identity.jwk.json', 'null', /identity\.jwk\.json is not a key: it has no kid\./],
    [`${KEY_ID}.key`, 'sealing', /0000\.key is not a 256-bit key in base64\./],
  ] as const;
  for (const [name, content, message] of wrong) {
    const [secret, DATA_DIR] = [await temporaryFolder(t), await temporaryFolder(t)];
    const place = () =>
      run(process.execPath, [join(ROOT, 'deploy/place-keys.ts'), secret], { cwd: '/', env: { DATA_DIR } });
    await writeFile(join(secret, 'identity.jwk.json'), '{"kid":"first"}');
    await writeFile(join(secret, `${KEY_ID}.key`), SECRET_KEY);
    await writeFile(join(secret, name), content);
    await t.rejects(place(), { message }, name);
    t.same(await readdir(DATA_DIR), [], name);
  }
});
