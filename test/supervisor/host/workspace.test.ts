/** `host.workspace`: reaches only files of the account, for all contents and concurrent changes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { chown, link, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { WORKSPACE_STAGING } from '../../../db/files/data-dir.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import type { HostScope } from '../../../supervisor/host/host-call.ts';
import { formatFileTime } from '../../../supervisor/host/workspace/tree.ts';
import { workspaceCalls } from '../../../supervisor/host/workspace/workspace.ts';
import { Workspaces } from '../../../supervisor/host/workspace/workspaces.ts';
import { noPluginUser, PLUGIN_USER } from '../../fixtures/foreign-user.ts';
import { removeWithTest, type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { openFiles } from '../../runner/open-ends.ts';
import { amount } from '../../runner/soak.ts';
import { defaultOptions } from '../default-options.ts';
import { asCommand, runCommand, startSupervisorFixture } from '../supervisor-fixture.ts';

const ACCOUNT = 'account-1';
const never = new AbortController().signal;
async function open(test: Teardown, quota = { bytes: 10_000, files: 20 }) {
  const dataDir = await temporaryFolder(test);
  const workspaces = new Workspaces(dataDir, quota);
  await workspaces.list(ACCOUNT, undefined);
  const root = join(dataDir, 'workspaces', ACCOUNT);
  const outside = join(dataDir, 'outside');
  await mkdir(outside);
  await writeFile(join(outside, 'secret.txt'), 'SECRET');
  const write = (path: string, text: string) => workspaces.write(ACCOUNT, path, Buffer.from(text), never);
  const read = async (path: string) => Buffer.from(await workspaces.read(ACCOUNT, path, MIB, never)).toString();
  return { dataDir, workspaces, root, outside, write, read };
}

t.test('files are written, listed, read and removed, with their directories', async (t) => {
  const { workspaces, write, read, root, dataDir } = await open(t);
  await write('notes/2026/a.txt', 'one');
  await write('notes/2026/a.txt', 'two');
  await write('b.txt', 'b');
  t.equal(await read('notes/2026/a.txt'), 'two');
  t.same(
    (await workspaces.list(ACCOUNT, undefined)).map(({ path, sizeBytes }) => [path, sizeBytes]),
    [
      ['b.txt', 1],
      ['notes/2026/a.txt', 3],
    ],
  );
  t.match(await workspaces.list(ACCOUNT, 'notes'), [{ path: 'notes/2026/a.txt' }]);
  await workspaces.remove(ACCOUNT, 'notes/2026/a.txt');
  t.same(await readdir(root), ['b.txt'], 'empty directories go too');
  t.same(await workspaces.list('account-2', undefined), [], 'another account has its own');
  await t.rejects(read('notes/2026/a.txt'), /no such file/);
  await t.rejects(workspaces.list(ACCOUNT, 'nowhere'), /no such file/);
  t.same(await readdir(join(dataDir, WORKSPACE_STAGING)), []);
});

const needsUser = { skip: process.getuid?.() === 0 && noPluginUser };
t.test('a directory that the service may not read fails no write, and a list names it', needsUser, async (t) => {
  const dataDir = await temporaryFolder(t);
  // Root may read everything.
  const user = process.getuid?.() === 0 ? { uid: PLUGIN_USER, gid: PLUGIN_USER } : {};
  if (user.uid !== undefined) await chown(dataDir, user.uid, user.gid);
  const script = `
    import { chmod, mkdir, writeFile } from 'node:fs/promises';
    import { Workspaces } from '${import.meta.resolve('../../../supervisor/host/workspace/workspaces.ts')}';
    const workspaces = new Workspaces('${dataDir}', { bytes: 10_000, files: 20 });
    await workspaces.write('a', 'notes/a', Buffer.from('x'), AbortSignal.timeout(60_000));
    for (const [name, mode] of [['closed', 0o000], ['named', 0o400]]) {
      const folder = '${dataDir}/workspaces/a/' + name;
      await mkdir(folder);
      await writeFile(folder + '/b', 'b');
      await chmod(folder, mode);
      // As after ten seconds, when it measures the files again.
      const later = new Workspaces('${dataDir}', { bytes: 10_000, files: 20 });
      await later.write('a', 'notes/' + name, Buffer.from('x'), AbortSignal.timeout(60_000));
      const found = await later.list('a').catch((error) => error.message);
      await chmod(folder, 0o700);
      console.log(JSON.stringify([found, (await later.list('a', 'notes')).length]));
    }`;
  const options = { encoding: 'utf8', env: {}, ...user } as const;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], options);
  t.same(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [
      ['the server may not read closed: change its permissions, or list a directory beside it', 2],
      ['the server may not read named/b: change its permissions, or list a directory beside it', 3],
    ],
    stderr,
  );
});

t.test('the time of a file is one that an answer can hold, whatever its file system says', async (t) => {
  const { updatedAt } = hostCalls['workspace.list'].result.element.shape;
  const format = (ms: number) => updatedAt.parse(formatFileTime(ms));
  t.equal(format(Date.parse('2026-02-03T04:05:06.007Z')), '2026-02-03T04:05:06.007Z');
  t.equal(format(Date.parse('+012000-01-01T00:00:00Z')), '9999-12-31T23:59:59.999Z');
  t.equal(format(1e18), '9999-12-31T23:59:59.999Z', 'later than the last time of a Date');
  t.equal(format(Date.parse('-000400-01-01T00:00:00Z')), '0001-01-01T00:00:00.000Z');
  const { workspaces, root } = await open(t);
  await writeFile(join(root, 'a.txt'), 'a');
  await utimes(join(root, 'a.txt'), 1_000, 1_000);
  t.same(await workspaces.list(ACCOUNT, undefined), [
    { path: 'a.txt', sizeBytes: 1, updatedAt: new Date(1_000_000).toISOString() },
  ]);
});

t.test('a list whose paths are too long together for a result says what to do', async (t) => {
  const files = Array.from({ length: 2_000 }, (_, n) => ({
    path: `${'d'.repeat(600)}/${n}`,
    sizeBytes: 1,
    updatedAt: new Date(0).toISOString(),
  }));
  const list = (count: number) => {
    const workspaces = { list: async () => files.slice(0, count) } as unknown as Workspaces;
    const scope = { plugin: { accountId: ACCOUNT }, signal: never } as unknown as HostScope;
    return workspaceCalls(workspaces)['workspace.list'](scope, { path: undefined });
  };
  t.equal((await list(1_000)).length, 1_000);
  await t.rejects(list(2_000), {
    name: 'HostError',
    message: 'the list has more than 1048576 bytes, because paths are long: list a directory below',
  });
});

t.test('what is listed is read and removed, whatever name an agent gave it', async (t) => {
  const { workspaces, write, read, root } = await open(t);
  const [composed, decomposed] = ['caf\u00e9', 'cafe\u0301'];
  const paths = ['a\\b.txt', 'a\nb.txt', `${decomposed}/${decomposed}.txt`];
  await mkdir(join(root, decomposed));
  for (const path of paths) await writeFile(join(root, path), path);
  const list = async () => (await workspaces.list(ACCOUNT, undefined)).map(({ path }) => path).sort();
  t.same(await list(), paths.toSorted());
  for (const path of paths) t.equal(await read(path), path);
  t.match(await workspaces.list(ACCOUNT, decomposed), [{ path: paths[2] }]);
  await write(`${decomposed}/${decomposed}.txt`, 'replaced');
  t.same(await list(), paths.toSorted(), 'no second file');
  await write(`${decomposed}/${decomposed}-new.txt`, 'new');
  t.equal(await read(`${decomposed}/${composed}-new.txt`), 'new', 'a new name is composed');
  t.equal(await read(`${decomposed}/${decomposed}-new.txt`), 'new', 'and found in both spellings');
  t.equal(await read(`${composed}/${composed}.txt`), 'replaced', 'as is one that an agent decomposed');
  await write(`${composed}/${composed}.txt`, 'replaced again');
  await write('a\\b.txt', 'replaced');
  t.same(await list(), [...paths, `${decomposed}/${composed}-new.txt`].sort(), 'no second file');
  t.equal(await read('a\\b.txt'), 'replaced');
  await mkdir(join(root, 'c\\d'));
  await write('c\\d/e.txt', 'new');
  await t.rejects(write('c\\d/e\\f.txt', 'new'), /a new name must not contain a backslash/);
  await t.rejects(write('c\\e/f.txt', 'new'), /a new name must not contain a backslash/);
  await mkdir(join(root, 'empty'));
  await t.rejects(write('empty/new/g\\h.txt', 'new'), /a new name must not contain a backslash/);
  t.same(await readdir(join(root, 'empty')), [], 'it stays, without the new directory');
  await rm(join(root, 'empty'), { recursive: true });
  for (const path of await list()) await workspaces.remove(ACCOUNT, path);
  t.same(await readdir(root), [], 'with the directory');
});

t.test('files at the depth limit are listed, read and removed, and deeper ones neither listed nor read', async (t) => {
  const { workspaces, read, write, root } = await open(t, { bytes: 10_000, files: 100 });
  const deepest = Array.from({ length: 32 }, (_, depth) => `d${depth}`).join('/');
  await mkdir(join(root, deepest, 'deeper'), { recursive: true });
  for (const name of ['file', 'deeper/file']) await writeFile(join(root, deepest, name), 'x');
  for (const path of [undefined, 'd0', deepest])
    t.match(await workspaces.list(ACCOUNT, path), [{ path: `${deepest}/file` }]);
  t.equal((await workspaces.list(ACCOUNT, deepest)).length, 1);
  await t.rejects(read(`${deepest}/deeper/file`), /the path has 34 names, and at most 33 are allowed/);
  t.equal(await read(`${deepest}/file`), 'x');
  await write(`${deepest}/file`, 'replaced');
  t.equal(await read(`${deepest}/file`), 'replaced');
  await workspaces.remove(ACCOUNT, `${deepest}/file`);
  t.same(await workspaces.list(ACCOUNT, undefined), []);
});

/** A folder on another file system than the tests' own folders, like one that is mounted. */
const elsewhere = ['/dev/shm', '/var/tmp'].find((folder) => {
  const found = statSync(folder, { throwIfNoEntry: false });
  return found !== undefined && found.dev !== statSync(tmpdir()).dev;
});

