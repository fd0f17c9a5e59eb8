/**
 * Handlers are called as the ambient types say, in the real child program: hooks and events with the context, everything
 * else with what the row's `first` names and then the context. Generated from the rows; the walls have tests of their own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { surfaces, type Target } from '../../sdk/contract/protocol.ts';
import type { SurfaceRow } from '../../sdk/contract/rows.ts';
import { ChildConnection } from '../../supervisor/children/child-connection.ts';
import { childProgram } from '../runner/child-program.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';

/** Answers what it was called with. `keys` of the context without those that only the child adds. */
const BUNDLE = `
let last;
const see = (...given) => {
  const ctx = given.at(-1);
  const keys = Object.keys(ctx).filter((key) => key !== 'signal' && key !== 'cancel').sort();
  return last = { count: given.length, first: given.length > 1 ? given[0] : null, keys, signal: ctx.signal.aborted, cancel: typeof ctx.cancel };
};
middleware.systemPrompt = see;
events.pluginInstalled = see;
tools.x = { description: 'x', parameters: {}, handler: see };
commands.x = { description: 'x', handler: see };
commands.last = { description: 'What the last handler was called with', handler: () => last };
providers.x = { models: [{ id: 'm', name: 'M' }], chat: see };
channel.receive = see;
channel.send = see;
channel.handshake = see;
`;

interface Seen {
  readonly outcome: string;
  readonly answer: { count: number; first: unknown; keys: string[]; signal: boolean; cancel: string };
}

async function startChild(test: Teardown): Promise<{ connection: ChildConnection; child: ChildProcess }> {
  const program = join(await temporaryFolder(test), 'child.cjs');
  await writeFile(program, await childProgram());
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const handlers = {
    onRequest: async () => null,
    onNotification: () => undefined,
    onViolation: (reason: string) => t.fail(reason),
  };
  return { connection: new ChildConnection(child.stdout, child.stdin, handlers), child };
}

t.test('every surface gets its first field and then the rest', async (t) => {
  const { connection, child } = await startChild(t);
  t.teardown(() => child.kill('SIGKILL'));
  const load = { bundle: BUNDLE, sourceName: 'index.ts', members: [], settings: {}, secretNames: [], expected: null };
  t.match(await connection.request('load', load), { outcome: 'loaded' });

  const invoke = async (target: Target, context: object): Promise<Seen> => {
    const call = { target, invocationId: crypto.randomUUID(), context, deadlineMs: 5000 };
    return (await connection.request('invoke', call)) as Seen;
  };
  // The results of events and of channel.send are not sent.
  const readLast = async (): Promise<Seen['answer']> =>
    (await invoke({ kind: 'commands', name: 'last' }, { input: '' })).answer;

  for (const [name, row] of Object.entries<SurfaceRow>(surfaces)) {
    const [kind = '', method] = name.split('.');
    const target = { kind, name: method ?? 'x' } as Target;
    const context = Object.fromEntries(Object.keys(row.params.shape).map((key) => [key, `the ${key}`]));
    const { answer = await readLast(), outcome } = await invoke(target, context);
    t.equal(outcome, 'answered', name);
    const { [row.first]: first, ...rest } = context;
    const cancel = kind === 'channel' ? 'undefined' : 'function';
    t.match(answer, { count: 2, first, keys: Object.keys(rest).sort(), signal: false, cancel }, name);
  }
  const hook = await invoke({ kind: 'hook', name: 'middleware.systemPrompt' }, { systemPrompt: 'x', model: 'm' });
  t.match(hook.answer, { count: 1, signal: false });
  t.ok(hook.answer.keys.includes('systemPrompt') && hook.answer.keys.includes('model'));
  await invoke({ kind: 'event', name: 'pluginInstalled' }, { id: 'e1', data: {} });
  t.match(await readLast(), { count: 1, signal: false, cancel: 'undefined' }, 'what has happened cannot be stopped');
});
