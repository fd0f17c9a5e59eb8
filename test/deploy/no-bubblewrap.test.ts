/** A machine without bubblewrap: everything starts, says what is missing, and runs nobody else's code. */
import { globSync } from 'node:fs';
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import t, { type Test } from 'tap';
import { canFetchPackages, PROJECT_FOLDER } from '../../deploy/debian-packages.ts';
import { killProcess, type Teardown, type TestDatabase, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { useSource } from './package-source.ts';
import { type Seen, stillRunning } from './process-tree.ts';
import { eventually, type ServiceFixture, startOnly, startServiceFixture } from './service-fixture.ts';

t.setTimeout(240_000);

const INSTALL = 'Install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap) and start again';
const NOTICE = `${INSTALL}: until then only your own plugins run, those of other accounts do not.`;
const REFUSAL = `Plugins of other accounts do not run without the sandbox. ${NOTICE}`;
/** Processor time, in hundredths of a second, that no child takes to start; a busy one gets little while others want the processor. */
const BUSY_TICKS = 20;
/** Where root's services look; a start in this checkout may have put it there. */
const isFetched = process.getuid?.() === 0 && globSync(`${PROJECT_FOLDER}/*/bubblewrap`).length > 0;
const noFetch =
  (!canFetchPackages() && 'this machine has no apt-get') ||
  (isFetched && 'this checkout already has a copy of bubblewrap');

/** A search path with every program of this machine but bubblewrap. */
async function bareSearchPath(t: Teardown): Promise<string> {
  const folder = join(await temporaryFolder(t), 'bin');
  await mkdir(folder);
  const linked = new Set(['bwrap']);
  for (const from of (process.env.PATH ?? '').split(delimiter)) {
    for (const name of await readdir(from).catch(() => [])) {
      if (linked.has(name)) continue;
      linked.add(name);
      await symlink(join(from, name), join(folder, name));
    }
  }
  return folder;
}

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

async function processorTicks({ pid }: Seen): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return Number(stat.slice(stat.lastIndexOf(') ') + 2).split(' ')[11] ?? 0);
}

/** The author makes it public; the route for that is none of this test's business. */
const list = ({ pool }: TestDatabase, slug: string) =>
  pool.query(`UPDATE plugins SET visibility = 'listed' WHERE slug = $1`, [slug]);

/** Without bubblewrap nothing but the supervisor can end a child. */
async function killLooping(t: Test, service: ServiceFixture): Promise<void> {
  const user = await service.asUser('looping');
  await publish(user, 'loop', "middleware.systemPrompt = () => { console.log('looping'); for (;;); };");
  await user.call('POST', '/api/installations', { slug: 'loop', versionPolicy: 'Latest' });
  let isSeen = false;
  // On a busy machine a call may be over before its child has had that much: then it is asked again.
  const calling = (async () => {
    while (!isSeen) await promptAs(user, user.token).catch(() => undefined);
  })();
  const looping = await eventually(async () => {
    const children = (await service.processes()).filter(({ command }) => command.includes('sandbox-child.cjs'));
    const times = await Promise.all(children.map(processorTicks));
    return children.find((_, at) => (times[at] ?? 0) > BUSY_TICKS);
  });
  isSeen = true;
  const supervisor = (await service.processes()).find(({ command }) => command.includes('supervisor/main.ts'));
  killProcess(supervisor?.pid);
  await eventually(async () => (await stillRunning([looping])).length === 0);
  t.same(await stillRunning([looping]), []);
  await calling;
  await service.line(/^The supervisor is running again/);
}

