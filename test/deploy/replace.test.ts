/**
 * API and supervisor are replaced under load, also over migrations and by releases that do not work: no request is refused or gets anything but a good answer, and no forbidden
 * message passes a required plugin. Where the supervisor is killed instead, a client that repeats its call is answered.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { request } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { findProgram } from '../../service/settings/search-path.ts';
import { fileList, MINIMAL } from '../api/package/packages.ts';
import { bareSearchPath } from '../fixtures/bare-search-path.ts';
import { eventually } from '../runner/eventually.ts';
import { emptyDatabase, killProcess, type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { copyRelease, installNode, listOldReleases, type ReleaseCopy, release } from './release-copy.ts';
import { type ServiceFixture, startServiceFixture, startServiceOnTestDatabase } from './service-fixture.ts';

/** Successful replacements in a row. The first one runs from the folder of the old release, the others from that of the new one. */
const REPLACEMENTS = amount({ quick: 1, soak: 20 });
/** New requests, and messages for the guard. In a quick run the replacements count, not the load. */
const PER_SECOND = amount({ quick: 5, soak: 50 });
/** Between two requests on a kept connection, milliseconds. */
const KEPT_PAUSE_MS = amount({ quick: 300, soak: 20 });
/** Answers of each kind that the guard gives at least. */
const GUARDED_MIN = amount({ quick: 5, soak: 20 });
/** Clients that repeat their call, of those that called before the supervisor was killed and of those that did after. */
const REPEATING = amount({ quick: 4, soak: 20 });

interface Tally {
  good: number;
  readonly bad: string[];
}

/** One request on a connection of its own: what a deploy refuses, it refuses here. */
function ask(url: string, token: string, tally: Tally): void {
  const refuse = (error: Error) => tally.bad.push(`${error.message} ${url}`);
  const call = request(url, { agent: false, headers: { authorization: `Bearer ${token}` } }, (answer) => {
    readText(answer).then((body) => {
      if (answer.statusCode === 200) tally.good += 1;
      else tally.bad.push(`${answer.statusCode} ${url} ${body}`);
    }, refuse);
  });
  call.on('error', refuse);
  call.end();
}

/** Releases from which the service is upgraded to the newest one. */
const NEWEST = 3;
const OLDER = amount({ quick: 1, soak: NEWEST });

/** Faults of a new release that must not take over: what is wrong with it, and what `npm start` says. */
const faults: readonly [string, RegExp, (copy: ReleaseCopy) => Promise<() => Promise<void>>][] = [
  [
    'a migration that fails',
    /^not replaced: The migrations failed and were rolled back: .*nonsense/,
    async (copy) => {
      await copy.write('db/migrations/9000_broken.sql', '-- Up Migration\nSELECT nonsense;');
      return () => rm(copy.pathOf('db/migrations/9000_broken.sql'));
    },
  ],
  [
    'code that does not start',
    /^not replaced: The API ended while starting: .*nothing there/,
    (copy) => copy.patch('api/main.ts', 'try {', "throw new Error('nothing there');\ntry {"),
  ],
  [
    'a Node that does not start',
    /^not replaced: Node cannot start without libatomic\.so\.1: install it\.$/,
    (copy) =>
      copy.patch(
        'deploy/node.sh',
        'set -eu',
        'echo "Node cannot start without libatomic.so.1: install it." >&2\nexit 1\nset -eu',
      ),
  ],
  [
    'a successor that is never ready',
    /^not replaced: The new (API|supervisor) was not ready within 5 seconds \(READY_SECONDS\): it stays so\.$/,
    (copy) =>
      copy.patch(
        'service/lifecycle/readiness.ts',
        'return missing.length === 0\n    ? null',
        "return missing.length < 99\n    ? 'it stays so'",
      ),
  ],
];

/** The others start both services; service-process.test.ts has successors that fail as small processes. */
const FAULTS = amount({ quick: 1, soak: faults.length });
const WEAKER_SANDBOX =
  /^not replaced: The sandbox of the new supervisor is weaker than the old one's\. Install bubblewrap \(.*\) and start again: until then only plugins that operators wrote run/;

/** A search path on which bubblewrap can be removed, and put back. */
async function makeSearchPath(t: Teardown) {
  const folder = join(await temporaryFolder(t), 'bin');
  await mkdir(folder);
  const link = join(folder, 'bwrap');
  const program = findProgram('bwrap');
  const addBubblewrap = async () => {
    if (program) await symlink(program, link);
  };
  await addBubblewrap();
  const path = [await bareSearchPath(t), folder].join(delimiter);
  return { path, addBubblewrap, removeBubblewrap: () => rm(link) };
}

