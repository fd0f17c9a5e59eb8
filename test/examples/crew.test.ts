/**
 * The crew of the examples, killed in its middle. In the long run the whole service is replaced and its supervisor killed, too:
 * every turn, call, reply and reminder is there once and in order, and every hook ran.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import t, { type Test } from 'tap';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { setChannelAgent } from '../../db/sessions/conversations.ts';
import { type ServiceFixture, startServiceFixture } from '../deploy/service-fixture.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { eventually } from '../runner/eventually.ts';
import { killProcess } from '../runner/harness.ts';
import { seededRandom } from '../runner/random.ts';
import { amount, soakTest } from '../runner/soak.ts';
import { deliver } from '../supervisor/delivery/channels.ts';
import { noSshd, type Sshd, startSshd } from '../supervisor/host/sshd.ts';
import {
  type Installed,
  openStorageFixture,
  type PluginSource,
  startSupervisorFixture,
} from '../supervisor/supervisor-fixture.ts';

const CREW = fileURLToPath(new URL('../../examples/crew/crew.ts', import.meta.url));
const ORDERS = amount({ quick: 1, soak: 20 });
/** An order takes at most this long, with everything that is killed meanwhile. Milliseconds. */
const ORDER_MS = 120_000;
/** Longest pause between two faults. Milliseconds. */
const PAUSE_MS = amount({ quick: 1_000, soak: 3_000 });
/** One is enough to go on after: on a busy machine, a crew that is killed all the time would do nothing else than start. */
const FAULTS_MAX = amount({ quick: 1, soak: 1_000 });
const SCAN_MS = 100;
const random = seededRandom();

const BAKERY = `
  for (const hook of ['inboundMessage', 'outboundMessage', 'agentMessage', 'todoCreate', 'todoUpdate', 'todoComplete', 'todoDelete',
    'notifySchedule', 'notifyDeliver', 'sshCommand', 'sshCommandInput', 'sshCommandOutput', 'sessionClear', 'toolCall', 'toolResult'])
    middleware[hook] = () => {};
  middleware.systemPrompt = (ctx) => ctx.systemPrompt;
  compaction.summarize = () => 'Orders came and went.';
  tools.keep = {
    description: 'Keeps a note and a picture',
    parameters: { type: 'object', properties: { text: { type: 'string' }, picture: { type: 'string' } } },
    async handler({ text, picture }) {
      await host.workspace.write('orders/' + text + '.txt', text);
      const bytes = Uint8Array.from(atob(picture), (one) => one.charCodeAt(0));
      return 'kept ' + (await host.media.put(bytes, text + '.png')).mediaType;
    },
  };
  channel.receive = ({ bodyText }) => {
    const [from, text] = bodyText.split(': ');
    return { messages: [{ conversationKey: from, from, text }] };
  };
  channel.send = ({ text }) => { host.log('sent', { text }); };`;

interface Crew {
  restart(): Promise<void>;
}
/** Bulkhead with the bakery's plugin and its shop, a channel. */
interface Bakery {
  readonly url: string;
  readonly pool: Pool;
  readonly token: string;
  /** A customer writes to the shop: `bob: Order 1`. */
  order(body: string): Promise<unknown>;
  /** Faults, by name. Each may happen at any time. */
  readonly faults: Readonly<Record<string, (crew: Crew) => Promise<unknown>>>;
}

const SOURCE = { slug: 'bakery', account: 'ann', code: BAKERY, capabilities: ['host.workspace', 'host.media'] };
const killCrew = (crew: Crew): Promise<void> => crew.restart();

function startCrew(t: Test, { url, token }: Pick<Bakery, 'url' | 'token'>): Crew {
  const env = { ...bareEnvironment, BULKHEAD_URL: url, BULKHEAD_TOKEN: token };
  const start = () => spawn(process.execPath, [CREW], { env, stdio: ['ignore', 'ignore', 'ignore'] });
  let running: ChildProcess = start();
  const end = async () => {
    const gone = once(running, 'exit');
    if (running.exitCode === null && running.signalCode === null && running.kill('SIGKILL')) await gone;
  };
  t.teardown(end);
  return {
    async restart() {
      await end();
      running = start();
    },
  };
}

interface Storage {
  readonly pool: Pool;
  install(source: PluginSource): Promise<Installed>;
}

async function openShop({ pool, install }: Storage) {
  const made = await install(SOURCE);
  const { installationId, accountId } = made;
  const channel = await inTransaction(pool, async (tx) => {
    const shop = await insertChannel(tx, { installationId, accountId, name: 'shop' });
    await setChannelAgent(tx, shop.id, { id: 'planner', name: null });
    return shop;
  });
  return { made, channel };
}

