/** A machine without bubblewrap: everything starts, says what is missing, and runs operators' own code only. */
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { canFetchPackages, PROJECT_FOLDER } from '../../deploy/debian-packages.ts';
import { confirmSandboxOff } from '../../supervisor/compose.ts';
import { readConfig } from '../../supervisor/config.ts';
import { insertBareInstallation } from '../fixtures/bare-installation.ts';
import { bareSearchPath } from '../fixtures/bare-search-path.ts';
import { noPluginUser, PLUGIN_USER } from '../fixtures/foreign-user.ts';
import { eventually } from '../runner/eventually.ts';
import { killProcess, type TestDatabase, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { isSoak, soakTest } from '../runner/soak.ts';
import { startProcess } from '../supervisor/supervisor-process.ts';
import { useSource } from './package-source.ts';
import { type Seen, stillRunning } from './process-tree.ts';
import { type Environment, type ServiceFixture, startServiceFixture } from './service-fixture.ts';

const INSTALL = 'Install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap) and start again';
const isRoot = process.getuid?.() === 0;
const USER = isRoot ? `as the unprivileged user ${PLUGIN_USER}` : 'with the rights of this service’s user';
const NOTICE = `${INSTALL}: until then only plugins that operators wrote run, in their own accounts, ${USER}.`;
const REFUSAL = `The plugin does not run without the sandbox. ${NOTICE}`;
/** Where root's services look; a start in this checkout may have put it there. */
const isFetched = process.getuid?.() === 0 && globSync(`${PROJECT_FOLDER}/*/bubblewrap`).length > 0;
const noFetch =
  (!canFetchPackages() && 'this machine has no apt-get') ||
  (isFetched && 'this checkout already has a copy of bubblewrap');

const barePath = await bareSearchPath(t);

async function publish({ call }: ServiceFixture, slug: string, code: string): Promise<void> {
  const plugin = await call('POST', '/api/plugins', { slug, displayName: slug });
  const files = [
    { path: 'readme.md', contentText: `---\nname: ${slug}\ndescription: A test\n---\n` },
    { path: 'index.ts', contentText: code },
  ];
  const version = await call('POST', `/api/plugins/${plugin.body.id}/versions`, { semVer: '1.0.0', files });
  if (version.status !== 201) throw new Error(JSON.stringify(version.body));
}

async function promptAs({ session }: ServiceFixture, token: string) {
  const { body } = await session('POST', '/sessions', { agentId: 'a' }, token);
  const context = { systemPrompt: 'Be', model: 'any' };
  return (await session('POST', `/sessions/${body.id}/hooks/systemPrompt`, { context }, token)).body;
}

/** `R`: it runs, or would if a processor were free. */
async function stateOf({ pid }: Seen): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return stat.slice(stat.lastIndexOf(') ') + 2)[0];
}

/** The author makes it public; the route for that is none of this test's business. */
const list = ({ pool }: TestDatabase, slug: string) =>
  pool.query(`UPDATE plugins SET visibility = 'listed' WHERE slug = $1`, [slug]);

/** Without bubblewrap only the supervisor can end a child. */
async function killLooping(t: Test, service: ServiceFixture): Promise<void> {
  const user = await service.asUser('looping');
  await user.call('GET', '/api/me');
  await service.call('POST', '/api/operator/accounts/looping/appoint');
  await publish(user, 'loop', "middleware.systemPrompt = () => { console.log('looping'); for (;;); };");
  const installed = await user.call('POST', '/api/installations', { slug: 'loop', versionPolicy: 'Latest' });
  const logs = `/api/plugin-logs?installationId=${installed.body.id}`;
  const hasLogged = async () => (await user.call('GET', logs)).body.items.length > 0;
  let isSeen = false;
  // A call may be over before its line is read: then it is made again.
  const calling = (async () => {
    while (!isSeen) await promptAs(user, user.token).catch(() => undefined);
  })();
  const children = await eventually(async () => {
    if (!(await hasLogged())) return false;
    const found = (await service.processes()).filter(({ command }) => command.includes('/proc/self/fd/3'));
    return (await Promise.all(found.map(stateOf))).includes('R') && found;
  });
  isSeen = true;
  const supervisor = (await service.processes()).find(({ command }) => command.includes('supervisor/main.ts'));
  killProcess(supervisor?.pid);
  await eventually(async () => (await stillRunning(children)).length === 0);
  t.same(await stillRunning(children), []);
  await calling;
  await service.line(/^The supervisor is running again/);
}

