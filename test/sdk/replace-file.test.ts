/** Files that are replaced as a whole. */
import { chmod, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { PRIVATE_FILE, replaceFile } from '../../sdk/files/replace-file.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('two that replace a file at once both succeed, and leave one of the contents', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'file');
  const contents = ['a'.repeat(100_000), 'b'];
  await Promise.all(contents.map((content) => replaceFile(path, content)));
  t.ok(contents.includes(await readFile(path, 'utf8')));
  t.same(await readdir(folder), ['file']);
});

t.test('a link that another user left beside the file is not followed', async (t) => {
  const folder = await temporaryFolder(t);
  const own = join(folder, 'own');
  await writeFile(own, 'kept');
  for (const name of [`file.${process.pid}`, `file.${process.pid}.new`]) await symlink(own, join(folder, name));
  await replaceFile(join(folder, 'file'), 'token', PRIVATE_FILE);
  t.equal(await readFile(own, 'utf8'), 'kept');
  t.equal(await readFile(join(folder, 'file'), 'utf8'), 'token');
});

t.test('a file keeps its mode, and a new one has the given one, whatever the umask', async (t) => {
  const folder = await temporaryFolder(t);
  const [shared, hidden] = [join(folder, 'shared'), join(folder, 'hidden')];
  await writeFile(shared, '');
  await chmod(shared, 0o666);
  await replaceFile(shared, 'x');
  await replaceFile(hidden, 'x', PRIVATE_FILE);
  t.equal((await stat(shared)).mode & 0o777, 0o666);
  t.equal((await stat(hidden)).mode & 0o777, PRIVATE_FILE);
});
