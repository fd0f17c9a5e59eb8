/** The state of the sandbox on machines with and without bubblewrap and user namespaces. */
import { chmodSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { findProgram } from '../../../service/settings/search-path.ts';
import { startChild } from '../../../supervisor/children/child.ts';
import { SpareChildren } from '../../../supervisor/children/spare-children.ts';
import { findRefusal, openSandbox, type SandboxMode } from '../../../supervisor/jail/sandbox.ts';
import { noPluginUser, PLUGIN_USER } from '../../fixtures/foreign-user.ts';
import { childProgram } from '../../runner/child-program.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { listCases } from '../../runner/soak.ts';
import { bundleOf, callTool, testChild, toolOf } from '../children/jailed-child.ts';

async function open(t: Test, mode: SandboxMode, bubblewrap: string | null = null) {
  return openSandbox({ directory: await temporaryFolder(t), program: await childProgram(), mode, bubblewrap });
}

/** A bubblewrap that fails as on a machine without user namespaces. */
async function brokenBubblewrap(t: Test, words: string): Promise<string> {
  const path = join(await temporaryFolder(t), 'bwrap');
  writeFileSync(path, `#!/bin/sh\necho "${words}" >&2\nexit 1\n`);
  chmodSync(path, 0o755);
  return path;
}

t.test('full, where bubblewrap works', async (t) => {
  const sandbox = await open(t, 'require');
  t.match(sandbox, { state: 'full', missing: null, limiter: /^(cgroup2|cgroup1|rlimit)$/ });
  t.equal(sandbox.runAs, noPluginUser ? null : PLUGIN_USER, 'root gives its children a user of their own');
  t.equal(findRefusal(sandbox, false), null);
  t.equal(sandbox.spare, null, 'the child that proved it has ended');
});

t.test('the child that proved the walls is the first spare', async (t) => {
  const sandbox = await openSandbox({
    directory: await temporaryFolder(t),
    program: await childProgram(),
    mode: 'require',
    keepsChild: true,
  });
  const { jail, spare } = sandbox;
  if (!spare) throw new Error('no child was kept');
  t.teardown(() => spare.child.kill('the test is over'));
  const spares = new SpareChildren((handlers) => startChild(jail, handlers), 1, spare);
  t.equal(spares.count, 1);
  const { child } = spares.claim();
  await spares.close();
  t.equal(child, spare.child);
  await child.load(bundleOf(toolOf('return typeof process')));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 'undefined' });
});

const isRoot = process.getuid?.() === 0;
const withoutUser = { skip: isRoot && noPluginUser };
t.test('degraded without bubblewrap: only operators’ own plugins run, never as root', withoutUser, async (t) => {
  // The children's user reads the program all the same.
  const umask = process.umask(0o077);
  t.teardown(() => process.umask(umask));
  const sandbox = await open(t, 'auto', '/nowhere/bwrap');
  t.match(sandbox, {
    state: 'degraded',
    admits: 'operators',
    missing: /: until then only plugins that operators wrote run/,
  });
  t.match(findRefusal(sandbox, false), /^The plugin does not run without the sandbox\. The sandbox could not be built/);
  t.equal(findRefusal(sandbox, true), null);
  const child = testChild(t, sandbox.jail);
  await child.load(bundleOf(toolOf('return typeof process')));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 'undefined' });
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  const user = isRoot ? PLUGIN_USER : process.getuid?.();
  for (const kind of ['Uid', 'Gid'])
    t.match(status, new RegExp(`^${kind}:\\t${user}\\t${user}\\t${user}\\t${user}$`, 'm'), kind);
  if (isRoot) t.match(sandbox, { runAs: user, missing: /as the unprivileged user 64321\.$/ });
});

