/**
 * The runner itself: what it makes of a file that fails, of the environment that it is started in and of processes that are left, which
 * programs it fetches, and the state of the compiler that it shares with `npm run types`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { stillRunning } from '../deploy/process-tree.ts';
import { removeForeignVariables } from './environment.ts';
import { eventually } from './eventually.ts';
import { findWantedPrograms } from './programs.ts';
import { checks, runTogether } from './run-file.ts';
import { endStrays } from './strays.ts';

const ROOT = join(import.meta.dirname, '../..');
const PASSES = `import t from 'tap';\nt.test('a test', async (t) => t.pass());\n`;

/** Files that fail in different ways, in one process. The next file passes after each of them. */
const FILES: Readonly<Record<string, string>> = {
  'leaves-badly.test.ts': `${PASSES}t.teardown(() => Promise.reject({}));\n`,
  'next.test.ts': PASSES,
  'fails.test.ts': `import t from 'tap';\nt.test('a test', async (t) => {\n  t.same([1], [], 'what to do');\n});\n`,
  'throws-later.test.ts': `
    import { once } from 'node:events';
    import t from 'tap';
    const thrown = () => once(process, 'uncaughtExceptionMonitor');
    t.test('outer', async (t) => {
      await t.test('a timer', async (t) => { setTimeout(() => { throw new Error('boom'); }, 1); await thrown(); });
    });
    t.test('a promise', async (t) => {
      void Promise.reject(new Error('bang'));
      await new Promise((resolve) => setTimeout(resolve, 1));
    });
  `,
  'last.test.ts': PASSES,
};
const AWAITS = `${PASSES}await new Promise((resolve) => setTimeout(resolve, 100));\n${PASSES.replace(/.*\n/, '')}`;
const folder = t.testdir(FILES);
const files = Object.keys(FILES).map((name) => join(folder, name));
const [leavesBadly, next, fails, throwsLater, last] = await runTogether(files, ROOT);

t.test('a teardown that fails with what is no error is a failure of its file, and the next file runs', async (t) => {
  t.match(leavesBadly, { name: files[0], passed: 1, report: /unhandled error/ });
  t.ok((leavesBadly?.failed ?? 0) > 0);
  t.match(next, { name: files[1], passed: 1, failed: 0 });
});

t.test('the report of a failed assertion says where it is, without the frames of the runner', async (t) => {
  t.match(fails, { failed: 1, failures: ['a test > what to do'], report: /stack:\n.*fails\.test\.ts:3/ });
  t.notMatch(fails?.report, 'error-domain');
});

t.test('what is thrown outside all promises fails the test that began it', async (t) => {
  const { failures = [] } = throwsLater ?? {};
  for (const name of ['outer > a timer > boom', 'a promise > bang']) t.ok(failures.includes(name), name);
  t.match(last, { name: files[4], passed: 1, failed: 0 });
});

t.test('a file defines tests also after it has awaited something, with its first tests over', async (t) => {
  const file = join(t.testdir({ 'awaits.test.ts': AWAITS }), 'awaits.test.ts');
  t.match(await runTogether([file], ROOT), [{ name: file, passed: 2, failed: 0 }]);
});

t.test('npm run types keeps what npm test knows about the types', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  for (const { name, command } of checks) {
    const state = command.find((word) => word.endsWith('.tsbuildinfo'));
    if (state !== undefined) t.match(scripts.types, `--incremental --tsBuildInfoFile ${state}`, name);
  }
});

t.test('variables that would configure what tests start are removed, all others stay', async (t) => {
  const machine = { PATH: '/usr/bin', HOME: '/home/ann', TZ: 'Pacific/Kiritimati', SANDBOX_FETCH: 'off' };
  const foreign = {
    DATABASE_URL: 'postgres://localhost/work',
    HOST: 'workstation',
    PORT: '3000',
    LOG_LEVEL: 'trace',
    PUBLIC_URL: 'https://example.com',
    CHILDREN: '1',
    BULKHEAD_TOKEN: 'token',
    PGSSLMODE: 'require',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
    SHELL: '/usr/sbin/nologin',
  };
  const env = { ...machine, ...foreign };
  removeForeignVariables(env);
  t.same(env, machine);
});

t.test('a run of named files wants the programs that these look for', async (t) => {
  t.same(findWantedPrograms(globSync('test/house/*.test.ts', { cwd: ROOT })), []);
  t.same(findWantedPrograms(['test/supervisor/host/ssh.test.ts']), ['bwrap', 'ssh-keygen', 'sshd'], 'by their imports');
  t.match(findWantedPrograms(['test/deploy/npm-start.test.ts']), ['bwrap'], 'by the service that they start');
  const folder = t.testdir({
    'starts.test.ts': "fork(new URL('holder.ts', import.meta.url))",
    'holder.ts': `whyMissing('${'bwrap'}')`,
  });
  t.same(findWantedPrograms([join(folder, 'starts.test.ts')]), ['bwrap'], 'by a process whose path has no ./');
});

t.test('an interrupted run ends what it has started and removes what it has prepared', async (t) => {
  const fakeRun = `
    import { spawn } from 'node:child_process';
    import { endOnSignals } from '${join(import.meta.dirname, 'interruption.ts')}';
    const interrupted = endOnSignals(new Promise((resolve) => setImmediate(resolve, { end: async () => console.log('removed') })));
    interrupted.addEventListener('abort', () => console.log('interrupted'));
    const file = "process.on('SIGINT', () => undefined); setInterval(() => undefined, 1_000); console.log(process.pid);";
    spawn(process.execPath, ['-e', file], { stdio: 'inherit' });
  `;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const run = spawn(process.execPath, ['--input-type=module', '-e', fakeRun], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface(run.stdout)[Symbol.asyncIterator]();
    const { value: pid } = await lines.next();
    t.match(pid, /^\d+$/);
    run.kill(signal);
    const [code] = await once(run, 'exit');
    t.equal(code, 1);
    t.same([(await lines.next()).value, (await lines.next()).value], ['interrupted', 'removed']);
    // The test file had the other end of the pipe.
    t.ok((await lines.next()).done, `${signal} ends a file that ignores Ctrl-C`);
  }
});

t.test('a process that has left the tree of its run is ended and named', async (t) => {
  const folder = t.testdir();
  const waits = "['-e', 'setInterval(() => undefined, 1_000)']";
  const leaves = `
    const stray = require('child_process').spawn(process.execPath, ${waits}, { detached: true, stdio: 'ignore' });
    stray.unref();
    console.log(stray.pid);
  `;
  const file = spawn(process.execPath, ['-e', leaves], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const { value: pid } = await createInterface(file.stdout)[Symbol.asyncIterator]().next();
  await once(file, 'exit');
  const strays = await endStrays(folder, folder, 0);
  t.match(strays, [{ pid: Number(pid), command: / -e setInterval/ }]);
  await eventually(async () => (await stillRunning(strays)).length === 0);
  t.same(await endStrays(folder, folder, 0), []);
});
