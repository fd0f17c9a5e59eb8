/** Processes, connections and required plugins that fail: nothing is lost, done twice or let through. */
import { ensure, expect } from '../../expect.ts';
import type { Answer } from '../runtime-process.ts';
import { type RuntimeChapter, scenario } from '../scenario.ts';
import { describe, REPEAT_ENOUGH, requireAnswer, requireVeto, type Scene } from '../scene.ts';

const REPEAT = 'Repeat a step whose response was lost with the same ids: it returns the same response.';
const RESTART = 'After a restart with the same runtime name, open the turn again with the id of its message.';
const TWO =
  'Name each process with the header `bulkhead-runtime`. While one has a turn, others get 409 `turn_held`: end the message as failed at once, without waiting for the turn.';

/** A message that is answered although single requests to the service fail. */
const fails = (sentence: string, kind: 'lose' | 'refuse' | 'cut', method: string, path: string) =>
  scenario(sentence, REPEAT, async (scene) => {
    scene.break(kind, method, path);
    scene.script({ calls: [scene.call('add', { a: 2, b: 3 })] }, 'It is 5.');
    requireAnswer(await scene.say('add'), 'It is 5.');
    expect(await scene.count('ran add'), 1, 'runs of the tool');
    await scene.requireRecord({ judgements: 1, user: ['add'], agent: ['It is 5.'], turns: ['ended'] });
  });

export const connections: RuntimeChapter = {
  title: 'Connections that break',
  guard: 'none',
  scenarios: [
    fails('The answer to the opening of a turn is lost: the message is judged once.', 'lose', 'POST', '/turns'),
    fails('The answer to a prompt is lost: the turn goes on.', 'lose', '(GET|POST)', '/turns/[^/]+/prompt'),
    fails('The answer to a call is lost: the tool runs once.', 'lose', 'POST', '/turns/[^/]+/calls/[^/]+'),
    scenario(
      'The connection breaks while a tool runs: the tool runs once, and the model reads its result.',
      'Send `keepRunning` with each call, and repeat a call without a response with the same id: it returns the result of the tool.',
      async (scene) => {
        const exchange = scene.script({ calls: [scene.call('hold')] }, 'Done.').begin('hold it');
        await scene.untilLogged('ran hold');
        scene.drop('POST', '/turns/[^/]+/calls/[^/]+');
        requireAnswer(await exchange.waitForAnswer(), 'Done.');
        expect(await scene.count('ran hold'), 1, 'runs of the tool');
        expect(await scene.texts('tool'), ['held'], 'results in the transcript');
        const last = JSON.stringify(scene.asked.at(-1)?.messages ?? []);
        ensure(last.includes('held'), `the model got ${last.slice(-400)}`);
      },
    ),
    fails('The answer to an output is lost: it is in the transcript once.', 'lose', 'POST', '/turns/[^/]+/output'),
    fails('The answer to the end of a turn is lost: the turn has ended once.', 'lose', 'POST', '/turns/[^/]+/end'),
    fails(
      'The opening of a turn is refused while the service is replaced: it is repeated.',
      'refuse',
      'POST',
      '/turns',
    ),
    fails(
      'A prompt is refused while the service is replaced: it is repeated.',
      'refuse',
      '(GET|POST)',
      '/turns/[^/]+/prompt',
    ),
    fails(
      'A call is refused while the service is replaced: it is repeated, and the tool runs once.',
      'refuse',
      'POST',
      '/turns/[^/]+/calls/[^/]+',
    ),
    fails('An output does not reach the service: it is repeated.', 'cut', 'POST', '/turns/[^/]+/output'),
    fails(
      'The end of a turn is refused while the service is replaced: it is repeated.',
      'refuse',
      'POST',
      '/turns/[^/]+/end',
    ),
    scenario(
      'The service is replaced in the middle of a stream: the user sees the whole answer once.',
      `${REPEAT} ${REPEAT_ENOUGH}`,
      async (scene) => {
        const { exchange, finish } = await scene.holdAnswer('afterFirst', ['Wholemeal ', 'is ', 'best.']);
        scene.replaceService();
        finish();
        const end = await exchange.end();
        requireAnswer({ text: exchange.shown, end }, 'Wholemeal is best.');
        expect(await scene.texts('assistant'), ['Wholemeal is best.'], 'messages of the agent');
      },
    ),
  ],
};

