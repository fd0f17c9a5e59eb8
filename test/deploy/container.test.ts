/** The files of deploy/ for containers, systemd and HAProxy: held against each other and against what they speak of. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { HANDOVER_TIMEOUT_MS } from '../../service/lifecycle/parent.ts';
import { apiSettings } from '../../service/settings/api-settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Instruction {
  readonly name: string;
  readonly words: string;
}
const instructions: readonly Instruction[] = read('deploy/Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n/g, ' ')
  .split('\n')
  .flatMap((line) => {
    const [, name, words] = /^([A-Z]+)\s+(.*)$/.exec(line.trim()) ?? [];
    return name === undefined || words === undefined ? [] : [{ name, words }];
  });
const all = (name: string): string[] => instructions.filter((one) => one.name === name).map(({ words }) => words);

interface IgnoreRule {
  readonly isException: boolean;
  readonly pattern: RegExp;
}
/** As Docker reads the file: `*` matches within a name, and the last rule that matches a path or a folder of it decides. */
const ignoreRules: readonly IgnoreRule[] = read('.dockerignore')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const text = line
      .replace('!', '')
      .replaceAll('.', '\\.')
      .replaceAll(/\*\*\/|\*/g, (stars) => (stars === '*' ? '[^/]*' : '(.*/)?'));
    return { isException: line.startsWith('!'), pattern: new RegExp(`^${text}$`) };
  });

function isIgnored(path: string): boolean {
  const names = path.split('/');
  const folders = names.map((_, index) => names.slice(0, index + 1).join('/'));
  const last = ignoreRules.findLast(({ pattern }) => folders.some((folder) => pattern.test(folder)));
  return last !== undefined && !last.isException;
}

t.test('the image is what a careful reader would want', async (t) => {
  for (const from of all('FROM')) t.match(from, /^\S+:[\d.]+\S*( AS \w+)?$/, `${from}: a fixed version`);
  t.same(all('ADD'), [], 'nothing is fetched');
  t.match(all('USER'), [/^[1-9]\d*$/], 'it runs as nobody special, by number, so that Kubernetes can see that');
  t.equal(all('HEALTHCHECK').length, 1);
  for (const words of [...all('ENTRYPOINT'), ...all('CMD')])
    t.ok(Array.isArray(JSON.parse(words)), 'no shell in between');
  for (const run of all('RUN').filter((words) => words.includes('apt-get install'))) {
    t.match(run, /--no-install-recommends/);
    t.match(run, /rm -rf \/var\/lib\/apt\/lists/);
  }
  for (const copy of all('COPY').filter((words) => !words.includes('--from='))) {
    for (const source of copy.split(/\s+/).slice(0, -1)) {
      t.ok(existsSync(join(ROOT, source)), `${source} is there`);
      if (source !== '.') t.notOk(isIgnored(source), `${source} is sent to Docker`);
    }
  }
  const [, script] = /node\S* (\S+\.ts)/.exec(all('RUN').join(' ')) ?? [];
  t.ok(script === undefined || existsSync(join(ROOT, script)));
  const program = (JSON.parse(all('CMD').at(-1) ?? '[]') as string[])[1] ?? '';
  t.ok(existsSync(join(ROOT, program)), program);
});

t.test('no secret is sent to Docker, and everything that the image is built from is', async (t) => {
  const secrets = [
    '.env',
    '.env.production',
    // Compose reads this one: it is in the folder of compose.yaml.
    'deploy/.env',
    'deploy/ha/machine.env',
    '.bulkhead/keys/identity.jwk.json',
    '.bulkhead-ha/settings.env',
    'data/keys/secrets/019a0000-0000-7000-8000-000000000000.key',
    'cluster.key',
    'deploy/cluster.key',
    'deploy/identity.jwk.json',
    'deploy/server.pem',
    'bulkhead.backup',
    'deploy/bulkhead.backup',
    '.git/config',
  ];
  for (const path of [...secrets, 'node_modules/pg/package.json', 'console/dist/index.html', 'test/run.ts'])
    t.ok(isIgnored(path), path);
  const needed = [
    'package.json',
    'tsconfig.json',
    'README.md',
    'api/main.ts',
    'supervisor/main.ts',
    'sandbox-child/main.ts',
    'service/settings/settings.ts',
    'db/migrations/0001_initial.sql',
    'deploy/helm/bulkhead/files/alerts.yml',
    'sdk/REFERENCE.md',
    'pack/build-package.ts',
    'console/build-console.ts',
    'docs/build-site.ts',
    'examples/README.md',
  ];
  for (const path of needed) {
    t.ok(existsSync(join(ROOT, path)), `${path} is there`);
    t.notOk(isIgnored(path), path);
  }
});

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly env_file?: readonly { readonly path: string; readonly required: boolean }[];
  readonly image?: string;
  readonly depends_on?: readonly string[] | Readonly<Record<string, unknown>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly stop_grace_period?: string;
  readonly logging?: { readonly driver: string };
}

