/** Packages of this machine's Debian, unpacked without installing them: `deploy/debian-packages.ts` and its script. */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, copyFile, cp, mkdir, readdir, readlink, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { canFetchPackages, fetchBubblewrap, fetchPackages } from '../../deploy/debian-packages.ts';
import { openSandbox } from '../../supervisor/jail/sandbox.ts';
import { noPluginUser, PLUGIN_USER } from '../fixtures/foreign-user.ts';
import { childProgram } from '../runner/child-program.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { startPackageSource, useSource } from './package-source.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const JAIL_REPORT = fileURLToPath(new URL('jail-report.ts', import.meta.url));
const noApt = !canFetchPackages() && 'this machine has no apt-get';
const noSources = noApt || (!(await sourcesAnswer()) && 'the apt sources of this machine do not answer');

/** Asks the first of the machine's own sources, without apt. */
async function sourcesAnswer(): Promise<boolean> {
  if (noApt) return false;
  const { stdout } = spawnSync('apt-get', ['update', '--print-uris'], { encoding: 'utf8' });
  const [, index = ''] = /^'([^']+)'/.exec(stdout) ?? [];
  const answer = await fetch(index, { method: 'HEAD', signal: AbortSignal.timeout(10_000) }).catch(() => null);
  return answer?.ok === true;
}

const isPackage = (path: string): boolean => path.endsWith('.deb');

async function fetchTool(folder: string, signal?: AbortSignal) {
  const notices: string[] = [];
  const onNotice = (notice: string): void => void notices.push(notice);
  const found = await fetchPackages(folder, ['tool'], signal ? { onNotice, signal } : { onNotice });
  return { found, notices };
}

/** Lists the folder of this release. */
async function contents(folder: string): Promise<string[]> {
  const [release = ''] = await readdir(folder);
  return (await readdir(join(folder, release))).sort();
}

t.test('two processes at once fetch once, and neither fetches again', { skip: noApt }, async (t) => {
  const source = await startPackageSource(t, '[trusted=yes]');
  const folder = await temporaryFolder(t);
  const both = await Promise.all([fetchTool(folder), fetchTool(folder)]);
  const [[tool = ''] = []] = both.map(({ found }) => found);
  t.match(tool, /\/[a-z]+-[\w.]+-[a-z0-9]+\/tool$/, 'named for release and architecture');
  const found = both.map((one) => one.found);
  t.same(found, [[tool], [tool]]);
  for (const name of ['tool', 'tool-library'])
    t.equal(readFileSync(join(tool, 'usr', 'lib', `${name}.txt`), 'utf8'), name, 'with its dependency');
  t.equal(source.requests.filter(isPackage).length, 2);
  const notices = both.flatMap((one) => one.notices);
  t.match(notices, [/^Not installed: tool\. Fetching with apt .*SANDBOX_FETCH=off/]);
  const requests = source.requests.length;
  t.same(await fetchTool(folder), { found: [tool], notices: [] });
  t.equal(source.requests.length, requests);
  t.same(await contents(folder), ['lock', 'tool']);
});

t.test('a fetch that is killed leaves no half of a package, and the next one is whole', { skip: noApt }, async (t) => {
  const source = await startPackageSource(t, '[trusted=yes]');
  const folder = await temporaryFolder(t);
  source.hold();
  const options = { detached: true, stdio: 'ignore' } as const;
  const killed = spawn('sh', [join(ROOT, 'deploy/fetch-debian.sh'), folder, 'tool'], options);
  await eventually(() => source.requests.some(isPackage));
  process.kill(-(killed.pid ?? 0), 'SIGKILL');
  await once(killed, 'close');
  t.same(await contents(folder), ['lock', 'partial']);
  source.release();
  t.equal((await fetchTool(folder)).found.length, 1);
  t.same(await contents(folder), ['lock', 'tool']);
});

t.test('an aborted fetch ends and cleans up', { skip: noApt }, async (t) => {
  const source = await startPackageSource(t, '[trusted=yes]');
  const folder = await temporaryFolder(t);
  source.hold();
  const stopping = new AbortController();
  const fetching = fetchTool(folder, stopping.signal);
  await eventually(() => source.requests.some(isPackage));
  stopping.abort();
  t.same((await fetching).found, []);
  t.same(await contents(folder), ['lock']);
});

t.test('a fetch that was aborted before it begins starts nothing', async (t) => {
  const folder = await temporaryFolder(t);
  t.same(await fetchTool(folder, AbortSignal.abort()), { found: [], notices: [] });
  t.same(await readdir(folder), []);
});

t.test('unsigned packages are refused, even where the machine accepts them', { skip: noApt }, async (t) => {
  await startPackageSource(t, '');
  const folder = await temporaryFolder(t);
  const { found, notices } = await fetchTool(folder);
  t.same(found, []);
  t.match(notices.at(-1), /^Cannot fetch tool: .*(not signed|Release)/);
  t.same(await contents(folder), ['lock']);
});

t.test('a source that does not answer is named', { skip: noApt }, async (t) => {
  await useSource(t, 'deb http://127.0.0.1:1/debian stable main');
  const { found, notices } = await fetchTool(await temporaryFolder(t));
  t.same(found, []);
  t.match(
    notices.at(-1),
    /^Cannot fetch tool: Failed to fetch http:\/\/127\.0\.0\.1:1\/.*(Connection refused|Unable to connect)/,
  );
});