/** Kills a process of the runtime in the middle of a message, and gives the message to the next one. */
async function killAndRepeat(scene: Scene, text: string, until: () => Promise<unknown>) {
  const id = `${scene.mark}-crash`;
  const first = scene.start();
  scene.begin(text, { id, by: first });
  await until();
  await first.kill();
  return scene.say(text, { id, by: scene.start() });
}

export const processes: RuntimeChapter = {
  title: 'Processes that end',
  guard: 'none',
  scenarios: [
    scenario(
      'Killed while the model writes: the message is judged once, and answered once.',
      RESTART,
      async (scene) => {
        const never = new Promise<void>(() => undefined);
        scene.script({ deltas: ['Half ', 'of it'], afterFirst: never }, 'The whole.');
        requireAnswer(await killAndRepeat(scene, 'hello', () => scene.untilAsked()), 'The whole.');
        await scene.requireRecord({ judgements: 1, user: ['hello'], agent: ['The whole.'], turns: ['ended'] });
      },
    ),
    scenario('Killed while a plugin judges the message: it is judged, and answered once.', RESTART, async (scene) => {
      scene.script('Yes.');
      requireAnswer(await killAndRepeat(scene, 'wait-inbound', () => scene.untilLogged('waiting inbound')), 'Yes.');
      await scene.requireRecord({ user: ['wait-inbound'], agent: ['Yes.'] });
    }),
    scenario(
      'Killed while a tool runs: the tool does not run again under the same id.',
      `${RESTART} Call tools with the model’s ids.`,
      async (scene) => {
        const call = scene.call('hold');
        scene.script({ calls: [call] }, { calls: [call] }, 'Done.');
        requireAnswer(await killAndRepeat(scene, 'hold it', () => scene.untilLogged('ran hold')), 'Done.');
        expect(await scene.count('ran hold'), 1, 'runs of the tool');
        expect(await scene.count('inbound'), 1, 'judgements');
      },
    ),
    scenario(
      'Restarted between two messages: the conversation goes on, and nothing is judged again.',
      RESTART,
      async (scene) => {
        scene.script('One.', 'Two.');
        const first = scene.start();
        requireAnswer(await scene.say('first', { by: first }), 'One.');
        await first.kill();
        requireAnswer(await scene.say('second', { by: scene.start() }), 'Two.');
        await scene.requireRecord({ judgements: 2, user: ['first', 'second'] });
      },
    ),
    scenario('Two processes get the same message: it is judged once, and one of them answers.', TWO, async (scene) => {
      const id = `${scene.mark}-both`;
      const by = scene.start(`${scene.mark}-a`);
      const { exchange: first, finish } = await scene.holdAnswer('before', ['Yes.'], { id, by });
      const second = await scene.say('hello', { id, by: scene.start(`${scene.mark}-b`) });
      finish();
      ensure(second.end.kind === 'failed' && second.text === '', `the second one answered: ${describe(second)}`);
      requireAnswer(await first.waitForAnswer(), 'Yes.');
      await scene.requireRecord({ judgements: 1, agent: ['Yes.'] });
    }),
    scenario(
      'Two processes answer different messages of one session: each is judged once and answered.',
      TWO,
      async (scene) => {
        scene.script('Yes.');
        const [one, two] = [scene.start(`${scene.mark}-a`), scene.start(`${scene.mark}-b`)];
        requireAnswer(await scene.say('one', { by: one }), 'Yes.');
        requireAnswer(await scene.say('two', { by: two }), 'Yes.');
        requireAnswer(await scene.say('three', { by: one }), 'Yes.');
        await scene.requireRecord({ judgements: 3, user: ['one', 'two', 'three'] });
      },
    ),
  ],
};