t.test('compose names settings, scripts, files and services that are there', async (t) => {
  const { services, volumes } = parse(read('deploy/compose.yaml'), { merge: true }) as {
    services: Readonly<Record<string, Service>>;
    volumes: Readonly<Record<string, unknown>>;
  };
  const settings = { ...apiSettings, ...supervisorSettings };
  for (const [name, service] of Object.entries(services)) {
    t.match(service.image, /^(bulkhead|\S+:v?[\d.]+\S*)$/, `${name}: a fixed version`);
    const isOurs = service.image === 'bulkhead';
    for (const port of isOurs ? [] : (service.ports ?? []))
      t.match(port, /^127\.0\.0\.1:/, `${name}: for operators only`);
    const script = isOurs && service.command?.[1];
    if (script) t.ok(existsSync(join(ROOT, script)), `${name}: ${script}`);
    if (isOurs)
      t.ok(Number.parseInt(service.stop_grace_period ?? '', 10) * 1000 > HANDOVER_TIMEOUT_MS, `${name}: drains`);
    t.same(service.logging, { driver: 'local' }, `${name}: its log is bounded`);
    for (const variable of isOurs ? Object.keys(service.environment ?? {}) : [])
      t.ok(Object.hasOwn(settings, variable), `${name}: ${variable} is a setting`);
    const needs = Array.isArray(service.depends_on) ? service.depends_on : Object.keys(service.depends_on ?? {});
    for (const need of needs) t.ok(Object.hasOwn(services, need), `${name} needs ${need}`);
    const passwords = Object.entries(service.environment ?? {}).filter(([variable]) => variable.endsWith('PASSWORD'));
    for (const [variable, value] of passwords)
      t.match(String(value), /\$\{\w+:\?/, `${name}: ${variable} has no default`);
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':');
      t.ok(
        from.startsWith('./') ? existsSync(join(ROOT, 'deploy', from)) : Object.hasOwn(volumes, from),
        `${name}: ${from}`,
      );
    }
  }
});

