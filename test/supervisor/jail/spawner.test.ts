/** The spawner process: there is one, it passes on all output, and if it dies its children die and another one is started. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { endings } from '../../plugins/hostile-programs.ts';
import { eventually } from '../../runner/eventually.ts';
import { killProcess, temporaryFolder } from '../../runner/harness.ts';
import { listCandidates } from '../../runner/leak-guard.ts';
import { amount } from '../../runner/soak.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../children/jailed-child.ts';
import { isRunning } from './running-process.ts';

const NAME = 'bulkhead-spawner'.slice(0, 15);
const AT_ONCE = amount({ quick: 4, soak: 8 });
const FLOODS = amount({ quick: 2, soak: 5 });

/** Lists the spawner processes of this process. */
function spawners(): number[] {
  return listCandidates()
    .map(Number)
    .filter((pid) => {
      try {
        const [, name, parent] = /^\d+ \((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
        return name === NAME && Number(parent) === process.pid;
      } catch {
        return false;
      }
    });
}

t.test('many children at once have one spawner, and it leaves after the last of them', async (t) => {
  // Those of the file before in this process.
  await eventually(async () => spawners().length === 0);
  const jail = await testJail(t);
  const children = Array.from({ length: AT_ONCE }, () => testChild(t, jail));
  await Promise.all(children.map((child) => child.load(bundleOf(toolOf('return args.n;')))));
  t.equal(spawners().length, 1);
  const answers = await Promise.all(children.map((child, n) => callTool(child, 'run', { n })));
  t.same(
    answers.map((result) => 'answer' in result && result.answer),
    children.map((_, n) => n),
    'each is spoken to over its own pipes',
  );
  await Promise.all(children.map((child) => child.kill('enough')));
  await eventually(async () => spawners().length === 0);
});

t.test('jails with and without control groups keep their spawners when they start children by turns', async (t) => {
  await eventually(async () => spawners().length === 0);
  const limiter = { kind: 'rlimit', group: () => null, startGroup: () => null } as const;
  const jails = [await testJail(t), await testJail(t, { limiter })];
  for (const jail of [...jails, ...jails]) {
    const child = testChild(t, jail);
    await child.ready;
    await child.kill('enough');
  }
  const kinds = new Set(jails.map((jail) => jail.limiter));
  t.equal(spawners().length, kinds.size);
  await eventually(async () => spawners().length === 0);
});

t.test('a killed spawner takes its children along, and the next start has another one', async (t) => {
  const jail = await testJail(t);
  const [idle, starting] = [testChild(t, jail), testChild(t, jail)];
  await idle.load(bundleOf(toolOf('return 1;')));
  const looping = callTool(idle, 'run');
  await looping;
  const [first] = spawners();
  killProcess(first);
  const end = await idle.ended;
  t.match(end, { requested: false, signal: 'SIGKILL', gone: true });
  t.notOk(isRunning(idle.pid));
  t.match(await starting.ended, { gone: true });
  const next = testChild(t, jail);
  await next.load(bundleOf(toolOf('return 2;')));
  t.same(await callTool(next, 'run'), { outcome: 'answered', answer: 2 });
  t.not(spawners()[0], first);
});

t.test(
  'a child that is killed before it has pipes has ended, and so has one that writes and exits at once',
  async (t) => {
    const jail = await testJail(t, { program: 'process.stderr.write("last words"); process.exit(3);' });
    const early = testChild(t, jail);
    const brief = testChild(t, jail);
    t.match(await early.kill('too early'), { requested: true, gone: true, reason: 'too early' });
    t.match(await brief.ended, { requested: false, code: 3, stderr: 'last words', gone: true });
  },
);

t.test('a child killed in the middle of a flood leaves no pipe open, also with unread output', async (t) => {
  const open = () => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length;
  await eventually(async () => spawners().length === 0);
  const before = open();
  const jail = await testJail(t, { program: endings.flooding ?? '' });
  for (let round = 0; round < FLOODS; round += 1) {
    const child = testChild(t, jail);
    await child.ready;
    await eventually(async () => child.lines.length > 0);
    await child.kill('enough');
  }
  await eventually(async () => spawners().length === 0 && open() <= before);
});

t.test('what a child writes to its stdin is not read', async (t) => {
  const write = 'for (let n = 0; n < 100; n += 1) fs.writeSync(0, "x"); fs.writeSync(2, "written");';
  const jail = await testJail(t, { program: `const fs = require('fs'); ${write} setInterval(() => 0, 1e6);` });
  const jailed = jail.spawn();
  t.teardown(async () => {
    jailed.kill();
    await jailed.exited;
  });
  const { stdin, stderr } = await jailed.pipes;
  await once(stderr, 'data');
  await turn();
  await turn();
  t.equal((stdin as Duplex).readableLength, 0);
});

t.test('a program that cannot be started ends without details of the machine in its error', async (t) => {
  const child = testChild(t, await testJail(t, { bubblewrap: '/nowhere/bwrap' }));
  await t.rejects(child.ready, { name: 'ChildError' });
  t.match(await child.ended, { requested: false, code: 127, gone: true });
});

t.test('a child that is started without a free descriptor has ended, and the next one starts', async (t) => {
  const program = fileURLToPath(new URL('out-of-descriptors.ts', import.meta.url));
  const limited = ['-c', 'ulimit -n 512; exec "$0" "$@"', process.execPath, program, await temporaryFolder(t)];
  const supervisor = spawn('/bin/sh', limited, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  t.teardown(() => supervisor.kill('SIGKILL'));
  const [[ends], [code]] = await Promise.all([
    Promise.race([once(supervisor, 'message'), once(supervisor, 'exit').then(() => ['it crashed'])]),
    once(supervisor, 'exit'),
  ]);
  const killed = { signal: 'SIGKILL', gone: true };
  t.match(ends, [killed, killed, killed, killed]);
  t.equal(code, 0);
});
