/** A measurement that is interrupted leaves no process behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';

const CLEANUP = new URL('../../bench/fixtures/cleanup.ts', import.meta.url).href;
/** Starts two processes in sessions of their own, and fails as soon as the second is gone. */
const PROGRAM = `
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openCleanup } from ${JSON.stringify(CLEANUP)};
const cleanup = openCleanup();
const [first, second] = ['first', 'second'].map(() => {
  const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  cleanup.teardown(async () => {
    child.kill();
    await once(child, 'exit');
  });
  return child;
});
console.log(first.pid, second.pid);
await once(second, 'exit');
throw new Error('the second is gone');`;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  t.test(signal, async (t) => {
    const bench = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(bench, 'exit');
    const [line] = await once(bench.stdout.setEncoding('utf8'), 'data');
    bench.kill(signal);
    t.same(await ended, [1, null]);
    for (const pid of line.trim().split(' ')) t.throws(() => process.kill(Number(pid), 0), { code: 'ESRCH' });
  });
