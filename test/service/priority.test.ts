/** Priorities of processes, as Linux reports them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import t from 'tap';

const MODULE = new URL('../../service/lifecycle/priority.ts', import.meta.url).href;
const PROGRAM = `
  const { preferThread } = await import(${JSON.stringify(MODULE)});
  preferThread();
  const { readFileSync } = await import('node:fs');
  console.log((await import('node:os')).getPriority(), readFileSync('/proc/self/autogroup', 'latin1').split(' ').at(-1));
`;

async function readPriorities(detached: boolean): Promise<string[]> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    detached,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return output.trim().split(' ');
}

t.test('a process raises the priority of its session too, but of no session that others created', async (t) => {
  if (process.getuid?.() !== 0 || !existsSync('/proc/self/autogroup')) return;
  const own = await readPriorities(true);
  // A container's root may lack the capability.
  if (own[0] === '0') return;
  t.same(own, ['-5', '-5']);
  t.same(await readPriorities(false), ['-5', '0']);
});