/** With these programs on the search path and no others. */
async function onPath<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = process.env.PATH;
  process.env.PATH = path;
  return work().finally(() => {
    process.env.PATH = before;
  });
}

t.test('without apt nothing is tried', async (t) => {
  const folder = await temporaryFolder(t);
  const onNotice = (notice: string): void => void t.fail(notice);
  t.equal(await onPath(folder, () => fetchBubblewrap(folder, { onNotice })), null);
  t.same(await readdir(folder), []);
});

t.test("Debian's bubblewrap builds the jail from where it was unpacked", { skip: noSources }, async (t) => {
  const folder = await temporaryFolder(t);
  await chmod(folder, 0o755);
  const [found = ''] = await fetchPackages(folder, ['bubblewrap'], { onNotice: (notice) => t.comment(notice) });
  const bubblewrap = join(found, 'usr/bin/bwrap');
  const directory = await temporaryFolder(t);
  const sandbox = await openSandbox({ directory, program: await childProgram(), mode: 'require', bubblewrap });
  t.match(sandbox, { state: 'full', missing: null });
  t.equal(sandbox.runAs, noPluginUser ? null : PLUGIN_USER, 'as root, as a user of its own');
});

t.test('Node starts for a user who may not write to node_modules, where npm left out the link', async (t) => {
  const folder = await temporaryFolder(t);
  const bin = join(folder, 'node_modules', `node-linux-${process.arch}`, 'bin');
  for (const made of [bin, join(folder, 'node_modules', '.bin'), join(folder, 'deploy')])
    await mkdir(made, { recursive: true });
  await symlink(process.execPath, join(bin, 'node'));
  const launcher = join(folder, 'deploy', 'node.sh');
  await copyFile(join(ROOT, 'deploy', 'node.sh'), launcher);
  await chmod(folder, 0o755);
  await chmod(join(folder, 'node_modules', '.bin'), 0o555);
  // Root may write everywhere.
  const user = noPluginUser ? {} : { uid: PLUGIN_USER, gid: PLUGIN_USER };
  const started = await promisify(execFile)('sh', [launcher, '-p', '1'], { ...user, cwd: folder });
  t.same(started, { stdout: '1\n', stderr: '' });
});

/** A system without libatomic: the file is hidden behind an empty one. */
async function hideLibatomic(t: Test): Promise<string[]> {
  const system = process.report.getReport() as { sharedObjects: string[] };
  const library = system.sharedObjects.find((path) => path.includes('/libatomic.so') && !path.startsWith(ROOT));
  if (library === undefined) return [];
  const empty = join(await temporaryFolder(t), 'empty');
  await writeFile(empty, '');
  return ['bwrap', '--dev-bind', '/', '/', '--ro-bind', empty, await realpath(library), '--die-with-parent', '--'];
}

t.test('Node gets libatomic where the system has none, and jails with it', { skip: noSources }, async (t) => {
  const folder = await temporaryFolder(t);
  await chmod(folder, 0o755);
  const name = `node-linux-${process.arch}`;
  const node = join(folder, 'node_modules', name, 'bin', 'node');
  await mkdir(join(folder, 'node_modules', '.bin'), { recursive: true });
  await cp(process.execPath, node);
  await mkdir(join(folder, 'deploy'));
  for (const script of ['node.sh', 'fetch-debian.sh'])
    await copyFile(join(ROOT, 'deploy', script), join(folder, 'deploy', script));
  const hidden = await hideLibatomic(t);
  const run = async (env: NodeJS.ProcessEnv, ...words: string[]) => {
    const [program = '', ...rest] = [...hidden, ...words];
    const options = { env: { PATH: process.env.PATH, ...env }, cwd: folder };
    return promisify(execFile)(program, rest, options).catch((error: { stderr: string; stdout: string }) => error);
  };
  const launcher = ['sh', join(folder, 'deploy', 'node.sh')];
  t.match(await run({ SANDBOX_FETCH: 'off' }, ...launcher, '--version'), {
    code: 1,
    stderr:
      /^Node cannot start without libatomic\.so\.1: install it \(apt-get install libatomic1\) and start again\.\n$/,
  });
  await writeFile(join(folder, '.env'), 'export SANDBOX_FETCH="off" # never\r\n');
  t.match(await run({}, ...launcher, '--version'), { code: 1 }, 'the setting counts in .env, too');
  await rm(join(folder, '.env'));

  const both = await Promise.all([run({}, ...launcher, '-p', '1'), run({}, ...launcher, '-p', '1')]);
  t.same(
    both.map(({ stdout }) => stdout),
    ['1\n', '1\n'],
  );
  t.same(await run({}, ...launcher, '--version'), { stdout: `${process.version}\n`, stderr: '' }, 'not fetched again');
  t.equal(await readlink(join(folder, 'node_modules', '.bin', 'node')), `../${name}/bin/node`, 'the link npm may omit');
  t.match(await run({}, 'env', '-i', node, '-p', '2'), { stdout: '2\n' }, 'with an empty environment');
  const jailed = await run({ DIRECTORY: await temporaryFolder(t) }, node, JAIL_REPORT);
  t.match(jailed, { stdout: 'full\n' });
});
