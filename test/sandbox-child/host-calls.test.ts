/** The queue of host calls in a real child, and its checks of a model's answer. */
import t from 'tap';
import type { HostCall } from '../../supervisor/children/child.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { eventually } from '../runner/eventually.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../supervisor/children/jailed-child.ts';

const jail = await testJail(t);
const IN_FLIGHT = 16;
const MEMBERS = ['storage.get', 'storage.set'];

/** Answers no call before as many were received as a child sends at once. */
function holdUntilFull(): { readonly received: HostCall[]; onHostCall(call: HostCall): Promise<unknown> } {
  const received: HostCall[] = [];
  const full = Promise.withResolvers<void>();
  return {
    received,
    async onHostCall(call) {
      received.push(call);
      if (received.length === IN_FLIGHT) full.resolve();
      await full.promise;
      return call.args[0];
    },
  };
}

t.test('a queued call has its arguments as they were when it was made', async (t) => {
  const { received, onHostCall } = holdUntilFull();
  const child = testChild(t, jail, { onHostCall });
  const code = `
    const [value, bytes, calls] = [{}, new Uint8Array(1), []];
    for (let n = 0; n < 40; n += 1) {
      Object.assign(value, { n, text: String(n).repeat(1_000) });
      bytes[0] = n;
      calls.push(host.storage.set('key', value, bytes, undefined));
    }
    value.n = 'changed';
    return (await Promise.all(calls)).length;`;
  await child.load(bundleOf(toolOf(code), { members: ['storage.set'] }));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 40 });
  const expected = Array.from({ length: 40 }, (_, n) => [
    'key',
    { n, text: String(n).repeat(1_000) },
    new Uint8Array([n]),
    null,
  ]);
  t.same(
    received.map(({ args }) => args),
    expected,
  );
});

t.test('arguments that cannot be sent, and calls over the bound, are refused with a reason', async (t) => {
  const { onHostCall } = holdUntilFull();
  const child = testChild(t, jail, { onHostCall });
  const code = `
    const calls = Array.from({ length: 16 }, (_, n) => host.storage.get(n));
    const bad = [1n, Promise.resolve(), { toJSON() { throw new Error('trap'); } }, { toJSON() { throw null; } }].map((value) => host.storage.get(value));
    for (let n = 16; n < 81; n += 1) calls.push(host.storage.get(n));
    const reasons = (await Promise.allSettled(bad)).map(({ reason }) => [reason.code, reason.message]);
    const last = await calls.pop().catch((error) => error.message);
    return [reasons, last, (await Promise.all(calls)).every((answer, n) => answer === n)];`;
  await child.load(bundleOf(toolOf(code), { members: ['storage.get'] }));
  const unsendable = (why: string) => ['failed', `host.storage.get: the arguments cannot be sent: ${why}`];
  t.same(await callTool(child, 'run'), {
    outcome: 'answered',
    answer: [
      [
        unsendable('args[0] is a BigInt, which JSON cannot hold. Pass String(value)'),
        unsendable('args[0] is an object of the class Promise, of which JSON keeps nothing. Await it first'),
        unsendable('trap'),
        unsendable('null'),
      ],
      'Too many host calls: 80 are in progress. Await some of them before you make more.',
      true,
    ],
  });
});

t.test('a failed call that the plugin does not await has its line in the log', async (t) => {
  const refused = () => Promise.reject(new HostCallRefusal('refused', 'no'));
  const child = testChild(t, jail, { onHostCall: refused });
  await child.load(bundleOf(toolOf('\nhost.storage.set("a", 1n);\nhost.storage.get("b");'), { members: MEMBERS }));
  await callTool(child, 'run');
  await eventually(async () => child.lines.length === 2);
  t.match(child.lines, [
    {
      message: /^uncaught: Error: host\.storage\.set: the arguments cannot be sent: [^\n]+\n +at [^\n]*plugin\.js:2:14/,
    },
    { message: /^uncaught: Error: no\n +at [^\n]*plugin\.js:3:14/ },
  ]);
});

t.test('an answer of endless blank lines does not block a plugin that asks a model for JSON', async (t) => {
  const text = `\`\`\`json${'\n'.repeat(200_000)}`;
  const child = testChild(t, jail, { onHostCall: () => Promise.resolve({ text }) });
  const code = "return host.llm.complete({ schema: { type: 'object' } }).catch((error) => error.message);";
  await child.load(bundleOf(toolOf(code), { members: ['llm.complete'] }));
  t.match(await callTool(child, 'run'), { answer: /the model’s answer is not JSON/ });
});