t.test('starts and says what to install; own plugins run, others are refused with the reason', async (t) => {
  const database = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const fixed = { DATA_DIR, DATABASE_URL: database.url };
  const bare = await startServiceFixture(t, { ...fixed, PATH: barePath, SANDBOX_FETCH: 'off' });
  t.equal(bare.lines.filter((line) => line === NOTICE).length, 1, 'said once');
  t.notMatch(bare.lines.join('\n'), /fetch/i);
  const ops = `http://localhost:${bare.env.SUPERVISOR_OPS_PORT}/healthz`;
  t.match(await bare.call('GET', ops), {
    body: { status: 'ok', sandbox: { state: 'degraded', missing: NOTICE } },
  });

  await publish(bare, 'kind', "middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' kind.';");
  await list(database, 'kind');
  const install = { slug: 'kind', versionPolicy: 'Latest' };
  await bare.call('POST', '/api/installations', install);
  t.match(await promptAs(bare, bare.token), { context: { systemPrompt: 'Be kind.' }, trace: [{ outcome: 'changed' }] });

  const { token: bob } = await bare.asUser('bob');
  const other = await bare.call('POST', '/api/installations', install, bob);
  t.equal(other.status, 201);
  t.match(await promptAs(bare, bob), {
    context: { systemPrompt: 'Be' },
    trace: [{ slug: 'kind', outcome: 'skipped_unavailable', reason: REFUSAL }],
  });
  const path = `/api/installations/${other.body.id}`;
  const told = await eventually(async () => {
    const { body } = await bare.call('GET', path, undefined, bob);
    return body.status === 'failed' && body;
  });
  t.equal(told.statusReason, REFUSAL);
  await t.test('a plugin that loops dies with a supervisor that is killed', (t) => killLooping(t, bare));
  await bare.processes();
  bare.kill('SIGTERM');
  t.match(await bare.exited, { code: 0 });
  t.same(await bare.leftovers(), []);

  const whole = await startServiceFixture(t, fixed);
  t.match(await promptAs(whole, bob), { context: { systemPrompt: 'Be kind.' } }, 'with bubblewrap it runs again');
  await eventually(async () => (await whole.call('GET', path, undefined, bob)).body.status === 'ready');
});

t.test('starts without it where it cannot be fetched', { skip: noFetch }, async (t) => {
  const APT_CONFIG = await useSource(t, 'deb http://127.0.0.1:1/debian stable main');
  const { url } = await testDatabase(t);
  const env = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url, PATH: barePath, APT_CONFIG };
  const service = await startOnly(env);
  await service.line(/^Install bubblewrap/);
  service.kill('SIGTERM');
  t.match(await service.exited, { code: 0 });
  const said = service.lines.filter((line) => /bubblewrap/.test(line));
  t.match(said, [
    /^Not installed: bubblewrap\./,
    /^Cannot fetch bubblewrap: Failed to fetch http:\/\/127\.0\.0\.1:1\//,
    NOTICE,
  ]);
});

t.test('SANDBOX=require refuses to start, in one sentence', async (t) => {
  const { url } = await testDatabase(t);
  const env = {
    DATA_DIR: await temporaryFolder(t),
    DATABASE_URL: url,
    PATH: barePath,
    SANDBOX_FETCH: 'off',
  };
  const refused = await startOnly({ ...env, SANDBOX: 'require' });
  const { code, stdout, stderr } = await refused.exited;
  t.equal(code, 1);
  t.match(stderr, `SANDBOX=require, but no sandbox can be built: ${INSTALL.replace('Install', 'install')}.\n`);
  t.notMatch(stdout, /bulkhead ready|fetch/i);
});

t.test('SANDBOX=off has to be meant, and is refused beside plugins of other accounts', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: url, SANDBOX: 'off' };
  const unmeant = await (await startOnly(env)).exited;
  t.match(unmeant, { code: 1, stderr: /set SANDBOX_OFF_CONFIRMED=yes too/ });
  const service = await startServiceFixture(t, { ...env, SANDBOX_OFF_CONFIRMED: 'yes' });
  const ops = `http://localhost:${service.env.SUPERVISOR_OPS_PORT}`;
  t.match(await service.call('GET', `${ops}/healthz`), { body: { sandbox: { state: 'off' } } });
  const metrics = await (await fetch(`${ops}/metrics`)).text();
  t.match(metrics, /bulkhead_sandbox\{state="off",limiter="(cgroup2|cgroup1|rlimit)"\} 1/);
  await publish(service, 'kind', "middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' kind.';");
  await pool.query(`UPDATE plugins SET visibility = 'listed' WHERE slug = 'kind'`);
  const { token: bob } = await service.asUser('bob');
  const install = { slug: 'kind', versionPolicy: 'Latest' };
  t.equal((await service.call('POST', '/api/installations', install, bob)).status, 201);
  service.kill('SIGTERM');
  await service.exited;
  const foreign = await (await startOnly({ ...env, SANDBOX_OFF_CONFIRMED: 'yes' })).exited;
  t.match(foreign, { code: 1, stderr: /SANDBOX=off is refused: plugins of other accounts are installed/ });
});
