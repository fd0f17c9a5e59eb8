/** The first signal aborts, npm's repetition of it does nothing, and a second Ctrl-C ends the process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import t from 'tap';

const INTERRUPTION = new URL('../../conform/interruption.ts', import.meta.url).href;
/** Prints how often it was aborted after each signal. Its clock is the number of seconds that standard input names. */
const PROGRAM = `
import { createInterface } from 'node:readline';
import { abortOnSignals } from ${JSON.stringify(INTERRUPTION)};
let seconds = 0;
let aborts = 0;
const signal = abortOnSignals(() => seconds * 1_000);
signal.addEventListener('abort', () => { aborts += 1; });
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => console.log(aborts));
createInterface({ input: process.stdin }).on('line', (line) => {
  seconds = Number(line);
  console.log('set');
});
console.log('ready');`;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  t.test(signal, async (t) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const read = async () => (await lines.next()).value;
    t.equal(await read(), 'ready');
    for (const seconds of [10, 11]) {
      child.stdin.write(`${seconds}\n`);
      t.equal(await read(), 'set');
      child.kill(signal);
      t.equal(await read(), '1', `after ${seconds} s`);
    }
    child.stdin.write('11.1\n');
    t.equal(await read(), 'set');
    child.kill(signal);
    t.same(await ended, [130, null]);
  });
