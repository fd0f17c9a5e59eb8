/**
 * Two ordinary processes that talk over a pipe at the same rate as the bench's good plugins, without Bulkhead: what they
 * suffer beside the same neighbours is the machine's doing. Started by `neighbours.ts`; tells its times over its channel.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const ECHO = 'process.stdin.pipe(process.stdout)';
const everyMs = Number(process.argv[2]);

const echo = spawn(process.execPath, ['-e', ECHO], { stdio: ['pipe', 'pipe', 'inherit'] });
const times: number[] = [];
createInterface({ input: echo.stdout }).on('line', (line) => times.push(performance.now() - Number(line)));
const timer = setInterval(() => echo.stdin.write(`${performance.now()}\n`), everyMs);
process.on('message', () => process.send?.(times.splice(0)));
process.on('disconnect', () => {
  clearInterval(timer);
  echo.stdin.end();
});
