/** The jail with misbehaving programs: how they end, what they cost, and that they leave nothing behind. */
import { fork } from 'node:child_process';
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { noPluginUser, PLUGIN_USER } from '../../fixtures/foreign-user.ts';
import { answering, breakers, endings } from '../../plugins/hostile-programs.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount, listCases, soakTest } from '../../runner/soak.ts';
import { bundleOf, callTool, errorOf, isAlive, testChild, testJail, toolOf } from '../children/jailed-child.ts';
import { isRunning } from './running-process.ts';

const [HEAP_MB, RESIDENT_MB] = [64, 160];

/** child-connection.test.ts has malformed messages without a child. */
const quickBreakers = ['a frame of 4 GB', 'no JSON', 'an unknown notification', 'a response without a request'];
for (const [name, [program, reason]] of listCases(breakers, ...quickBreakers)) {
  t.test(`${name} ends the child`, async (t) => {
    const child = testChild(t, await testJail(t, { program }));
    const end = await child.ended;
    t.match(end.reason, reason);
    t.equal(end.gone, true);
  });
}

t.test('the jail of another release leaves the children of the first one their program', async (t) => {
  const directory = await temporaryFolder(t);
  const first = await testJail(t, { directory });
  const list = () => readdirSync(directory).sort();
  const ofFirst = list();
  const unused = join(directory, 'sandbox-child-0123456789abcdef.cjs');
  writeFileSync(unused, '');
  utimesSync(unused, 0, 0);
  const second = await testJail(t, { directory, program: answering('{ outcome: "answered", answer: "second" }') });
  t.notOk(list().includes('sandbox-child-0123456789abcdef.cjs'), 'an old file that nothing uses is removed');
  t.same(
    list().filter((name) => ofFirst.includes(name)),
    ofFirst,
  );
  const child = testChild(t, first);
  await child.load(bundleOf(toolOf('return "first";')));
  t.match(await callTool(child, 'run'), { answer: 'first' });
  const other = testChild(t, second);
  await other.load(bundleOf(''));
  t.match(await callTool(other, 'run'), { answer: 'second' });
  for (const name of ofFirst) rmSync(join(directory, name));
  await t.resolves(testChild(t, first).load(bundleOf('')), 'a file that was removed is written again');
});

const answers: Readonly<Record<string, string>> = {
  'no outcome': '{}',
  null: 'null',
  'an unknown outcome': '{ outcome: "granted" }',
  'a veto without a reason': '{ outcome: "cancelled" }',
  'a veto with an endless reason': '{ outcome: "cancelled", reason: "x".repeat(501) }',
  'a failure without words': '{ outcome: "failed", message: {}, stack: "" }',
  'refused arguments without a reason': '{ outcome: "invalid_arguments", errors: [] }',
  'refused arguments with endless reasons':
    '{ outcome: "invalid_arguments", errors: Array(21).fill({ field: "a", message: "m" }) }',
  'refused arguments with an endless reason':
    '{ outcome: "invalid_arguments", errors: [{ field: "a", message: "m".repeat(501) }] }',
};
t.test('a malformed result is no answer, and fails its call alone', async (t) => {
  const good = '{ outcome: "answered", answer: "fine" }';
  const asked = `[${[...Object.values(answers), good].join(', ')}][head.params.context.arguments]`;
  const child = testChild(t, await testJail(t, { program: answering(asked) }));
  await child.load(bundleOf(''));
  for (const [index, name] of Object.keys(answers).entries())
    await t.rejects(callTool(child, 'run', index), errorOf('broken'), name);
  const last = await callTool(child, 'run', Object.keys(answers).length);
  t.same(last, { outcome: 'answered', answer: 'fine' }, 'each call got its own of the results');
});

t.test('only a tool refuses its arguments', async (t) => {
  const program = answering('{ outcome: "invalid_arguments", errors: [{ field: "a", message: "m" }] }');
  const child = testChild(t, await testJail(t, { program }));
  await child.load(bundleOf(''));
  t.match(await callTool(child, 'run'), { outcome: 'invalid_arguments' });
  const options = { invocationId: 'hook', deadlineAt: Date.now() + 5_000 };
  const hook = child.invoke({ kind: 'hook', name: 'middleware.systemPrompt' }, {}, options);
  await t.rejects(hook, errorOf('broken'));
});

t.test('an answer given a hundred times counts once and ends the child', async (t) => {
  const child = testChild(t, await testJail(t, { program: answering('{ outcome: "answered", answer: 1 }', 100) }));
  await child.load(bundleOf(''));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 1 });
  t.match(await child.ended, { reason: 'it broke the protocol: a response to no request' });
});

