/** How far a misspelt word is from the one that was meant. */
import t from 'tap';
import { countEdits, maxEdits } from '../../../db/catalog/edit-distance.ts';

t.test('each letter put in, left out, changed or swapped with its neighbour is one error', async (t) => {
  const cases: [typed: string, word: string, errors: number][] = [
    ['weather', 'weather', 0],
    ['wether', 'weather', 1],
    ['wheather', 'weather', 1],
    ['waether', 'weather', 1],
    ['weathes', 'weather', 1],
    ['calandar', 'calendar', 1],
    ['invioces', 'invoice', 2],
    ['', 'map', 3],
    ['天汽预报', '天气预报', 1],
  ];
  for (const [typed, word, errors] of cases) {
    t.equal(countEdits(typed, word, false), errors, `${typed}, ${word}`);
    t.equal(countEdits(word, typed, false), errors, `${word}, ${typed}`);
  }
});

t.test('a word that is still being typed is compared with beginnings', async (t) => {
  t.equal(countEdits('calan', 'calendar', true), 1);
  t.equal(countEdits('wether', 'weatherman', true), 1);
  t.equal(countEdits('weather', 'weather', true), 0);
  t.equal(countEdits('zoom', 'weather', true), 4);
});

t.test('the longer the word the more may be wrong; of short ones nothing', async (t) => {
  for (const [word, errors] of [
    ['cat', 0],
    ['task', 1],
    ['weather', 1],
    ['calendar', 2],
    ['x'.repeat(200), 2],
  ] as const)
    t.equal(maxEdits(word), errors, word);
});
