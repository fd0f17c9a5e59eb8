/** Answers while no plugin judges them: they leave as the model writes them, whole and once. */
import { ensure, expect } from '../../expect.ts';
import type { Answer } from '../runtime-process.ts';
import { type RuntimeChapter, scenario } from '../scenario.ts';
import { describe, requireAnswer, type Scene } from '../scene.ts';
import { DECODE, playSplitBytes, playSplitPairs, requireHalfPairs, STORABLE } from './split-characters.ts';

const STREAM =
  'Where the prompt’s `outbound` is `none`, show text as the model writes it, and send it whole with `isShown` at its end.';
const WHOLE =
  'Show every delta, in order. If each is a request of its own, join those that come while one runs: requests one by one are slow.';
const FAILED = 'When the model fails, tell the user. Leave the turn open, and repeat the step with the same ids.';
const ABORT = 'Pass the signal of the user’s stop to the model, to the tools and to every step of the turn.';
const LONG_WORDS = 2_000;
const LATE_MS = 800;

const longText = Array.from({ length: LONG_WORDS }, (_, index) => `word${index} `).join('');

export const answers: RuntimeChapter = {
  title: 'Answers that no plugin judges',
  guard: 'none',
  scenarios: [
    scenario('A stream: the first word is shown before the model has finished.', STREAM, async (scene) => {
      const { exchange, finish } = await scene.holdAnswer('afterFirst', ['Wholemeal ', 'is best.']);
      try {
        scene.requireStreaming();
        await exchange.waitUntilShown('Wholemeal');
      } finally {
        finish();
      }
      requireAnswer(await exchange.waitForAnswer(), 'Wholemeal is best.');
    }),
    scenario(
      `A long answer of ${LONG_WORDS} deltas is shown whole and in order, and is in the transcript.`,
      WHOLE,
      async (scene) => {
        requireAnswer(await scene.script(longText).say('Tell me everything'), longText);
        expect(await scene.texts('assistant'), [longText], 'messages of the agent');
      },
    ),
    scenario('A character whose bytes come in two chunks is shown whole.', DECODE, async (scene) => {
      const shown = await playSplitBytes(scene);
      expect(await scene.texts('assistant'), [shown], 'messages of the agent');
    }),
    scenario('A surrogate pair that is split over deltas comes out whole, or as U+FFFD.', STORABLE, async (scene) => {
      const shown = await playSplitPairs(scene);
      expect(await scene.texts('assistant'), [shown], 'messages of the agent');
    }),
    scenario(
      'A call of a tool that the model writes as text is text, and runs nothing.',
      'Run the calls of the field `tool_calls` only.',
      async (scene) => {
        const text = `<tool_call>{"name":"${scene.tool('add')}","arguments":{"a":1,"b":2}}</tool_call>`;
        requireAnswer(await scene.script(text).say('hello'), text);
        expect(await scene.count('ran add'), 0, 'runs of the tool');
      },
    ),
    scenario('An answer with NUL ends the turn.', STORABLE, async (scene) => {
      await requireEnded(scene, await scene.script({ deltas: ['odd ', 'characters \0.'] }).say('hello'));
    }),
    scenario('An answer with half a surrogate pair ends the turn.', STORABLE, async (scene) => {
      const answer = await scene.script({ deltas: ['odd \ud83d', ' characters.'] }).say('hello');
      requireHalfPairs(scene, answer);
      await requireEnded(scene, answer);
    }),
    scenario('An empty answer ends the turn.', 'End the turn, also without a text.', async (scene) => {
      // Some frameworks ask again.
      const answer = await scene.script({ deltas: [] }, 'Yes.').say('hello');
      ensure(answer.end.kind === 'done', `the user saw ${describe(answer)}`);
      expect(await scene.turns(), ['ended'], 'the turns');
    }),
    scenario('A late answer is shown.', 'Do not give up before the model does.', async (scene) => {
      const before = new Promise((resolve) => setTimeout(resolve, LATE_MS));
      requireAnswer(await scene.script({ deltas: ['Late.'], before }).say('hello'), 'Late.');
    }),
    scenario(
      'When the model refuses a request, the user is told, and the next message is answered.',
      FAILED,
      async (scene) => {
        const answer = await scene.script({ status: 400 }).say('hello');
        ensure(answer.end.kind === 'failed', `the user saw ${describe(answer)}`);
        await scene.goesOn();
      },
    ),
    scenario(
      'A message that is repeated after the model failed is not judged again, and is answered.',
      FAILED,
      async (scene) => {
        scene.script({ status: 400 }, 'Now.');
        const id = `${scene.mark}-again`;
        await scene.say('hello', { id });
        requireAnswer(await scene.say('hello', { id }), 'Now.');
        await scene.requireRecord({ judgements: 1, user: ['hello'] });
      },
    ),
    scenario(
      'A message that is repeated after the model failed within a stream is not judged again, and is answered in the same turn.',
      FAILED,
      async (scene) => {
        scene.script({ deltas: ['Half ', 'an answer'], isFailed: true }, 'Now.');
        const id = `${scene.mark}-inside`;
        const failed = await scene.say('hello', { id });
        ensure(failed.end.kind === 'failed', `the user saw ${describe(failed)}`);
        requireAnswer(await scene.say('hello', { id }), 'Now.');
        await scene.requireRecord({ judgements: 1, user: ['hello'], turns: ['ended'] });
      },
    ),
    scenario(
      'When the connection to the model breaks, the transcript has what was shown, and the next message is answered.',
      'Send what was shown as an output with `isShown`, also when the answer broke off.',
      async (scene) => {
        const answer = await scene.script({ deltas: ['Half ', 'an answer'], isCut: true }).say('hello');
        ensure(answer.end.kind === 'failed', `the user saw ${describe(answer)}`);
        const wanted = answer.text === '' ? [] : [answer.text];
        expect(await scene.texts('assistant'), wanted, 'messages of the agent');
        await scene.goesOn();
      },
    ),
    scenario(
      'Stopped before the model answers: nothing is shown, and the next message is answered.',
      ABORT,
      async (scene) => {
        const { exchange, finish } = await scene.holdAnswer('before', ['Never.']);
        scene.abort(exchange);
        await exchange.end();
        finish();
        ensure(exchange.shown === '', `the user saw “${exchange.shown}”`);
        await scene.goesOn();
        ensure(!(await scene.texts('assistant')).includes('Never.'), 'the transcript has the answer that nobody saw');
      },
    ),
    scenario(
      'Stopped in the middle of a stream: nothing more is shown, the transcript has what was, and the next message is answered.',
      ABORT,
      async (scene) => {
        const { exchange, finish } = await scene.holdAnswer('afterFirst', ['Wholemeal ', 'is best.']);
        if (scene.asked[0]?.isStreamed) await exchange.waitUntilShown('Wholemeal');
        scene.abort(exchange);
        await exchange.end();
        finish();
        ensure(!exchange.shown.includes('best'), `the user saw “${exchange.shown}”`);
        await scene.goesOn();
        expect(
          await scene.texts('assistant'),
          [...(exchange.shown === '' ? [] : [exchange.shown]), 'It goes on.'],
          'messages of the agent',
        );
      },
    ),
    scenario('Stopped while a plugin judges the message: the model is not asked.', ABORT, async (scene) => {
      const exchange = scene.script('Never.').begin('wait-inbound');
      await scene.untilLogged('waiting inbound');
      scene.abort(exchange);
      await exchange.end();
      await scene.requireNeverAsked('inbound');
      await scene.goesOn();
      ensure(exchange.shown === '', `the user saw “${exchange.shown}”`);
    }),
    scenario('Stopped while a plugin changes the system prompt: the model is not asked.', ABORT, async (scene) => {
      const slow = await scene.withAgent('wait-prompt');
      const exchange = slow.script('Never.').begin('hello');
      await slow.untilLogged('waiting prompt');
      slow.abort(exchange);
      await exchange.end();
      await slow.requireNeverAsked('prompt');
      ensure(exchange.shown === '', `the user saw “${exchange.shown}”`);
    }),
  ],
};

async function requireEnded(scene: Scene, { end }: Answer): Promise<void> {
  expect(end.kind, 'done', 'the end');
  expect(await scene.turns(), ['ended'], 'the turns');
}
