/** Requests to webhook addresses that do not exist cost other users of the database nothing. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import t from 'tap';
import { Addresses } from '../../../api/ingress/address-cache.ts';
import { createNetworkReader } from '../../../api/ingress/client-network.ts';
import { UnknownAddressLimiter } from '../../../api/ingress/unknown-address-limiter.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import { parseNetwork } from '../../../service/http/rate-limits.ts';
import { testDatabase } from '../../runner/harness.ts';
import { openWebhookFixture } from './webhook-fixture.ts';

/** What an attacker has in flight on 100 connections, about. */
const REQUESTS = 5_000;

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

t.test('a network is charged for unknown addresses only, and other networks are not', async (t) => {
  const limiter = new UnknownAddressLimiter();
  for (let count = 0; count < 2_000; count += 1) await limiter.run('vendor', async () => 'retired');
  let lookUps = 0;
  const ask = (network: string) =>
    limiter.run(network, async () => {
      lookUps += 1;
      return 'unknown';
    });
  const asked = await Promise.allSettled(Array.from({ length: 2_000 }, () => ask('attacker')));
  t.ok(lookUps < 1_000, `${lookUps} of 2,000 were looked up`);
  t.match(asked.at(-1), { status: 'rejected', reason: { code: 'rate_limited', retryAfter: 1 } });
  t.equal(await ask('vendor'), 'unknown');
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
  t.end();
});
