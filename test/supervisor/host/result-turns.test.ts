/** Large results wait for a turn of the event loop; small ones do not. An installation that reads many of them is slowed. */
import t from 'tap';
import { COSTLY_BYTES, waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { weighValue } from '../../../service/timing/value-weight.ts';
import { ResultTurns } from '../../../supervisor/host/result-turns.ts';

const LARGE = Array.from({ length: COSTLY_BYTES }, () => 0);
const caller = { accountId: 'ann', installationId: 'i1' };
const { signal: never } = new AbortController();

t.test('small values cost more than texts and bytes of the same length', async (t) => {
  t.equal(weighValue(null), 8);
  t.equal(weighValue('x'.repeat(800)), 108);
  t.equal(weighValue(new Uint8Array(800)), 108);
  t.equal(weighValue([1, 2]), 24);
  t.equal(weighValue({ abc: [] }), 19);
});

t.test('the rest of a large result is not read', async (t) => {
  let reads = 0;
  const item = () => ({
    get text() {
      reads += 1;
      return 'x'.repeat(1_000);
    },
  });
  t.ok(weighValue(Array.from({ length: 100_000 }, item), COSTLY_BYTES) > COSTLY_BYTES);
  t.ok(reads < 200, `${reads} of 100,000 items`);
});

t.test('a small result waits for nothing, a large one for its turn', async (t) => {
  const turns = new ResultTurns();
  for (const small of [undefined, null, 'x'.repeat(COSTLY_BYTES), new Uint8Array(COSTLY_BYTES), { a: 1 }])
    t.equal(turns.open(caller, never).waitToSend(small), undefined);
  const turn = turns.open(caller, never);
  await turn.waitToSend(LARGE);
  t.equal(turn.waitToSend(LARGE), undefined, 'it has its turn');
});

t.test('a call of another account has its turn among the large results of one account', async (t) => {
  const turns = new ResultTurns();
  const order: string[] = [];
  const send = async (accountId: string) => {
    await turns.open({ ...caller, accountId }, never).waitToSend(LARGE);
    order.push(accountId);
  };
  await Promise.all([send('ann'), send('ann'), send('ann'), send('ben')]);
  t.same(order, ['ann', 'ben', 'ann', 'ann']);
});

t.test('an installation that has used up its rate waits until it has refilled, or its call ends', async (t) => {
  let now = 0;
  const bytes = weighValue(LARGE);
  const turns = new ResultTurns({ burst: bytes, perSecond: bytes }, () => now);
  const send = async (installationId: string, signal = never) => {
    const turn = turns.open({ ...caller, installationId }, signal);
    await turn.waitToSend(LARGE);
    turn.charge(LARGE);
  };
  await send('i1');
  await send('i2');
  const call = new AbortController();
  const aborted = send('i1', call.signal);
  const order: string[] = [];
  const waiting = send('i1').then(() => order.push('i1'));
  await send('i3').then(() => order.push('i3'));
  t.equal(turns.open(caller, never).waitToSend('small'), undefined);
  call.abort();
  await t.rejects(aborted, { name: 'AbortError' });
  t.same(order, ['i3']);
  now += 1_000;
  await waiting;
  await waitForLoopTurn('ben');
  t.same(order, ['i3', 'i1']);
});