t.test(
  'workspaces may be on a file system of their own, which machines share',
  { skip: elsewhere === undefined && 'all temporary folders are on one file system' },
  async (t) => {
    const mounted = removeWithTest(t, await mkdtemp(join(elsewhere ?? '', 'bulkhead-test-')));
    const dataDirs = await Promise.all([temporaryFolder(t), temporaryFolder(t)]);
    for (const dataDir of dataDirs) await symlink(mounted, join(dataDir, 'workspaces'));
    const [one, other] = dataDirs.map((dataDir) => new Workspaces(dataDir, defaultOptions.workspaceQuota));
    await one?.write(ACCOUNT, 'notes/a.txt', Buffer.from('one'), never);
    await other?.write(ACCOUNT, 'notes/a.txt', Buffer.from('other'), never);
    t.equal(Buffer.from((await one?.read(ACCOUNT, 'notes/a.txt', MIB, never)) ?? '').toString(), 'other');
    t.same((await readdir(mounted)).sort(), ['.staging', ACCOUNT]);
    t.same(await readdir(join(mounted, '.staging')), []);
  },
);

t.test('no path leads out', async (t) => {
  const { workspaces, write, read, root, outside } = await open(t);
  const bad = ['../outside/secret.txt', '/etc/passwd', 'a/../../outside/secret.txt', '..', '.', 'a//b', 'a/', './a'];
  for (const path of [...bad, 'a\0b', 'a\nb', 'a\\b', '\ud800', 'x'.repeat(256), 'a/'.repeat(40)]) {
    await t.rejects(read(path), { name: 'HostError' }, `read ${JSON.stringify(path)}`);
    await t.rejects(write(path, 'x'), { name: 'HostError' }, `write ${JSON.stringify(path)}`);
    await t.rejects(workspaces.remove(ACCOUNT, path), { name: 'HostError' }, `remove ${JSON.stringify(path)}`);
    if (path !== '.')
      await t.rejects(workspaces.list(ACCOUNT, path), { name: 'HostError' }, `list ${JSON.stringify(path)}`);
  }
  await symlink(outside, join(root, 'way'));
  await symlink(join(outside, 'secret.txt'), join(root, 'secret.txt'));
  await link(join(outside, 'secret.txt'), join(root, 'second-name.txt'));
  await t.rejects(read('way/secret.txt'), /not a directory/);
  await t.rejects(write('way/new.txt', 'x'), /not a directory/);
  await t.rejects(workspaces.remove(ACCOUNT, 'way/secret.txt'), /not a directory/);
  await t.rejects(workspaces.list(ACCOUNT, 'way'), /not a directory/);
  await t.rejects(read('secret.txt'), /link/);
  await t.rejects(write('secret.txt', 'x'), /not a regular file/);
  await t.rejects(read('second-name.txt'), /hard links/);
  await write('second-name.txt', 'replaced');
  t.same(await readdir(outside), ['secret.txt']);
  t.equal(await readFile(join(outside, 'secret.txt'), 'utf8'), 'SECRET');
  t.same(
    (await workspaces.list(ACCOUNT, undefined)).map(({ path }) => path),
    ['second-name.txt'],
  );
});

