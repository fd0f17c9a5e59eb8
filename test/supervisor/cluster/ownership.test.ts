/** Ownership of an account and its jobs while supervisors join and leave: two on one database, without plugins. */
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import t, { type Test } from 'tap';
import { findShard, SHARDS } from '../../../db/cluster/shards.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { notifyShardsChanged } from '../../../db/postgres/notifications.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { createServer } from '../../../service/http/application.ts';
import type { Caller } from '../../../service/identity/caller.ts';
import { type AccountRouter, limitForwards, serveOwnAccounts } from '../../../supervisor/cluster/account-router.ts';
import { nameProcess } from '../../../supervisor/cluster/local-process.ts';
import { describeLoopbackPeers } from '../../../supervisor/cluster/loopback-peers.ts';
import { OwnedJobs } from '../../../supervisor/cluster/owned-jobs.ts';
import { MOVE_PAUSE_MS, Ownership } from '../../../supervisor/cluster/ownership.ts';
import { PeerRequests } from '../../../supervisor/cluster/peer-requests.ts';
import { PeerServer } from '../../../supervisor/cluster/peer-server.ts';
import { placeShards } from '../../../supervisor/cluster/placement.ts';
import { eventually } from '../../runner/eventually.ts';
import { type TestDatabase, testDatabase } from '../../runner/harness.ts';

const CAPACITY = 10;
/** No call is cut off in these tests. */
const NEVER = new Promise<never>(() => undefined);
/** An address where nothing listens: no call is forwarded. */
const ADDRESS = 'http://127.0.0.1:1';

/** Makes the database refuse to release shards, two times. */
const REFUSE_TWICE = `CREATE SEQUENCE refusals;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('refusals') <= 2 THEN RAISE 'refused'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON shards FOR EACH ROW WHEN (NEW.owner IS NULL) EXECUTE FUNCTION refuse();`;

/** Opens two that follow the cluster and own nothing yet. */
async function openTwo(t: Test, { pool }: TestDatabase): Promise<readonly [Ownership, Ownership]> {
  const open = async (): Promise<Ownership> => {
    const listener = await openListener(pool, () => undefined);
    const ownership = new Ownership({
      pool,
      listener,
      capacity: CAPACITY,
      release: 'test',
      stopChildren: async () => undefined,
      onClaimed: () => undefined,
      onError: (error) => t.comment(error.message),
    });
    t.teardown(async () => {
      await ownership.close();
      await listener.close();
    });
    await ownership.follow();
    return ownership;
  };
  return [await open(), await open()];
}

/** Id of an account that is placed on the second of the two. */
function chooseAccount([first, second]: readonly [Ownership, Ownership]): string {
  const placed = placeShards(
    [first, second].map(({ id }) => ({ id, capacity: CAPACITY })),
    SHARDS,
  );
  for (;;) {
    const id = randomUUID();
    if (placed[findShard(id)] === second.id) return id;
  }
}

/** Begins work of an account that is then to move from the first to the second. */
async function beginMove(t: Test, database: TestDatabase) {
  const both = await openTwo(t, database);
  const [first, second] = both;
  const account = chooseAccount(both);
  await first.join(ADDRESS);
  const work = first.begin(account);
  if (work === null) throw new Error('the only supervisor owns every account');
  await second.join(ADDRESS);
  await eventually(async () => work.isLeaving());
  return { first, second, account, work };
}

t.test('a call is led to the next owner after a drain that began while the move paused', async (t) => {
  const { first, second, account, work } = await beginMove(t, await testDatabase(t));
  await eventually(async () => !work.isLeaving());
  t.ok(first.holds(account), 'the move pauses, because work lasts');
  const left = first.leave(NEVER);
  work.end();
  await eventually(async () => second.holds(account));
  await left;
  // The move that paused goes on, and finds the shard given up.
  await sleep(MOVE_PAUSE_MS);
  t.equal((await first.findOwner(account))?.id, second.id);
});

