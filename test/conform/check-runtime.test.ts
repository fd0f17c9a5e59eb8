/**
 * The check of agent runtimes: the adapters pass it, streamed and not, and runtimes that do one thing wrong do not. The quick run
 * plays a few scenarios with one program of each kind, the long one all with each program.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import t from 'tap';
import { checkRuntime, type ScenarioResult } from '../../conform/runtime/check-runtime.ts';
import { FakeModel } from '../../conform/runtime/fake-model.ts';
import { runtimeChapters } from '../../conform/runtime/runtime-chapters.ts';
import { time } from '../../conform/runtime/scenarios/time-scenarios.ts';
import { SessionProxy } from '../../conform/runtime/session-proxy.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { processTree, stillRunning } from '../deploy/process-tree.ts';
import { root } from '../house/source-files.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { SERVER_VARIABLE } from '../runner/server.ts';
import { amount } from '../runner/soak.ts';
import { startRestProxy } from './rest-proxy.ts';
import { openSessionClock } from './session-clock.ts';
import { shareService } from './shared-service.ts';

const SCENARIOS_MIN = 60;
const TIMED_MS = 240_000;
/** Time limit of the scenarios of one test. */
const PLAYED_MS = amount({ quick: 240_000, soak: 1_800_000 });
const OUTPUT_MAX_BYTES = 10_000_000;
const isLong = amount({ quick: false, soak: true });

const service = await shareService();
const sessions = `http://localhost:${service.env.SUPERVISOR_PORT}`;
let accounts = 0;

/** The program of the page, with the adapters of this repository. */
async function writePageProgram(): Promise<string> {
  const folder = await temporaryFolder(t);
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const page = await readFile(join(root, 'docs/conform-runtime.md'), 'utf8');
  const program = /```js\n(.*?)```/s.exec(page)?.[1] ?? '';
  const path = join(folder, 'agent.mjs');
  const sources = program
    .replace('@bulkhead/sdk/adapters/ai-sdk', join(root, 'sdk/adapters/ai-sdk.ts'))
    .replace('@bulkhead/sdk/session', join(root, 'sdk/session/session.ts'));
  await writeFile(path, sources);
  return path;
}

async function makeToken(): Promise<string> {
  accounts += 1;
  return (await service.asUser(`runtime-${accounts}`)).token;
}

function startCommand(program: string): string[] {
  const [file = '', ...args] = program.split(' ');
  const path = file.endsWith('.mjs') ? file : join(root, 'test/conform', `${file}-runtime.ts`);
  return [process.execPath, path, ...args];
}

/** Runs the command as it is typed, with an account of its own. */
async function conformRuntime(
  program: string,
  options: readonly string[] = [],
  ownToken: string | null = null,
  url = service.url,
) {
  const token = ownToken ?? (await makeToken());
  const command = [join(root, 'pack/start-bulkhead.ts'), 'conform-runtime', ...options, '--', ...startCommand(program)];
  const env = { ...process.env, BULKHEAD_URL: url, BULKHEAD_TOKEN: token };
  return promisify(execFile)(process.execPath, command, { env, maxBuffer: OUTPUT_MAX_BYTES })
    .then(({ stdout, stderr }) => ({ code: 0, stdout, stderr }))
    .catch((error: { code: number; stdout: string; stderr: string }) => error);
}

/** Plays scenarios in this process, which starts faster than the command. */
const playScenarios = async (
  program: string,
  { only, token, env = {} }: { only?: string | undefined; token?: string; env?: Record<string, string> } = {},
): Promise<ScenarioResult[]> =>
  checkRuntime({
    command: startCommand(program),
    rest: `${service.url}/api`,
    sessions,
    token: token ?? (await makeToken()),
    only,
    env: { ...process.env, ...env },
    signal: AbortSignal.timeout(PLAYED_MS),
    onResult: () => undefined,
    onNotRemoved: (what: string) => void t.fail(`not removed: ${what}`),
  });

async function countPlugins(token: string): Promise<number> {
  const response = await fetch(`${service.url}/api/plugins`, { headers: { authorization: `Bearer ${token}` } });
  return ((await response.json()) as { items: unknown[] }).items.length;
}

