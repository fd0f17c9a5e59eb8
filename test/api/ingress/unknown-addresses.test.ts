/** Requests to webhook addresses that do not exist cost other users of the database nothing. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import t from 'tap';
import { Addresses } from '../../../api/ingress/address-cache.ts';
import { createNetworkReader } from '../../../api/ingress/client-network.ts';
import { UnknownAddressLimiter } from '../../../api/ingress/unknown-address-limiter.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import type { Problem } from '../../../sdk/contract/errors.ts';
import { parseNetwork } from '../../../service/http/rate-limits.ts';
import { endListeners } from '../../fixtures/listeners.ts';
import { eventually } from '../../runner/eventually.ts';
import { testDatabase } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { openWebhookFixture } from './webhook-fixture.ts';

/** Addresses that do not exist begin with it in one test. */
const SCANNED = 'scan--';
/** What an attacker has in flight on 100 connections, about. */
const REQUESTS = 5_000;

const ADDRESS = { channelId: 'c', installationId: 'i', accountId: 'a', handshake: null };

const createRoutingId = (): string => randomBytes(16).toString('base64url');

t.test('5,000 at once take few statements and leave the connections to others', async (t) => {
  const { url } = await testDatabase(t);
  const { pool, close } = openPool(url, { name: 'bulkhead-test', connections: 4, onError: () => undefined });
  const listener = await openListener(pool, () => undefined);
  let statements = 0;
  const counting = Object.assign(Object.create(pool) as typeof pool, {
    query: (...asked: Parameters<typeof pool.query>) => {
      statements += 1;
      return pool.query(...asked);
    },
  });
  const addresses = await Addresses.open(counting, listener, (error) => t.error(error));
  t.teardown(async () => {
    await addresses.close();
    await listener.close();
    await close();
  });
  // The cache has read all addresses.
  while (statements === 0 || pool.idleCount < pool.totalCount) await pool.query('SELECT 1');
  const before = statements;
  const found = Promise.all(
    // Each from a network of its own: those of one are limited further.
    Array.from({ length: REQUESTS }, (_, index) => addresses.find(createRoutingId(), `network ${index}`)),
  );
  t.equal(statements - before, 2, 'the other connections are left to others');
  t.match(await pool.query('SELECT 1 AS one'), { rows: [{ one: 1 }] });
  t.ok((await found).every((address) => address === 'unknown'));
  const taken = statements - before;
  t.ok(taken <= REQUESTS / 100, `${taken} statements`);
});

t.test('the address of a new channel works at once', async (t) => {
  const fixture = await openWebhookFixture(t);
  for (let round = 0; round < 20; round += 1) {
    const { routingId } = await fixture.connect();
    t.match(await fixture.send(`/webhook/plugin/${routingId}`, { body: 'first' }), { status: 200 });
  }
});

t.test('requests to addresses that exist are not limited while those are looked up', async (t) => {
  const limiter = new UnknownAddressLimiter();
  const found = await Promise.all(Array.from({ length: 2_000 }, () => limiter.run('vendor', async () => ADDRESS)));
  t.equal(found.length, 2_000);
});

t.test('a network is charged for unknown addresses, and other networks are not', async (t) => {
  const limiter = new UnknownAddressLimiter();
  const ask = (network: string) => limiter.run(network, async () => 'unknown');
  await Promise.all(Array.from({ length: 2_000 }, () => ask('attacker')));
  const refusal = await ask('attacker').catch((error: Problem) => error);
  t.match(refusal, { code: 'rate_limited' });
  const { retryAfter = 0 } = refusal as Problem;
  t.ok(retryAfter > 25 && retryAfter <= 31, `1,500 too many are paid off in ${retryAfter} s`);
  t.equal(await ask('vendor'), 'unknown');
});

t.test('requests to an address whose look-up runs wait for it, whatever their network has left', async (t) => {
  const { pool, connect } = await openWebhookFixture(t);
  const { routingId, id: channelId } = await connect();
  const listener = await openListener(pool, () => undefined);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  // Neither a look-up of the address nor the first reading of all addresses ends before `release`.
  const slow = Object.assign(Object.create(pool) as typeof pool, {
    query: async (...asked: Parameters<typeof pool.query>) => {
      if (!JSON.stringify(asked).includes(SCANNED)) await held;
      return pool.query(...asked);
    },
  });
  const addresses = await Addresses.open(slow, listener, (error) => t.error(error));
  t.teardown(async () => {
    await addresses.close();
    await listener.close();
  });
  const scan = () => addresses.find(`${SCANNED}${randomBytes(12).toString('base64url')}`, 'proxy');
  await Promise.allSettled(Array.from({ length: 1_000 }, scan));
  const other = addresses.find(routingId, 'another network');
  await t.rejects(scan(), { code: 'rate_limited' });
  const burst = Array.from({ length: 5_001 }, () => addresses.find(routingId, 'proxy'));
  release();
  for (const found of await Promise.all([other, ...burst])) if (found === 'unknown') t.fail('it exists');
  t.match(await other, { channelId });
});

