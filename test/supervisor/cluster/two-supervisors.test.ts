/** Two supervisors on one database: each account's plugins run in one of them, whichever is called, and any of them may go. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { insertChannel } from '../../../db/channels/channels.ts';
import { findShard } from '../../../db/cluster/shards.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { notifyShardsChanged, subscribeToDeliveries } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { ConnectionLostError, connect } from '../../../sdk/session/session.ts';
import { serveWebhooks } from '../../api/ingress/serving.ts';
import { type Gate, openGate } from '../../storm/database-gate.ts';
import { asCommand, eventually, openStorageFixture, type StorageFixture } from '../supervisor-fixture.ts';
import { type SupervisorProcess, startProcess } from '../supervisor-process.ts';

t.setTimeout(300_000);

/** Unowned work runs again within this time after a machine vanished. Milliseconds. */
const FAILOVER_MS = 15_000;
/** After the start of a drain under load, every account runs elsewhere within this time: 2 s, and more on a busy machine. Milliseconds. */
const DRAIN_MS = 6_000;
/** A call waits no longer for the move of its account, with a child to start on a busy machine. Milliseconds. */
const MOVE_MS = 10_000;

/** Adds one to a stored number: a plugin that takes care of its own concurrent calls, and knows of no other process. */
const COUNTING = `let last = Promise.resolve();
${asCommand(`last = last.catch(() => undefined).then(async () => {
  const next = ((await host.storage.get('count')) ?? 0) + 1;
  await host.storage.set('count', next);
  return next;
});
return last;`)}`;

/** Writes down the sessions that started, and whether the delivery of another one was under way. */
const RECORDING = `events.sessionStarted = async ({ data }) => {
  const overlaps = (await host.storage.get('busy')) === true;
  await host.storage.set('busy', true);
  const told = (await host.storage.get('told')) ?? [];
  await host.storage.set('told', [...told, data.sessionId + (overlaps ? ' overlaps' : '')]);
  await host.storage.set('busy', false);
};`;
const SESSIONS = 30;

/** Counts its runs, of which the first does not end. */
const WAITING_ONCE = asCommand(`const runs = ((await host.storage.get('runs')) ?? 0) + 1;
await host.storage.set('runs', runs);
if (runs === 1) await new Promise(() => undefined);
return runs;`);

/** @returns whether the supervisor runs the plugins of the account */
async function ownsAccount({ pool }: StorageFixture, { process }: SupervisorProcess, accountId: string) {
  const { rows } = await pool.query<{ process: string }>(
    'SELECT v.process FROM shards s JOIN supervisors v ON v.id = s.owner WHERE s.id = $1',
    [findShard(accountId)],
  );
  return rows[0]?.process.split(' ').includes(String(process.pid)) ?? false;
}

interface Answer {
  readonly status: number;
  /** The number that the plugin stored; null: the call failed. */
  readonly count: number | null;
  readonly ms: number;
}
interface Account {
  readonly shard: number;
  call(supervisor: Pick<SupervisorProcess, 'url'>): Promise<Answer>;
  stored(): Promise<number>;
}

/** Installs the counting plugin. */
async function addAccount(storage: StorageFixture, name: string): Promise<Account> {
  const made = await storage.install({
    account: name,
    slug: `counter-${name}`,
    capabilities: ['host.storage'],
    code: COUNTING,
  });
  const authorization = `Bearer ${await storage.issuer.issue(name)}`;
  const headers = { authorization, 'content-type': 'application/json' };
  let session: string | null = null;
  const post = (url: string, body: object) => fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return {
    shard: findShard(made.accountId),
    call: async ({ url }) => {
      session ??= ((await (await post(`${url}/sessions`, { agentId: 'agent-1' })).json()) as { id: string }).id;
      const started = performance.now();
      const answer = await post(`${url}/sessions/${session}/commands/${made.slug}__run`, { input: '{}' });
      const body = (await answer.json()) as { text?: string };
      const count = Number(body.text ?? Number.NaN);
      const ms = performance.now() - started;
      return { status: answer.status, count: Number.isInteger(count) ? count : null, ms };
    },
    stored: async () => {
      const { rows } = await storage.pool.query<{ value: string }>(
        `SELECT value FROM installation_storage WHERE installation_id = $1 AND key = 'count'`,
        [made.installationId],
      );
      return Number(rows[0]?.value ?? 0);
    },
  };
}

/** Waits until each of the two owns shards, and all have an owner. */
async function balanced({ pool }: StorageFixture): Promise<void> {
  await eventually(async () => {
    const { rows } = await pool.query('SELECT owner, count(*)::int AS n FROM shards GROUP BY owner');
    return rows.length === 2 && rows.every(({ owner, n }) => owner !== null && n > 50);
  });
}

/** Callers of one account at a time: a child takes no more than 80 calls. */
const CALLERS = 20;