const PROGRAMS = amount({
  quick: [[await writePageProgram(), 'that is delivered twice']],
  soak: [
    [await writePageProgram()],
    ['plain'],
    ...['ai-sdk', 'langchain', 'openai-agents'].flatMap((name) => [[name], [`${name} streamed`]]),
  ],
});

t.test('there are scenarios for each situation', async (t) => {
  const sentences = runtimeChapters.flatMap(({ title, scenarios }) =>
    scenarios.map(({ sentence }) => `${title}: ${sentence}`),
  );
  t.ok(sentences.length >= SCENARIOS_MIN, `${sentences.length} scenarios`);
  t.equal(new Set(sentences).size, sentences.length, 'each is named once');
  const page = await readFile(join(root, 'docs/conform-runtime.md'), 'utf8');
  const [, all = '', ...counts] = /^(\d+) scenarios: (\d+) held, (\d+) broken, (\d+) skipped$/m.exec(page) ?? [];
  t.equal(Number(all), sentences.length, 'as many as the page shows');
  t.equal(
    counts.reduce((sum, count) => sum + Number(count), 0),
    sentences.length,
  );
});

t.test('requests as HTTP clients send them pass the proxy, and one that it refuses gets a whole problem', async (t) => {
  const proxy = await SessionProxy.start(sessions);
  t.teardown(() => proxy.close());
  const authorization = `Bearer ${await makeToken()}`;
  const start = async (headers: Record<string, string>, query = ''): Promise<IncomingMessage> => {
    const headersOfJson = { authorization, 'content-type': 'application/json', ...headers };
    const sent = request(`${proxy.url}/sessions${query}`, { method: 'POST', headers: headersOfJson });
    sent.end(JSON.stringify({ agentId: 'baker' }));
    const [response] = await once(sent, 'response');
    return response;
  };
  const upgrade = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' };
  for (const headers of [upgrade, { expect: '100-continue' }, { te: 'trailers', 'proxy-connection': 'keep-alive' }]) {
    const response = await start(headers);
    t.equal(response.statusCode, 201, JSON.stringify(headers));
    t.match(await json(response), { agentId: 'baker' });
  }
  const fault = proxy.break('refuse', /^POST \/sessions$/);
  const refused = await start({}, '?any=1');
  t.equal(fault.times, 0, 'it is found without the query');
  t.match(refused, { statusCode: 503, headers: { 'content-type': 'application/problem+json', 'retry-after': '1' } });
  const requestId = refused.headers['x-request-id'];
  const problem = { type: 'urn:bulkhead:problem:unavailable', status: 503, code: 'unavailable', requestId };
  t.match(await json(refused), { ...problem, title: /./, detail: /./ });
});

t.test('the model of the kit lists its model and refuses requests that it does not know', async (t) => {
  const model = await FakeModel.start();
  t.teardown(() => model.close());
  const listed = await fetch(`${model.url}/models?limit=1`);
  t.match(await listed.json(), { object: 'list', data: [{ id: 'kit', object: 'model' }] });
  for (const [path, method] of [
    ['embeddings', 'POST'],
    ['chat/completions', 'GET'],
    ['models/kit', 'GET'],
  ] as const) {
    const refused = await fetch(`${model.url}/${path}`, { method });
    t.equal(refused.status, 404, `${method} ${path}`);
    t.match(await refused.json(), { error: { message: /POST \/v1\/chat\/completions and GET \/v1\/models only/ } });
  }
});

t.test('the model of the kit sends the bytes of a character in two chunks', async (t) => {
  const model = await FakeModel.start();
  t.teardown(() => model.close());
  model.play('case-1', [{ deltas: ['Bread 🍞.'], isSplit: true }]);
  for (const stream of [true, false]) {
    const body = JSON.stringify({ stream, messages: [{ role: 'user', content: 'case-1' }] });
    const { port, pathname } = new URL(`${model.url}/chat/completions`);
    const socket = connect(Number(port), '127.0.0.1');
    const head = [`POST ${pathname} HTTP/1.1`, 'host: kit', 'connection: close', `content-length: ${body.length}`];
    socket.write([...head, '', body].join('\r\n'));
    const sent = Buffer.concat(await socket.toArray()).toString('latin1');
    // A client that reads late gets both at once. A stream shows where each chunk began; a whole answer does not.
    t.match(sent, stream ? /\xf0\r\n\w+\r\n\x9f\x8d\x9e/ : /\xf0\x9f\x8d\x9e/);
  }
});