soakTest(t, 'requests to many retired addresses push no address in use out of the cache', async (t) => {
  const { pool, connect } = await openWebhookFixture(t);
  const { routingId, id: channelId } = await connect();
  // As many as the cache holds addresses in use, and some more.
  const { rows } = await pool.query<{ routing_id: string }>(
    `INSERT INTO channel_addresses (routing_id, channel_id, installation_id, retired_at)
     SELECT lpad(n::text, 22, '-'), $1, 'i', now() FROM generate_series(1, 51000) n RETURNING routing_id`,
    [channelId],
  );
  const listener = await openListener(pool, () => undefined);
  let isAway = false;
  const leaving = Object.assign(Object.create(pool) as typeof pool, {
    query: async (...asked: Parameters<typeof pool.query>) => {
      if (isAway) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
      return pool.query(...asked);
    },
  });
  const addresses = await Addresses.open(leaving, listener, (error) => t.error(error));
  t.teardown(async () => {
    await addresses.close();
    await listener.close();
  });
  t.match(await addresses.find(routingId, 'vendor'), { channelId });
  const BATCH = 2_000;
  for (let start = 0; start < rows.length; start += BATCH) {
    const batch = rows.slice(start, start + BATCH);
    const found = await Promise.all(
      batch.map((row, index) => addresses.find(row.routing_id, `network ${start + (index % 100)}`)),
    );
    if (found.some((address) => address !== 'retired')) t.fail('they are retired');
  }
  isAway = true;
  t.match(await addresses.find(routingId, 'vendor'), { channelId }, 'it is cached');
});