/** A supervisor of this process. */
async function openQuickBakery(t: Test, sshd: Sshd): Promise<Bakery> {
  const sshTargets = await sshd.targets({ accounts: ['ann'] });
  const fixture = await startSupervisorFixture(t, { sshTargets, reminderScanMs: SCAN_MS });
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const { made, channel } = await openShop(fixture);
  return {
    url,
    pool: fixture.pool,
    token: await fixture.issuer.issue('ann'),
    order: (body) => deliver(fixture, made, channel, [body]),
    faults: { killCrew },
  };
}

/** The whole service. */
async function openBakery(t: Test, sshd: Sshd): Promise<Bakery> {
  const storage = await openStorageFixture(t);
  await sshd.targets({ accounts: ['ann'] });
  const { channel } = await openShop(storage);
  const service = await startServiceFixture(t, {
    DATA_DIR: storage.dataDir,
    DATABASE_URL: storage.url,
    SSH_HOSTS_FILE: join(sshd.folder, 'hosts.json'),
  });
  return {
    url: `http://localhost:${service.env.SUPERVISOR_PORT}`,
    pool: storage.pool,
    token: await storage.issuer.issue('ann', (ORDERS + 1) * ORDER_MS),
    order: (body) => fetch(`${service.url}/webhook/plugin/${channel.routingId}`, { method: 'POST', body }),
    faults: { replace: () => replaceService(service), killSupervisor: () => killSupervisor(service), killCrew },
  };
}

async function replaceService(service: ServiceFixture): Promise<void> {
  const countOutcomes = () => service.lines.filter((line) => /^(not )?replaced:/.test(line)).length;
  const before = countOutcomes();
  service.kill('SIGUSR2');
  await eventually(async () => countOutcomes() > before, ORDER_MS);
}

async function killSupervisor(service: ServiceFixture): Promise<void> {
  const find = async () =>
    (await service.processes()).find(({ command }) => command.includes('supervisor/main.ts'))?.pid;
  killProcess(await eventually(find, ORDER_MS));
}