/** Calls until `isOver`, each caller in turn through every supervisor. A call that was refused or cut off is an answer too. */
async function callAll(
  account: Account,
  supervisors: readonly SupervisorProcess[],
  isOver: (calls: number) => boolean,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  let calls = 0;
  const caller = async (): Promise<void> => {
    while (!isOver(calls)) {
      const supervisor = supervisors[calls++ % supervisors.length] as SupervisorProcess;
      answers.push(await account.call(supervisor).catch(() => ({ status: 0, count: null, ms: 0 })));
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return answers;
}

const isGood = ({ status, count }: Answer): boolean => status === 200 && count !== null;
const countDistinct = (answers: readonly Answer[]): number =>
  new Set(answers.flatMap(({ count }) => (count === null ? [] : [count]))).size;

t.test(
  'all increments of one installation are kept, and its events in order, whichever supervisor is called',
  async (t) => {
    const storage = await openStorageFixture(t);
    const supervisors = [await startProcess(t, storage), await startProcess(t, storage)];
    await balanced(storage);
    for (const name of ['ann', 'bob', 'cleo', 'dan']) {
      const account = await addAccount(storage, name);
      await account.call(supervisors[0] as SupervisorProcess);
      const answers = await callAll(account, supervisors, (calls) => calls >= 199);
      t.same(
        answers.filter((answer) => !isGood(answer)),
        [],
      );
      t.equal(countDistinct(answers), answers.length, 'each answer is another number');
      t.equal(await account.stored(), answers.length + 1, `all increments are kept (${name}, shard ${account.shard})`);
    }
    const made = await storage.install({
      account: 'fay',
      slug: 'recorder',
      capabilities: ['host.storage'],
      code: RECORDING,
    });
    const headers = {
      authorization: `Bearer ${await storage.issuer.issue('fay')}`,
      'content-type': 'application/json',
    };
    const started: string[] = [];
    for (let index = 0; index < SESSIONS; index += 1) {
      const url = `${supervisors[index % 2]?.url}/sessions`;
      const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ agentId: 'agent-1' }) });
      started.push(((await answer.json()) as { id: string }).id);
    }
    const told = await eventually(async () => {
      const { rows } = await storage.pool.query<{ value: string }>(
        `SELECT value FROM installation_storage WHERE installation_id = $1 AND key = 'told'`,
        [made.installationId],
      );
      const seen = JSON.parse(rows[0]?.value ?? '[]') as string[];
      return seen.length >= SESSIONS && seen;
    }, 30_000);
    t.same(told, started, 'the events of one installation arrive once, in order and never two at once');

    const capabilities = ['host.storage'];
    const waiting = await storage.install({ account: 'gil', slug: 'waiting', capabilities, code: WAITING_ONCE });
    const [first, second] = supervisors as [SupervisorProcess, SupervisorProcess];
    const isFirst = await ownsAccount(storage, first, waiting.accountId);
    const [owner, door] = isFirst ? [first, second] : [second, first];
    const readRuns = async (): Promise<number> => {
      const { rows: stored } = await storage.pool.query<{ value: string }>(
        `SELECT value FROM installation_storage WHERE installation_id = $1 AND key = 'runs'`,
        [waiting.installationId],
      );
      return Number(stored[0]?.value ?? 0);
    };
    const client = connect({ url: door.url, token: await storage.issuer.issue('gil') });
    const session = await client.start({ agentId: 'agent-1' });
    const cut = session.runCommand('waiting__run', '{}').then(
      () => null,
      (error: unknown) => error,
    );
    await eventually(async () => (await readRuns()) === 1);
    await owner.kill();
    t.type(await cut, ConnectionLostError, 'a forwarded call whose supervisor is killed is answered with an error');
    t.equal(await readRuns(), 1, 'and does not run again');
    t.equal(await session.runCommand('waiting__run', '{}'), '2', 'unless its caller makes it again');
  },
);

/** Until a delivery for which no owner was told is found by a look at all of them. Milliseconds. */
const LOOK_MS = 15_000;

