/**
 * Measures what hostile accounts cost another account. One account has a required guard and sends 20 good calls a second,
 * half of them with a forbidden message, to a supervisor with default settings; beside it, one account makes an attack, and
 * then four make all of them at once. Counts forbidden messages that passed and good calls that failed, and compares the
 * latency with the quiet run. Run `node bench/accounts.ts [seconds per row]`.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { forkProcess } from '../test/fixtures/forked-process.ts';
import { freePort } from '../test/fixtures/free-port.ts';
import { removeTimeLimit } from '../test/runner/harness.ts';
import { SERVER_VARIABLE, startTestServer } from '../test/runner/server.ts';
import { openStorageFixture } from '../test/supervisor/supervisor-fixture.ts';
import { percentile } from './percentiles.ts';

const SECONDS = Number(process.argv[2] ?? 10);
const GOOD_EVERY_MS = 50;
const SUPERVISOR = fileURLToPath(new URL('../supervisor/main.ts', import.meta.url));
/** Installations of each attacker whose tool never ends, and of each whose plugins are all cold. */
const HANGING = 100;
const COLD = 100;
const ATTACKERS = 4;
const MEGABYTE = 1_000_000;

// The test fixtures load tap, whose time limit of 30 s would end a measurement.
removeTimeLimit();
const endings: (() => unknown)[] = [];
const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };
const postgres = await startTestServer();
process.env[SERVER_VARIABLE] = postgres.url;
const storage = await openStorageFixture(cleanup);

const GUARD = `middleware.inboundMessage = (ctx) => {
  if (ctx.message.text.includes('forbidden')) ctx.cancel('forbidden');
  return {};
};`;
const tool = (code: string, parameters = '{}') =>
  `tools.run = { description: 'd', parameters: ${parameters}, handler: async () => { ${code} } };`;
const TOOL_REGISTRATIONS = {
  hooks: [],
  events: [],
  tools: { run: { description: 'd', parameters: {} } },
  commands: {},
  providers: {},
  channel: { receive: false, send: false, handshake: false, handshakeOn: null },
};
const CHOICES = Array.from({ length: 1_800 }, (_, index) => ({ const: index }));
const CHOOSING = { type: 'object', properties: { items: { type: 'array', items: { anyOf: CHOICES } } } };

await storage.install({ account: 'good', slug: 'guard', code: GUARD, required: true });
const attackers = Array.from({ length: ATTACKERS }, (_, index) => `bad-${index + 1}`);
for (const account of attackers) {
  for (let index = 0; index < HANGING; index += 1) {
    const registrations = TOOL_REGISTRATIONS;
    await storage.install({ account, slug: `${account}-hangs-${index}`, code: tool('for (;;);'), registrations });
  }
  const registrations = { ...TOOL_REGISTRATIONS, tools: { run: { description: 'd', parameters: CHOOSING } } };
  const code = tool('return { content: [], isError: false };', JSON.stringify(CHOOSING));
  await storage.install({ account, slug: `${account}-chooses`, code, registrations });
}
for (const account of attackers) {
  for (let index = 0; index < COLD; index += 1)
    await storage.install({ account: `${account}-cold`, slug: `${account}-cold-${index}`, code: GUARD });
}

const port = await freePort();
const { process: supervisor } = await forkProcess(
  cleanup,
  SUPERVISOR,
  {
    SUPERVISOR_PORT: String(port),
    SUPERVISOR_OPS_PORT: String(await freePort()),
    DATABASE_URL: storage.url,
    DATA_DIR: storage.dataDir,
    LOG_LEVEL: 'error',
  },
  'SIGKILL',
);
const url = `http://127.0.0.1:${port}`;
const goodConnections = new Agent({ connections: 8 });
const badConnections = new Agent({ connections: 128, bodyTimeout: 60_000, headersTimeout: 60_000 });

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function post(account: string, path: string, body: string, dispatcher: Agent): Promise<Answer> {
  const authorization = `Bearer ${await createToken(account)}`;
  const headers = { authorization, 'content-type': 'application/json' };
  const response = await request(`${url}${path}`, { method: 'POST', headers, body, dispatcher });
  return { status: response.statusCode, text: await response.body.text() };
}

const tokens = new Map<string, Promise<string>>();
function createToken(account: string): Promise<string> {
  const token = tokens.get(account) ?? storage.issuer.issue(account);
  tokens.set(account, token);
  return token;
}

const sessions = new Map<string, Promise<string>>();
function openSession(account: string): Promise<string> {
  const session =
    sessions.get(account) ??
    post(account, '/sessions', '{"agentId":"a"}', goodConnections).then(({ text }) => JSON.parse(text).id as string);
  sessions.set(account, session);
  return session;
}

/** Sends requests of an attacker, some at a time, until told to stop. Refusals are part of it. */
type Attack = (account: string, signal: AbortSignal) => Promise<void>;