/** Causes each of the faults once, and then random ones, until it is stopped. */
function startFaults({ faults }: Bakery, crew: Crew) {
  const names = Object.keys(faults);
  const caused: string[] = [];
  let isOver = false;
  const work = (async () => {
    while ((!isOver || caused.length < names.length) && caused.length < FAULTS_MAX) {
      await sleep(random.integer(PAUSE_MS / 4, PAUSE_MS));
      const name = names[caused.length] ?? names[random.integer(0, names.length - 1)] ?? '';
      await faults[name]?.(crew);
      caused.push(name);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await work;
      return caused;
    },
  };
}

t.test('a day of the crew', { skip: noSshd }, async (t) => {
  const sshd = await startSshd(t);
  const bakery = await amount({ quick: openQuickBakery, soak: openBakery })(t, sshd);
  const { pool, url, token } = bakery;
  const crew = startCrew(t, bakery);
  /** By turn: a reminder may come before the turn that scheduled it has ended. */
  const readTexts = async (agentId: string, customer: string | null = null): Promise<string[]> => {
    const { rows } = await pool.query(
      `SELECT m.role, m.text FROM session_messages m JOIN sessions s ON s.id = m.session_id
         JOIN session_messages asked ON asked.session_id = m.session_id AND asked.id = coalesce(m.data ->> 'turnId', m.id)
         LEFT JOIN conversations k ON k.session_id = s.id
        WHERE s.agent_id = $1 AND k.conversation_key IS NOT DISTINCT FROM $2 AND m.role <> 'notice'
        ORDER BY asked.position, m.position`,
      [agentId, customer],
    );
    const toLine = (text: string): string => text.replace(/( of [\w-]{20,})?: [\w-]{20,}$/, '');
    return rows.map(({ role, text }) => (role === 'tool' ? 'tool' : `${role}: ${toLine(text)}`));
  };
  const say = async (customer: string, text: string, reply: string): Promise<void> => {
    await bakery.order(`${customer}: ${text}`);
    await eventually(async () => (await readTexts('planner', customer)).includes(`assistant: ${reply}`), ORDER_MS);
  };
  const greeting = ['user: Hello', 'assistant: What would you like?'];
  // The newest conversation is of a customer who orders nothing.
  for (const customer of ['bob', 'eve']) await say(customer, 'Hello', 'What would you like?');
  const faults = startFaults(bakery, crew);
  const orders = Array.from({ length: ORDERS }, (_, at) => `Order ${at + 1}`);
  for (const order of orders) await say('bob', order, `${order} is done.`);
  const caused = await faults.stop();
  t.same(
    Object.keys(bakery.faults).filter((name) => !caused.includes(name)),
    [],
    caused.join(', '),
  );

  const count = async (sql: string): Promise<number> => Number((await pool.query(sql)).rows[0].count);
  // The agents whose mail went on end their turns later.
  const areEnded = async () => (await count(`SELECT count(*) FROM turns WHERE state <> 'ended'`)) === 0;
  await eventually(areEnded, ORDER_MS);

  const perOrder = (lines: (order: string) => readonly string[]): string[] => orders.flatMap(lines);
  t.same(
    await readTexts('planner', 'bob'),
    greeting.concat(
      perOrder((order) => [
        ...[`user: ${order}`, 'tool', 'tool', `assistant: ${order} is planned.`],
        ...[`user: ${order} is approved`, `assistant: ${order} is done.`],
      ]),
    ),
  );
  t.same(await readTexts('planner', 'eve'), greeting, 'nothing of the orders of another customer');
  t.same(
    await readTexts('worker'),
    perOrder((order) => [
      ...[`user: ${order}`, 'tool', 'tool', 'tool', 'tool', `assistant: ${order} is in the oven.`],
      ...[`user: Ready: ${order}`, 'tool', 'tool', `assistant: ${order} is out.`],
    ]),
  );
  t.same(
    await readTexts('reviewer'),
    perOrder((order) => [`user: ${order}`, 'tool', 'tool', `assistant: ${order} is fine.`]),
  );
  t.equal(await count('SELECT count(*) FROM tool_calls WHERE answer IS NOT NULL'), ORDERS * 10, 'calls');
  t.equal(await count('SELECT count(*) FROM todos'), 0, 'to-dos');
  t.equal(await count(`SELECT count(*) FROM reminders WHERE last_outcome = 'delivered'`), ORDERS, 'reminders');

  await say('bob', 'Good night', 'Good night.');
  await eventually(async () => (await readTexts('reviewer')).length === 0, ORDER_MS);
  const countReplies = () => count(`SELECT count(*) FROM deliveries WHERE direction = 'out'`);
  // To the greetings of two customers, twice for each order, and to the farewell.
  const replies = 2 + ORDERS * 2 + 1;
  await eventually(async () => (await countReplies()) >= replies, ORDER_MS);
  t.equal(await countReplies(), replies, 'replies');
  const asked = new Map<string, number>();
  // biome-ignore lint/suspicious/noExplicitAny: answers of any shape
  const read = async (path: string): Promise<any> =>
    (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).json();
  for (const { id } of (await read('/sessions')).items)
    for (const hook of (await read(`/sessions/${id}/hooks`)).coverage)
      asked.set(hook.name, (asked.get(hook.name) ?? 0) + hook.asked);
  t.same(
    [...asked].filter(([, times]) => times === 0).map(([name]) => name),
    [],
    'the host fired every hook',
  );
});

/** Fails, or stops what the agents say, as its setting says. */
const GUARD = `middleware.outboundMessage = ({ settings, cancel }) => {
  host.log('asked', { mode: settings.mode });
  if (settings.mode === 'fails') throw new Error('away');
  if (settings.mode === 'stops') cancel('not now');
};`;

soakTest(
  t,
  'an answer that a required plugin does not judge is sent when it does, and one that it stops is not',
  async (t) => {
    const fixture = await startSupervisorFixture(t);
    const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
    const { made, channel } = await openShop(fixture);
    const guard = { slug: 'guard', account: 'ann', code: GUARD, required: true, settings: { mode: 'fails' } };
    const { installationId } = await fixture.install(guard);
    const setMode = async (mode: string): Promise<void> => {
      const sql = 'UPDATE installations SET settings = $2, updated_at = clock_timestamp() WHERE id = $1';
      await fixture.pool.query(sql, [installationId, JSON.stringify({ mode })]);
      await fixture.notify(installationId);
    };
    const untilAsked = (mode: string) =>
      eventually(async () => (await fixture.readLog('asked')).some((data: { mode: string }) => data.mode === mode));
    const readTurns = async () => (await fixture.pool.query('SELECT state FROM turns ORDER BY opened_at')).rows;
    startCrew(t, { url, token: await fixture.issuer.issue('ann') });
    await deliver(fixture, made, channel, ['bob: Good night']);
    await untilAsked('fails');
    await setMode('');
    await eventually(async () => (await readTurns())[0]?.state === 'ended');
    await setMode('stops');
    await deliver(fixture, made, channel, ['bob: Good night']);
    await untilAsked('stops');
    await eventually(async () => (await readTurns())[1]?.state === 'ended');
    const { rows } = await fixture.pool.query(`SELECT text FROM session_messages WHERE role = 'assistant'`);
    t.same(rows, [{ text: 'Good night.' }]);
  },
);
