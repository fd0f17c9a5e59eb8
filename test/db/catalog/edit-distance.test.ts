/** How far a misspelt word is from the one that was meant. */
import t from 'tap';
import { countEdits, maxEdits } from '../../../db/catalog/edit-distance.ts';

/** More errors than a misspelt word has. */
const UNLIKE = Number.POSITIVE_INFINITY;

t.test('each letter put in, left out, changed or swapped with its neighbour is one error', async (t) => {
  const cases: [typed: string, word: string, errors: number][] = [
    ['weather', 'weather', 0],
    ['wether', 'weather', 1],
    ['wheather', 'weather', 1],
    ['waether', 'weather', 1],
    ['weathes', 'weather', 1],
    ['calandar', 'calendar', 1],
    ['invioces', 'invoice', 2],
    ['', 'ma', 2],
    ['', 'map', UNLIKE],
    ['map', 'weather', UNLIKE],
    ['weather', 'feathers', 2],
    ['weather', 'leathery', 2],
    ['weather', 'feathered', UNLIKE],
    ['wetaher', 'weather', 1],
    ['ewahter', 'weather', 2],
    ['ewahtre', 'weather', UNLIKE],
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
  t.equal(countEdits('weathers', 'weather', true), 1);
  t.equal(countEdits('', 'weather', true), 0);
  t.equal(countEdits('zoom', 'weather', true), UNLIKE);
  t.equal(countEdits('weather', 'wea', true), UNLIKE);
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

/** Counts all edits, with the whole matrix. */
function countAll(typed: string, word: string, isPrefix: boolean): number {
  const edits = Array.from(typed.padStart(typed.length + 1), (_, row) =>
    Array.from(word.padStart(word.length + 1), (_, column) => (row === 0 ? column : column === 0 ? row : 0)),
  );
  const at = (row: number, column: number) => edits[row]?.[column] ?? Number.POSITIVE_INFINITY;
  for (let row = 1; row <= typed.length; row += 1)
    for (let column = 1; column <= word.length; column += 1) {
      const isSame = typed[row - 1] === word[column - 1];
      const isSwapped = typed[row - 1] === word[column - 2] && typed[row - 2] === word[column - 1];
      const candidates = [at(row - 1, column) + 1, at(row, column - 1) + 1, at(row - 1, column - 1) + (isSame ? 0 : 1)];
      if (isSwapped && row > 1 && column > 1) candidates.push(at(row - 2, column - 2) + 1);
      (edits[row] ?? [])[column] = Math.min(...candidates);
    }
  const last = edits.at(-1) ?? [];
  return isPrefix ? Math.min(...last) : (last.at(-1) ?? 0);
}

t.test('words of few letters have the edits of the whole matrix', async (t) => {
  const LENGTH_MAX = 5;
  const words = [''];
  for (const word of words) if (word.length < LENGTH_MAX) words.push(`${word}a`, `${word}b`, `${word}c`);
  const typed = words.filter((_, index) => index % 3 === 0);
  const wrong: string[] = [];
  for (const one of typed)
    for (const word of words)
      for (const isPrefix of [false, true]) {
        const edits = countAll(one, word, isPrefix);
        if (countEdits(one, word, isPrefix) !== (edits > 2 ? UNLIKE : edits))
          wrong.push(`${one}, ${word}, ${isPrefix}`);
      }
  t.same(wrong, []);
});
