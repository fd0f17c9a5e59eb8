/** Leases that expire, reminders and results that are kept for a day. No scenario waits: it sets the service's clock. */
import { ensure, expect } from '../../expect.ts';
import { type RuntimeChapter, scenario } from '../scenario.ts';
import { describe, requireAnswer } from '../scene.ts';

const RESUME =
  'Open the turn again with the id of its message: when the lease has expired, any runtime may go on with it.';
const REMINDER =
  'Open the turn of the reminder with the id of its message and the trigger `schedule`, after the turn before.';
/** The longest that a lease lasts after a step: half as long again as the longest `leaseSeconds`. Seconds. */
const LEASE_MAX_S = 5_400;
const HOUR_S = 3_600;
const never = new Promise<void>(() => undefined);

export const time: RuntimeChapter = {
  title: 'Time that passes',
  guard: 'none',
  scenarios: [
    scenario(
      'A process ends in the middle of a turn: another one goes on with it when the lease has expired, not before.',
      RESUME,
      async (scene) => {
        const id = `${scene.mark}-lease`;
        const first = scene.start(`${scene.mark}-a`);
        await scene.holdAnswer('afterFirst', ['Half ', 'of it'], { id, by: first, next: ['The whole.'] });
        await first.kill();
        const second = scene.start(`${scene.mark}-b`);
        const early = await scene.say('hello', { id, by: second });
        ensure(early.end.kind === 'failed' && early.text === '', `it went on before: ${describe(early)}`);
        await scene.letPass(LEASE_MAX_S);
        requireAnswer(await scene.say('hello', { id, by: second }), 'The whole.');
        await scene.requireRecord({ judgements: 1, user: ['hello'], agent: ['The whole.'], turns: ['ended'] });
      },
    ),
    scenario(
      'A process comes back after its lease has expired and another one has answered: the transcript has one answer.',
      'Where a step answers 409 `turn_held` or `turn_ended`, another process has the turn: end yours.',
      async (scene) => {
        const id = `${scene.mark}-late`;
        const options = { id, by: scene.start(`${scene.mark}-a`), next: ['In time.'] };
        const { exchange: late, finish } = await scene.holdAnswer('before', ['Too ', 'late.'], options);
        await scene.letPass(LEASE_MAX_S);
        requireAnswer(await scene.say('hello', { id, by: scene.start(`${scene.mark}-b`) }), 'In time.');
        finish();
        await late.end();
        await scene.requireRecord({ judgements: 1, agent: ['In time.'] });
      },
    ),
    scenario(
      'A reminder is due in the middle of a turn: the turn goes on, and the reminder is answered after it.',
      REMINDER,
      async (scene) => {
        const { own } = scene.fixture.run;
        const text = `Turn the oven off (${scene.mark})`;
        const at = new Date(Date.now() + HOUR_S * 1_000).toISOString();
        const path = `/sessions/${scene.sessionId}/notifications`;
        await own.need(own.session('POST', path, { text, at, to: 'agent', trigger: 'user' }), 201);
        const options = { text: 'how many?', next: ['It is off.'] };
        const { exchange, finish } = await scene.holdAnswer('before', ['Forty ', 'loaves.'], options);
        await scene.letPass(HOUR_S);
        const due = await scene.fixture.run.until('the reminder', async () =>
          (await scene.transcript()).find((line) => line.role === 'user' && line.text === text),
        );
        finish();
        requireAnswer(await exchange.waitForAnswer(), 'Forty loaves.');
        requireAnswer(await scene.say('Turn the oven off', { id: due.id, trigger: 'schedule' }), 'It is off.');
        await scene.requireRecord({
          judgements: 2,
          user: ['how many?', 'Turn the oven off'],
          agent: ['Forty loaves.', 'It is off.'],
          turns: ['ended', 'ended'],
        });
      },
    ),
    scenario(
      'A process goes on with a turn 23 hours later: the tool does not run again under the same id.',
      `${RESUME} Call tools with the model’s ids: their results are kept for 24 hours.`,
      async (scene) => {
        const call = scene.call('add', { a: 2, b: 3 });
        const calling = { calls: [call] };
        scene.script(calling, { deltas: ['It ', 'is'], afterFirst: never }, calling, 'It is 5.');
        const id = `${scene.mark}-day`;
        const first = scene.start(`${scene.mark}-a`);
        scene.begin('add', { id, by: first });
        await scene.untilAsked(2);
        await first.kill();
        await scene.letPass(23 * HOUR_S);
        requireAnswer(await scene.say('add', { id, by: scene.start(`${scene.mark}-b`) }), 'It is 5.');
        expect(await scene.count('ran add'), 1, 'runs of the tool');
        await scene.requireRecord({ judgements: 1, agent: ['It is 5.'] });
      },
    ),
  ],
};
