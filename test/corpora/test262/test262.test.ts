/**
 * Test262 in a plugin's realm. The suite is no npm package: BULKHEAD_TEST262 names the folder of a checkout of
 * github.com/tc39/test262. WRITE_PAGES=1 writes the tables of docs/language-agreement.md again.
 */
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { checkTable } from '../agreement-page.ts';
import { listExclusions, listReasons, listTotals, shareUnchanged } from './language-page.ts';
import { measure, measureBundled } from './measurement.ts';
import { UNEXPLAINED } from './reasons.ts';
import { listSuiteFiles } from './suite-files.ts';

t.after(() => stopEsbuild());

const suite = process.env.BULKHEAD_TEST262;
const isLong = amount({ quick: false, soak: true });
const skip = suite === undefined ? 'BULKHEAD_TEST262 names no checkout of test262' : !isLong && 'runs with --soak';
/** One in this many of the eligible cases runs: enough to see every kind, and done in minutes. */
const RUN_EVERY = 3;
/** One in this many of these runs through the bundler. */
const BUNDLED_EVERY = 40;
const SHARE_MIN = 0.97;
/** Cases that the parser of esbuild reads otherwise than the language: names of Unicode 17, and two old rules of syntax. */
const READ_OTHERWISE = new Set([
  'annexB/language/statements/for-in/strict-initializer.js',
  'language/identifiers/part-unicode-17.0.0-class-escaped.js',
  'language/statements/function/static-init-await-binding-valid.js',
]);

t.test('the language is whole', { skip }, async (t) => {
  const files = listSuiteFiles(suite ?? '');
  const eligible = files.filter(({ excluded }) => excluded === null).filter((_file, index) => index % RUN_EVERY === 0);
  const folder = await temporaryFolder(t);
  const found = await measure(suite ?? '', eligible, folder);
  t.same(found.failures.get(UNEXPLAINED), undefined, 'every failure has a reason');
  t.ok(shareUnchanged(found) >= SHARE_MIN, 'of what passes in plain Node, and leaves its intrinsics alone');
  const sample = eligible.filter((_file, index) => index % BUNDLED_EVERY === 0);
  const bundled = await measureBundled(suite ?? '', sample, folder);
  t.same(
    [...bundled].filter(([path]) => !found.failed.has(path) && !READ_OTHERWISE.has(path)),
    [],
    'the bundler changes no result',
  );
  const page = 'language-agreement';
  await checkTable(t, 'Cases', ['Cases', 'Count', 'Share'], listTotals(found), page);
  await checkTable(t, 'What differs', ['Reason', 'Cases', 'Share', 'Meaning'], listReasons(found), page);
  await checkTable(t, 'Cases that are left out', ['Cases of', 'Count'], listExclusions(files), page);
});
