/** Wall L3 alone against machine code: a static C program instead of Node can reach nothing. */
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Jail } from '../../../supervisor/jail/jail.ts';
import type { ExitInfo } from '../../../supervisor/jail/watched-process.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { testJail } from '../children/jailed-child.ts';

const SOURCE = fileURLToPath(new URL('../../plugins/native/native-probe.c', import.meta.url));
/** Concurrent attempts that end with the death of the process. */
const AT_ONCE = 4;

const folder = await temporaryFolder(t);
// As root, children run as another user, who must be able to read the program.
chmodSync(folder, 0o755);
const binary = join(folder, 'native-probe');
const built = spawnSync('gcc', ['-static', '-O1', '-o', binary, SOURCE], { encoding: 'utf8' });
const why = built.error ? 'there is no gcc' : built.stderr.split('\n')[0];
const skip = built.status !== 0 && `not run: the native probe needs gcc and a static libc (${why})`;

/** Runs the program once, with a request. Returns its output and its end. */
async function attempt(jail: Jail, request: string): Promise<{ said: string; end: ExitInfo }> {
  const watched = jail.spawn();
  const { stdin, stdout, stderr } = await watched.pipes;
  const output = text(stdout);
  stderr.resume();
  await watched.confined;
  // A program killed by its limits has closed its pipe.
  stdin.on('error', () => undefined);
  stdin.end(request);
  const end = await watched.exited;
  return { said: await output, end };
}

t.test('machine code in the jail', { skip }, async (t) => {
  const jail = await testJail(t, { executable: binary, runAs: process.getuid?.() === 0 ? 64_321 : null });
  const { said, end } = await attempt(jail, 'all');
  const lines = said.trim().split('\n');
  const count = Number(/^done (\d+)$/.exec(lines.at(-1) ?? '')?.[1]);
  t.ok(count > 30, `it came to its end: ${lines.at(-1)}, ${JSON.stringify(end)}`);
  t.ok(lines.length > 250, `${lines.length} attempts`);
  t.same(
    lines.filter((line) => line.startsWith('REACHED')),
    [],
  );
  t.comment(`${lines.length - 1} calls were refused`);
  t.test('what only an attack calls ends the process', async (t) => {
    const waiting = Array.from({ length: count }, (_, index) => index);
    const work = async (): Promise<void> => {
      for (let index = waiting.shift(); index !== undefined; index = waiting.shift()) {
        const { said, end } = await attempt(jail, String(index));
        const name = /^trying (\S+)$/m.exec(said)?.[1] ?? String(index);
        t.notMatch(said, /REACHED|done/, name);
        t.match(end, { signal: /^SIG(SYS|SEGV)$/, gone: true }, name);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  });
});