t.test('nothing runs where it would have to run as root', { skip: !isRoot && 'needs root' }, async (t) => {
  const folder = await temporaryFolder(t);
  const executable = join(folder, 'node');
  symlinkSync(process.execPath, executable);
  chmodSync(folder, 0o700);
  const directory = await temporaryFolder(t);
  const program = await childProgram();
  const sandbox = await openSandbox({ directory, program, mode: 'auto', bubblewrap: '/nowhere/bwrap', executable });
  t.match(sandbox, { state: 'degraded', admits: 'none', missing: /until then no plugin runs: it would run as root/ });
  t.match(findRefusal(sandbox, true), /^The plugin does not run without the sandbox\./);
});

t.test('the search path decides whether it is installed', async (t) => {
  const path = process.env.PATH;
  process.env.PATH = '/nowhere';
  t.teardown(() => {
    process.env.PATH = path;
  });
  t.match(await open(t, 'auto'), { state: 'degraded', missing: /apt-get install bubblewrap/ });
});

t.test('a kernel that refuses user namespaces is named', async (t) => {
  const bwrap = await brokenBubblewrap(
    t,
    'bwrap: No permissions to create new namespace, likely because of the kernel',
  );
  t.match(await open(t, 'auto', bwrap), { state: 'degraded', missing: /Allow unprivileged user namespaces/ });
});

t.test('another error of bubblewrap is passed on', async (t) => {
  const bwrap = await brokenBubblewrap(t, 'bwrap: the moon is full');
  t.match(await open(t, 'auto', bwrap), { state: 'degraded', missing: /the moon is full/ });
});

/** A bubblewrap that first runs other lines of shell. */
async function wrappedBubblewrap(t: Test, makeLines: (folder: string) => string): Promise<string> {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'bwrap');
  writeFileSync(path, `#!/bin/sh\n${makeLines(folder)}\nexec ${findProgram('bwrap')} "$@"\n`);
  chmodSync(path, 0o755);
  return path;
}
const firstTime = (lines: string) => (folder: string) => {
  // Its children's user writes it, too.
  chmodSync(folder, 0o777);
  return `if (set -C; : > ${folder}/tried) 2>/dev/null; then ${lines}; fi`;
};

const accidents = { 'is late': 'exec /bin/sleep 60', 'is killed': 'kill -9 $$', 'loses its helper': 'kill -9 $PPID' };
for (const [name, lines] of listCases(accidents, 'is killed'))
  t.test(`a test of the walls that ${name} is made again`, async (t) => {
    const sandbox = await open(t, 'auto', await wrappedBubblewrap(t, firstTime(lines)));
    t.match(sandbox, { state: 'full', runAs: noPluginUser ? null : PLUGIN_USER });
    if (!noPluginUser) t.equal(sandbox.warning, null);
  });

t.test('a machine on which no test comes to an end is named', async (t) => {
  const bwrap = await wrappedBubblewrap(t, () => 'kill -9 $$');
  t.match(await open(t, 'auto', bwrap), { state: 'degraded', missing: /could not be tested \(“.*SIGKILL”, 3 times\)/ });
});

t.test('root is warned where its children have no user of their own', { skip: noPluginUser }, async (t) => {
  const onlyRoot = (folder: string) => `if [ ! -w ${folder} ]; then echo 'bwrap: not for you' >&2; exit 1; fi`;
  const bwrap = await wrappedBubblewrap(t, (folder) => {
    chmodSync(folder, 0o755);
    return onlyRoot(folder);
  });
  const warning = /^Plugins have no host user of their own, .* as user 64321 \(“bwrap: not for you”\)\./;
  t.match(await open(t, 'auto', bwrap), { state: 'full', runAs: null, warning });
});

t.test('require refuses to start', async (t) => {
  await t.rejects(open(t, 'require', '/nowhere/bwrap'), { message: /SANDBOX=require, but no sandbox can be built/ });
});

t.test('SANDBOX=off is reported', async (t) => {
  const sandbox = await open(t, 'off');
  t.match(sandbox, { state: 'off', missing: /SANDBOX=off/ });
  t.match(findRefusal(sandbox, false), /does not run/);
});