t.test('kinds of exits are distinguished, and waiting calls fail at once', async (t) => {
  const start = async (program = '') => testChild(t, await testJail(t, { program }));
  const crashed = await start(endings.crashing);
  await t.rejects(crashed.ready, errorOf('dead'));
  t.match(await crashed.ended, { requested: false, stderr: /last words/, signal: /SIG/ });
  t.match(await (await start(endings.leaving)).ended, { requested: false, code: 7, reason: 'it ended with code 7' });
  const silent = await start(endings.silent);
  const waiting = t.rejects(silent.ready, errorOf('dead'));
  t.match(await silent.kill('enough'), { requested: true, reason: 'enough', gone: true });
  await waiting;
});

/** The id outside arrives by another pipe than what the child says. */
async function untilIdKnown(child: ReturnType<typeof testChild>): Promise<void> {
  while (child.state !== 'dead' && child.pid === 0) await sleep(10);
}

t.test('a child that ignores signals is killed', async (t) => {
  const child = testChild(t, await testJail(t, { program: endings.ignoring ?? '' }));
  await child.ready;
  await untilIdKnown(child);
  await child.kill('enough');
  t.notOk(isAlive(child.pid));
});

t.test('a child that floods its output costs the supervisor little', async (t) => {
  const child = testChild(t, await testJail(t, { program: endings.flooding ?? '' }));
  await child.ready;
  const [before, cpu] = [process.memoryUsage().rss, process.cpuUsage()];
  const started = performance.now();
  await sleep(1_000);
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - started) / 1_000;
  t.ok(child.lines.length < 15_000 * seconds, `${child.lines.length} lines in ${seconds.toFixed(1)} s`);
  t.ok(user + system < 500_000 * seconds, `${((user + system) / 1e6).toFixed(2)} s of processor`);
  t.ok(process.memoryUsage().rss - before < 50_000_000);
});

t.test('a child that sends half a frame is killed at its deadline', async (t) => {
  const child = testChild(t, await testJail(t, { program: endings.half ?? '' }));
  await child.ready;
  await t.rejects(child.load(bundleOf(''), 200), errorOf('timeout'));
  t.equal((await child.ended).gone, true);
});

const bombs: Readonly<Record<string, string>> = {
  'the heap': 'const all = []; for (;;) all.push(new Array(1000).fill({}));',
  'memory off the heap': 'const all = []; for (;;) { all.push(new Uint8Array(1e7).fill(1)); }',
  'one long string': 'let s = "x".repeat(1e6); const all = []; for (;;) all.push(s + all.length + s);',
};
for (const [name, code] of listCases(bombs, 'the heap', 'memory off the heap')) {
  t.test(`a bomb in ${name}`, async (t) => {
    const jail = await testJail(t, { heapMegabytes: HEAP_MB, residentMegabytes: RESIDENT_MB });
    const child = testChild(t, jail);
    await child.load(bundleOf(toolOf(code)));
    const result = await callTool(child, 'run', {}, 20_000).catch((thrown) => thrown);
    // With a resource limit the allocation fails, which code can survive. A control group kills the process.
    if (jail.limiter === 'rlimit' && result.outcome === 'failed') t.match(result.message, /allocation failed/);
    else t.match(await child.ended, { outOfMemory: true, reason: 'it exceeded its memory limit', requested: false });
  });
}

// V8's middle compiler needs 280 MB for this one, and 1.4 GB for 5,000 branches.
soakTest(t, 'a hot function of 2,000 branches is compiled within the limit', async (t) => {
  const child = testChild(t, await testJail(t, { residentMegabytes: RESIDENT_MB }));
  const branches = Array.from(
    { length: 2_000 },
    (_, n) => `if ((i & ${n % 64}) === ${n % 64}) s += ${n}; else s ^= i;`,
  );
  await child.load(
    bundleOf(`const hot = (i, s) => { ${branches.join('\n')} return s; };
      ${toolOf('let s = 0; for (let i = 0; i < 20_000; i += 1) s = hot(i, s); return s;')}`),
  );
  t.match(await callTool(child, 'run', {}, 60_000), { outcome: 'answered' });
});

t.test('limits of the process', async (t) => {
  const program = `const fs = require('fs'); process.stderr.write(JSON.stringify(process.report.getReport().userLimits)); setInterval(() => 0, 1e6);`;
  const child = testChild(t, await testJail(t, { program, walls: { node: false, os: true } }));
  while (child.state !== 'dead' && !child.stderr().endsWith('}')) await sleep(10);
  const limits = JSON.parse(child.stderr());
  t.equal(limits.core_file_size_blocks.hard, 0);
  t.equal(Number(limits.open_files.hard), 64);
  t.not(limits.file_size_blocks.hard, 'unlimited');
});

