/** Priorities of processes, as Linux reports them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { priorityAfterAsking } from '../fixtures/priorities.ts';

const MODULE = new URL('../../service/lifecycle/priority.ts', import.meta.url).href;
const PROGRAM = `
  const { preferThread } = await import(${JSON.stringify(MODULE)});
  const { readFileSync } = await import('node:fs');
  const readSession = () => readFileSync('/proc/self/autogroup', 'latin1').trim();
  const before = readSession();
  preferThread();
  const until = process.argv[1] === 'wait' ? Date.now() + 30_000 : 0;
  while (!readSession().endsWith('nice -5') && Date.now() < until) await new Promise((done) => setTimeout(done, 5));
  console.log(JSON.stringify({ thread: (await import('node:os')).getPriority(), before, after: readSession() }));
`;
/** Root without CAP_SYS_ADMIN, as in a container: the kernel may refuse a change for now. */
const WITHOUT_ADMIN = ['setpriv', '--bounding-set=-sys_admin', '--'];

interface Priorities {
  thread: number;
  /** The group of the process's session, like `/autogroup-7 nice 0`; empty in the session with which the system started. */
  before: string;
  after: string;
}

/** @returns those of a process in a session of its own as soon as they are raised; of one in this session, at once */
async function readPriorities(isOwn: boolean, launcher: readonly string[] = []): Promise<Priorities> {
  const node = [process.execPath, '--input-type=module', '--eval', PROGRAM, isOwn ? 'wait' : ''];
  const [program = '', ...words] = [...launcher, ...node];
  const child = spawn(program, words, { detached: isOwn, stdio: ['ignore', 'pipe', 'inherit'] });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return JSON.parse(output) as Priorities;
}

/** A container's root may lack the capability. */
const mayRaise = priorityAfterAsking(-5) === -5;
const skip =
  (process.getuid?.() !== 0 && 'needs root') ||
  (!existsSync('/proc/self/autogroup') && 'a kernel without priorities of sessions') ||
  (!mayRaise && 'this root may not raise priorities');

t.test(
  'a process raises the priority of its session too, but of no session that others created',
  { skip },
  async (t) => {
    const own = await readPriorities(true);
    t.equal(own.thread, -5);
    t.match(own.after, /^\/autogroup-\d+ nice -5$/);
    const shared = await readPriorities(false);
    t.equal(shared.thread, -5);
    t.equal(shared.after, shared.before);
  },
);

t.test(
  'processes that raise theirs at once all succeed, though the kernel refuses some for now',
  { skip },
  async (t) => {
    const all = await Promise.all([1, 2, 3].map(() => readPriorities(true, WITHOUT_ADMIN)));
    for (const { after } of all) t.match(after, /^\/autogroup-\d+ nice -5$/);
  },
);
