/** Code whose reading would take the square of its length: a build ends in time, and those of other accounts go on. */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { findLibraryLines } from '../../../api/package/author-files.ts';
import { BuildTime } from '../../../api/package/build-time.ts';
import { bundlePackage } from '../../../api/package/bundle.ts';
import { NearestFiles } from '../../../api/package/bundle-modules.ts';
import { type Bundler, startBundler } from '../../../api/package/bundler.ts';
import { REPORTS_MAX } from '../../../api/package/code-file.ts';
import { parseFile } from '../../../api/package/file-syntax.ts';
import { findFreeNames } from '../../../api/package/free-names.ts';
import { CANDIDATES_MAX, COMPARED_MAX } from '../../../api/package/undeclared-names.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { INDEX } from './packages.ts';
import { QUICK_MS, STUCK_AT } from './stuck-worker.ts';

const folder = await temporaryFolder(t);
const range = (length: number): number[] => Array.from({ length }, (_, index) => index);

/** For builds that do not change their thread. */
const shared = startBundler({ threads: 1 });
t.teardown(() => shared.close());

let count = 0;
async function bundle(bundler: Bundler, accountId: string, sources: Readonly<Record<string, string>>) {
  const files = await Promise.all(
    Object.entries(sources).map(async ([path, content]) => {
      const stagedAt = join(folder, String(count++));
      await writeFile(stagedAt, content);
      return { path, stagedAt, sha256: '', sizeBytes: (await stat(stagedAt)).size };
    }),
  );
  return bundler.bundle({ files, sourceSha256: '', sizeBytes: 0, hasFetch: false }, accountId);
}

/** Children that ended and that no thread of this process can reap. */
async function countZombies(): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')));
  return stats.filter((text) => text.slice(text.lastIndexOf(') ')).startsWith(`) Z ${process.pid} `)).length;
}

t.test(
  'a thread that does not end its build is ended from outside, and the build moves to the slow thread',
  async (t) => {
    const worker = new URL('./stuck-worker.ts', import.meta.url);
    const slowMs = 2 * QUICK_MS;
    const bundler = startBundler({ worker, threads: 1, quickMs: QUICK_MS, slowMs });
    t.teardown(() => bundler.close());
    const stuck = bundle(bundler, 'ann', { [STUCK_AT]: '' });
    const others = await Promise.all([bundle(bundler, 'ben', {}), bundle(bundler, 'cleo', {})]);
    t.equal((await stuck).text, `built with ${slowMs} ms`);
    for (const { text } of others) t.match(text, /^built with/);
    t.equal((await bundle(bundler, 'ann', {})).text, `built with ${QUICK_MS} ms`, 'the thread was replaced');
    t.same(bundler.load(), { busy: 0, waiting: 0 });
  },
);

await soakTest(t, 'a build that the parser keeps busy ends in its own thread, which reaps its esbuild', async (t) => {
  const bundler = startBundler({ threads: 1, quickMs: 1_000, slowMs: 1_500 });
  t.teardown(() => bundler.close());
  const zombies = await countZombies();
  // acorn compares each name with all others of its scope.
  const names = range(300_000).map((at) => `let name${at};`);
  // On a busy machine, the build waits for a processor until its time is over.
  const message = /takes longer than 20 s|machine is too busy to build the package/;
  await t.rejects(bundle(bundler, 'ann', { 'index.ts': names.join('\n') }), { message });
  t.match(await bundle(bundler, 'ben', { 'index.ts': INDEX }), { text: /Be kind/ });
  await eventually(async () => (await countZombies()) === zombies);
});

t.test('a long line that esbuild would warn about in 10,000 places is built', async (t) => {
  const doubtful = [
    '[, NaN].includes(x === NaN)',
    'x === -0',
    '!x in {}',
    'x === []',
    "typeof x === 'nul'",
    '!x instanceof Array',
  ];
  const line = range(10_000).map((at) => doubtful[at % doubtful.length]);
  const { text, warnings } = await bundle(shared, 'ann', {
    'index.ts': `import './vendor/small.min.js';\n${INDEX}`,
    'vendor/small.min.js': `globalThis.x = 1; globalThis.results = [${line.join()}];`,
  });
  t.match(text, /Be kind/);
  t.same(warnings, []);
});

t.test('warnings about thousands of fields are cut before they leave the thread', async (t) => {
  const fields = range(2_000).map((at) => `b${at}: 0`);
  const tool = (name: string) => `tools.${name} = { description: 'x', parameters: {}, handler: () => '', ${fields} };`;
  const { warnings } = await bundle(shared, 'ann', {
    'index.ts': `import './other.ts';\n${tool('a')}`,
    'other.ts': tool('b'),
  });
  t.equal(warnings.length, REPORTS_MAX);
  t.match(warnings[0], /A tool has no field “b0”/);
});

await soakTest(
  t,
  'imports of missing files are refused, however long they and the paths of the package are',
  async (t) => {
    const long = range(2_000).map((at) => [`${'y'.repeat(900)}${at}.ts`, '']);
    const sources = { 'index.ts': `import './${'x'.repeat(4_000_000)}';`, ...Object.fromEntries(long) };
    const { message } = await bundle(shared, 'ann', sources).then(
      () => new Error('it was built'),
      (error: Error) => error,
    );
    t.match(message, /^index\.ts:1:8: “\.\/x+…” is not in the package\.$/);
  },
);

