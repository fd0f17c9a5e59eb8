/** An account that sends as many webhook requests as it can leaves room for those of other accounts. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import t from 'tap';
import { IncomingBodies } from '../../../api/ingress/incoming-bodies.ts';
import { createWebhookHandler } from '../../../api/ingress/ingress.ts';
import { Intake } from '../../../api/ingress/intake.ts';
import { Spool } from '../../../api/ingress/spool.ts';
import type { NewDelivery } from '../../../db/channels/deliveries.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { PlaceLimiter } from '../../../service/http/place-limiter.ts';
import { RefusalPace } from '../../../service/http/refusal-pace.ts';
import { TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { send } from './webhook-fixture.ts';

const ignore = () => undefined;
/** Nearly the most headers that Node accepts. */
const LARGE_HEADER = ['x-large', 'x'.repeat(15 * KIB)] as const;
let received = 0;

function createDelivery(accountId: string, changes: Partial<NewDelivery> = {}): NewDelivery {
  received += 1;
  return {
    id: randomUUIDv7(),
    channelId: `channel of ${accountId}`,
    installationId: 'i',
    accountId,
    routingId: 'r',
    receivedAt: received,
    method: 'POST',
    query: '',
    headers: [],
    body: Buffer.alloc(0),
    ...changes,
  };
}

interface Statement {
  readonly name?: string;
  readonly values: readonly unknown[];
}
/** A pool whose statements are recorded and succeed. */
function recordingPool(): { pool: Pool; statements: Statement[]; groups(): string[][] } {
  const statements: Statement[] = [];
  const query = async (statement: Statement) => {
    statements.push(statement);
    return { rows: [] };
  };
  const groups = () =>
    statements.filter(({ name }) => name?.startsWith('insert-deliveries')).map(({ values }) => values[0] as string[]);
  const connect = async () => ({ query, release: ignore });
  return { pool: { query, connect } as unknown as Pool, statements, groups };
}

/** An intake whose first commit waits for `release`, so that later requests wait in memory. */
async function openHeldIntake(t: Teardown) {
  const { pool, groups } = recordingPool();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const faultPoint = (step: string): Promise<void> | undefined => {
    if (step !== 'intake.before-commit') return undefined;
    begin();
    return held;
  };
  const spool = await Spool.open(await temporaryFolder(t), MIB, ignore);
  const intake = new Intake({ pool, spool, onError: ignore, faultPoint });
  t.teardown(() => intake.close());
  const first = intake.accept(createDelivery('ann'));
  await begun;
  return { intake, groups, first, release };
}

t.test('10,000 requests of one account wait: one of another account is in the next group', async (t) => {
  const { intake, groups, first, release } = await openHeldIntake(t);
  const flood = Array.from({ length: 10_000 }, () => createDelivery('ann'));
  const flooding = Promise.allSettled(flood.map((delivery) => intake.accept(delivery)));
  const other = createDelivery('ben');
  const accepted = intake.accept(other);
  release();
  await Promise.all([first, accepted]);
  t.ok(groups()[1]?.includes(other.id));
  const answers = await flooding;
  const refused = answers.filter(({ status }) => status === 'rejected');
  t.match(refused[0], { reason: { code: 'rate_limited', retryAfter: 5 } });
  t.ok(refused.length > 3_000, 'places are left for other accounts');
  const stored = flood.filter((_, index) => answers[index]?.status === 'fulfilled').map(({ id }) => id);
  const ofFlood = new Set(stored);
  t.same(
    groups()
      .flat()
      .filter((id) => ofFlood.has(id)),
    stored,
    'in the order of their arrival',
  );
});

t.test('memory and groups are bounded by bytes, those of headers included', async (t) => {
  const { intake, groups, first, release } = await openHeldIntake(t);
  const accepting = Array.from({ length: 5_000 }, () =>
    intake.accept(createDelivery('ann', { headers: [LARGE_HEADER] })),
  );
  release();
  const answers = await Promise.allSettled([first, ...accepting]);
  const accepted = answers.filter(({ status }) => status === 'fulfilled').length;
  t.ok(accepted * 15 * KIB < 64 * MIB, `${accepted} were accepted`);
  const largest = Math.max(...groups().map((group) => group.length));
  t.ok(largest * 15 * KIB <= MIB, `${largest} in one group`);
});

t.test('a request larger than a group is a group', async (t) => {
  const { intake, groups, first, release } = await openHeldIntake(t);
  const large = [1, 2].map(() => createDelivery('ann', { body: Buffer.alloc(5 * MIB) }));
  const accepting = large.map((delivery) => intake.accept(delivery));
  release();
  await Promise.all([first, ...accepting]);
  t.same(
    groups().slice(1),
    large.map(({ id }) => [id]),
  );
});

/** Appends requests of an account, until the spool takes no more of it. */
async function fillSpool(spool: Spool, accountId: string, isAlone = true): Promise<void> {
  while (spool.hasRoom(accountId, isAlone))
    await spool.append([createDelivery(accountId, { body: Buffer.alloc(64 * KIB) })]);
}

async function drainSpool(spool: Spool): Promise<void> {
  for (let batch = await spool.readOldest(MIB); batch; batch = await spool.readOldest(MIB)) await batch.remove();
}

/** Every connection to the database fails. */
const awayDatabase = { query: async () => Promise.reject(new Error('away')) } as unknown as Pool;

