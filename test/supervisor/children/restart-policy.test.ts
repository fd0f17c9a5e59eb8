/** The restart policy over time: backoff, circuit breaker, trial. */
import fc from 'fast-check';
import t from 'tap';
import { describeEnd } from '../../../supervisor/children/child-end.ts';
import {
  afterExit,
  afterLoad,
  afterPreventedStart,
  afterStableRun,
  afterStart,
  decide,
  fresh,
  listRecentExits,
  pickMainReason,
  type RestartState,
} from '../../../supervisor/children/restart-policy.ts';

const MIDDLE = 0.5;

t.test('a first start is immediate', async (t) => {
  t.same(decide(fresh, 0, MIDDLE), { kind: 'start' });
});

t.test('pauses double from one second', async (t) => {
  let state: RestartState = fresh;
  const pauses: number[] = [];
  for (let exit = 0; exit < 4; exit += 1) {
    state = afterExit(state, 1_000, 5);
    const decision = decide(state, 1_000, MIDDLE);
    if (decision.kind === 'wait') pauses.push(decision.until - 1_000);
  }
  t.same(pauses, [1_000, 2_000, 4_000, 8_000]);
});

t.test('five exits in ten minutes fail it, and ten minutes later it gets one trial', async (t) => {
  let state: RestartState = fresh;
  for (let exit = 1; exit <= 5; exit += 1) state = afterExit(state, exit * 1_000, 5);
  t.same(decide(state, 6_000, MIDDLE), { kind: 'failed', until: 605_000 });
  t.same(decide(state, 605_000, MIDDLE), { kind: 'start' });
  t.equal(listRecentExits(state, 6_000).length, 5);
  t.same(listRecentExits(state, 605_000), [], 'none of the last ten minutes');
  const trial = afterStart(state);
  t.equal(trial.phase, 'half-open');
  t.equal(decide(afterExit(trial, 606_000, 5), 606_001, MIDDLE).kind, 'failed', 'a trial that fails opens it again');
  t.same(afterStableRun(trial), fresh, 'one that holds closes it');
});

t.test('starts that the machine prevents wait as exits do, and never fail it', async (t) => {
  let state: RestartState = fresh;
  const pauses: number[] = [];
  for (let start = 0; start < 20; start += 1) {
    state = afterPreventedStart(state, 1_000);
    const decision = decide(state, 1_000, MIDDLE);
    if (decision.kind === 'wait') pauses.push(decision.until - 1_000);
  }
  t.same(pauses.slice(0, 7), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
  t.equal(pauses.length, 20);
  t.same(decide(state, 61_000, MIDDLE), { kind: 'start' });
  t.same(afterLoad(state), fresh);
  t.same(afterExit(state, 1_000, 5), afterExit(fresh, 1_000, 5));
});

t.test('exits far apart never fail it', async (t) => {
  let state: RestartState = fresh;
  for (let exit = 1; exit <= 50; exit += 1) state = afterExit(state, exit * 200_000, 150_000);
  t.equal(state.phase, 'closed');
  t.equal(state.streak, 1, 'a stable run starts the count again');
});

t.test('whatever happens, a pause is between 0.8 s and 72 s, and a start is allowed in the end', async (_t) => {
  const exits = fc.array(fc.record({ after: fc.nat(700_000), ran: fc.nat(120_000) }), { maxLength: 30 });
  fc.assert(
    fc.property(exits, fc.double({ min: 0, max: 1, noNaN: true }), (list, chance) => {
      let now = 0;
      let state: RestartState = fresh;
      for (const { after, ran } of list) {
        now += after;
        state = afterExit(state, now, ran);
        const decision = decide(state, now, chance);
        if (decision.kind === 'wait' && (decision.until - now < 799 || decision.until - now > 72_001)) return false;
      }
      return decide(state, now + 600_001, chance).kind === 'start';
    }),
  );
});

t.test('memory is the reason of an end, also where the deadline came first', async (t) => {
  const exit = { code: null, signal: 'SIGKILL', outOfMemory: false, gone: true } as const;
  const why = 'hook middleware.systemPrompt took longer than its 1000 ms (1050 ms)';
  const full = 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory';
  const reasonOf = (change: object, facts: object) =>
    describeEnd({ ...exit, ...change }, { why: null, stderr: '', ranMs: 5, ...facts }).reason;
  t.equal(reasonOf({}, { why }), why);
  t.equal(reasonOf({}, { why, stderr: full }), 'it exceeded its memory limit');
  t.equal(reasonOf({ outOfMemory: true }, { why }), 'it exceeded its memory limit');
  const ofAccount = { outOfMemory: true, accountOutOfMemory: true };
  t.match(reasonOf(ofAccount, {}), /^the plugins of its account together exceeded their memory limit/);
  t.equal(reasonOf({}, {}), 'it was ended by SIGKILL');
  const broken = 'it broke the protocol: a response to no request';
  t.equal(reasonOf({ outOfMemory: true }, { why: broken, stderr: full }), broken, 'a child chooses its stderr');
});

t.test('the headline of a failure is what most ends had in common', async (t) => {
  t.equal(pickMainReason(['memory']), 'memory');
  t.equal(pickMainReason(['memory', 'memory', 'late by 1 ms', 'memory', 'late by 2 ms']), 'memory', 'not the last one');
  t.equal(pickMainReason(['memory', 'late']), 'late', 'the latest of equals');
});
