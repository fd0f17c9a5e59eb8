/**
 * A package has one meaning: every zip of the corpus is refused, or opens as the one tree that every other reader sees, too.
 * docs/package-agreement.md says for each kind of zip what Bulkhead and yauzl do, and why where they differ.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { Problem } from '../../sdk/contract/errors.ts';
import { hashFileTree } from '../../sdk/contract/file-tree.ts';
import { startApiFixture } from '../api/api-fixture.ts';
import { introspectsMinimal, upload } from '../api/package/packages.ts';
import { openZipReader } from '../api/package/zip-reader.ts';
import { checkTable, type TableRow } from './agreement-page.ts';
import { findPython, type OpenedTree, openWithPython, openWithYauzl } from './other-readers.ts';
import { packWithTools } from './real-zips.ts';
import { contents, listZipCases } from './zip-cases.ts';
import type { ZipCase } from './zip-parts.ts';
import { explain, OTHER_NAMES } from './zip-reasons.ts';

const CASES_MIN = 300;
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');
const cases = listZipCases();
const { folder, read } = await openZipReader(t);

/** The tree of a zip as Bulkhead reads it, or why it refuses. */
async function open(zip: Buffer): Promise<OpenedTree | Problem> {
  const found = await read(zip);
  if (found instanceof Problem) return found;
  return Object.fromEntries(found.files.map(({ path, sha256 }) => [path, sha256]));
}

/** Without what a publish leaves out, so that trees can be compared. */
function withoutLitter(tree: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(tree).filter(([path]) => !/(^|\/)(__MACOSX\/|\.DS_Store$|\._)/.test(path));
  const [wrapper] = /^p\//.exec(kept[0]?.[0] ?? '') ?? [''];
  return Object.fromEntries(kept.map(([path, hash]) => [path.slice(wrapper.length), hash]).toSorted());
}
const isSame = (one: object, other: object) => JSON.stringify(one) === JSON.stringify(other);

/** The outcome of a case. */
interface Result extends ZipCase {
  readonly ours: OpenedTree | Problem;
  readonly yauzl: OpenedTree;
}
const results: Result[] = [];
for (const one of cases) results.push({ ...one, ours: await open(one.zip), yauzl: await openWithYauzl(one.zip) });
const opened = results.filter(
  (result): result is Result & { ours: Record<string, string> } => !(result.ours instanceof Problem),
);

t.test('every zip opens as the tree that yauzl sees, or is refused', async (t) => {
  t.ok(cases.length >= CASES_MIN, `${cases.length} zips`);
  for (const { label, name, ours, yauzl } of opened)
    if (yauzl && !OTHER_NAMES.includes(label) && !isSame(withoutLitter(yauzl), withoutLitter(ours)))
      t.fail(`${label}, ${name}: yauzl sees another tree`);
  for (const { label, name, ours } of results) {
    if (!(ours instanceof Problem)) continue;
    const isSentence = /^(.+: )?The .+[.:]/.test(ours.message) && /\.$/.test(ours.message);
    if (!isSentence) t.fail(`${label}, ${name}: not a sentence of ours: ${ours.message}`);
  }
  t.pass(`${opened.length} opened, ${results.length - opened.length} refused`);
});

const python = findPython();
t.test('every zip that opens is the same tree for Python', { skip: python === null && 'no python3' }, async (t) => {
  if (python === null) return;
  const paths = await Promise.all(
    opened.map(async ({ zip }, at) => {
      const path = join(folder, `${at}.zip`);
      await writeFile(path, zip);
      return path;
    }),
  );
  const trees = await openWithPython(python, paths);
  for (const [at, tree] of trees.entries()) {
    const { label, name, ours } = opened[at] as (typeof opened)[number];
    if (OTHER_NAMES.includes(label) || tree === null) continue;
    if (!isSame(withoutLitter(tree), withoutLitter(ours))) t.fail(`${label}, ${name}: Python sees another tree`);
  }
  t.equal(trees.length, opened.length);
});

t.test('zips of real tools open, but for what the format of a package rules out', async (t) => {
  const { zips, missing } = await packWithTools(folder, contents);
  const tree = Object.fromEntries(Array.from(contents, ([path, content]) => [path, sha256(content)]).toSorted());
  for (const { name, opens, zip } of zips) {
    const found = await open(zip);
    if (!opens) t.ok(found instanceof Problem, `${name} is refused`);
    else t.same(found instanceof Problem ? found.message : found, tree, name);
  }
  for (const program of missing) t.pass(`${program} is missing`, { skip: `no ${program}` });
});

t.test('over HTTP, a zip of each kind and answer is 201 with that tree, or 422', async (t) => {
  const api = await startApiFixture(t, { introspect: introspectsMinimal });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'corpus', displayName: 'Corpus' })).body;
  const counts: Record<number, number> = {};
  const publish = async ({ label, name, zip, ours }: Result, at: number) => {
    const url = `/api/plugins/${id}/versions/zip`;
    const { status, body } = await ann.send({ method: 'POST', url, ...upload(zip, `0.0.${at}`) });
    counts[status] = (counts[status] ?? 0) + 1;
    const files =
      ours instanceof Problem || ours === null ? [] : Object.entries(ours).map(([path, sha256]) => ({ path, sha256 }));
    const expected = ours instanceof Problem ? ours.message : hashFileTree(files);
    if ((status === 201 ? body.sourceSha256 : body.detail) !== expected)
      t.fail(`${label}, ${name}: ${status} ${body.detail}`);
  };
  // The reader threw nothing but problems for all others.
  const kinds = new Map(results.map((result) => [`${result.label} ${result.ours instanceof Problem}`, result]));
  for (const [at, result] of [...kinds.values()].entries()) await publish(result, at);
  t.same(Object.keys(counts), ['201', '422'], JSON.stringify(counts));
});

t.test('the table of agreement is current', async (t) => {
  const rows = Map.groupBy(results, ({ label }) => label);
  const table = Array.from(rows, ([label, all]): TableRow => {
    const ours = tell(all.map(({ ours }) => (ours instanceof Problem ? 'refuses' : 'opens')));
    const yauzl = tell(all.map(({ yauzl }) => (yauzl === null ? 'refuses' : 'opens')));
    const differs = ours !== yauzl || OTHER_NAMES.includes(label);
    const why = differs ? explain(label) : '';
    if (differs && why === '') t.fail(`${label}: the difference is not explained`);
    return [label, String(all.length), ours, yauzl, why];
  });
  await checkTable(t, 'Zips', ['Kind', 'Zips', 'Bulkhead', 'yauzl 3.4', 'Why'], table);
});

/** `opens`, `refuses`, or how many of each. */
function tell(answers: readonly ('opens' | 'refuses')[]): string {
  const count = answers.filter((answer) => answer === 'opens').length;
  if (count === 0) return 'refuses';
  return count === answers.length ? 'opens' : `opens ${count}`;
}