t.test('accounts share the spool: one that has used up its share leaves room for the others', async (t) => {
  const spool = await Spool.open(await temporaryFolder(t), MIB, ignore);
  await spool.append([createDelivery('ben')]);
  await fillSpool(spool, 'ann');
  t.notOk(spool.isFull);
  t.ok(spool.hasRoom('ben', true));
  await drainSpool(spool);
  t.ok(spool.hasRoom('ann', true), 'once its requests are stored');
  await spool.append([createDelivery('ben')]);
  await fillSpool(spool, 'ann');
  const errors: string[] = [];
  const intake = new Intake({ pool: awayDatabase, spool, onError: ({ message }) => void errors.push(message) });
  const message = 'This account has used up its share of the spool. Send it again later.';
  await t.rejects(intake.accept(createDelivery('ann')), { code: 'unavailable', retryAfter: 5, message });
  t.ok(errors.includes('Account ann has used up its share of the spool, so its webhook requests are refused.'));
  await intake.accept(createDelivery('ben'));
  await intake.close();
});

t.test('where other accounts have webhook addresses, the first in the spool leaves room for them', async (t) => {
  const spool = await Spool.open(await temporaryFolder(t), MIB, ignore);
  await fillSpool(spool, 'ann', false);
  t.notOk(spool.isFull);
  const addresses = { hasOtherAccount: () => true };
  const intake = new Intake({ pool: awayDatabase, spool, addresses, onError: ignore });
  const message = 'This account has used up its share of the spool. Send it again later.';
  await t.rejects(intake.accept(createDelivery('ann')), { code: 'unavailable', message });
  await intake.accept(createDelivery('ben'));
  await intake.close();
});

t.test('the only account of a deployment may fill the spool', async (t) => {
  const folder = await temporaryFolder(t);
  const earlier = await Spool.open(folder, MIB, ignore);
  await earlier.append([createDelivery('ann', { body: Buffer.alloc(64 * KIB) })]);
  await earlier.close();
  const spool = await Spool.open(folder, MIB, ignore);
  await fillSpool(spool, 'ann');
  t.ok(spool.isFull, 'also beside what an earlier process left');
  const intake = new Intake({ pool: awayDatabase, spool, onError: ignore });
  const message = 'The spool of webhook requests on disk is full. Send it again later.';
  await t.rejects(intake.accept(createDelivery('ann')), { code: 'unavailable', message });
  await intake.close();
});

t.test('the oldest request on disk is announced, also if a newer one of another account is before it', async (t) => {
  const folder = await temporaryFolder(t);
  const before = await Spool.open(folder, MIB, ignore);
  await before.append([createDelivery('ben', { receivedAt: 2_000 }), createDelivery('ann', { receivedAt: 1_000 })]);
  await before.close();
  const { pool, statements, groups } = recordingPool();
  const intake = new Intake({ pool, spool: await Spool.open(folder, MIB, ignore), onError: ignore });
  while (groups().length === 0) await new Promise(setImmediate);
  const announced = statements.filter(({ name, values }) => name === 'show-spool' && values[1] !== null);
  t.same(
    announced.map(({ values }) => values[1]),
    [1_000],
  );
  await intake.close();
});

/** A clock that stands still, so that no bucket is refilled. */
const stopped = (): number => 0;

t.test('an account has a rate over all of its addresses, and its quota counts headers', async (t) => {
  const networks: string[] = [];
  const counted: number[] = [];
  const handler = createWebhookHandler({
    addresses: {
      findCachedAccount: () => null,
      find: async (routingId, network) => {
        networks.push(network);
        const [accountId = ''] = routingId.split('-');
        return { channelId: routingId, installationId: 'i', accountId, handshake: null };
      },
    },
    readNetwork: () => '192.0.2.1',
    rateLimits: new TokenBuckets({ perSecond: 1, burst: 5 }, stopped),
    accountRateLimits: new TokenBuckets({ perSecond: 1, burst: 6 }, stopped),
    quota: { check: ignore, count: (_, bytes) => void counted.push(bytes) },
    bodies: await IncomingBodies.open(await temporaryFolder(t)),
    intake: { accept: async () => undefined },
    handshakes: new PlaceLimiter({ places: 1, verb: 'waiting for', works: 'handshakes', retryAfterS: 1 }),
    refusals: new RefusalPace(),
    handshake: async () => null,
    answered: ignore,
    onError: (error) => t.error(error),
  });
  const { port } = await serve(t, handler);
  const post = (address: string, headers = {}) =>
    send({ port, path: `/webhook/plugin/${address}`, agent: false, headers });
  for (let count = 0; count < 5; count += 1) t.match(await post('ann-1'), { status: 200 });
  t.match(await post('ann-1'), { status: 429, body: { detail: /too many requests to this webhook address/ } });
  t.match(await post('ann-2'), { status: 200 });
  t.match(await post('ann-3'), {
    status: 429,
    headers: { 'retry-after': '1' },
    body: { code: 'rate_limited', detail: /too many requests to the webhook addresses of this account/ },
  });
  t.match(await post('ben-1', Object.fromEntries([LARGE_HEADER])), { status: 200 }, 'another account');
  t.equal(new Set(networks).size, 1);
  t.ok((counted.at(-1) ?? 0) > 15 * KIB);
});
