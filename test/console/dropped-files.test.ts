/** Dropping a plugin's folder reads its files, and none of a folder that is not part of the package. Few packages are remembered. */
import t from 'tap';
import { readDroppedFiles } from '../../console/authoring/dropped-files.ts';
import { type Dropped, hasSameFiles, readDropped, rememberUnanswered } from '../../console/authoring/package-files.ts';

const readName = (fullPath: string): string => fullPath.split('/').at(-1) ?? '';

const makeFile = (fullPath: string) => ({
  isFile: true,
  name: readName(fullPath),
  fullPath,
  file: (resolve: (file: File) => void) => resolve(new File(['text'], readName(fullPath))),
});

function makeFolder(fullPath: string, entries: readonly object[]) {
  const pages = [entries, []];
  const createReader = () => ({ readEntries: (resolve: (some: unknown) => void) => resolve(pages.shift() ?? []) });
  return { isFile: false, name: readName(fullPath), fullPath, createReader };
}

const drop = (...entries: object[]) =>
  readDroppedFiles({ items: entries.map((entry) => ({ webkitGetAsEntry: () => entry })) } as unknown as DataTransfer);

const listPaths = async (...entries: object[]) => {
  const read = await readDropped(await drop(...entries));
  return 'files' in read && read.files.map(({ path }) => path).sort();
};

t.test('the files of node_modules do not count towards the limit of a package', async (t) => {
  const modules = Array.from({ length: 10_001 }, (_, index) => makeFile(`/plugin/node_modules/${index}.js`));
  const folder = makeFolder('/plugin', [
    makeFile('/plugin/index.ts'),
    makeFolder('/plugin/node_modules', modules),
    makeFile('/plugin/readme.md'),
  ]);
  const read = await readDropped(await drop(folder));
  t.same('files' in read && read.files.map(({ path }) => path), ['index.ts', 'readme.md']);
});

t.test('of a folder with too many files, as many are read as the service refuses', async (t) => {
  const files = Array.from({ length: 10_005 }, (_, index) => makeFile(`/plugin/${index}.txt`));
  t.equal((await drop(makeFolder('/plugin', files))).length, 10_001);
});

const TOOL_FILES = ['.env', '.gitignore', 'package.json', 'tsconfig.json', 'bulkhead.d.ts', 'index.test.ts'];

t.test('hidden files, such as .env with secrets, and files of tools are left out', async (t) => {
  const own = ['index.ts', 'readme.md', 'assets/package.json'];
  const files = (folder: string) => [...TOOL_FILES, ...own].map((path) => makeFile(`${folder}/${path}`));
  t.same(await listPaths(makeFolder('/plugin', files('/plugin'))), own.toSorted(), 'a dropped folder');
  const dropped = [...files(''), makeFolder('/dist', [makeFile('/dist/index.js')])];
  t.same(await listPaths(...dropped), own.toSorted(), 'the files of a folder, dropped together');
});

t.test('dist and coverage are folders of tools at the top only', async (t) => {
  const skill = makeFolder('/plugin/skills/coverage', [makeFile('/plugin/skills/coverage/SKILL.md')]);
  const own = [makeFile('/plugin/index.ts'), makeFolder('/plugin/skills', [skill])];
  const built = makeFolder('/plugin/coverage', [makeFile('/plugin/coverage/report.html')]);
  t.same(await listPaths(makeFolder('/plugin', [...own, built])), ['index.ts', 'skills/coverage/SKILL.md']);
});

t.test('a folder that is dropped beside files of tools is the package', async (t) => {
  const folder = makeFolder('/plugin', [makeFile('/plugin/index.ts'), makeFile('/plugin/.env')]);
  t.same(await listPaths(makeFile('/.DS_Store'), folder, makeFile('/Thumbs.db')), ['index.ts']);
  const built = Array.from({ length: 10_001 }, (_, index) => makeFile(`/plugin/dist/${index}.js`));
  const withBuilt = makeFolder('/plugin', [makeFolder('/plugin/dist', built), makeFile('/plugin/index.ts')]);
  t.same(await listPaths(makeFile('/.DS_Store'), withBuilt), ['index.ts'], 'without the files of its dist');
});

t.test('a dropped folder is the package, whatever its name', async (t) => {
  t.same(await listPaths(makeFolder('/dist', [makeFile('/dist/index.ts')])), ['index.ts']);
});

t.test('a folder that is too large is refused before it is read, with what to do', async (t) => {
  const large = Object.assign(new File([], 'words.txt'), { path: '/plugin/words.txt' });
  Object.defineProperty(large, 'size', { value: 17 * 1_048_576 });
  Object.defineProperty(large, 'arrayBuffer', { value: () => t.fail('it is read') });
  const refusal = 'The files of the folder have 17 MiB, and a folder may have 16 MiB. Drop it as a zip instead.';
  await t.rejects(readDropped([large]), { message: refusal });
  const lines = Object.assign(new File(['\n'.repeat(9 * 1_048_576)], 'lines.txt'), { path: '/plugin/lines.txt' });
  await t.rejects(readDropped([lines]), {
    message: /^The files of the folder have 18 MiB as JSON, .* as a zip instead\.$/,
  });
});

t.test('a folder without files is refused', (t) => t.rejects(readDropped([]), { message: /^No file was found\./ }));

t.test('during an outage, the packages of the last saves are remembered, each once', async (t) => {
  const sent = Array.from({ length: 50 }, (_, index) => ({ files: [{ path: 'index.ts', contentText: `${index}` }] }));
  const again = sent.flatMap((one) => [one, one]);
  const remembered = again.reduce<readonly Dropped[]>(rememberUnanswered, []);
  t.same(remembered, sent.slice(-8));
});

t.test('packages are compared in linear time, which the editor does at each keystroke', (t) => {
  let reads = 0;
  const listFiles = (text: string) =>
    Array.from({ length: 1_000 }, (_, index) => ({
      get path(): string {
        reads += 1;
        return `skills/pages/${index}.md`;
      },
      contentText: index === 999 ? text : 'page',
    }));
  t.equal(hasSameFiles(listFiles('last'), listFiles('last').reverse()), true);
  t.equal(hasSameFiles(listFiles('last'), listFiles('other')), false);
  t.equal(hasSameFiles(listFiles('last'), listFiles('last').slice(1)), false);
  t.ok(reads < 10_000, `the paths were read ${reads} times`);
  t.end();
});