const flood =
  (atOnce: number, makeRequest: (account: string, count: number) => Promise<readonly [string, string]>): Attack =>
  async (account, signal) => {
    let count = 0;
    const sendOn = async () => {
      while (!signal.aborted) {
        count += 1;
        const [path, body] = await makeRequest(account, count);
        await post(account, path, body, badConnections).catch(() => sleep(GOOD_EVERY_MS));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, sendOn));
  };

const manyKeys = JSON.stringify({
  arguments: Object.fromEntries(Array.from({ length: 600_000 }, (_, i) => [`k${i}`, i])),
});
const fittingKeys = JSON.stringify({
  arguments: Object.fromEntries(Array.from({ length: 9_900 }, (_, i) => [`k${i}`, [i]])),
});
const manyItems = JSON.stringify({ arguments: { items: Array.from({ length: 19_000 }, () => 1_799) } });
const message = (text: string) =>
  JSON.stringify({ context: { message: { id: 'm', from: 'u', text, attachments: [] } } });

const attacks: Readonly<Record<string, Attack>> = {
  'bodies of 8 MB and 600,000 keys': flood(8, async (account) => [
    `/sessions/${await openSession(account)}/tools/${account}-hangs-0__run`,
    manyKeys,
  ]),
  'the costliest bodies that are accepted': flood(8, async (account) => [
    `/sessions/${await openSession(account)}/tools/${account}-chooses__run`,
    fittingKeys,
  ]),
  'tools that never end, 100 plugins': flood(HANGING, async (account, count) => [
    `/sessions/${await openSession(account)}/tools/${account}-hangs-${count % HANGING}__run`,
    '{"arguments":{}}',
  ]),
  'a schema of 1,800 choices, 19,000 items': flood(4, async (account) => [
    `/sessions/${await openSession(account)}/tools/${account}-chooses__run`,
    manyItems,
  ]),
  'hooks of 100 cold plugins': flood(8, async (account) => [
    `/sessions/${await openSession(`${account}-cold`)}/hooks/inboundMessage`,
    message('x'),
  ]),
};

interface Row {
  passed: number;
  failed: number;
  readonly ms: number[];
  memory: number;
}

/** Sends good calls at a fixed rate, whether or not the earlier ones were answered. */
async function measure(seconds: number): Promise<Row> {
  const row: Row = { passed: 0, failed: 0, ms: [], memory: 0 };
  const path = `/sessions/${await openSession('good')}/hooks/inboundMessage`;
  const calls: Promise<void>[] = [];
  for (let count = 0; count < (seconds * 1_000) / GOOD_EVERY_MS; count += 1) {
    calls.push(sendGood(path, count % 2 === 0, row));
    row.memory = Math.max(row.memory, residentBytes());
    await sleep(GOOD_EVERY_MS);
  }
  await Promise.all(calls);
  return row;
}

async function sendGood(path: string, isForbidden: boolean, row: Row): Promise<void> {
  const startedAt = performance.now();
  const answer = await post('good', path, message(isForbidden ? 'forbidden' : 'hello'), goodConnections).catch(
    () => null,
  );
  row.ms.push(performance.now() - startedAt);
  const result = answer?.status === 200 ? (JSON.parse(answer.text) as { action: string; reason: string | null }) : null;
  if (isForbidden && result?.action === 'continue') row.passed += 1;
  if (isForbidden ? result?.reason !== 'forbidden' : result?.action !== 'continue') row.failed += 1;
}

function residentBytes(): number {
  const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${supervisor.pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

function print(name: string, { passed, failed, ms, memory }: Row): void {
  const [p50, p99] = [percentile(ms, 0.5), percentile(ms, 0.99)].map((one) => one.toFixed(1).padStart(7));
  const counts = `passed ${passed} of ${Math.ceil(ms.length / 2)}   failed ${String(failed).padStart(3)} of ${ms.length}`;
  console.log(`${name.padEnd(42)} ${counts}   p50 ${p50} ms   p99 ${p99} ms   ${Math.round(memory / MEGABYTE)} MB`);
}

async function measureBeside(name: string, running: readonly Attack[], accounts: readonly string[]): Promise<void> {
  const stop = new AbortController();
  const attacking = accounts.flatMap((account) => running.map((attack) => attack(account, stop.signal)));
  print(name, await measure(SECONDS));
  stop.abort();
  // The slowest answer is a hanging tool's, at its deadline.
  await Promise.race([Promise.all(attacking), sleep(SECONDS * 1_000)]);
}

await measure(2);
print('quiet', await measure(SECONDS));
for (const [name, attack] of Object.entries(attacks)) await measureBeside(name, [attack], attackers.slice(0, 1));
await measureBeside(`all of them, ${ATTACKERS} accounts`, Object.values(attacks), attackers);
print('quiet again', await measure(SECONDS));
for (const end of endings.reverse()) await end();
await postgres.stop();
process.exit(0);
