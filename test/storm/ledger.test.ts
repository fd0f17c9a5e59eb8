/** The ledger finds what it is there to find. */
import t from 'tap';
import { temporaryFolder } from '../runner/harness.ts';
import { type Entry, judge, Ledger } from './ledger.ts';

const entry = (id: string, queue: string, place: number, at = 0): Entry => ({ id, queue, place, at });

t.test('an acknowledged request that never arrived is lost', async (t) => {
  t.same(judge([entry('a', 'x', 0), entry('b', 'x', 1)], [entry('a', 'x', 0)]).lost, ['b']);
});

t.test('a request that arrived without an acknowledgement is not a fault', async (t) => {
  t.match(judge([], [entry('a', 'x', 0)]), { lost: [], doubled: 0, misplaced: [] });
});

t.test('every arrival after the first is counted, and is in no order', async (t) => {
  const arrived = [entry('a', 'x', 0), entry('b', 'x', 1), entry('a', 'x', 0), entry('a', 'x', 0)];
  t.match(judge([], arrived), { doubled: 2, misplaced: [] });
});

t.test('order counts within a queue, and where there is one', async (t) => {
  const arrived = [entry('b', 'x', 1), entry('c', 'y', 0), entry('a', 'x', 0), entry('e', '', 1), entry('d', '', 0)];
  t.same(judge([], arrived).misplaced, ['x 0']);
});

t.test('waits are from the acknowledgement to the first arrival', async (t) => {
  const acknowledged = [entry('a', 'x', 0, 100), entry('b', 'x', 1, 100), entry('c', 'x', 2, 100)];
  const arrived = [entry('a', 'x', 0, 400), entry('b', 'x', 1, 150), entry('a', 'x', 0, 900)];
  t.same(judge(acknowledged, arrived).waits, [50, 300]);
});

t.test('the ledger is read from its files', async (t) => {
  const ledger = new Ledger(await temporaryFolder(t));
  for (const id of ['a', 'b']) ledger.acknowledge({ id, queue: 'x', place: 0 });
  ledger.arrive({ id: 'b', queue: 'x', place: 0 });
  t.match(ledger.verdict(), { lost: ['a'], doubled: 0, misplaced: [] });
});