t.test('anything but a regular file is neither read nor replaced', async (t) => {
  const { workspaces, write, read, root } = await open(t);
  execFileSync('mkfifo', [join(root, 'pipe')]);
  await mkdir(join(root, 'directory'));
  await t.rejects(read('pipe'), /not a regular file/);
  await t.rejects(write('pipe', 'x'), /not a regular file/);
  await t.rejects(read('directory'), /not a regular file|directory/);
  await t.rejects(write('directory', 'x'), /not a regular file/);
  await t.rejects(workspaces.remove(ACCOUNT, 'directory'), /is a directory/);
  await write('file', 'x');
  await t.rejects(write('file/below', 'x'), /not a directory/);
});

/** Of calls, and of swaps meanwhile. */
const [ROUNDS, SWAPS] = amount({ quick: [30, 15], soak: [400, 200] });
t.test('a link swapped in while calls run leads nowhere', async (t) => {
  const { workspaces, write, read, root, outside } = await open(t, { bytes: 10 * MIB, files: 10_000 });
  await write('dir/secret.txt', 'inside');
  await write('dir/keep.txt', 'inside');
  await mkdir(join(outside, 'victims'));
  const state = new Int32Array(new SharedArrayBuffer(8));
  const swapper = new Worker(
    `const { workerData: { root, outside, state } } = require('node:worker_threads');
     const fs = require('node:fs');
     while (Atomics.load(state, 0) === 0) {
       try {
         fs.renameSync(root + '/dir', root + '/.aside'); fs.symlinkSync(outside, root + '/dir');
         fs.unlinkSync(root + '/dir'); fs.renameSync(root + '/.aside', root + '/dir');
         Atomics.add(state, 1, 1);
       } catch { try { fs.rmSync(root + '/dir', { recursive: true }); } catch {} try { fs.renameSync(root + '/.aside', root + '/dir'); } catch {} }
     }`,
    { eval: true, workerData: { root, outside, state } },
  );
  const before = await openFiles();
  const seen = new Set<string>();
  try {
    for (let round = 0; round < ROUNDS || Atomics.load(state, 1) < SWAPS; round += 1) {
      seen.add(await read('dir/secret.txt').catch(() => 'refused'));
      await write(`dir/new-${round % 7}.txt`, 'x').catch(() => undefined);
      await workspaces.remove(ACCOUNT, 'dir/victim.txt').catch(() => undefined);
      for (const { path } of await workspaces.list(ACCOUNT, undefined).catch(() => []))
        seen.add(`name ${path.includes('victims')}`);
    }
  } finally {
    Atomics.store(state, 0, 1);
    await new Promise((resolve) => swapper.once('exit', resolve));
  }
  t.notOk(seen.has('SECRET'));
  t.ok(seen.has('refused') || seen.has('inside'));
  t.notOk(seen.has('name true'), 'nothing outside is listed');
  t.same((await readdir(outside)).sort(), ['secret.txt', 'victims'], 'nothing outside was written');
  t.ok((await openFiles()) <= before, 'nothing stays open');
});