for (const [program = '', only] of PROGRAMS)
  t.test(`${program}: every scenario holds`, async (t) => {
    const token = await makeToken();
    const results = await playScenarios(program, { only, token });
    t.ok(results.length > 0);
    t.equal(await countPlugins(token), 0, 'it deletes its plugins');
    for (const { chapter, scenario, verdict, seen } of results)
      t.not(verdict, 'broken', `${chapter}: ${scenario}`, { seen });
    if (only === undefined)
      t.ok(results.filter(({ verdict }) => verdict === 'held').length >= SCENARIOS_MIN, 'few are skipped');
  });

const { DATABASE_URL = '' } = service.env as { DATABASE_URL?: string };
const database = openPool(DATABASE_URL, { name: 'clock', connections: 4, onError: () => undefined });
t.teardown(database.close);

for (const [program = ''] of isLong ? PROGRAMS : [])
  t.test(`${program}: every scenario in which time passes holds`, async (t) => {
    const check = {
      command: startCommand(program),
      rest: `${service.url}/api`,
      sessions: `http://localhost:${service.env.SUPERVISOR_PORT}`,
      token: await makeToken(),
      only: time.title,
      env: process.env,
      signal: AbortSignal.timeout(TIMED_MS),
      onResult: () => undefined,
      onNotRemoved: (what: string) => void t.fail(`not removed: ${what}`),
    };
    const results = await checkRuntime({ ...check, clock: openSessionClock(database.pool) });
    t.equal(results.length, time.scenarios.length);
    for (const { scenario, verdict, seen } of results) t.equal(verdict, 'held', scenario, { seen });
    const { scenarios } = JSON.parse((await conformRuntime(program, ['--json', '--only', 'lease has expired'])).stdout);
    t.ok(scenarios.length > 0);
    for (const { verdict, seen } of scenarios)
      t.match({ verdict, seen }, { verdict: 'skipped', seen: /clock of this service cannot be set/ });
  });

if (isLong)
  t.test('a runtime may repeat a message by itself that a required plugin could not judge', async (t) => {
    // The beginning of two lines of the results.
    const results = await playScenarios('plain repeats', { only: 'A required plugin that does not run: A' });
    t.equal(results.length, 2);
    for (const { verdict, scenario, seen } of results) t.equal(verdict, 'held', scenario, { seen });
  });

if (isLong)
  t.test('a scenario that broke while a plugin of the check was restarted is played again', async (t) => {
    const only = 'A message is answered, and the user sees';
    const [replayed] = await playScenarios('plain fails-once while-the-judge-restarts', {
      only,
      env: { REST_URL: `${service.url}/api` },
    });
    t.equal(replayed?.verdict, 'held', 'the service was at fault', { seen: replayed?.seen });
  });

/** What a runtime may do, the beginning of scenarios to which it matters, and their verdict. */
const HABITS = [
  ['replaces-half-pairs streamed', 'urrogate pair', 'held'],
  ['refuses-half-pairs streamed', 'urrogate pair', 'skipped'],
  ['ends-with-the-text', 'An output does not reach the service', 'skipped'],
];
for (const [habit = '', only = '', wanted] of isLong ? HABITS : [])
  t.test(`a runtime that ${habit.replaceAll('-', ' ')} is not at fault`, async (t) => {
    const results = await playScenarios(`plain ${habit}`, { only });
    t.ok(results.length > 0);
    for (const { scenario, verdict, seen } of results) t.equal(verdict, wanted, scenario, { seen });
  });

