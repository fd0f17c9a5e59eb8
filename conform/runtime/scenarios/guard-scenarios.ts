/** Answers that plugins judge: the user sees no text before the judgement, and only what the judgement lets pass. */
import { ensure, expect } from '../../expect.ts';
import { type RuntimeChapter, type Scenario, scenario } from '../scenario.ts';
import { cutWords, describe, REPEAT_ENOUGH, requireAnswer, requireVeto, type Scene } from '../scene.ts';
import { DECODE, playSplitBytes, playSplitPairs, requireHalfPairs, STORABLE } from './split-characters.ts';

const SEND_EVERY_TEXT =
  'Send every text of the model to POST …/turns/{turnId}/output, and show only `show` of the response.';
const OBEY_CANCEL = 'If `action` is `cancel`, show nothing more of the text and tell the user the reason.';
const SHOW_ONLY_TEXT = 'Show only the text of the model: not its reasoning, and not what its provider adds.';
const PASS_SIGNAL = 'Give every step of the turn an AbortSignal that aborts when the user stops the answer.';
const LONG_CHARS = 40_000;
const WORDS_SPLIT: readonly string[] = ['That is clas', 's', 'ified.'];

/** The scenarios of both chapters: what must hold whether plugins judge whole texts or pieces. */
const createSharedScenarios = (): Scenario[] => [
  scenario('A text that a plugin stops is not shown, and the user reads the reason.', OBEY_CANCEL, async (scene) => {
    requireVeto(await scene.script('Wholemeal is classified.').say('hello'), 'that is classified');
    expect(await scene.texts('assistant'), [], 'messages of the agent');
  }),
  scenario('A stopped word that is split over deltas is not shown.', SEND_EVERY_TEXT, async (scene) => {
    const answer = await scene.script({ deltas: WORDS_SPLIT }).say('hello');
    requireVeto(answer, 'that is classified');
  }),
  scenario('A text is shown as the plugins changed it, once.', SEND_EVERY_TEXT, async (scene) => {
    requireAnswer(
      await scene.script({ deltas: ['Two lo', 'afs. ', 'More loafs.'] }).say('hello'),
      'Two loaves. More loaves.',
    );
    expect(await scene.texts('assistant'), ['Two loaves. More loaves.'], 'messages of the agent');
  }),
  scenario('After a stopped answer the next message is answered.', OBEY_CANCEL, async (scene) => {
    await scene.script('That is classified.').say('hello');
    await scene.goesOn();
  }),
  scenario('Text before a call of a tool is judged, too.', SEND_EVERY_TEXT, async (scene) => {
    scene.script({ deltas: ['Two ', 'loafs. '], calls: [scene.call('add', { a: 1, b: 1 })] }, 'Done.');
    const answer = await scene.say('add');
    ensure(answer.end.kind === 'done' && !answer.text.includes('loafs'), `the user saw ${describe(answer)}`);
    expect(
      (await scene.texts('assistant')).map((text) => text.trim()),
      ['Two loaves.', 'Done.'],
      'messages of the agent',
    );
  }),
  scenario('Stopped text before a call of a tool is not shown.', OBEY_CANCEL, async (scene) => {
    scene.script({ deltas: ['It is ', 'classified. '], calls: [scene.call('add', { a: 1, b: 1 })] }, 'Done.');
    const answer = await scene.say('add');
    ensure(!answer.text.includes('classified'), `the user saw ${describe(answer)}`);
  }),
  scenario('Stopped text after a call of a tool is not shown.', OBEY_CANCEL, async (scene) => {
    scene.script({ calls: [scene.call('add', { a: 1, b: 1 })] }, 'That is classified.');
    requireVeto(await scene.say('add'), 'that is classified');
    expect(await scene.count('ran add'), 1, 'runs of the tool');
  }),
  scenario('A character whose bytes come in two chunks is shown whole.', DECODE, async (scene) => {
    await playSplitBytes(scene);
  }),
  scenario('A surrogate pair that is split over deltas comes out whole, or as U+FFFD.', STORABLE, async (scene) => {
    await playSplitPairs(scene);
  }),
  scenario(
    'Half a surrogate pair and NUL do not get a stopped word through.',
    `${SEND_EVERY_TEXT} ${STORABLE}`,
    async (scene) => {
      const answer = await scene.script({ deltas: ['odd \ud83d', '\0 classified.'] }).say('hello');
      const [reason, isShown] = ['that is classified', answer.text.includes('classified')];
      if (!isShown && !answer.end.reason.includes(reason)) requireHalfPairs(scene, answer);
      requireVeto(answer, reason);
    },
  ),
  scenario(
    `A text of ${LONG_CHARS.toLocaleString('en')} characters without an end of a sentence is shown whole.`,
    SEND_EVERY_TEXT,
    async (scene) => {
      const text = 'loafs and '.repeat(LONG_CHARS / 10);
      const answer = await scene.script({ deltas: text.match(/.{1,97}/g) ?? [] }).say('hello');
      // A plugin that judges pieces may see a word in two halves, and then does not change it.
      ensure(answer.end.kind === 'done', `the end was ${describe({ ...answer, text: '' })}`);
      ensure(
        answer.text.replaceAll('loafs', 'loaves') === text.replaceAll('loafs', 'loaves'),
        `the user saw ${answer.text.length} characters`,
      );
    },
  ),
  scenario('Reasoning of the model that no plugin judges is not shown.', SHOW_ONLY_TEXT, async (scene) => {
    const answer = await scene.script({ reasoning: 'The classified recipe.', deltas: ['Yes.'] }).say('hello');
    requireAnswer(answer, 'Yes.');
  }),
  scenario('A refusal of the model is not shown unjudged.', SHOW_ONLY_TEXT, async (scene) => {
    const answer = await scene.script({ refusal: 'The classified recipe.' }).say('hello');
    ensure(!answer.text.includes('classified'), `the user saw ${describe(answer)}`);
  }),
  scenario(
    'Stopped while a plugin judges the answer: nothing is shown, and the next message is answered.',
    PASS_SIGNAL,
    async (scene) => {
      const exchange = scene.script('A text to wait-outbound. And more.').begin('hello');
      await scene.untilLogged('waiting outbound', 'guard');
      scene.abort(exchange);
      await exchange.end();
      ensure(exchange.shown === '', `the user saw “${exchange.shown}”`);
      await scene.goesOn();
    },
  ),
  scenario(
    'An output whose answer is lost is shown once, and is in the transcript once.',
    'Give each output an id, and repeat it with the same.',
    async (scene) => {
      scene.break('lose', 'POST', '/turns/[^/]+/output');
      requireAnswer(await scene.script('Two loafs.').say('hello'), 'Two loaves.');
      expect(await scene.texts('assistant'), ['Two loaves.'], 'messages of the agent');
    },
  ),
  scenario(
    'A model that fails after its first words: none of them is shown unjudged.',
    SEND_EVERY_TEXT,
    async (scene) => {
      const answer = await scene.script({ deltas: ['The clas', 'sified '], isCut: true }).say('hello');
      ensure(answer.end.kind === 'failed' && !answer.text.includes('clas'), `the user saw ${describe(answer)}`);
      await scene.goesOn();
    },
  ),
];