/** Sends the signal and waits for the outcome. @returns its line */
async function replace(service: ServiceFixture): Promise<string> {
  const outcomes = () => service.lines.filter((line) => /^(not )?replaced:/.test(line));
  const before = outcomes().length;
  service.kill('SIGUSR2');
  for (;;) {
    const line = outcomes()[before];
    if (line !== undefined) return line;
    await sleep(50);
  }
}

async function listServices(service: ServiceFixture): Promise<number[]> {
  const processes = await service.processes();
  return processes.filter(({ command }) => /(api|supervisor)\/main\.ts/.test(command)).map(({ pid }) => pid);
}

/** Plugins without a process at the upgrade. More than a supervisor has spare children. */
const IDLE_PLUGINS = 3;
const PROMPT = `Be${' kind.'.repeat(IDLE_PLUGINS)}`;

t.test('requests go on through replacements that fail and through an upgrade in another folder', async (t) => {
  const [old, next] = [await copyRelease(t), await copyRelease(t)];
  const where = { node: await installNode(old), cwd: old.folder };
  await installNode(next);
  await release(next, NEWEST);
  const away = join(await temporaryFolder(t), 'old');
  const database = await testDatabase(t);
  const { path, addBubblewrap, removeBubblewrap } = await makeSearchPath(t);
  const DATA_DIR = join(old.folder, '.bulkhead', 'data');
  // As without a setting of the tests: Node creates it again where it is missing.
  const NODE_COMPILE_CACHE = join(DATA_DIR, 'compile-cache');
  await linkCompiledModules(NODE_COMPILE_CACHE);
  const env = {
    DATABASE_URL: database.url,
    DATA_DIR,
    NODE_COMPILE_CACHE,
    READS_PER_MINUTE: '1000000',
    SESSION_READS_PER_MINUTE: '1000000',
    READY_SECONDS: '5',
    PATH: path,
    SANDBOX_FETCH: 'off',
  };
  const service = await startServiceFixture(t, env, old.main, where);
  const exchangeFolders = async (): Promise<void> => {
    await rename(old.folder, away);
    await rename(next.folder, old.folder);
  };

  await t.test('a replacement after DATA_DIR moved with the old folder changes nothing', async (t) => {
    const before = await listServices(service);
    t.equal(before.length, 2);
    await exchangeFolders();
    t.equal(
      await replace(service),
      `not replaced: DATA_DIR ${DATA_DIR} was moved. If it is in the folder of the old release, exchange the folders back.`,
    );
    t.same(await listServices(service), before, 'the old processes continue');
    const { rows } = await database.pool.query(`SELECT FROM migrations WHERE name = '9001_release'`);
    t.equal(rows.length, 0, 'no migration ran');
    if (isSoak()) {
      process.kill(before[0] ?? 0, 'SIGKILL');
      await service.line(/^DATA_DIR .* is missing\./);
      t.notOk(existsSync(DATA_DIR), 'a restart does not create it where it was');
    }
    await rename(old.folder, next.folder);
    await rename(away, old.folder);
    if (isSoak()) await service.line(/ is running again\.$/);
  });

  for (let index = 0; index < IDLE_PLUGINS; index += 1)
    await install(service, `idle-${index}`, "middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' kind.';");
  t.equal(await countChildren(service), 0);
  const tally: Tally = { good: 0, bad: [] };
  const urls = [`${service.url}/api/me`, `http://localhost:${service.env.SUPERVISOR_PORT}/sessions`];
  const load = startLoad(urls, service.token, tally);
  const guard = await startGuard(service);
  const before = await listServices(service);
  t.equal(before.length, 2);
  for (const [what, outcome, breakRelease] of faults.slice(0, FAULTS)) {
    const mend = await breakRelease(old);
    t.match(await replace(service), outcome, what);
    await mend();
    t.same(await listServices(service), before, `${what}: the old processes continue, and no other is left`);
  }
  await soakTest(t, 'a successor with a weaker sandbox is refused', { skip: whyMissing('bwrap') }, async (t) => {
    await removeBubblewrap();
    t.match(await replace(service), WEAKER_SANDBOX);
    await addBubblewrap();
    t.same(await listServices(service), before, 'the old processes continue, and no other is left');
  });

  await exchangeFolders();
  await rename(join(away, '.bulkhead'), join(old.folder, '.bulkhead'));
  t.equal(await prompt(service), PROMPT, 'the old supervisor starts plugins from the new folder');
  t.match(await replace(service), /^replaced: .*migrations applied: 9001_release, 9002_release, 9003_release\)$/);
  const pages = await fetch(`${service.url}/docs`, { headers: { connection: 'close' } });
  t.equal(await pages.text(), `pages of release ${NEWEST}`, 'the pages are built before the new API starts');
  await rm(away, { recursive: true });
  for (let round = 1; round < REPLACEMENTS; round += 1)
    t.match(await replace(service), /^replaced: /, 'the old folder is not needed any more');
  const after = await listServices(service);
  t.equal(after.length, 2);
  t.notOk(after.some((pid) => before.includes(pid)));
  const folders = after.map((pid) => readlink(`/proc/${pid}/cwd`));
  t.same(await Promise.all(folders), [old.folder, old.folder]);
  t.equal(await prompt(service), PROMPT);
  t.ok((await countChildren(service)) >= IDLE_PLUGINS);
  // A fast machine replaces the service in fewer requests.
  await eventually(() => guard.counts.passed > GUARDED_MIN && guard.counts.stopped > GUARDED_MIN && tally.good > 50);
  await load.stop();
  const { passed, stopped, other } = await guard.stop();
  t.same(tally.bad, []);
  t.same(other, [], 'forbidden messages are cancelled by the plugin, the others go on');
  t.ok(passed > GUARDED_MIN && stopped > GUARDED_MIN, `${stopped} forbidden messages stopped, ${passed} others passed`);
  t.ok(tally.good > 50, `${tally.good} answers over ${REPLACEMENTS} replacements`);
  t.comment(`${tally.good} good answers, ${tally.bad.length} bad, ${REPLACEMENTS} replacements`);

  // recovery.test.ts kills a supervisor that a client calls in every run.
  if (!isSoak()) return;
  const supervisor = (await service.processes()).find(({ command }) => command.includes('supervisor/main.ts'));
  const asking = Array.from({ length: REPEATING }, () => askAgain(urls[1] as string, service.token));
  killProcess(supervisor?.pid);
  asking.push(...Array.from({ length: REPEATING }, () => askAgain(urls[1] as string, service.token)));
  t.ok((await Promise.all(asking)).every((status) => status === 200));
});

