/** A built program is used again while the files that it was built from are the same. */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import t from 'tap';
import { buildOrReuse } from '../../sandbox-child/kept-builds.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('a program is built again when a file that it was built from has changed', async (t) => {
  const folder = await temporaryFolder(t);
  if (getCompileCacheDir() === undefined) enableCompileCache(join(folder, 'cache'));
  const input = join(folder, 'input.ts');
  let builds = 0;
  const read = () =>
    buildOrReuse('kept-builds.test.ts', async () => {
      builds += 1;
      return { text: `build ${builds}`, inputs: [input] };
    });
  // npm gives the files of all packages the same time, so the time must not matter.
  const write = async (content: string): Promise<void> => {
    await writeFile(input, content);
    await utimes(input, 1, 1);
  };
  await write('one');
  t.equal(await read(), 'build 1');
  t.equal(await read(), 'build 1', 'the kept one');
  await write('two');
  t.equal(await read(), 'build 2', 'other content of the same length and time');
  t.equal(await read(), 'build 2', 'the kept one');
  await rm(input);
  t.equal(await read(), 'build 3', 'a missing file');
});

t.test('a kept program that is damaged is built again', async (t) => {
  const folder = await temporaryFolder(t);
  if (getCompileCacheDir() === undefined) enableCompileCache(join(folder, 'cache'));
  const recipe = 'kept-builds.test.ts: damaged';
  const path = join(
    getCompileCacheDir() ?? '',
    'child-programs',
    `${createHash('sha256').update(recipe).digest('hex')}.json`,
  );
  const read = () => buildOrReuse(recipe, async () => ({ text: 'built', inputs: [] }));
  t.equal(await read(), 'built');
  const kept = await readFile(path, 'latin1');
  await writeFile(path, kept.replace('built', 'other'), 'latin1');
  t.equal(await read(), 'built');
  await rm(path);
});

t.test('a build that cannot be kept leaves no file', async (t) => {
  const folder = await temporaryFolder(t);
  if (getCompileCacheDir() === undefined) enableCompileCache(join(folder, 'cache'));
  const recipe = 'kept-builds.test.ts: not kept';
  const name = `${createHash('sha256').update(recipe).digest('hex')}.json`;
  const kept = join(getCompileCacheDir() ?? '', 'child-programs');
  // A folder, which no file can replace.
  await mkdir(join(kept, name), { recursive: true });
  t.equal(await buildOrReuse(recipe, async () => ({ text: 'built', inputs: [] })), 'built');
  t.same(
    (await readdir(kept)).filter((file) => file.startsWith(name)),
    [name],
  );
  await rm(join(kept, name), { recursive: true });
});
