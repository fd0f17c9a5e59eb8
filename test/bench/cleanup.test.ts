/** A measurement that is interrupted or fails leaves no process and no folder behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import t from 'tap';
import { amount } from '../runner/soak.ts';

const CLEANUP = new URL('../../bench/fixtures/cleanup.ts', import.meta.url).href;
/** Makes a folder, starts two processes in sessions of their own, and fails as soon as the second is gone. */
const PROGRAM = `
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openCleanup, openFolder } from ${JSON.stringify(CLEANUP)};
const cleanup = openCleanup();
const folder = openFolder(cleanup);
const [first, second] = ['first', 'second'].map(() => {
  const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  cleanup.teardown(async () => {
    if (child.kill()) await once(child, 'exit');
  });
  return child;
});
console.log(first.pid, second.pid, folder);
await once(second, 'exit');
throw new Error('the second is gone');`;

async function startBench() {
  const bench = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(bench, 'exit');
  let errors = '';
  bench.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const [line] = await once(bench.stdout.setEncoding('utf8'), 'data');
  const [first, second, folder] = line.trim().split(' ');
  return { bench, ended, pids: [Number(first), Number(second)], folder, readErrors: () => errors };
}

for (const signal of amount<readonly NodeJS.Signals[]>({ quick: ['SIGINT'], soak: ['SIGINT', 'SIGTERM', 'SIGHUP'] }))
  t.test(signal, async (t) => {
    const { bench, ended, pids, folder } = await startBench();
    t.ok(existsSync(folder));
    bench.kill(signal);
    t.same(await ended, [1, null]);
    for (const pid of pids) t.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    t.notOk(existsSync(folder));
  });

t.test('an error', async (t) => {
  const { ended, pids, folder, readErrors } = await startBench();
  process.kill(pids[1] ?? 0);
  t.same(await ended, [1, null]);
  t.match(readErrors(), 'the second is gone');
  for (const pid of pids) t.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  t.notOk(existsSync(folder));
});
