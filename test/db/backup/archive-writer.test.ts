/** The file of a backup replaces no other one, and a folder that cannot be written is refused with advice. */
import { execFile, spawnSync } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { type NewEntry, writeArchive } from '../../../db/backup/archive-writer.ts';
import { withScratchFolder } from '../../../db/backup/scratch-folder.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount, listCases } from '../../runner/soak.ts';

const WRITER = fileURLToPath(new URL('../../../db/backup/archive-writer.ts', import.meta.url));
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

t.test('a name that is too long is refused with advice', async (t) => {
  const folder = await temporaryFolder(t);
  // File systems of Linux accept 255 bytes.
  const path = join(folder, 'x'.repeat(255));
  const suffix = `.${hostname()}.${process.pid}.unfinished`;
  await t.rejects(writeArchive(path, [createEntry(async () => Readable.from([]))]), {
    name: 'BackupError',
    message: `${path} is too long, because its name ends in ${suffix} until it is complete: shorten it.`,
  });
  t.same(await readdir(folder), []);
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

t.test(
  'another process that writes a file of the same name is refused, and takes nothing from the first',
  async (t) => {
    const folder = await temporaryFolder(t);
    const path = join(folder, 'one.backup');
    const program = `
    import { Readable } from 'node:stream';
    import { writeArchive } from ${JSON.stringify(WRITER)};
    const open = async () => Readable.from([Buffer.from('rye')]);
    await writeArchive(${JSON.stringify(path)}, [{ name: 'x', compress: false, open, onWritten: () => undefined }]);`;
    const dead = spawnSync('true');
    await writeFile(`${path}.${hostname()}.${dead.pid}.unfinished`, 'of a killed process');
    await writeFile(`${path}.other.${dead.pid}.unfinished`, 'of another machine');
    await writeFile(`${path}.${hostname()}.${process.ppid}.unfinished`, 'of a running process');
    const entry = createEntry(async () => {
      await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
      return Readable.from([Buffer.from('oat')]);
    });
    await t.rejects(writeArchive(path, [entry]), refused);
    const content = await readFile(path, 'latin1');
    t.match(content, /rye/);
    t.notMatch(content, /oat/);
    const kept = [`${hostname()}.${process.ppid}`, `other.${dead.pid}`].map((name) => `one.backup.${name}.unfinished`);
    t.same((await readdir(folder)).toSorted(), ['one.backup', ...kept].toSorted());
  },
);

const SOURCES = { large: 100, 'that is read to its end before the first bytes are written': 1 };
for (const [size, chunks] of listCases(SOURCES, 'large'))
  t.test(`a file that may not become so large is refused with advice: a source ${size}`, async (t) => {
    const folder = await temporaryFolder(t);
    const path = join(folder, 'one.backup');
    const program = `
    import { Readable } from 'node:stream';
    import { writeArchive } from ${JSON.stringify(WRITER)};
    const open = async () => Readable.from(Array.from({ length: ${chunks} }, () => Buffer.alloc(100_000)));
    const entry = { name: 'x', compress: false, open, onWritten: () => undefined };
    await writeArchive(${JSON.stringify(path)}, [entry]).catch(({ name, message }) => console.log(name, message));`;
    const limited = ['-c', 'ulimit -f 12; exec "$0" --input-type=module -e "$1"', process.execPath, program];
    const { stdout } = await promisify(execFile)('sh', limited);
    t.match(stdout, /^BackupError \S+one\.backup is larger than a file may be in \S+: raise .* Nothing was kept\.\n$/);
    t.same(await readdir(folder), []);
  });

// FAT and exFAT answer EPERM, file systems of FUSE ENOSYS, and SMB ENOTSUP.
for (const code of amount({ quick: ['EPERM'], soak: ['EPERM', 'ENOSYS', 'ENOTSUP'] })) {
  t.test(`a file system without hard links (${code}) gets the file, too`, async (t) => {
    const folder = await temporaryFolder(t);
    const path = join(folder, 'one.backup');
    const refuseLink = () => Promise.reject(Object.assign(new Error(code), { code }));
    const write = (open: NewEntry['open']) => writeArchive(path, [createEntry(open)], refuseLink);
    await write(async () => Readable.from([Buffer.from('rye')]));
    t.same(await readdir(folder), ['one.backup']);
    t.match(await readFile(path, 'latin1'), /rye/);
    await rm(path);
    const appearing = write(async () => {
      await writeFile(path, 'another backup');
      return Readable.from([Buffer.from('x')]);
    });
    await t.rejects(appearing, refused);
    t.same(await readdir(folder), ['one.backup']);
    t.equal(await readFile(path, 'utf8'), 'another backup');
  });
}

t.test('a folder for temporary files that cannot be written is refused with advice', async (t) => {
  const { TMPDIR } = process.env;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });
  const missing = join(await temporaryFolder(t), 'missing');
  process.env.TMPDIR = missing;
  await t.rejects(
    withScratchFolder(
      (line) => t.fail(line),
      async () => t.fail('it was made'),
    ),
    {
      message: `The folder ${missing} cannot be written (ENOENT), and the keys of the backup must be written there: set TMPDIR to a folder that this user can write and that has room.`,
    },
  );
});