t.test('quotas hold, also for writes at once', async (t) => {
  const { workspaces, write } = await open(t, { bytes: 1_000, files: 6 });
  const wrote = await Promise.allSettled([1, 2, 3, 4].map((n) => write(`f${n}`, 'x'.repeat(300))));
  t.same(
    wrote.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
  );
  await t.rejects(write('big', 'x'.repeat(101)), /workspace is full: it holds 1000 bytes in 6 files/);
  await workspaces.remove(ACCOUNT, 'f1');
  await write('g', 'x');
  await write('a/b/c', '');
  await t.rejects(write('h', ''), /full/, 'directories count');
  t.equal((await workspaces.list(ACCOUNT, undefined)).length, 4);
});

t.test('files of a full workspace can be replaced by ones that are not larger', async (t) => {
  const dataDir = await temporaryFolder(t);
  const workspaces = new Workspaces(dataDir, { bytes: 100, files: 3 });
  const write = (path: string, text: string) => workspaces.write(ACCOUNT, path, Buffer.from(text), never);
  const read = async (path: string) => Buffer.from(await workspaces.read(ACCOUNT, path, 100, never)).toString();
  await write('notes/today', 'x'.repeat(60));
  await write('other', 'x'.repeat(40));
  await write('notes/today', 'y'.repeat(60));
  t.equal(await read('notes/today'), 'y'.repeat(60));
  await t.rejects(write('notes/today', 'z'.repeat(61)), /workspace is full/);
  await t.rejects(write('third', ''), /workspace is full/);
  await write('notes/today', 'short');
  t.equal(await read('notes/today'), 'short');
  await write('other', 'x'.repeat(95));
  // An agent writes past the quota.
  const agent = new Workspaces(dataDir, { bytes: 1_000, files: 10 });
  await agent.write(ACCOUNT, 'large', Buffer.alloc(500), never);
  const later = new Workspaces(dataDir, { bytes: 100, files: 3 });
  await t.rejects(later.write(ACCOUNT, 'large', Buffer.alloc(501), never), /workspace is full/);
  await later.write(ACCOUNT, 'large', Buffer.alloc(499), never);
  t.equal((await later.read(ACCOUNT, 'large', 1_000, never)).byteLength, 499);
});

