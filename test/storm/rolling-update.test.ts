/**
 * A rolling update: two supervisors and an API of the release before run beside those of this one, under load. No hook is
 * refused, no increment lost, and every accepted webhook request delivered.
 */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { findShard } from '../../db/cluster/shards.ts';
import { listValues } from '../../db/postgres/rows.ts';
import { fileList, MINIMAL } from '../api/package/packages.ts';
import { copyRelease, listOldReleases } from '../deploy/release-copy.ts';
import { type ServiceFixture, startServiceFixture } from '../deploy/service-fixture.ts';
import { type ForkedProcess, forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { emptyDatabase, type TestDatabase, temporaryFolder } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';

/** Real releases of the past. */
const OLD_RELEASES = amount({ quick: 0, soak: 1 });
/** Callers of one account at a time. */
const CALLERS = 2;
/** Each stage of the update lasts at least this long. Milliseconds. */
const STAGE_MS = 5_000;
/** Between two calls of a caller. Milliseconds. */
const PAUSE_MS = 50;
const ACCOUNTS = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay', 'gil', 'hal'];
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Counts its hook's calls one by one, writes down which call got which number, and what arrives. */
const PLUGIN = `
let last = Promise.resolve(0);
middleware.systemPrompt = (ctx) => {
  last = last.catch(() => 0).then(async () => {
    const next = Number((await host.storage.get('count')) ?? 0) + 1;
    await host.storage.set('call ' + next, ctx.systemPrompt);
    await host.storage.set('count', next);
    return next;
  });
  return last.then((count) => ctx.systemPrompt + ' ' + count);
};
channel.receive = async (request) => {
  await host.storage.set('arrived ' + request.bodyText, true);
};
`;
const README = `---
name: Witness
description: Counts and writes down
capabilities: [host.storage]
---
`;

interface Account {
  readonly installationId: string;
  readonly token: string;
  readonly session: string;
  readonly routingId: string;
  /** Which number each call got. */
  readonly numbers: Map<string, number>;
  /** Other calls, with what became of the hook. They may have counted. */
  readonly unanswered: Map<string, string>;
  /** Bodies of accepted webhook requests. */
  readonly accepted: string[];
}
/** Where callers go now, as behind a load balancer. */
interface Doors {
  supervisors: string[];
  apis: string[];
}

async function addAccount(service: ServiceFixture, name: string): Promise<Account> {
  const user = await service.asUser(name);
  const make = async (path: string, body: object) => {
    const made = await user.call('POST', path, body);
    if (made.status !== 201) throw new Error(`${path}: ${JSON.stringify(made.body)}`);
    return made.body;
  };
  const slug = `witness-${name}`;
  const { id } = await make('/api/plugins', { slug, displayName: name });
  const files = fileList({ ...MINIMAL, 'readme.md': README, 'index.ts': PLUGIN });
  await make(`/api/plugins/${id}/versions`, { semVer: '1.0.0', files });
  const installed = await make('/api/installations', { slug, required: true });
  const { webhookUrl } = await make(`/api/installations/${installed.id}/channels`, { name: 'inbox' });
  const session = (await user.session('POST', '/sessions', { agentId: 'agent-1' })).body.id;
  return {
    installationId: installed.id,
    token: user.token,
    session,
    routingId: new URL(webhookUrl).pathname.split('/').at(-1) ?? '',
    numbers: new Map(),
    unanswered: new Map(),
    accepted: [],
  };
}

/** On a busy machine, the process that a plugin gets at its next owner takes longer to start than the hook waits. */
const STARTING = 'it is still starting';

/** On a busy machine a plugin exceeds the limit of a hook. Its process is then killed, with the calls that run beside. */
const isTooSlow = (link: { readonly outcome: string; readonly reason?: string } | undefined): boolean =>
  link?.outcome === 'vetoed_timeout' ||
  link?.outcome === 'vetoed_error' ||
  link?.reason === STARTING ||
  (link?.reason?.startsWith('it crashed; the first call after') ?? false);

/** Calls the hook and sends webhooks until it is over. @returns what was refused */
async function call(account: Account, doors: Doors, isOver: () => boolean): Promise<string[]> {
  const bad: string[] = [];
  const headers = { authorization: `Bearer ${account.token}`, 'content-type': 'application/json' };
  let calls = 0;
  const callHook = async (turn: number): Promise<void> => {
    const url = `${doors.supervisors[turn % doors.supervisors.length]}/sessions/${account.session}/hooks/systemPrompt`;
    const id = `call-${turn}`;
    const body = JSON.stringify({ context: { systemPrompt: id } });
    account.unanswered.set(id, 'refused');
    const answer = await fetch(url, { method: 'POST', headers, body });
    const { context, trace } = await answer.json();
    const [same, number] = (context?.systemPrompt ?? '').split(' ');
    if (answer.status === 200 && same === id && number) {
      account.numbers.set(id, Number(number));
      account.unanswered.delete(id);
    } else if (isTooSlow(trace?.[0]))
      account.unanswered.set(id, trace[0].reason === STARTING ? STARTING : trace[0].outcome);
    else bad.push(`hook: ${answer.status} ${JSON.stringify(trace)}`);
  };
  const sendWebhook = async (turn: number): Promise<void> => {
    const body = `${account.session}-${turn}`;
    const url = `${doors.apis[turn % doors.apis.length]}/webhook/plugin/${account.routingId}`;
    const answer = await fetch(url, { method: 'POST', body });
    await answer.arrayBuffer();
    if (answer.status === 200) account.accepted.push(body);
    else bad.push(`webhook: ${answer.status}`);
  };
  const caller = async (): Promise<void> => {
    while (!isOver()) {
      const turn = calls++;
      await callHook(turn).catch((error: Error) => void bad.push(`hook: ${error.cause ?? error}`));
      await sendWebhook(turn).catch((error: Error) => void bad.push(`webhook: ${error.cause ?? error}`));
      await sleep(PAUSE_MS);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return bad;
}

/** Shards of a supervisor that has taken its share over, of 256 and up to three supervisors. */
const SHARE_MIN = 40;

/** Waits until this many supervisors have their share, and all shards an owner. */
async function isBalanced({ pool }: TestDatabase, count: number): Promise<void> {
  for (const until = performance.now() + 60_000; ; await sleep(100)) {
    const { rows } = await pool.query('SELECT owner, count(*)::int AS n FROM shards GROUP BY owner');
    if (rows.length === count && rows.every(({ owner, n }) => owner !== null && n > SHARE_MIN)) return;
    if (performance.now() > until) throw new Error('the shards have no owners');
  }
}

/** The supervisors that own accounts with installations. */
async function countOwners({ pool }: TestDatabase): Promise<number> {
  const accountIds = await listValues<string>(pool, 'SELECT DISTINCT account_id FROM installations');
  const owners = 'SELECT DISTINCT owner FROM shards WHERE id = ANY ($1)';
  return (await listValues(pool, owners, [accountIds.map(findShard)])).length;
}

const oldReleases = listOldReleases(OLD_RELEASES);
if (oldReleases.length < OLD_RELEASES || OLD_RELEASES === 0)
  t.pass('a rolling update from a real old release', {
    skip: OLD_RELEASES === 0 ? 'in the soak' : 'the history of this clone lacks it: git fetch --unshallow brings it',
  });
for (const { commit, newest } of oldReleases)
  t.test(`a rolling update from the release whose newest migration is ${newest}`, async (t) => {
    const copy = await copyRelease(t, commit);
    const database = await emptyDatabase(t);
    const settings = {
      DATABASE_URL: database.url,
      DATA_DIR: await temporaryFolder(t),
      SESSION_CALLS_PER_MINUTE: '1000000',
      HOST_CALLS_PER_MINUTE: '1000000',
      STRANGER_REQUESTS_PER_MINUTE: '1000000',
      LOG_LEVEL: 'error',
      CHILDREN: '40',
    };
    const service = await startServiceFixture(t, settings, copy.main);
    const start = async (main: string, port: string, opsPort: string) => {
      const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())];
      const env = { ...settings, [port]: PORT, [opsPort]: OPS_PORT, PATH: process.env.PATH ?? '' };
      return { url: `http://127.0.0.1:${PORT}`, process: await forkProcess(t, main, env, 'SIGTERM') };
    };
    const startSupervisor = (main: string) => start(main, 'SUPERVISOR_PORT', 'SUPERVISOR_OPS_PORT');
    const second = await startSupervisor(copy.pathOf('supervisor/main.ts'));
    await isBalanced(database, 2);
    const accounts: Account[] = [];
    for (const name of ACCOUNTS) accounts.push(await addAccount(service, name));
    // Ids are random: all accounts may be those of one supervisor.
    while ((await countOwners(database)) < 2)
      accounts.push(await addAccount(service, `${ACCOUNTS[0]}-${accounts.length}`));

    const doors: Doors = {
      supervisors: [`http://127.0.0.1:${service.env.SUPERVISOR_PORT}`, second.url],
      apis: [service.url],
    };
    let isOver = false;
    const loads = accounts.map((account) => call(account, doors, () => isOver));
    await sleep(STAGE_MS);
    await promisify(execFile)(process.execPath, [`${ROOT}deploy/migrate.ts`], { env: { ...process.env, ...settings } });
    await sleep(STAGE_MS);
    const third = await startSupervisor(`${ROOT}supervisor/main.ts`);
    await isBalanced(database, 3);
    doors.supervisors = [doors.supervisors[0] as string, second.url, third.url];
    await sleep(STAGE_MS);
    const end = async (going: ForkedProcess): Promise<void> => void t.equal(await going.end('SIGTERM'), 0);
    doors.supervisors = [doors.supervisors[0] as string, third.url];
    await end(second.process);
    const fourth = await startSupervisor(`${ROOT}supervisor/main.ts`);
    const api = await start(`${ROOT}api/main.ts`, 'PORT', 'API_OPS_PORT');
    await isBalanced(database, 3);
    doors.supervisors = [doors.supervisors[0] as string, third.url, fourth.url];
    doors.apis = [service.url, api.url];
    await sleep(STAGE_MS);
    doors.supervisors = [third.url, fourth.url];
    doors.apis = [api.url];
    service.kill('SIGTERM');
    await service.exited;
    await isBalanced(database, 2);
    await sleep(STAGE_MS);
    isOver = true;
    const refused = (await Promise.all(loads)).flat();
    t.same(refused, [], 'nothing is refused');

    for (const until = performance.now() + 60_000; ; await sleep(200)) {
      const { rows } = await database.pool.query(`SELECT count(*)::int AS n FROM deliveries WHERE state = 'pending'`);
      if (rows[0].n === 0 || performance.now() > until) break;
    }
    for (const { installationId, numbers, unanswered, accepted } of accounts) {
      const { rows } = await database.pool.query<{ key: string; value: string }>(
        'SELECT key, value FROM installation_storage WHERE installation_id = $1',
        [installationId],
      );
      const stored = new Map(rows.map(({ key, value }) => [key, value]));
      const count = Number(stored.get('count'));
      const calls = Array.from({ length: count }, (_, index) => JSON.parse(stored.get(`call ${index + 1}`) ?? 'null'));
      t.equal(new Set(calls).size, calls.length, 'no call ran twice');
      t.same(
        [...numbers].filter(([id, number]) => calls[number - 1] !== id),
        [],
        'every answered increment is kept',
      );
      t.same(
        calls.filter((id) => !numbers.has(id) && !unanswered.has(id)),
        [],
        'every increment was answered, or its caller got an error',
      );
      const failures = new Set([...unanswered.values()].filter((outcome) => outcome !== STARTING));
      t.ok(failures.size === 0 || failures.has('vetoed_timeout'), 'no plugin fails that was not too slow before');
      t.same(
        accepted.filter((body) => !stored.has(`arrived ${body}`)),
        [],
        'every accepted webhook request is delivered',
      );
    }
    const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
    const [hooks, webhooks] = [
      sum(accounts.map(({ numbers }) => numbers.size)),
      sum(accounts.map(({ accepted }) => accepted.length)),
    ];
    const late = sum(accounts.map(({ unanswered }) => unanswered.size));
    t.comment(`${hooks} hooks and ${webhooks} webhooks from ${newest} to this release, ${late} hooks too late`);
  });