t.test('a drain repeats a release that failed', async (t) => {
  const database = await testDatabase(t);
  const { first, second, account, work } = await beginMove(t, database);
  await database.pool.query(REFUSE_TWICE);
  const left = first.leave(NEVER);
  work.end();
  await left;
  const owned = await database.pool.query('SELECT 1 FROM shards WHERE owner = $1', [first.id]);
  t.equal(owned.rowCount, 0);
  await eventually(async () => second.holds(account));
});

t.test('a call to a supervisor that stops waits for another whose lease has just ended', async (t) => {
  const database = await testDatabase(t);
  const [first, second] = await openTwo(t, database);
  const account = randomUUID();
  await first.join(ADDRESS);
  await database.pool.query(
    `INSERT INTO supervisors (id, address, peer_key, release, capacity, process, expires_at)
     VALUES (0, $1, '', 'test', $2, 'of another machine', clock_timestamp() - interval '1 second')`,
    [ADDRESS, CAPACITY],
  );
  const left = first.leave(NEVER);
  await eventually(async () => !first.holds(account));
  const owner = first.findOwner(account);
  await second.join(ADDRESS);
  t.equal((await owner)?.id, second.id);
  await left;
});

t.test('a job is offered again to an owner that is just handing its account over', async (t) => {
  const database = await testDatabase(t);
  const both = await openTwo(t, database);
  const [first, second] = both;
  const account = chooseAccount(both);
  const done: string[] = [];
  const jobsOf = (ownership: Ownership, name: string) => {
    let fetch: (payload: { installationId: string }, accountId?: string) => Promise<void> = async () => undefined;
    const peers = new PeerRequests({ onError: (error) => t.comment(error.message) });
    t.teardown(() => peers.close());
    const queues: ConstructorParameters<typeof OwnedJobs>[0]['queues'] = {
      work: (_queue, handler) => {
        fetch = handler as typeof fetch;
      },
    };
    const jobs = new OwnedJobs({ pool: database.pool, queues, ownership, peers });
    jobs.work('updates', async () => void done.push(name));
    return { jobs, fetch: () => fetch({ installationId: 'i1' }, account) };
  };
  const [fetching, owning] = [jobsOf(first, 'first'), jobsOf(second, 'second')];
  let offers = 0;
  const server = new PeerServer({
    host: '127.0.0.1',
    port: 0,
    key: second.peerKey,
    jobs: {
      runHere: async (...job) => {
        offers += 1;
        return offers > 1 && owning.jobs.runHere(...job);
      },
    },
    wakeChannels: () => true,
    catchUp: async () => undefined,
    answer: (_request, response) => void response.end(),
    upgrade: () => false,
    onError: (error) => t.fail(error.message),
  });
  await second.join(await server.listen());
  t.teardown(() => server.close(0));
  await first.join(ADDRESS);
  await eventually(async () => second.holds(account) && (await first.findOwner(account))?.id === second.id);
  await fetching.fetch();
  t.same(done, ['second']);
  t.equal(offers, 2, 'the refusal is no failure of the job');
});

/** A server whose requests are all of one account. */
function serveAs(t: Test, account: string, ownership: Ownership, forwards: AccountRouter['forwards']): FastifyInstance {
  const peers = new PeerRequests({ onError: (error) => t.comment(error.message) });
  t.teardown(() => peers.close());
  const app = createServer({ bodyMaxBytes: 1_000, server: {} });
  t.teardown(() => app.close());
  app.addHook('onRequest', async (request) => {
    request.caller = { id: account } as Caller;
  });
  serveOwnAccounts(app, { ownership, peers, server: { countHops: () => 0 }, forwards });
  return app;
}

