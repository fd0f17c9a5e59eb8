/** Whatever agents do in workspaces, a backup can be written and restored, and holds no file from outside of them. */
import { execFileSync } from 'node:child_process';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { manifest } from '../../../db/backup/format.ts';
import { listFiles, openFile } from '../../../db/backup/stored-files.ts';
import { makeFolder } from '../../../sdk/files/make-folder.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';

interface DataDir {
  readonly path: string;
  /** Paths that are not in the backup, each with the reason. */
  readonly leftOut: string[];
  readonly leaveOut: (path: string, reason: string) => void;
}

/** A data directory with these files. */
async function createDataDir(t: Teardown, files: readonly string[]): Promise<DataDir> {
  const path = await temporaryFolder(t);
  for (const file of files) {
    await makeFolder(join(path, file, '..'));
    await writeFile(join(path, file), 'rye');
  }
  const leftOut: string[] = [];
  return { path, leftOut, leaveOut: (file, reason) => leftOut.push(`${file}: ${reason}`) };
}

async function list({ path, leaveOut }: DataDir): Promise<string[]> {
  const listed: string[] = [];
  for await (const file of listFiles(path, leaveOut)) listed.push(file);
  return listed.sort();
}
const read = async ({ path, leaveOut }: DataDir, file: string): Promise<string | null> => {
  const source = await openFile(path, file, leaveOut);
  return source && (await buffer(source)).toString();
};

t.test('all regular files are listed, except unfinished ones of keys, blobs and workspaces', async (t) => {
  const kept = [
    'blobs/ab/cd',
    'keys/secrets/one.key',
    'workspaces/a/.staging/one',
    'workspaces/a/b/c.txt',
    'workspaces/a/draft.new',
  ];
  const dataDir = await createDataDir(t, [
    ...kept,
    'keys/secrets/two.new',
    'blobs/cluster.7.new',
    'postgres.json',
    'workspaces/.staging/one',
  ]);
  await symlink('/etc/passwd', join(dataDir.path, 'workspaces/a/link'));
  t.same(await list(dataDir), kept);
  t.same(dataDir.leftOut, []);
  t.equal(await read(dataDir, 'workspaces/a/draft.new'), 'rye');
  t.same(await list(await createDataDir(t, [])), [], 'folders that do not exist have no files');
});

t.test('a name that a zip file cannot hold is left out and named', async (t) => {
  const dataDir = await createDataDir(t, ['workspaces/a/plain', 'workspaces/a/b\\c', 'workspaces/a/d\\..\\e/f']);
  const listed = await list(dataDir);
  t.same(listed, ['workspaces/a/plain']);
  for (const path of listed) t.ok(manifest.shape.files.element.shape.path.safeParse(path).success);
  t.same(dataDir.leftOut.sort(), [
    'workspaces/a/b\\c: its name has a backslash',
    'workspaces/a/d\\..\\e: its name has a backslash',
  ]);
});

t.test('the manifest of a backup names no file outside of the folders of a backup', (t) => {
  const { path } = manifest.shape.files.element.shape;
  for (const outside of [
    'keys/../x',
    'keys/./x',
    'blobs/..',
    'blobs/a/..',
    'blobs/a/../../x',
    'workspaces/a\n/../../x',
  ])
    t.notOk(path.safeParse(outside).success, JSON.stringify(outside));
  for (const inside of ['keys/a', 'workspaces/a/.env', 'workspaces/a/..b/c..d', 'workspaces/a\nb/...'])
    t.ok(path.safeParse(inside).success, JSON.stringify(inside));
  t.end();
});

t.test('a folder that cannot be read is left out and named, and the others are listed', async (t) => {
  const dataDir = await createDataDir(t, ['workspaces/a/plain']);
  // Deeper than the longest path that a system call takes, so root cannot read it either.
  const workspace = join(dataDir.path, 'workspaces/a');
  const deep = 'x'.repeat(200);
  const program = `for (let n = 0; n < 30; n++) { fs.mkdirSync('${deep}'); process.chdir('${deep}'); }`;
  execFileSync(process.execPath, ['-e', program], { cwd: workspace });
  try {
    t.same(await list(dataDir), ['workspaces/a/plain']);
    const [leftOut = ''] = dataDir.leftOut;
    t.match(leftOut, /^workspaces\/a\/x.*x: it cannot be read \(ENAMETOOLONG\)$/);
  } finally {
    // The test's own folder is removed by paths.
    execFileSync('rm', ['-rf', deep], { cwd: workspace });
  }
});

t.test('a folder that is removed while the files are listed does not end the list', async (t) => {
  const dataDir = await createDataDir(t, ['workspaces/a/first', 'workspaces/b/second', 'workspaces/c/third']);
  const listed: string[] = [];
  for await (const path of listFiles(dataDir.path, dataDir.leaveOut)) {
    if (listed.length === 0)
      for (const name of ['a', 'b', 'c'])
        if (!path.includes(`/${name}/`)) await rm(join(dataDir.path, 'workspaces', name), { recursive: true });
    listed.push(path);
  }
  t.equal(listed.length, 1);
  t.same(dataDir.leftOut, []);
});

t.test('a file that is replaced after it was listed is not read', async (t) => {
  const dataDir = await createDataDir(t, [
    'keys/one.key',
    'workspaces/a/sub/one.key',
    'workspaces/a/pipe',
    'workspaces/a/gone',
  ]);
  const workspace = join(dataDir.path, 'workspaces/a');
  t.equal(await read(dataDir, 'workspaces/a/sub/one.key'), 'rye');
  await rename(join(workspace, 'sub'), join(workspace, 'moved'));
  await symlink('../../keys', join(workspace, 'sub'));
  t.equal(await read(dataDir, 'workspaces/a/sub/one.key'), null, 'a link has replaced its folder');
  await rm(join(workspace, 'pipe'));
  execFileSync('mkfifo', [join(workspace, 'pipe')]);
  t.equal(await read(dataDir, 'workspaces/a/pipe'), null, 'a named pipe has no end');
  await rm(join(workspace, 'gone'));
  t.equal(await read(dataDir, 'workspaces/a/gone'), null);
  await mkdir(join(workspace, 'gone'));
  t.equal(await read(dataDir, 'workspaces/a/gone'), null, 'a folder has its name');
});

t.test('a key or blob that is gone fails the backup, which would be useless without it', async (t) => {
  const dataDir = await createDataDir(t, ['keys/one.key']);
  await rm(join(dataDir.path, 'keys/one.key'));
  await t.rejects(read(dataDir, 'keys/one.key'), {
    name: 'BackupError',
    message: /keys\/one\.key cannot be read \(ENOENT\)\. Repeat the backup\.$/,
  });
});
