/**
 * Test262 in a plugin's realm. The suite is no npm package: BULKHEAD_TEST262 names the folder of a checkout of
 * github.com/tc39/test262. WRITE_PAGES=1 writes the tables of docs/language-agreement.md again.
 */
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { checkTable } from '../agreement-page.ts';
import { countOthers, listExclusions, listReasons, listTotals } from './language-page.ts';
import { measure, measureBundled } from './measurement.ts';
import { UNEXPLAINED } from './reasons.ts';
import { listSuiteFiles } from './suite-files.ts';

t.setTimeout(3_600_000);
t.after(() => stopEsbuild());

const suite = process.env.BULKHEAD_TEST262;
const isLong = amount({ quick: false, soak: true });
const skip = suite === undefined ? 'BULKHEAD_TEST262 names no checkout of test262' : !isLong && 'runs with --soak';
/** Of the eligible cases: enough to see every kind, and done in minutes. */
const RUN_EVERY = 3;
/** Of these, through the bundler. */
const BUNDLED_EVERY = 40;
const SHARE_MIN = 0.97;

t.test('the language is whole', { skip }, async (t) => {
  const files = listSuiteFiles(suite ?? '');
  const eligible = files.filter(({ excluded }) => excluded === null).filter((_file, index) => index % RUN_EVERY === 0);
  const folder = await temporaryFolder(t);
  const found = await measure(suite ?? '', eligible, folder);
  const { [UNEXPLAINED]: unexplained = [] } = found.failures;
  t.same(unexplained, [], 'every failure has a reason');
  t.ok(countOthers(found) <= (1 - SHARE_MIN) * found.inNode, 'of what passes in plain Node');
  const sample = eligible.filter((_file, index) => index % BUNDLED_EVERY === 0);
  const bundled = Object.values(await measureBundled(suite ?? '', sample, folder)).flat();
  t.ok(bundled.length <= 2 * (sample.length - (sample.length * found.inPlugin) / found.eligible), bundled.join('\n'));
  const page = 'language-agreement';
  await checkTable(t, 'Cases', ['Cases', 'Count', 'Share'], listTotals(found), page);
  await checkTable(t, 'What differs', ['Reason', 'Cases', 'Share', 'Meaning'], listReasons(found), page);
  await checkTable(t, 'What is left out', ['Cases of', 'Count'], listExclusions(files), page);
});