export const wholeTexts: RuntimeChapter = {
  title: 'Answers that a plugin judges as a whole',
  guard: 'whole',
  scenarios: [
    ...createSharedScenarios(),
    scenario('Nothing is shown before the model has finished.', SEND_EVERY_TEXT, async (scene) => {
      const deltas = ['Wholemeal. ', 'It is best. ', 'Classified is the classified rest.'];
      const { exchange, shownBefore } = await startAndHold(scene, deltas);
      ensure(shownBefore === '', `the user saw “${shownBefore}” before the judgement`);
      requireVeto(await exchange.waitForAnswer(), 'that is classified');
    }),
  ],
};

export const pieces: RuntimeChapter = {
  title: 'Answers that a plugin judges piece by piece',
  guard: 'pieces',
  scenarios: [
    ...createSharedScenarios(),
    scenario(
      'A sentence is shown when it is judged, before the model has finished.',
      'Where the prompt’s `outbound` is `pieces`, send whole sentences as pieces of one output.',
      async (scene) => {
        const { exchange, finish } = await scene.holdAnswer('afterFirst', ['Two loafs. The', ' rest.']);
        try {
          scene.requireStreaming();
          await exchange.waitUntilShown('Two loaves.');
        } finally {
          finish();
        }
        requireAnswer(await exchange.waitForAnswer(), 'Two loaves. The rest.');
      },
    ),
    scenario(
      'Killed between two sentences: the message is judged once, and the transcript has what was shown and the new answer.',
      'After a restart with the same runtime name, open the turn again with the id of its message.',
      async (scene) => {
        const id = `${scene.mark}-crash`;
        const first = scene.start();
        const options = { id, by: first, next: ['The whole.'] };
        const { exchange } = await scene.holdAnswer('afterFirst', ['Two loafs. The', ' rest.'], options);
        scene.requireStreaming();
        await exchange.waitUntilShown('Two loaves.');
        await first.kill();
        requireAnswer(await scene.say('hello', { id, by: scene.start() }), 'The whole.');
        const texts = (await scene.texts('assistant')).map((text) => text.trim());
        expect(texts, ['Two loaves.', 'The whole.'], 'messages of the agent');
        await scene.requireRecord({ judgements: 1, turns: ['ended'] });
      },
    ),
    scenario('Sentences before a stopped one are shown. It and the later ones are not.', OBEY_CANCEL, async (scene) => {
      const answer = await scene
        .script({ deltas: cutWords('One loaf. Two loafs. It is classified. The end.') })
        .say('hello');
      ensure(
        answer.end.kind === 'failed' && !/classified|The end|loafs/.test(answer.text),
        `the user saw ${describe(answer)}`,
      );
    }),
    scenario(
      'The service is replaced in the middle of a stream: each sentence is shown once, in order.',
      `Repeat what the service refused with 503, and what broke, with the same ids. ${REPEAT_ENOUGH}`,
      async (scene) => {
        const deltas = cutWords('One. Two. Three. Four. Five.');
        const { exchange, finish } = await scene.holdAnswer('afterFirst', deltas);
        scene.replaceService();
        finish();
        requireAnswer(await exchange.waitForAnswer(), exchange.shown);
        expect(exchange.shown, 'One. Two. Three. Four. Five.', 'the answer');
        expect(await scene.texts('assistant'), ['One. Two. Three. Four. Five.'], 'messages of the agent');
      },
    ),
  ],
};

/** Holds an answer after its first delta, for long enough that a runtime which shows it too early has shown it. */
async function startAndHold(scene: Scene, deltas: readonly string[]) {
  const { exchange, finish } = await scene.holdAnswer('afterFirst', deltas);
  // A whole turn of another session takes longer than a runtime needs to show a delta.
  await (await scene.withAgent('baker')).goesOn();
  const shownBefore = exchange.shown;
  finish();
  return { exchange, shownBefore };
}
