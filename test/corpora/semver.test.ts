/** Version numbers: what is one, and which comes first, compared with npm's own library. */
import { compare, parse } from 'semver';
import t from 'tap';
import { comparePrecedence, validateSemVer } from '../../sdk/contract/version-numbers.ts';
import { checkTable, type TableRow } from './agreement-page.ts';
import { inOrder, invalid, valid } from './version-numbers.ts';

/** Why npm's library answers otherwise. */
const REASONS: Readonly<Record<string, string>> = {
  'a number above 2^53': 'The library refuses numbers that floating point cannot tell apart. SemVer limits none.',
  'a leading v, = or blank': 'The library removes them. Two texts would be one version.',
  'build metadata': 'The library ignores it. Two texts would be one version.',
  'more than 100 characters': 'The library allows 256.',
};
/** The library takes numeric identifiers above 2^53 for floating point. */
const isExact = (text: string): boolean => !/\d{16}/.test(text);

t.test('what is a version number', async (t) => {
  for (const text of Object.values(valid).flat()) t.equal(validateSemVer(text), null, text);
  for (const text of Object.values(invalid).flat()) t.ok(validateSemVer(text), JSON.stringify(text));
});

t.test('precedence is the standard’s, however long the numbers', async (t) => {
  t.same(inOrder.toReversed().sort(comparePrecedence), inOrder);
  for (const [at, one] of inOrder.entries()) {
    for (const [other, text] of inOrder.entries()) {
      const order = Math.sign(comparePrecedence(one, text));
      if (order !== Math.sign(at - other)) t.fail(`${one} and ${text}`);
      if (isExact(one) && isExact(text) && order !== compare(one, text)) t.fail(`${one} and ${text}, by the library`);
    }
  }
});

t.test('the table of agreement is current', async (t) => {
  const rows = Object.entries({ ...valid, ...invalid }).map(([kind, texts]): TableRow => {
    const ours = tell(texts.map((text) => validateSemVer(text) === null));
    const library = tell(texts.map((text) => parse(text) !== null));
    const why = ours === library ? '' : (REASONS[kind] ?? '');
    if (ours !== library && why === '') t.fail(`${kind}: the difference is not explained`);
    return [kind, String(texts.length), ours, library, why];
  });
  await checkTable(t, 'Version numbers', ['Kind', 'Texts', 'Bulkhead', 'semver 7.8', 'Why'], rows);
});

function tell(answers: readonly boolean[]): string {
  const count = answers.filter(Boolean).length;
  if (count === 0) return 'refuses';
  return count === answers.length ? 'accepts' : `accepts ${count}`;
}
