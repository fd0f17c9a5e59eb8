/** The state of the sandbox on machines with and without bubblewrap and user namespaces. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openSandbox, refusal, type SandboxMode } from '../../../supervisor/jail/sandbox.ts';
import { childProgram } from '../../runner/child-program.ts';
import { temporaryFolder } from '../../runner/harness.ts';
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
  t.equal(sandbox.runAs === null, process.getuid?.() !== 0, 'root gives its children a user of their own');
  t.equal(refusal(sandbox, { ownAccount: false }), null);
});

t.test('degraded without bubblewrap: own plugins run, others are refused, with what to install', async (t) => {
  const sandbox = await open(t, 'auto', '/nowhere/bwrap');
  t.match(sandbox, { state: 'degraded', missing: /only your own plugins run/ });
  t.match(refusal(sandbox, { ownAccount: false }), /Plugins of other accounts do not run without the sandbox/);
  t.equal(refusal(sandbox, { ownAccount: true }), null);
  const child = testChild(t, sandbox.jail);
  await child.load(bundleOf(toolOf('return typeof process')));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 'undefined' });
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

t.test('whatever else goes wrong is passed on', async (t) => {
  const bwrap = await brokenBubblewrap(t, 'bwrap: the moon is full');
  t.match(await open(t, 'auto', bwrap), { state: 'degraded', missing: /the moon is full/ });
});

t.test('require refuses to start', async (t) => {
  await t.rejects(open(t, 'require', '/nowhere/bwrap'), { message: /SANDBOX=require, but no sandbox can be built/ });
});

t.test('SANDBOX=off is reported', async (t) => {
  const sandbox = await open(t, 'off');
  t.match(sandbox, { state: 'off', missing: /SANDBOX=off/ });
  t.match(refusal(sandbox, { ownAccount: false }), /do not run/);
});
