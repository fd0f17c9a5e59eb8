/** Dropping a plugin's folder reads its files, and none of a folder that is not part of the package. */
import t from 'tap';
import { readDroppedFiles } from '../../console/authoring/dropped-files.ts';
import { readDropped } from '../../console/authoring/package-files.ts';

const makeFile = (fullPath: string) => ({
  isFile: true,
  fullPath,
  file: (resolve: (file: File) => void) => resolve(new File(['text'], fullPath.split('/').at(-1) ?? '')),
});

function makeFolder(fullPath: string, entries: readonly object[]) {
  const pages = [entries, []];
  const createReader = () => ({ readEntries: (resolve: (some: unknown) => void) => resolve(pages.shift() ?? []) });
  return { isFile: false, fullPath, createReader };
}

const drop = (entry: object) =>
  readDroppedFiles({ items: [{ webkitGetAsEntry: () => entry }] } as unknown as DataTransfer);

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

t.test('a folder without files is refused', (t) => t.rejects(readDropped([]), { message: /^No file was found\./ }));