t.test(
  'a full workspace is measured again after two seconds, a large one less often, and no write waits',
  async (t) => {
    const clock = { now: 0 };
    const dataDir = await temporaryFolder(t);
    const rate = { burst: 1, perSecond: 0.5 };
    const workspaces = new Workspaces(dataDir, { bytes: 1_000, files: 7 }, undefined, rate, () => clock.now);
    const write = (path: string) => workspaces.write(ACCOUNT, path, Buffer.from('x'), never);
    for (const name of ['1', '2', '3', '4', '5']) await write(`a/${name}`);
    await workspaces.remove(ACCOUNT, 'a/5');
    await write('b/5');
    await t.rejects(write('c/6'), /workspace is full/);
    await workspaces.remove(ACCOUNT, 'b/5');
    await write('c/6');
    await t.rejects(write('7/8'), /workspace is full/, 'writes and removals are counted, with their directories');

    const root = join(dataDir, 'workspaces', ACCOUNT);
    // It holds 7 names, which take 14 s at this rate.
    await rm(join(root, 'a'), { recursive: true });
    clock.now += 14_000;
    await t.rejects(write('7/8'), /workspace is full/, 'not measured, nor is the call kept waiting');
    clock.now += 1;
    await write('7/8');
    for (let file = 0; file < 7; file += 1) writeFileSync(join(root, `f${file}`), '');
    clock.now += 10_001;
    await t.rejects(write('9'), /workspace is full/, 'with room, it is measured after ten seconds');
    clock.now += 16_001;
    await t.rejects(write('9'), /workspace is full/);

    const small = new Workspaces(dataDir, { bytes: 1_000, files: 7 }, undefined, undefined, () => clock.now);
    const writeSmall = () => small.write(ACCOUNT, '9', Buffer.from('x'), never);
    await t.rejects(writeSmall(), /workspace is full/);
    await rm(root, { recursive: true });
    clock.now += 2_000;
    await t.rejects(writeSmall(), /workspace is full/, 'it was measured two seconds ago');
    clock.now += 1;
    await writeSmall();
  },
);