for (const [how, method, status] of [
  ['succeeded', 'POST', 200],
  ['failed', 'POST', 409],
  ['ran plugins to read', 'GET', 200],
] as const)
  t.test(`a call that ${how} while its account moved is answered with a problem`, async (t) => {
    const database = await testDatabase(t);
    const both = await openTwo(t, database);
    const [owner] = both;
    const account = chooseAccount(both);
    await owner.join(ADDRESS);
    const app = serveAs(t, account, owner, limitForwards());
    const handler = async (request: FastifyRequest) => {
      const fence = request.ownedWork?.fence;
      if (!fence) throw new Error('it is not served here');
      await database.pool.query(`UPDATE shards SET owner = NULL, epoch = nextval('shard_epochs') WHERE id = $1`, [
        fence.shard,
      ]);
      await notifyShardsChanged(database.pool);
      await eventually(async () => !owner.isCurrent(fence));
      if (status !== 200) throw new Problem('slug_taken', 'It failed.');
      return { isDone: true };
    };
    app.route({ method, url: '/', config: method === 'GET' ? { runsPlugins: true } : {}, handler });
    const answer = await app.inject({ method, url: '/' });
    const problem = method === 'GET' ? { status: 503, code: 'unavailable' } : { status: 502, code: 'outcome_unknown' };
    t.match(answer.json(), { ...problem, detail: /moved to another supervisor/ });
    t.equal(answer.statusCode, problem.status);
    t.match(answer.headers['content-type'], /^application\/problem\+json/);
  });

t.test('an account leaves connections to other supervisors to other accounts', async (t) => {
  const database = await testDatabase(t);
  const both = await openTwo(t, database);
  const [first, second] = both;
  const waiting: ServerResponse[] = [];
  const server = new PeerServer({
    host: '127.0.0.1',
    port: 0,
    key: second.peerKey,
    jobs: { runHere: async () => false },
    wakeChannels: () => true,
    catchUp: async () => undefined,
    answer: (_request, response) => void waiting.push(response),
    upgrade: () => false,
    onError: (error) => t.fail(error.message),
  });
  await second.join(await server.listen());
  t.teardown(() => server.close(0));
  const account = chooseAccount(both);
  const app = serveAs(t, account, first, limitForwards(3));
  app.get('/', async () => ({}));
  const get = () => app.inject({ method: 'GET', url: '/' });
  const two = [get(), get()];
  await eventually(async () => waiting.length === 2);
  const refused = await get();
  t.match(refused.json(), { status: 429, detail: /forwarding 2 requests to other supervisors, 2 of them from this/ });
  t.equal(refused.headers['retry-after'], '1');
  for (const response of waiting.splice(0)) response.end('done');
  t.same(
    (await Promise.all(two)).map(({ statusCode }) => statusCode),
    [200, 200],
  );
  const next = get();
  await eventually(async () => waiting.length === 1);
  waiting[0]?.end('done');
  t.equal((await next).statusCode, 200);
});

t.test('a loopback address is reported when supervisors run on several machines', async (t) => {
  const peer = { id: 1, capacity: 1, peerKey: '', draining: false, expiresInMs: 1, process: nameProcess() };
  const [boot, ...rest] = nameProcess().split(' ');
  const own = { ...peer, address: 'http://127.0.0.1:1' };
  const neighbour = { ...own, id: 2 };
  const other = { ...peer, id: 3, address: 'http://10.0.0.3:1', process: `${boot}0 ${rest.join(' ')}` };
  t.same(describeLoopbackPeers(1, [own, neighbour, { ...other, expiresInMs: 0 }]), []);
  t.match(describeLoopbackPeers(1, [own, neighbour, other]), [
    /^This supervisor has the address http:\/\/127.0.0.1:1, /,
  ]);
  t.match(describeLoopbackPeers(3, [own, other]), []);
  const reached = { ...own, address: 'http://10.0.0.1:1' };
  t.match(describeLoopbackPeers(1, [reached, { ...other, address: 'http://[::1]:2' }]), [/^Supervisor 3 has /]);
  const container = { ...peer, id: 4, address: 'http://10.0.0.4:1', process: `${peer.process}0` };
  t.match(describeLoopbackPeers(1, [own, container]), [/^This supervisor /]);
});
