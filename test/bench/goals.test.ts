/** A measurement that measured nothing, or in which the product failed, does not meet its goals. */
import t from 'tap';
import { listIdleAttacks } from '../../bench/fixtures/attack-result.ts';
import { type Figures, listMisses } from '../../bench/fixtures/neighbour-goals.ts';
import { percentile } from '../../bench/percentiles.ts';

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

t.test('percentiles', async (t) => {
  t.equal(percentile([3, 1, 2], 0.5), 2);
  t.throws(() => percentile([], 0.5), { message: /^There are no samples/ });
});