/** Descriptors of one folder, or of it and everything below. Reads all in one turn of the loop, so that none is closed and another opened meanwhile. */
const countOpen = (folder: string, withTree = false): number =>
  readdirSync('/proc/self/fd').filter((name) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`);
      return target === folder || (withTree && target.startsWith(`${folder}/`));
    } catch {
      return false;
    }
  }).length;

t.test('an account makes one list at a time, and none for a call that has ended', async (t) => {
  const { workspaces, root } = await open(t);
  await Promise.all(Array.from({ length: 50 }, (_, n) => writeFile(join(root, `f${n}`), 'x')));
  let running = 16;
  const lists = Array.from({ length: running }, () =>
    workspaces.list(ACCOUNT, undefined).finally(() => {
      running -= 1;
    }),
  );
  const ended = t.rejects(workspaces.list(ACCOUNT, undefined, AbortSignal.abort(new Error('ended'))), {
    message: 'ended',
  });
  let openMost = 0;
  for (; running > 0; await new Promise(setImmediate)) openMost = Math.max(openMost, countOpen(root));
  t.ok(openMost <= 2, 'the root of the workspace, and again to read its names');
  for (const files of await Promise.all(lists)) t.equal(files.length, 50);
  await ended;
});

t.test('an account makes four reads at a time, which hold no directory of the way open', async (t) => {
  const { root, write, read } = await open(t, { bytes: 10_000, files: 100 });
  const path = [...Array.from({ length: 31 }, (_, depth) => `d${depth}`), 'file'].join('/');
  await write(path, 'x');
  let running = 64;
  const reads = Array.from({ length: running }, () =>
    read(path).finally(() => {
      running -= 1;
    }),
  );
  let openMost = 0;
  for (; running > 0; await new Promise(setImmediate)) openMost = Math.max(openMost, countOpen(root, true));
  t.ok(
    openMost > 0 && openMost <= 12,
    `${openMost} are open: each the root, a directory, and the next one or the file`,
  );
  t.same(new Set(await Promise.all(reads)), new Set(['x']));
});

t.test('lists count by the names that they look at, also those that fail', async (t) => {
  const clock = { now: 0 };
  const dataDir = await temporaryFolder(t);
  const rate = { burst: 5_000, perSecond: 1 };
  const workspaces = new Workspaces(dataDir, defaultOptions.workspaceQuota, undefined, rate, () => clock.now);
  await workspaces.write(ACCOUNT, 'few/file', Buffer.from('x'), never);
  const root = join(dataDir, 'workspaces', ACCOUNT);
  for (let file = 0; file < 5_000; file += 1) writeFileSync(join(root, `f${file}`), '');
  const tooMany = /there are more than 5000 files, or 10000 files and directories: list a directory below/;
  await t.rejects(workspaces.list(ACCOUNT, undefined), tooMany);
  const call = new AbortController();
  const waiting = workspaces.list(ACCOUNT, 'few', call.signal);
  call.abort();
  await t.rejects(waiting, { name: 'AbortError' });
  t.same(await workspaces.list('account-2', undefined), [], 'another account has a rate of its own');
  clock.now += 60_000;
  t.equal((await workspaces.list(ACCOUNT, 'few')).length, 1);
});

t.test('an aborted write leaves nothing, and files of a killed process are swept', async (t) => {
  const { workspaces, root, dataDir, write } = await open(t);
  const before = await openFiles();
  await t.rejects(workspaces.write(ACCOUNT, 'deep/er/file', Buffer.from('x'), AbortSignal.abort()));
  let looks = 0;
  const late = Object.assign(new AbortController().signal, {
    throwIfAborted: () => {
      looks += 1;
      if (looks > 1) throw new Error('given up while it was written');
    },
  });
  await t.rejects(workspaces.write(ACCOUNT, 'deep/er/file', Buffer.from('x'), late), {
    message: /while it was written/,
  });
  t.same([await readdir(root), await readdir(join(dataDir, WORKSPACE_STAGING))], [[], []]);
  t.equal(await openFiles(), before);
  const left = join(dataDir, WORKSPACE_STAGING, 'left');
  await writeFile(left, 'x');
  const minutesAgo = new Date(Date.now() - 10 * 60_000);
  await utimes(left, minutesAgo, minutesAgo);
  t.equal(await workspaces.sweep(), 0, 'another machine, whose clock is late, may be writing it');
  const old = new Date(Date.now() - 61 * 60_000);
  await utimes(left, old, old);
  t.equal(await workspaces.sweep(), 1);
  const ofEarlierRelease = join(dataDir, 'workspace-staging', 'left');
  await mkdir(join(dataDir, 'workspace-staging'));
  await writeFile(ofEarlierRelease, 'x');
  t.equal(await workspaces.sweep(), 0, 'an earlier release may be writing it');
  await utimes(ofEarlierRelease, old, old);
  t.equal(await workspaces.sweep(), 1);
  t.same(await readdir(join(dataDir, 'workspace-staging')), []);
  await write('kept', 'x');
  t.equal((await stat(join(root, 'kept'))).mode & 0o777, 0o600);
});

t.test('what cannot be removed among the temporary files fails no write, and keeps no other one', async (t) => {
  const { dataDir, write, read } = await open(t);
  await write('first', 'x');
  const old = new Date(Date.now() - 61 * 60_000);
  const staging = join(dataDir, WORKSPACE_STAGING);
  const folder = join(staging, 'a');
  await mkdir(folder);
  await utimes(folder, old, old);
  await writeFile(join(staging, 'b'), 'x');
  await utimes(join(staging, 'b'), old, old);
  const workspaces = new Workspaces(dataDir, { bytes: 10_000, files: 20 });
  await workspaces.write(ACCOUNT, 'second', Buffer.from('y'), never);
  t.equal(await read('second'), 'y');
  t.same(await readdir(staging), ['a']);
});

t.test('a plugin reads and writes its account’s files', async (t) => {
  const fixture = await startSupervisorFixture(t, { workspaceQuota: { bytes: 4 * MIB, files: 100 } });
  const code = asCommand(`
    const bytes = new Uint8Array([0, 255, 128]);
    await host.workspace.write('bin/x', bytes);
    await host.workspace.write('greeting.txt', 'grüß');
    const back = await host.workspace.read('bin/x');
    const said = (work) => work.then(() => 'fine', (error) => error.message);
    return {
      back: [...back], text: await host.workspace.readText('greeting.txt'),
      names: (await host.workspace.list()).map((file) => file.path),
      notText: await said(host.workspace.readText('bin/x')),
      out: await said(host.workspace.read('../../keys')),
      large: await said(host.workspace.write('large', new Uint8Array(${MIB + 1}))),
      largest: await said(host.workspace.write('largest', 'x'.repeat(${MIB})).then(() => host.workspace.readText('largest'))),
    };`);
  await fixture.install({ slug: 'files', capabilities: ['host.workspace'], code });
  t.match(await runCommand(fixture, 'files'), {
    back: [0, 255, 128],
    text: 'grüß',
    names: ['bin/x', 'greeting.txt'],
    notText: /not UTF-8 text/,
    out: /must not contain an empty name/,
    large: /1048576 bytes at most/,
    largest: 'fine',
  });
  const reader = asCommand(`return [Object.keys(host.workspace).sort().join(), (await host.workspace.list()).length];`);
  await fixture.install({ slug: 'reader', capabilities: ['host.workspace:read'], code: reader });
  t.same(await runCommand(fixture, 'reader'), ['list,read,readText', 3]);
  await fixture.install({ slug: 'others', account: 'bob', capabilities: ['host.workspace:read'], code: reader });
  t.same(await runCommand(fixture, 'others', {}, { account: 'bob' }), ['list,read,readText', 0]);
});