for (let from = NEWEST - OLDER + 1; from < NEWEST; from += 1)
  t.test(`an upgrade over ${NEWEST - from} migrations`, async (t) => {
    const copy = await copyRelease(t);
    await release(copy, from);
    const service = await startServiceOnTestDatabase(t, { READS_PER_MINUTE: '1000000' }, copy.main);
    const tally: Tally = { good: 0, bad: [] };
    const urls = [`${service.url}/api/me`, `http://localhost:${service.env.SUPERVISOR_PORT}/sessions`];
    const load = startLoad(urls, service.token, tally);
    await release(copy, NEWEST);
    t.match(await replace(service), /^replaced: /);
    await load.stop();
    t.same(tally.bad, []);
    t.comment(`${tally.good} good answers, ${tally.bad.length} bad`);
  });

/** Leads to the modules that the tests have compiled. Node finds them by their path from there: as many folders below a release. */
async function linkCompiledModules(link: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true });
  const { NODE_COMPILE_CACHE } = process.env;
  if (NODE_COMPILE_CACHE !== undefined) await symlink(NODE_COMPILE_CACHE, link);
}

/** Real releases of the past. */
const OLD_RELEASES = amount({ quick: 0, soak: 3 });
const oldReleases = listOldReleases(OLD_RELEASES);
if (oldReleases.length < OLD_RELEASES)
  t.pass('upgrades from real old releases', {
    skip: `the history of this clone has ${oldReleases.length} of ${OLD_RELEASES}: git fetch --unshallow brings the rest`,
  });
for (const { commit, newest, migrates } of oldReleases)
  t.test(`an upgrade from the release whose newest migration is ${newest}`, async (t) => {
    const copy = await copyRelease(t, commit);
    const env = {
      READS_PER_MINUTE: '1000000',
      SESSION_READS_PER_MINUTE: '1000000',
      DATABASE_URL: (await emptyDatabase(t)).url,
      DATA_DIR: join(await temporaryFolder(t), 'data'),
    };
    const service = await startServiceFixture(t, env, copy.main);
    const tally: Tally = { good: 0, bad: [] };
    const urls = [`${service.url}/api/me`, `http://localhost:${service.env.SUPERVISOR_PORT}/sessions`];
    const load = startLoad(urls, service.token, tally);
    const guard = await startGuard(service);
    await copy.upgrade();
    if (!migrates)
      await promisify(execFile)(process.execPath, [copy.pathOf('deploy/migrate.ts')], { env: { ...service.env } });
    t.match(await replace(service), /^replaced: /);
    await load.stop();
    const { passed, stopped, other } = await guard.stop();
    t.same(tally.bad, []);
    t.same(other, []);
    t.ok(passed > 0 && stopped > 0);
    t.comment(`${tally.good} good answers, ${passed + stopped} hook calls, none bad`);
  });

/** Asks both processes, on new connections and on kept ones. */
function startLoad(urls: readonly string[], token: string, tally: Tally): { stop(): Promise<void> } {
  let sent = 0;
  const timer = setInterval(() => ask(urls[sent++ % urls.length] as string, token, tally), 1000 / PER_SECOND);
  const kept = keepAsking(urls, token, tally);
  return {
    stop: async () => {
      clearInterval(timer);
      await kept.stop();
    },
  };
}