for (const os of [true, false]) {
  for (const node of amount({ quick: [true], soak: [true, false] })) {
    const walls = { os, node };
    t.test(`the kernel ends a child before the supervisor: ${JSON.stringify(walls)}`, async (t) => {
      const child = testChild(t, await testJail(t, { walls, runAs: noPluginUser ? null : PLUGIN_USER }));
      await child.ready;
      t.equal(readFileSync(`/proc/${child.pid}/oom_score_adj`, 'latin1').trim(), '1000');
    });
  }
}

t.test('no descriptor of the supervisor is inherited', async (t) => {
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'canary'), 'canary');
  const fd = openSync(join(folder, 'canary'), 'r');
  const program = `const fs = require('fs'); const open = []; for (let fd = 0; fd < 64; fd += 1) { try { const s = fs.fstatSync(fd); open.push(s.isSocket() ? 'socket' : s.isFile() ? 'file' : 'other'); } catch {} } process.stderr.write(JSON.stringify(open)); setInterval(() => 0, 1e6);`;
  const child = testChild(t, await testJail(t, { program, walls: { node: false, os: true } }));
  while (child.state !== 'dead' && !child.stderr().endsWith(']')) await sleep(10);
  const open: string[] = JSON.parse(child.stderr());
  t.equal(open.filter((kind) => kind === 'socket').length, 3);
  t.equal(open.includes('file'), false);
  closeSync(fd);
});

t.test('no descriptor that the supervisor itself was started with is inherited', async (t) => {
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'canary'), 'canary');
  const fd = openSync(join(folder, 'canary'), 'r');
  const holder = fileURLToPath(new URL('jail-holder.ts', import.meta.url));
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc', fd, 'ignore', 'ignore', fd, fd] as const;
  const supervisor = fork(holder, [folder], { execArgv: [], stdio: [...stdio] });
  closeSync(fd);
  const pids = await new Promise<number[]>((resolve) =>
    supervisor.once('message', (found) => resolve(found as number[])),
  );
  t.match(readlinkSync(`/proc/${supervisor.pid}/fd/7`), /canary$/);
  for (const pid of pids) {
    const open = readdirSync(`/proc/${pid}/fd`).map((name) => readlinkSync(`/proc/${pid}/fd/${name}`));
    t.same(
      open.filter((target) => target.endsWith('canary')),
      [],
    );
  }
  supervisor.kill('SIGKILL');
  while (pids.some(isRunning)) await sleep(20);
});

t.test('the process inside has another user, is process 1, and sees a machine of its own', async (t) => {
  const program = `const os = require('os'); process.stderr.write(JSON.stringify([process.pid, process.ppid, process.getuid(), os.hostname(), Object.keys(process.env).filter((k) => k !== 'PWD')]));setInterval(() => 0, 1e6);`;
  const child = testChild(t, await testJail(t, { program, walls: { node: false, os: true } }));
  while (child.state !== 'dead' && !child.stderr().endsWith(']')) await sleep(10);
  await untilIdKnown(child);
  const [pid, ppid, uid, host, env] = JSON.parse(child.stderr());
  t.same([pid, ppid, uid, host, env], [1, 0, 65534, 'plugin', []]);
  const status = readFileSync(`/proc/${child.pid}/status`, 'latin1');
  t.match(status, /NoNewPrivs:\t1/);
  t.match(status, /Seccomp:\t2/);
  t.match(status, /CapEff:\t0{16}/);
  t.match(status, /CapBnd:\t0{16}/);
});

t.test('root gives its children a user of their own', { skip: noPluginUser }, async (t) => {
  const child = testChild(t, await testJail(t, { runAs: PLUGIN_USER }));
  await child.ready;
  await untilIdKnown(child);
  t.match(readFileSync(`/proc/${child.pid}/status`, 'latin1'), /^Uid:\t64321\t64321\t64321\t64321$/m);
  await child.load(bundleOf(toolOf('return 1')));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 1 });
});

t.test('killing the supervisor leaves no orphan', async (t) => {
  const folder = await temporaryFolder(t);
  const supervisor = fork(fileURLToPath(new URL('jail-holder.ts', import.meta.url)), [folder], { execArgv: [] });
  const pids = await new Promise<number[]>((resolve) =>
    supervisor.once('message', (found) => resolve(found as number[])),
  );
  t.equal(pids.length, 3);
  t.ok(pids.every(isRunning));
  supervisor.kill('SIGKILL');
  while (pids.some(isRunning)) await sleep(20);
  t.pass('all have ended');
});
