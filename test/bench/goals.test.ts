/** A measurement that measured nothing, or in which the product failed, does not meet its goals. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { listIdleAttacks } from '../../bench/fixtures/attack-result.ts';
import { type Figures, listMisses } from '../../bench/fixtures/neighbour-goals.ts';
import { computeDelay } from '../../bench/fixtures/whole-milliseconds.ts';
import { percentile } from '../../bench/percentiles.ts';
import type { Load } from '../../bench/webhook-intake.ts';

t.test('neighbours', async (t) => {
  const quiet: Figures = { answered: 6_000, failed: 0, p99: 2, overdue: [], loopMs: 1, grownMb: 0 };
  t.same(listMisses(quiet, quiet), []);
  t.same(listMisses({ ...quiet, failed: 1 }, quiet), ['failed good calls: 1']);
  t.same(listMisses({ ...quiet, answered: 5_000 }, quiet), ['83 % of the calls']);
  const silent = { ...quiet, answered: 0 };
  t.same(listMisses(silent, silent), ['NaN % of the calls'], 'no plugin answered at all');
});

t.test('accounts whose attacks did not begin', async (t) => {
  const attack = { sent: 1, answered: 0, refused: 0, planned: 2, begun: 1 };
  t.same(listIdleAttacks(attack), ['only 1 of 2 attacks began']);
  t.same(listIdleAttacks({ ...attack, begun: 2 }), []);
});

t.test('a delay to a time in whole milliseconds', async (t) => {
  const starts = Array.from({ length: 1_000 }, (_, index) => 1_000 + index * 1.001);
  const delays = starts.map((start) => computeDelay(start, Math.floor(start + 2.1)));
  t.ok(Math.abs(percentile(delays, 0.5) - 2.1) < 0.1, `${percentile(delays, 0.5)} ms`);
  t.equal(computeDelay(10.9, 10), 0);
});

t.test('vendors measure accepted requests only', async (t) => {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    response.writeHead(requests % 2 === 0 ? 503 : 200);
    request.resume().on('end', () => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const vendors = fork(new URL('../../bench/fixtures/webhook-vendors.ts', import.meta.url), { execArgv: [] });
  t.teardown(() => vendors.kill());
  const { port } = server.address() as AddressInfo;
  const load: Load = { port, path: '/', connections: 2, seconds: 0.2, rate: null, bodyBytes: 10 };
  vendors.send(load);
  const [{ accepted, refused, ms }] = await once(vendors, 'message');
  t.equal(accepted + refused, requests);
  t.ok(refused > 0);
  t.equal(ms.length, accepted);
});

t.test('percentiles', async (t) => {
  t.equal(percentile([3, 1, 2], 0.5), 2);
  t.throws(() => percentile([], 0.5), { message: /^There are no samples/ });
});