interface GuardCounts {
  readonly passed: number;
  readonly stopped: number;
  readonly other: readonly string[];
}

interface Guard {
  /** Those until now. */
  readonly counts: GuardCounts;
  /** Sends no more messages and waits for the answers. */
  stop(): Promise<GuardCounts>;
}

/** On a busy machine, more messages at once would wait for each other until their budgets are over. */
const UNDER_WAY_MAX = 8;
/** Takes 250 ms for each message, so that calls are under way at every moment, and cancels forbidden ones. */
const GUARD = `middleware.inboundMessage = async (ctx) => {
  await new Promise((resolve) => setTimeout(resolve, 250));
  if (ctx.message.text === 'forbidden') ctx.cancel('it is forbidden');
  return {};
};`;

async function install(service: ServiceFixture, slug: string, code: string, options: object = {}): Promise<void> {
  const { id } = (await service.call('POST', '/api/plugins', { slug, displayName: slug })).body;
  const files = fileList({ ...MINIMAL, 'index.ts': code });
  await service.call('POST', `/api/plugins/${id}/versions`, { semVer: '1.0.0', files });
  await service.call('POST', '/api/installations', { slug, ...options });
}

/** Calls the hook of a system prompt, which starts the plugins without a process. @returns the prompt that they make of `Be` */
async function prompt(service: ServiceFixture): Promise<string> {
  const session = (await service.session('POST', '/sessions', { agentId: 'agent-1' })).body.id;
  const context = { systemPrompt: 'Be', model: 'any' };
  const { body } = await service.session('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
  return body.context.systemPrompt;
}

/** How many plugins have a process. */
async function countChildren(service: ServiceFixture): Promise<number> {
  const metrics = await service.call('GET', `http://localhost:${service.env.SUPERVISOR_OPS_PORT}/metrics`);
  const counts = metrics.body.matchAll(/^bulkhead_children\{state="(?!spare)\w+"\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Installs a required plugin and sends forbidden and other messages in turn. */
async function startGuard(service: ServiceFixture): Promise<Guard> {
  await install(service, 'guard', GUARD, { required: true });
  const session = (await service.session('POST', '/sessions', { agentId: 'agent-1' })).body.id;
  const sent: Promise<void>[] = [];
  const counts = { passed: 0, stopped: 0, other: [] as string[] };
  const send = async (text: string) => {
    const message = { id: 'm', from: 'bob', text, attachments: [] };
    const path = `/sessions/${session}/hooks/inboundMessage`;
    const { status, body } = await service.session('POST', path, { context: { message } });
    if (text === 'forbidden' && body.action === 'cancel' && body.reason === 'it is forbidden') counts.stopped += 1;
    else if (text !== 'forbidden' && body.action === 'continue' && body.trace.length === 1) counts.passed += 1;
    else counts.other.push(`${text}: ${status} ${JSON.stringify(body)}`);
  };
  let underWay = 0;
  const timer = setInterval(() => {
    if (underWay >= UNDER_WAY_MAX) return;
    underWay += 1;
    const text = sent.length % 2 === 0 ? 'forbidden' : 'fine';
    const answered = send(text).catch((error: Error) => void counts.other.push(`${text}: ${error.cause ?? error}`));
    const forget = () => {
      underWay -= 1;
    };
    sent.push(answered.finally(forget));
  }, 1000 / PER_SECOND);
  return {
    counts,
    stop: async () => {
      clearInterval(timer);
      await Promise.all(sent);
      return counts;
    },
  };
}

/** A client that repeats a call which was cut off, or answered with "later". Answers the status it ends with. */
async function askAgain(url: string, token: string): Promise<number> {
  for (const until = Date.now() + 60_000; ; await sleep(200)) {
    const headers = { authorization: `Bearer ${token}`, connection: 'close' };
    const answer = await fetch(url, { headers }).catch(() => null);
    await answer?.arrayBuffer().catch(() => undefined);
    if (answer !== null && answer.status !== 503) return answer.status;
    if (Date.now() > until) return answer?.status ?? 0;
  }
}

/** Clients that keep their connections, one request after another. */
function keepAsking(urls: readonly string[], token: string, tally: Tally): { stop(): Promise<void> } {
  let over = false;
  const clients = urls.map(async (url) => {
    while (!over) {
      try {
        const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
        const body = await answer.text();
        if (answer.status === 200) tally.good += 1;
        else tally.bad.push(`kept: ${answer.status} ${url} ${body}`);
      } catch (error) {
        tally.bad.push(`kept: ${(error as Error).cause ?? error} ${url}`);
      }
      await sleep(KEPT_PAUSE_MS);
    }
  });
  return {
    stop: async () => {
      over = true;
      await Promise.all(clients);
    },
  };
}