/** A fault of a runtime, and a scenario that finds it. */
const FAULTS = [
  ['decodes-each-chunk streamed', 'Answers that no plugin judges: A character whose bytes come in two chunks'],
  ['dies-on-stop', 'Stopped before the model answers'],
  ['fails-once', 'A message is answered, and the user sees'],
  ['forgets-signals', 'Stopped while a plugin judges the message'],
  ['forgets-signals', 'Stopped while a tool runs'],
  ['sends-half-pairs', 'A message with half a surrogate pair'],
  ['reads-prompts-once', 'A prompt is refused while the service is replaced'],
  ['forgets-outputs', 'A text that a plugin stops is not shown'],
  ['shows-early streamed', 'Nothing is shown before the model has finished'],
  ['shows-unpatched', 'A text is shown as the plugins changed it, once'],
  ['runs-tools-twice', 'A call runs once, its result reaches the model'],
  ['sends-raw-messages', 'The model gets the message as the plugins changed it'],
  ['forgets-ids', 'A message that is delivered twice is judged once'],
  ['forgets-signals', 'Stopped before the model answers'],
];
// The table below is that of a fault, too.
for (const [fault = '', only = ''] of isLong ? FAULTS : [])
  t.test(`a runtime that ${fault.replaceAll('-', ' ')} is caught`, async (t) => {
    const caught = await playScenarios(`plain ${fault}`, { only });
    t.ok(caught.length > 0);
    for (const { verdict, seen, advice } of caught) {
      t.equal(verdict, 'broken', `${seen}`);
      t.ok(advice, 'it says what to do');
    }
  });

if (isLong)
  t.test('npm run conform:runtime plays them with a service of its own', async (t) => {
    const command = [join(root, 'test/conform/conform-runtime.ts'), '--only', 'lease has expired', '--'];
    const { stdout } = await promisify(execFile)(process.execPath, [...command, ...startCommand('plain')]);
    t.match(stdout, /\n2 scenarios: 2 held, 0 broken, 0 skipped\n/);
  });

if (isLong)
  t.test('npm run conform:runtime leaves nothing after Ctrl-C', async (t) => {
    const command = [join(root, 'test/conform/conform-runtime.ts'), '--', ...startCommand('plain')];
    const { [SERVER_VARIABLE]: _server, ...env } = process.env;
    // Its own process group: a terminal sends the signal to all processes of it.
    const child = spawn(process.execPath, command, { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    await once(child.stdout, 'data');
    const started = await processTree(Number(child.pid));
    t.ok(started.length > 3, 'the service, its database and the runtime');
    // npm repeats the signal.
    for (let times = 0; times < 2; times += 1) process.kill(-Number(child.pid), 'SIGINT');
    t.same(await ended, [130, null]);
    // The helpers that start jails end by themselves, a moment after their supervisors.
    t.ok(await eventually(async () => (await stillRunning(started)).length === 0));
  });

if (isLong)
  t.test('scenarios whose plugin cannot be installed are reported, and the others have been played', async (t) => {
    let installs = 0;
    // The first is of the plugin that judges messages of users.
    const url = await startRestProxy(t, service.url, ({ method, url }) => {
      if (method !== 'POST' || url !== '/api/installations') return true;
      installs += 1;
      return installs === 1;
    });
    const only = 'bytes come in two chunks';
    const { stdout } = await conformRuntime('plain', ['--json', '--only', only], null, url);
    const { error, scenarios } = JSON.parse(stdout);
    t.match(error, { code: 'runtime_broken', message: 'The runtime breaks 2 of 3 scenarios.' });
    t.match(scenarios, [
      { chapter: 'Answers that no plugin judges', verdict: 'held' },
      {
        chapter: 'Answers that a plugin judges as a whole',
        verdict: 'broken',
        seen: /own plugins do not run: .*fetch failed/,
      },
      { chapter: 'Answers that a plugin judges piece by piece', verdict: 'broken', seen: /own plugins do not run/ },
    ]);
  });

t.test('it prints a table and what it could not remove, and says how to use it', async (t) => {
  const isOther = ({ method, url }: IncomingMessage) => method !== 'DELETE' || !url?.startsWith('/api/installations/');
  const url = await startRestProxy(t, service.url, isOther);
  const options = ['--only', 'A call runs once'];
  const { code, stdout, stderr } = await conformRuntime('plain runs-tools-twice', options, null, url);
  t.match(stderr, /^not removed: installations\/[^:]+: fetch failed: /m);
  t.equal(code, 1);
  const table = /^BROKEN .*A call runs once.*\n +seen: .*\n +to do: .*\n1 scenarios: 0 held, 1 broken, 0 skipped/;
  t.match(stdout, table);
  if (!isLong) return;
  t.match(await conformRuntime('plain', ['--only', 'no such words']), { code: 2 });
  t.match(await conformRuntime('plain', [], 'nonsense'), { code: 4 }, 'a token that is refused ends it');
});