t.test('settings in deploy/.env reach the processes, except those that compose itself depends on', async (t) => {
  const text = read('deploy/compose.yaml');
  const { services } = parse(text, { merge: true }) as { services: Readonly<Record<string, Service>> };
  const settings = { ...apiSettings, ...supervisorSettings };
  // Compose uses these itself, such as PORT for the port that it publishes.
  const used = [...text.matchAll(/\$\{(\w+)/g)].map(([, variable = '']) => variable);
  const image = all('ENV').flatMap((words) => [...words.matchAll(/(\w+)=/g)].map(([, variable = '']) => variable));
  const fixed = ['DATABASE_URL', 'API_OPS_PORT', 'SUPERVISOR_OPS_PORT', ...used, ...image].filter((variable) =>
    Object.hasOwn(settings, variable),
  );
  const ports = read('deploy/prometheus/prometheus.yml');
  for (const [name, { image, environment = {}, env_file }] of Object.entries(services)) {
    if (image !== 'bulkhead') continue;
    t.same(env_file, [{ path: '.env', required: false }], `${name}: the file that Compose reads for its own variables`);
    for (const variable of fixed) t.hasOwnProp(environment, variable, `${name}: ${variable}`);
    t.match(ports, `api:${environment.API_OPS_PORT}"`);
    t.match(ports, `supervisor:${environment.SUPERVISOR_OPS_PORT}"`);
  }
  t.match(services.api?.ports, [`:${services.api?.environment?.PORT}`]);
  t.match(services.supervisor?.ports, [`:${services.supervisor?.environment?.SUPERVISOR_PORT}`]);
  t.match(read('deploy/compose.yaml'), /`openssl rand -hex \d+` prints a password/, 'one that an address can contain');
});

t.test('commands for containers name services, options and scripts that are there', async (t) => {
  const { name: project, services, volumes } = parse(read('deploy/compose.yaml'), { merge: true });
  const sources = ['docs/operating.md', 'deploy/compose.yaml', 'deploy/helm/bulkhead/templates/NOTES.txt'];
  const texts = sources
    .map(read)
    .join('\n')
    .replaceAll(/\{\{.*?\}\}/g, 'NAME');
  const commands = [
    ...texts.matchAll(/(docker compose -f \S+ (?:exec|run)|kubectl (?:-n NAME )?exec) (.*?) (node|rm|npm) (\S+)(.*)/g),
  ];
  const operator: string[] = [];
  for (const [command, tool = '', target = '', program, file = '', args = ''] of commands) {
    t.not(program, 'npm', `${command}: the image has none`);
    if (program === 'node') t.ok(existsSync(join(ROOT, file)), `${command}: ${file}`);
    if (file === 'deploy/operator/operator.ts') operator.push(args.trim());
    // The API's pods may have no workspaces. `$pod` is one of the supervisor.
    if (tool.startsWith('kubectl')) t.match(target, /^(deploy\/\S+-supervisor|bulkhead-restore|"\$pod") --$/, command);
    else t.equal(services[target.split(' ').at(-1) ?? ''].image, 'bulkhead', command);
    // Otherwise Compose starts the migration.
    if (tool.endsWith('run')) t.match(target, /^--rm --no-deps /, command);
  }
  for (const name of ['fleet', 'backup', 'restore', 'accept-data-dir', 'rotate-identity-key --revoke-old'])
    t.ok(
      operator.some((args) => args.startsWith(name)),
      name,
    );
  for (const [, path = ''] of operator.join('\n').matchAll(/^backup (\S+)/gm))
    t.match(path, `${services.supervisor.environment.DATA_DIR}/`, 'all else is read-only or in memory');
  t.same(all('USER'), [/chown (\d+) /.exec(texts)?.[1]]);
  const [, removed = ''] = /docker volume rm (.*)/.exec(texts) ?? [];
  t.same(
    removed.split(' '),
    ['data', 'postgres'].map((volume) => `${project}_${volume}`),
  );
  t.hasProps(volumes, ['data', 'postgres']);
});

t.test('the units of systemd start what is there and let it drain', async (t) => {
  for (const name of ['api', 'supervisor']) {
    const unit = read(`deploy/systemd/bulkhead-${name}.service`);
    t.match(unit, `ExecStart=/bin/sh deploy/node.sh --max-semi-space-size=4 ${name}/main.ts\n`);
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
    t.ok(Number(seconds) * 1000 > HANDOVER_TIMEOUT_MS);
    if (name === 'supervisor') t.match(unit, /^KillMode=mixed$/m, 'plugins live until their calls have ended');
  }
});

t.test('after a reload, the old HAProxy ends, though connections to the database never do', async (t) => {
  const [, rest = ''] = read('deploy/ha/haproxy.cfg').split(/^global$/m);
  const [globals = ''] = rest.split(/^defaults$/m);
  t.match(globals, /^ {4}hard-stop-after \d+m$/m);
});

t.test('HAProxy leads webhooks to APIs that are alive where none is ready', async (t) => {
  const [, ...backends] = read('deploy/ha/haproxy.cfg').split(/^backend /m);
  const check = (name: string) =>
    /httpchk GET (\S+)/.exec(backends.find((text) => text.startsWith(`${name}\n`)) ?? '')?.[1];
  t.same([check('apis'), check('apis_without_database')], ['/readyz', '/healthz']);
  t.match(read('deploy/ha/haproxy.cfg'), 'use_backend apis_without_database if { nbsrv(apis) eq 0 }');
});