t.test('a cached address is used while the database does not answer', async (t) => {
  const { pool, connect } = await openWebhookFixture(t);
  const { routingId, id: channelId } = await connect();
  const listener = await openListener(pool, () => undefined);
  const { promise: silence, reject: endSilence } = Promise.withResolvers<never>();
  let isSilent = false;
  const silent = Object.assign(Object.create(pool) as typeof pool, {
    query: (...asked: Parameters<typeof pool.query>) => (isSilent ? silence : pool.query(...asked)),
  });
  const addresses = await Addresses.open(silent, listener, (error) => t.error(error));
  t.match(await addresses.find(routingId, 'vendor'), { channelId });
  isSilent = true;
  // Its machine is gone: the connections are not closed, and nothing comes.
  await listener.close();
  t.match(await addresses.find(routingId, 'vendor'), { channelId });
  endSilence(Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT' }));
  await addresses.close();
});

t.test(
  'all addresses are read again for a connection that comes before their reading over the last one fails',
  async (t) => {
    const { pool, connect } = await openWebhookFixture(t);
    const { routingId } = await connect();
    const listener = await openListener(pool, () => undefined);
    const { promise: lost, reject: lose } = Promise.withResolvers<never>();
    let reads = 0;
    const failing = Object.assign(Object.create(pool) as typeof pool, {
      query: (...asked: Parameters<typeof pool.query>) => {
        reads += 1;
        return reads === 1 ? lost : pool.query(...asked);
      },
    });
    const addresses = await Addresses.open(failing, listener, (error) => t.error(error));
    t.teardown(async () => {
      await addresses.close();
      await listener.close();
    });
    t.equal(reads, 1);
    const { promise: reconnected, resolve: onReconnect } = Promise.withResolvers<void>();
    // Called after the cache, which has subscribed before.
    await listener.listen('test', { onNotification: () => undefined, onReconnect });
    await endListeners(pool);
    await reconnected;
    lose(Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT' }));
    await eventually(async () => addresses.findCachedAccount(routingId) !== null);
  },
);

t.test('an address that is added while its notification is lost and all are read is known', async (t) => {
  const { pool, connect } = await openWebhookFixture(t);
  const { id: channelId } = await connect();
  const listener = await openListener(pool, () => undefined);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();
  let reads = 0;
  const slow = Object.assign(Object.create(pool) as typeof pool, {
    query: async (...asked: Parameters<typeof pool.query>) => {
      reads += 1;
      const isFirst = reads === 1;
      const answer = await pool.query(...asked);
      if (!isFirst) return answer;
      first.resolve();
      await held;
      return answer;
    },
  });
  const addresses = await Addresses.open(slow, listener, (error) => t.error(error));
  t.teardown(async () => {
    await addresses.close();
    await listener.close();
  });
  await first.promise;
  // Before the page that is being read.
  const routingId = '-'.repeat(createRoutingId().length);
  await pool.query(
    `INSERT INTO channel_addresses (routing_id, channel_id, installation_id)
     SELECT $1, channel_id, installation_id FROM channel_addresses WHERE channel_id = $2`,
    [routingId, channelId],
  );
  await pool.query('UPDATE channels SET routing_id = $1 WHERE id = $2', [routingId, channelId]);
  const { promise: reconnected, resolve: onReconnect } = Promise.withResolvers<void>();
  // Called after the cache, which has subscribed before.
  await listener.listen('test', { onNotification: () => undefined, onReconnect });
  await endListeners(pool);
  await reconnected;
  release();
  await eventually(async () => addresses.findCachedAccount(routingId) !== null);
});

t.test('a network is charged for retired addresses, also cached ones, and reaches those in use', async (t) => {
  const { pool, connect } = await openWebhookFixture(t);
  const [{ routingId, id: channelId }, { routingId: retired }] = [await connect(), await connect()];
  await pool.query('UPDATE channel_addresses SET retired_at = now() WHERE routing_id = $1', [retired]);
  const listener = await openListener(pool, () => undefined);
  const addresses = await Addresses.open(pool, listener, (error) => t.error(error));
  t.teardown(async () => {
    await addresses.close();
    await listener.close();
  });
  t.match(await addresses.find(routingId, 'attacker'), { channelId });
  t.equal(await addresses.find(retired, 'attacker'), 'retired');
  // Asked at once: the bucket does not refill meanwhile.
  const answers = Array.from({ length: 2_000 }, () => addresses.find(retired, 'attacker'));
  t.ok((await Promise.all(answers)).every((found) => found === 'retired'));
  await t.rejects(addresses.find(retired, 'attacker'), { code: 'rate_limited' });
  t.equal(await addresses.find(retired, 'vendor'), 'retired', 'other networks are not charged');
  t.match(await addresses.find(routingId, 'attacker'), { channelId });
});

t.test('the look-ups that wait are bounded, and a network that has none finds a place', async (t) => {
  const limiter = new UnknownAddressLimiter();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const waiting: Promise<unknown>[] = [];
  const ask = (network: string): void => {
    const run = limiter.run(network, async () => {
      await over;
      return 'unknown';
    });
    waiting.push(run.catch(({ code }) => code));
  };
  for (let network = 0; network < 14; network += 1) for (let count = 0; count < 400; count += 1) ask(`bot ${network}`);
  ask('vendor');
  end();
  const answers = await Promise.all(waiting);
  t.ok(answers.filter((answer) => answer === 'unknown').length <= 5_000);
  t.ok(answers.includes('unavailable'));
  t.equal(answers.at(-1), 'unknown');
});

t.test('the client network is the one that trusted proxies report', (t) => {
  const requestFrom = (remoteAddress: string, forwarded?: string) =>
    ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;
  const direct = createNetworkReader([]);
  t.equal(direct(requestFrom('192.0.2.1', '198.51.100.1')), '192.0.2.1');
  t.equal(direct(requestFrom('::ffff:192.0.2.1')), '192.0.2.1');
  const behindProxy = createNetworkReader(['10.0.0.0/8', '2001:db8::5']);
  t.equal(behindProxy(requestFrom('10.1.2.3', '198.51.100.1')), '198.51.100.1');
  t.equal(
    behindProxy(requestFrom('::ffff:10.1.2.3', '203.0.113.7, 198.51.100.1')),
    '198.51.100.1',
    'the client wrote the first',
  );
  t.equal(behindProxy(requestFrom('2001:db8::5', '198.51.100.1, 10.0.0.9')), '198.51.100.1', 'two proxies');
  t.equal(behindProxy(requestFrom('2001:db8::6', '198.51.100.1')), parseNetwork('2001:db8::6'), 'not a proxy');
  t.equal(behindProxy(requestFrom('10.1.2.3')), '10.1.2.3');
  t.equal(behindProxy(requestFrom('10.1.2.3', '198.51.100.1:50412')), '198.51.100.1', 'with the port of a connection');
  t.equal(behindProxy(requestFrom('10.1.2.3', '[2001:db8::7]:50412')), parseNetwork('2001:db8::7'));
  t.end();
});