t.test('the nearest file is looked for among a bounded number of short paths, for the first imports', (t) => {
  const paths = (length: number) => Object.fromEntries(range(length).map((at) => [`lib/f${at}.ts`, '']));
  const hints = new NearestFiles({ ...paths(CANDIDATES_MAX), 'late.ts': '', [`${'l'.repeat(COMPARED_MAX)}.ts`]: '' });
  t.equal(hints.suggest('index.ts', 'lib/f7.tz'), ' The nearest is “./lib/f7.ts”');
  t.notMatch(hints.suggest('index.ts', 'late.tz'), /late/);
  t.equal(hints.suggest('index.ts', 'x'.repeat(COMPARED_MAX + 1)), '');
  const more = range(100).filter(() => hints.suggest('index.ts', 'lib/f7.tz') !== '');
  t.equal(more.length, 18, '20 in all');
  t.end();
});

t.test('lines below 200,000 marks of a bundler are distinguished', (t) => {
  const marks = range(200_000).map((at) => (at % 2 === 0 ? '// node_modules/a.js' : '// b.js'));
  const isLibraryLine = findLibraryLines('index.ts', ['own();', ...marks, 'own();'].join('\n'));
  t.notOk(isLibraryLine(1), 'above the first mark');
  const library = range(200_002).filter((at) => isLibraryLine(at + 1));
  t.equal(library.length, 100_000);
  t.ok(library.every((at) => at % 2 === 1));
  t.end();
});

t.test('a bundle with the line ends of Windows is distinguished, too', (t) => {
  const isLibraryLine = findLibraryLines('lib/a.js', '// node_modules/a.js\r\na();\r\n// own.js\r\nown();\r\n');
  t.same([2, 4].map(isLibraryLine), [true, false]);
  t.end();
});

t.test('names are looked up once, however deep they are used', (t) => {
  const [depth, uses] = [100, 1_000];
  const code = `${'{'.repeat(depth)}let near; ${'outer;'.repeat(uses)}far;${'}'.repeat(depth)}near; var outer;`;
  const { tree } = parseFile(code);
  let lookups = 0;
  const { has } = Set.prototype;
  t.teardown(() => Object.assign(Set.prototype, { has }));
  Set.prototype.has = function (value) {
    lookups += 1;
    return has.call(this, value);
  };
  const found = findFreeNames(tree);
  t.ok(lookups < 2 * uses, `${lookups} lookups`);
  t.same(
    found.map(({ name, start }) => ({ name, start })),
    [
      { name: 'far', start: code.indexOf('far') },
      { name: 'near', start: code.lastIndexOf('near') },
    ],
  );
  t.same(found[0]?.listVisible(1), ['near'], 'innermost first');
  t.same(found[0]?.listVisible(5), ['near', 'outer']);
  t.end();
});

await soakTest(t, 'a library that holds all names for its calls of import() is built', async (t) => {
  const names = range(500_000).map((at) => `i${at.toString(36).padStart(5, '_')}`);
  const library = `export const names = '${names.join(' ')}'; export const late = () => import('absent');`;
  const index = `import { late } from './vendor/a.js';\nconsole.log(late);\n${INDEX}`;
  const { text } = await bundle(shared, 'ann', { 'index.ts': index, 'vendor/a.js': library });
  t.ok(text.includes(`i${(500_000).toString(36).padStart(5, '_')}`));
});

t.test('on a busy machine, where a build gets a processor late, it has up to twice the time', async (t) => {
  const clock = { now: 0, processor: 0 };
  const start = () => new BuildTime(1_000, { now: () => clock.now, processorMs: () => clock.processor });
  const [computing, waiting] = [start(), start()];
  Object.assign(clock, { now: 1_000, processor: 400 });
  t.notOk(computing.isOver);
  t.equal(await computing.limit(Promise.resolve('built')), 'built');
  Object.assign(clock, { now: 1_600, processor: 1_000 });
  t.match(computing, { isOver: true, isStarved: false });
  t.equal(await computing.limit(new Promise(() => undefined)), undefined);
  Object.assign(clock, { now: 2_000, processor: 400 });
  t.match(waiting, { isOver: true, isStarved: true });
  const parsing = start();
  Object.assign(clock, { now: 3_000, processor: 1_390 });
  t.match(parsing, { isStarved: false }, 'it had a processor for nearly all of its time');
});

t.test('a build that fails says why, and one that ended its builder has begun twice', async (t) => {
  const begun: string[] = [];
  const buildWith = (outcome: 'died' | 'late' | 'starved') =>
    bundlePackage(
      async () => {
        begun.push(outcome);
        return { outcome };
      },
      { files: [], sourceSha256: '', sizeBytes: 0, hasFetch: false },
    );
  await t.rejects(buildWith('died'), { message: /could not be built: it is nested too deeply, or .* too much memory/ });
  await t.rejects(buildWith('late'), { message: /could not be built: its build takes longer than 20 s/ });
  await t.rejects(buildWith('starved'), { code: 'bundler_busy', message: /machine is too busy .* Retry the same/ });
  t.same(begun, ['died', 'died', 'late', 'starved']);
});
