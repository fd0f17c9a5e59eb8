/** Jails that a killed supervisor left half built are killed at the next start, and no other processes. */
import { execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { jailMark, sweepStuckJails } from '../../../supervisor/jail/stuck-jails.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { whyMissing } from '../../runner/programs.ts';
import { amount } from '../../runner/soak.ts';

const HOLDER = fileURLToPath(new URL('jail-holder.ts', import.meta.url));
const ROUNDS = amount({ quick: 1, soak: 20 });
const WITHIN_MS = 60_000;
/** Short, to find a jail that is being built. */
const POLL_MS = 5;
/** Each reads all processes of the machine, and the kernel takes its time to end a jail. */
const SWEEP_MS = 100;

const lines = (pid: string, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
};
/** Lists the processes with a directory's mark that are not zombies. */
const marked = (directory: string): string[] => {
  const mark = jailMark(directory).slice(1, 3).join('\0');
  return readdirSync('/proc').filter((pid) => lines(pid, 'cmdline').includes(mark));
};
async function until(condition: () => boolean, pollMs = POLL_MS, withinMs = WITHIN_MS): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!condition() && performance.now() < deadline) await sleep(pollMs);
}

t.test('an orphan of this directory is ended, one of another is left', async (t) => {
  const folder = await temporaryFolder(t);
  const [own, other, bwrap, fifo] = ['own', 'other', 'bwrap', 'fifo'].map((name) => join(folder, name));
  if (!own || !other || !bwrap || !fifo) throw new Error('four names');
  for (const directory of [own, other]) mkdirSync(directory);
  execFileSync('mkfifo', [fifo]);
  copyFileSync('/bin/sh', bwrap);
  for (const directory of [own, other]) {
    const launch = `"$0" -c 'read x < "$0"' "$@" &`;
    const shell = spawn('/bin/sh', ['-c', launch, bwrap, fifo, ...jailMark(directory)], { stdio: 'ignore' });
    await once(shell, 'exit');
  }
  await until(() => [own, other].every((directory) => marked(directory).length === 1));
  await until(() => / \(bwrap\) S /.test(lines(marked(own)[0] ?? '', 'stat')));
  const parent = / S (\d+) /.exec(lines(marked(own)[0] ?? '', 'stat'))?.[1];
  if (parent !== '1') {
    for (const pid of [...marked(own), ...marked(other)]) process.kill(Number(pid), 'SIGKILL');
    t.ok(true, 'an orphan', { skip: 'this machine gives orphans to another process than the first' });
    return;
  }
  t.equal(sweepStuckJails(own), 1);
  await until(() => marked(own).length === 0);
  t.equal(marked(own).length, 0);
  t.equal(marked(other).length, 1);
  t.equal(sweepStuckJails(other), 1);
  await until(() => marked(other).length === 0);
});

t.test(
  'a supervisor killed again and again while it builds jails leaves nothing',
  { skip: whyMissing('bwrap') },
  async (t) => {
    const folder = await temporaryFolder(t);
    for (let round = 0; round < ROUNDS; round += 1) {
      const supervisor = fork(HOLDER, [folder], { execArgv: [] });
      const gone = new Promise((resolve) => supervisor.once('exit', resolve));
      let areStarted = false;
      supervisor.once('message', () => {
        areStarted = true;
      });
      let isBuilding = false;
      await until(() => {
        isBuilding = areStarted || marked(folder).length > round;
        return isBuilding;
      });
      t.ok(isBuilding, 'it builds jails when it is killed');
      supervisor.kill('SIGKILL');
      await gone;
      await until(() => {
        sweepStuckJails(folder);
        return marked(folder).length === 0;
      }, SWEEP_MS);
      t.same(marked(folder), [], `round ${round + 1}`);
    }
  },
);
