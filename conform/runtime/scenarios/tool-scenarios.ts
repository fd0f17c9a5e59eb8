/** Calls of tools: each runs once, between its hooks, and the model gets what the plugins let pass. */
import { ensure, expect } from '../../expect.ts';
import type { ModelAnswer } from '../fake-model.ts';
import { type RuntimeChapter, scenario } from '../scenario.ts';
import { describe, requireAnswer, type Scene } from '../scene.ts';

const CALL = 'Run every tool with POST /sessions/{id}/turns/{turnId}/calls/{callId}, with the id of the model’s call.';
const RESULT = 'Give the model `content` of the answer, with `isError` too: it says what the model can correct.';

/** The model calls a tool, and then says that it is done. */
const callThenSay = (scene: Scene, ...calls: NonNullable<ModelAnswer['calls']>): Scene =>
  scene.script({ calls }, 'Done.');

/** The results that the model received after its calls. */
const lastAsked = (scene: Scene): string => JSON.stringify(scene.asked.at(-1)?.messages ?? []);

/** @throws Mismatch unless the last request to the model contains the words */
const requireLastAsked = (scene: Scene, words: string): void =>
  ensure(lastAsked(scene).includes(words), `the model got ${lastAsked(scene).slice(-400)}`);

export const tools: RuntimeChapter = {
  title: 'Calls of tools',
  guard: 'none',
  scenarios: [
    scenario(
      'The model is offered the tools of the plugins.',
      'Give the model all `tools` of the prompt, by their names.',
      async (scene) => {
        await scene.script('Yes.').say('hello');
        const missing = ['add', 'leak', 'picture'].filter((name) => !scene.isOffered(name));
        expect(missing, [], 'tools that are missing');
      },
    ),
    scenario('A call runs once, its result reaches the model, and the turn goes on.', CALL, async (scene) => {
      requireAnswer(await callThenSay(scene, scene.call('add', { a: 2, b: 3 })).say('add'), 'Done.');
      const result = scene.asked[1]?.messages.at(-1);
      ensure(
        result?.role === 'tool' && JSON.stringify(result.content).includes('5'),
        `the model got ${JSON.stringify(result)}`,
      );
      expect(await scene.count('ran add'), 1, 'runs of the tool');
      expect(await scene.turns(), ['ended'], 'the turns');
      expect(await scene.texts('tool'), ['5'], 'results in the transcript');
    }),
    scenario('Parallel calls each run once, and each result reaches the model with its id.', CALL, async (scene) => {
      const calls = [1, 2, 3].map((a) => scene.call('add', { a, b: 10 }));
      requireAnswer(await callThenSay(scene, ...calls).say('add'), 'Done.');
      const results = (scene.asked[1]?.messages ?? []).filter(({ role }) => role === 'tool');
      for (const [index, { id }] of calls.entries()) {
        const result = results.find((one) => one.tool_call_id === id);
        ensure(
          JSON.stringify(result?.content ?? '').includes(String(11 + index)),
          `the result of call ${index + 1} is ${JSON.stringify(result)}`,
        );
      }
      expect(await scene.count('ran add'), 3, 'runs of the tool');
    }),
    scenario('Calls of one turn after another each run.', CALL, async (scene) => {
      scene.script(
        { calls: [scene.call('add', { a: 1, b: 1 })] },
        { calls: [scene.call('add', { a: 2, b: 2 })] },
        'Done.',
      );
      requireAnswer(await scene.say('add'), 'Done.');
      expect(await scene.count('ran add'), 2, 'runs of the tool');
    }),
    scenario(
      'A model that numbers the calls of each answer from zero gets the result of each.',
      'Make the id of a call unique in its turn.',
      async (scene) => {
        scene.script(
          { calls: [scene.call('add', { a: 1, b: 1 }, 'call_0')] },
          { calls: [scene.call('add', { a: 20, b: 22 }, 'call_0')] },
          'Done.',
        );
        requireAnswer(await scene.say('add'), 'Done.');
        expect(await scene.count('ran add'), 2, 'runs of the tool');
        requireLastAsked(scene, '42');
      },
    ),
    scenario(
      'The same id of a call in the next turn is another call.',
      'Call tools in the turn whose model asked for them.',
      async (scene) => {
        for (const b of [1, 41]) {
          callThenSay(scene, scene.call('add', { a: 1, b }, 'call_0'));
          requireAnswer(await scene.say('add'), 'Done.');
        }
        expect(await scene.count('ran add'), 2, 'runs of the tool');
        requireLastAsked(scene, '42');
      },
    ),
    scenario('A call that a plugin stops does not run, and the model reads the reason.', RESULT, async (scene) => {
      requireAnswer(await callThenSay(scene, scene.call('risky')).say('do it'), 'Done.');
      expect(await scene.count('ran risky'), 0, 'runs of the tool');
      requireLastAsked(scene, 'it is too risky');
    }),
    scenario('A call runs with the arguments that the plugins changed.', CALL, async (scene) => {
      await callThenSay(scene, scene.call('add', { a: 13, b: 9_876_543 })).say('add');
      // A long number, which no random id of the request contains.
      ensure(!lastAsked(scene).includes('9876556'), 'the tool ran with the arguments of the model');
      expect(await scene.texts('tool'), ['3'], 'results in the transcript');
    }),
    scenario('The model gets the result as the plugins changed it.', RESULT, async (scene) => {
      await callThenSay(scene, scene.call('leak')).say('the key?');
      scene.requireUnasked('hunter2');
      requireLastAsked(scene, '[redacted]');
    }),
    scenario(
      'A result that a plugin withholds does not reach the model, which reads the reason.',
      RESULT,
      async (scene) => {
        requireAnswer(await callThenSay(scene, scene.call('withheld')).say('the key?'), 'Done.');
        scene.requireUnasked('hunter3');
        requireLastAsked(scene, 'it is withheld');
      },
    ),
    scenario('A tool that fails: the model reads why, and the turn goes on.', RESULT, async (scene) => {
      requireAnswer(await callThenSay(scene, scene.call('fail')).say('bake'), 'Done.');
      requireLastAsked(scene, 'the oven is off');
    }),
    scenario(
      'Arguments that are not right: the model reads which property is too many, and the tool does not run.',
      RESULT,
      async (scene) => {
        requireAnswer(await callThenSay(scene, scene.call('add', { a: 1, b: 2, flour: 3 })).say('add'), 'Done.');
        ensure(
          /flour/.test(JSON.stringify(scene.asked[1]?.messages.at(-1) ?? '')),
          `the model got ${lastAsked(scene).slice(-400)}`,
        );
        expect(await scene.count('ran add'), 0, 'runs of the tool');
      },
    ),
    scenario(
      'A tool that does not exist does not end the runtime.',
      'Give the model a result that says so, or tell the user.',
      async (scene) => {
        await callThenSay(scene, { id: 'call_x', name: 'no_such_tool', arguments: {} }).say('do it');
        await scene.goesOn();
      },
    ),
    scenario('A tool that answers with a picture does not end the turn.', RESULT, async (scene) => {
      requireAnswer(await callThenSay(scene, scene.call('picture')).say('show it'), 'Done.');
    }),
    scenario(
      'Text before a call is shown, and the text after it too.',
      'Send every text of the model as an output, also one with calls.',
      async (scene) => {
        scene.script({ deltas: ['Let me ', 'count. '], calls: [scene.call('add', { a: 2, b: 3 })] }, 'It is 5.');
        const answer = await scene.say('add');
        ensure(answer.end.kind === 'done' && answer.text.includes('It is 5.'), `the user saw ${describe(answer)}`);
        expect(
          (await scene.texts('assistant')).map((text) => text.trim()),
          ['Let me count.', 'It is 5.'],
          'messages of the agent',
        );
      },
    ),
    scenario(
      'Stopped while a tool runs: its handler is aborted, and the next message is answered.',
      'Pass the signal of the user’s stop to the tools: closing the request of a call aborts it.',
      async (scene) => {
        const exchange = callThenSay(scene, scene.call('wait')).begin('wait');
        await scene.untilLogged('waiting tool');
        scene.abort(exchange);
        await exchange.end();
        // The line comes after the call has ended, so it is of no session. Its data names the session: the scenario may be played again.
        await scene.fixture.judge.watch.find(
          'the abort',
          ({ message, data }) => message === 'aborted tool' && data?.sessionId === scene.sessionId,
        );
        await scene.goesOn();
        expect(await scene.count('ran wait'), 1, 'runs of the tool');
      },
    ),
  ],
};