const skip = isRoot && noPluginUser;
t.test('starts, says what to install, and runs operators’ own plugins only', { skip }, async (t) => {
  const database = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const fixed = { DATA_DIR, DATABASE_URL: database.url };
  const source: Record<string, string> = noFetch
    ? { SANDBOX_FETCH: 'off' }
    : { APT_CONFIG: await useSource(t, 'deb http://127.0.0.1:1/debian stable main') };
  const bare = await startServiceFixture(t, { ...fixed, ...source, PATH: barePath });
  t.equal(bare.lines.filter((line) => line === NOTICE).length, 1, 'said once');
  await t.test('tries to fetch it first', { skip: noFetch }, async (t) => {
    t.match(
      bare.lines.filter((line) => /bubblewrap/.test(line)),
      [/^Not installed: bubblewrap\./, /^Cannot fetch bubblewrap: Failed to fetch http:\/\/127\.0\.0\.1:1\//, NOTICE],
    );
  });
  const ops = `http://localhost:${bare.env.SUPERVISOR_OPS_PORT}/healthz`;
  t.match(await bare.call('GET', ops), {
    body: { status: 'ok', sandbox: { state: 'degraded', missing: NOTICE } },
  });

  await publish(bare, 'kind', "middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' kind.';");
  await list(database, 'kind');
  const install = { slug: 'kind', versionPolicy: 'Latest' };
  await bare.call('POST', '/api/installations', install);
  t.match(await promptAs(bare, bare.token), { context: { systemPrompt: 'Be kind.' }, trace: [{ outcome: 'changed' }] });

  const child = (await bare.processes()).find(({ command }) => command.includes('/proc/self/fd/3'));
  const status = await readFile(`/proc/${child?.pid}/status`, 'utf8');
  t.match(status, isRoot ? /^Uid:\t64321\t64321\t64321\t64321$/m : /^Uid:/m, 'never as root');

  const { token: bob } = await bare.asUser('bob');
  const own = await bare.call('POST', '/api/plugins', { slug: 'bobs', displayName: 'bobs' }, bob);
  const files = [
    { path: 'readme.md', contentText: '---\nname: x\ndescription: x\n---\n' },
    { path: 'index.ts', contentText: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;' },
  ];
  const unread = await bare.call('POST', `/api/plugins/${own.body.id}/versions`, { semVer: '1.0.0', files }, bob);
  t.match(unread, { status: 503, body: { code: 'unavailable', detail: REFUSAL } }, 'not even read at a publish');
  const other = await bare.call('POST', '/api/installations', install, bob);
  t.equal(other.status, 201);
  t.match(await promptAs(bare, bob), {
    context: { systemPrompt: 'Be' },
    trace: [{ slug: 'kind', outcome: 'skipped_unavailable', reason: REFUSAL }],
  });
  const path = `/api/installations/${other.body.id}`;
  const notice = await eventually(async () => {
    const { body } = await bare.call('GET', path, undefined, bob);
    return body.status === 'failed' && body;
  });
  t.equal(notice.statusReason, REFUSAL);
  await soakTest(t, 'a plugin that loops dies with a supervisor that is killed', (t) => killLooping(t, bare));
  await bare.processes();
  bare.kill('SIGTERM');
  t.match(await bare.exited, { code: 0 });
  t.same(await bare.leftovers(), []);

  if (!isSoak()) return;
  await startProcess(t, { url: database.url, dataDir: DATA_DIR }, { SUPERVISOR_PORT: bare.env.SUPERVISOR_PORT });
  t.match(await promptAs(bare, bob), { context: { systemPrompt: 'Be kind.' } }, 'with bubblewrap it runs again');
  await eventually(async () => {
    const { rows } = await database.pool.query('SELECT status FROM installations WHERE id = $1', [other.body.id]);
    return rows[0].status === 'ready';
  });
});

// sandbox.test.ts has the refusal in every run.
soakTest(t, 'SANDBOX=require refuses to start, in one sentence', async (t) => {
  const storage = { url: (await testDatabase(t)).url, dataDir: await temporaryFolder(t) };
  const refused = await startProcess(t, storage, { SANDBOX: 'require', PATH: barePath }).catch((error: Error) => error);
  const install = INSTALL.replace('Install', 'install');
  t.match(refused, { message: `did not start: SANDBOX=require, but no sandbox can be built: ${install}.` });
});

/** Starts a supervisor, which reports that there is no sandbox. */
async function runWithoutSandbox(
  t: Test,
  storage: Parameters<typeof startProcess>[1],
  env: Environment,
): Promise<void> {
  const supervisor = await startProcess(t, storage, env);
  const health = await (await fetch(`${supervisor.opsUrl}/healthz`)).json();
  t.match(health, { sandbox: { state: 'off' } });
  const metrics = await (await fetch(`${supervisor.opsUrl}/metrics`)).text();
  t.match(metrics, /bulkhead_sandbox\{state="off",limiter="(cgroup2|cgroup1|rlimit)"\} 1/);
  await supervisor.stop();
}

t.test('SANDBOX=off has to be meant, and is refused beside plugins of other accounts', async (t) => {
  const { url, pool } = await testDatabase(t);
  const dataDir = await temporaryFolder(t);
  await t.rejects(confirmSandboxOff(readConfig({ SANDBOX: 'off' }), pool), {
    message: /To confirm it, also set SANDBOX_OFF_CONFIRMED=yes/,
  });
  const meant = { SANDBOX: 'off', SANDBOX_OFF_CONFIRMED: 'yes' };
  await t.resolves(confirmSandboxOff(readConfig(meant), pool));
  if (isSoak()) await runWithoutSandbox(t, { url, dataDir }, meant);
  const [ann, bob] = [await findOrCreateAccount(pool, 'ann'), await findOrCreateAccount(pool, 'bob')];
  await insertBareInstallation(pool, { accountId: ann.id });
  await pool.query('UPDATE installations SET account_id = $1', [bob.id]);
  const message = /SANDBOX=off is refused: plugins of other accounts are installed/;
  await t.rejects(confirmSandboxOff(readConfig(meant), pool), { message });
  if (isSoak()) await t.rejects(startProcess(t, { url, dataDir }, meant), { message });
});