const CLOSED =
  'Where `action` is `cancel`, also with `isFinal` false, nothing passed: end the message as failed with the reason, and repeat the step when the message comes again.';
const CALL_AGAIN =
  'Give the model `content` of the response to the call, as for every result with `isError`, or end the message as failed with the text of `content` as its `reason`. With `isFinal` false the same call may pass later.';
const AWAY = 'failed with an error';

/** @throws Mismatch unless the model or the user got the reason why a call has no result */
function requireReason({ asked }: Scene, answer: Answer): void {
  const isRead =
    asked.at(-1)?.text.includes(AWAY) || (answer.end.kind === 'failed' && answer.end.reason.includes(AWAY));
  ensure(isRead, `the model did not get the reason “${AWAY}”, and the user saw ${describe(answer)}`);
}

/** A required plugin fails in one hook: no model is asked. */
const failsBefore = (sentence: string, hook: string) =>
  scenario(sentence, CLOSED, async (scene) => {
    const down = await scene.withAgent(`down-${hook}`);
    requireVeto(await down.script('Yes.').say('hello'), AWAY);
    expect(down.asked.length, 0, 'requests to the model');
  });

/** A required plugin fails once in one hook: the same message is answered when it comes again, or when the runtime repeats it. */
const failsOnce = (sentence: string, hook: string) =>
  scenario(sentence, CLOSED, async (scene) => {
    const moody = await scene.withAgent(`moody-${hook}`);
    moody.script('Yes.');
    const id = `${moody.mark}-again`;
    const first = await moody.say('hello', { id });
    const isRepeated = first.end.kind === 'done';
    if (!isRepeated) requireVeto(first, AWAY);
    requireAnswer(isRepeated ? first : await moody.say('hello', { id }), 'Yes.');
    await moody.requireRecord({ user: ['hello'], agent: ['Yes.'] });
  });

export const requiredPlugins: RuntimeChapter = {
  title: 'A required plugin that does not run',
  guard: 'failing',
  scenarios: [
    failsBefore('For messages of users: the model is not asked.', 'inboundMessage'),
    failsBefore('For the system prompt: the model is not asked.', 'systemPrompt'),
    scenario('For messages of the agent: no word is shown.', CLOSED, async (scene) => {
      const down = await scene.withAgent('down-outboundMessage');
      requireVeto(await down.script('Wholemeal is best.').say('hello'), AWAY);
      expect(await down.texts('assistant'), [], 'messages of the agent');
    }),
    scenario('For calls of tools: no tool runs, and the model or the user reads why.', CALL_AGAIN, async (scene) => {
      const down = await scene.withAgent('down-toolCall');
      const answer = await down.script({ calls: [down.call('add', { a: 2, b: 3 })] }, 'Done.').say('add');
      expect(await down.count('ran add'), 0, 'runs of the tool');
      requireReason(down, answer);
    }),
    scenario(
      'For results of tools: the result does not reach the model, and the model or the user reads why.',
      CALL_AGAIN,
      async (scene) => {
        const down = await scene.withAgent('down-toolResult');
        const calls = [down.call('add', { a: 1_000_000, b: 2_345_678 })];
        const answer = await down.script({ calls }, 'Done.').say('add');
        down.requireUnasked('3345678');
        requireReason(down, answer);
      },
    ),
    scenario('For summaries: the model is not asked past the limit of the conversation.', CLOSED, async (scene) => {
      const down = await scene.withAgent('down-summarize');
      down.script('Yes.');
      const seen: string[] = [];
      for (const text of ['one', 'two', 'three', 'four', 'five', 'six']) seen.push((await down.say(text)).end.kind);
      ensure(seen.includes('failed'), `all messages were answered: ${seen.join(', ')}`);
    }),
    failsOnce('A message that it could not judge is judged when it comes again, and answered.', 'inboundMessage'),
    failsOnce('An answer that it could not judge is not shown, and the message can come again.', 'outboundMessage'),
  ],
};
