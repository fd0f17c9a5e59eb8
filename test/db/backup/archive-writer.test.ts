/** The file of a backup replaces no other one. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import t from 'tap';
import { type NewEntry, writeArchive } from '../../../db/backup/archive-writer.ts';
import { temporaryFolder } from '../../runner/harness.ts';

const createEntry = (open: NewEntry['open']): NewEntry => ({
  name: 'files/one',
  compress: false,
  open,
  onWritten: () => undefined,
});
const refused = { name: 'BackupError', message: /one\.backup exists already\. Choose another name\.$/ };

t.test('a file that exists is refused before anything is read', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'one.backup');
  await writeFile(path, 'another backup');
  let opened = 0;
  const entry = createEntry(async () => {
    opened += 1;
    return Readable.from([Buffer.from('x')]);
  });
  await t.rejects(writeArchive(path, [entry]), refused);
  t.equal(opened, 0);
  t.equal(await readFile(path, 'utf8'), 'another backup');
});

t.test('a file that appears meanwhile is refused at the end', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'one.backup');
  const entry = createEntry(async () => {
    await writeFile(path, 'another backup');
    return Readable.from([Buffer.from('x')]);
  });
  await t.rejects(writeArchive(path, [entry]), refused);
  t.same(await readdir(folder), ['one.backup']);
  t.equal(await readFile(path, 'utf8'), 'another backup');
});