t.test(
  'webhook requests are told to the owner of their account alone, and to all where it does not answer',
  async (t) => {
    const storage = await openStorageFixture(t);
    const { pool, dataDir } = storage;
    const supervisors = [await startProcess(t, storage), await startProcess(t, storage)];
    await balanced(storage);
    const listener = await openListener(pool, (error) => t.comment(error.message));
    t.teardown(() => listener.close());
    const told: string[] = [];
    await subscribeToDeliveries(listener, ({ accountId }) => void told.push(accountId));
    const port = await serveWebhooks(t, { pool, dataDir });
    const inboxes = await Promise.all(
      ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay'].map(async (account) => {
        const made = await storage.install({
          account,
          slug: `inbox-${account}`,
          code: 'channel.receive = () => undefined;',
        });
        const { routingId } = await inTransaction(pool, (tx) => insertChannel(tx, { ...made, name: 'inbox' }));
        const post = async () => {
          const answer = await fetch(`http://127.0.0.1:${port}/webhook/plugin/${routingId}`, {
            method: 'POST',
            body: 'x',
          });
          t.equal(answer.status, 200);
        };
        return { ...made, post };
      }),
    );
    const postToAll = async (): Promise<number> => {
      const started = performance.now();
      await Promise.all(inboxes.map(({ post }) => post()));
      await eventually(async () => {
        const { rows } = await pool.query(`SELECT count(*)::int AS waiting FROM deliveries WHERE state = 'pending'`);
        return rows[0].waiting === 0;
      }, 2 * LOOK_MS);
      return Math.round(performance.now() - started);
    };
    const { rows } = await pool.query('SELECT DISTINCT owner FROM shards WHERE id = ANY ($1)', [
      inboxes.map(({ accountId }) => findShard(accountId)),
    ]);
    t.equal(rows.length, 2, 'both supervisors own some of the accounts');
    const ms = await postToAll();
    t.ok(ms < LOOK_MS, `delivered after ${ms} ms`);
    t.same(told, [], 'no supervisor but the owner hears of it');
    await supervisors[0]?.kill();
    const failoverMs = await postToAll();
    t.ok(failoverMs < LOOK_MS, `delivered ${failoverMs} ms after the owner of some was killed`);
    t.ok(told.length > 0, 'by a notification to all');
    // The address of the other one leads nowhere: as between networks that do not reach each other.
    await pool.query(`UPDATE supervisors SET address = 'http://127.0.0.1:1'`);
    await notifyShardsChanged(pool);
    told.length = 0;
    const unreachableMs = await postToAll();
    t.ok(unreachableMs < LOOK_MS, `delivered after ${unreachableMs} ms`);
    t.same(new Set(told), new Set(inboxes.map(({ accountId }) => accountId)));
  },
);

t.test('a supervisor that starts or stops under load moves accounts without refusing or losing a call', async (t) => {
  const storage = await openStorageFixture(t);
  const first = await startProcess(t, storage);
  const accounts = await Promise.all(['ann', 'bob', 'cleo', 'dan'].map((name) => addAccount(storage, name)));
  for (const account of accounts) await account.call(first);
  // Its callers go over to the other one before it stops, as behind a load balancer.
  const called = [first];
  let isOver = false;
  const loads = accounts.map((account) => callAll(account, called, () => isOver));
  const second = await startProcess(t, storage);
  await balanced(storage);
  called.splice(0, 1, second);
  const stopped = performance.now();
  const ended = first.stop();
  await eventually(async () => {
    const { rows } = await storage.pool.query('SELECT owner FROM shards GROUP BY owner');
    return rows.length === 1 && rows[0].owner !== null;
  }, 20_000);
  const drainedMs = Math.round(performance.now() - stopped);
  t.ok(drainedMs < DRAIN_MS, `every account has its next owner after ${drainedMs} ms`);
  t.equal(await ended, 0);
  t.comment(`ended after ${Math.round(performance.now() - stopped)} ms`);
  isOver = true;
  for (const [index, account] of accounts.entries()) {
    const answers = (await loads[index]) ?? [];
    t.same(
      answers.filter((answer) => !isGood(answer)),
      [],
      'none is refused',
    );
    t.equal(await account.stored(), answers.length + 1, `${answers.length + 1} increments`);
    const longest = Math.max(...answers.map(({ ms }) => ms));
    t.ok(longest < MOVE_MS, `no call waits longer than ${Math.round(longest)} ms`);
  }
});

/** How a supervisor vanishes for longer than its lease, and comes back. */
const vanishings = {
  'stands still': (first: SupervisorProcess) => ({
    vanish: () => void first.process.kill('SIGSTOP'),
    comeBack: () => void first.process.kill('SIGCONT'),
  }),
  'loses its link without a word': (_first: SupervisorProcess, gate: Gate) => ({
    vanish: gate.hold,
    comeBack: gate.open,
  }),
};

for (const [how, choose] of Object.entries(vanishings))
  t.test(`a supervisor that ${how} is replaced, and writes nothing afterwards`, async (t) => {
    const storage = await openStorageFixture(t);
    const gate = await openGate(t, storage.url);
    const first = await startProcess(t, { ...storage, url: gate.url });
    const second = await startProcess(t, storage);
    const { vanish, comeBack } = choose(first, gate);
    await balanced(storage);
    const accounts = await Promise.all(['ann', 'bob', 'cleo', 'dan', 'eve'].map((name) => addAccount(storage, name)));
    for (const account of accounts) await account.call(second);
    // Calls are under way, and transactions of the first are open.
    let isOver = false;
    const loads = accounts.map((account) => callAll(account, [second], () => isOver));
    await sleep(300);
    vanish();
    const stopped = performance.now();
    const back = await Promise.all(
      accounts.map(async (account) => {
        while (!isGood(await account.call(second)));
        return performance.now() - stopped;
      }),
    );
    t.ok(Math.max(...back) < FAILOVER_MS, `all accounts are served again after ${Math.round(Math.max(...back))} ms`);
    comeBack();
    await balanced(storage);
    isOver = true;
    for (const [index, load] of loads.entries()) {
      const answers = (await load).filter(isGood);
      const stored = (await accounts[index]?.stored()) ?? 0;
      t.equal(countDistinct(answers), answers.length, 'no number is answered twice');
      t.ok(stored >= answers.length + 2, `${stored} stored, ${answers.length + 2} answered`);
    }
  });
