/** Priorities of processes, as Linux reports them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import t from 'tap';

const MODULE = new URL('../../service/lifecycle/priority.ts', import.meta.url).href;
const PROGRAM = `
  const { preferThread } = await import(${JSON.stringify(MODULE)});
  const { readFileSync } = await import('node:fs');
  const readSession = () => readFileSync('/proc/self/autogroup', 'latin1').trim();
  const before = readSession();
  preferThread();
  console.log(JSON.stringify({ thread: (await import('node:os')).getPriority(), before, after: readSession() }));
`;

interface Priorities {
  thread: number;
  /** The group of the process's session, like `/autogroup-7 nice 0`; empty in the session with which the system started. */
  before: string;
  after: string;
}

async function readPriorities(detached: boolean): Promise<Priorities> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    detached,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return JSON.parse(output) as Priorities;
}

t.test('a process raises the priority of its session too, but of no session that others created', async (t) => {
  if (process.getuid?.() !== 0 || !existsSync('/proc/self/autogroup')) return;
  const own = await readPriorities(true);
  // A container's root may lack the capability.
  if (own.thread === 0) return;
  t.equal(own.thread, -5);
  t.match(own.after, /^\/autogroup-\d+ nice -5$/);
  const shared = await readPriorities(false);
  t.equal(shared.thread, -5);
  t.equal(shared.after, shared.before);
});
