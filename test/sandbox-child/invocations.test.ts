/** How the handlers of a real child end. */
import { setFlagsFromString } from 'node:v8';
import { runInThisContext } from 'node:vm';
import t from 'tap';
import { trackInvocations } from '../../sandbox-child/invocations.ts';
import type { Cancellation } from '../../sandbox-child/supervisor-connection.ts';
import { collectGarbage } from '../fixtures/collect-garbage.ts';
import { eventually } from '../runner/eventually.ts';
import { bundleOf, callTool, errorOf, testChild, testJail, toolOf } from '../supervisor/children/jailed-child.ts';

const jail = await testJail(t);
const UNCANCELLED = {} as Cancellation;

/** Where V8 keeps an object. It compiles the function in its first call; the syntax is allowed only meanwhile. */
function compileFindPlace(): (value: object) => { isYoung: boolean; isFast: boolean } {
  setFlagsFromString('--allow-natives-syntax');
  const findPlace = runInThisContext(
    '(value) => ({ isYoung: %InYoungGeneration(value), isFast: %HasFastProperties(value) })',
  ) as ReturnType<typeof compileFindPlace>;
  findPlace({});
  setFlagsFromString('--no-allow-natives-syntax');
  return findPlace;
}

t.test('a cancel without a reason says so', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('ctx.cancel(...args);')));
  for (const args of [[], [undefined], [null], ['']])
    t.same(await callTool(child, 'run', args), { outcome: 'cancelled', reason: 'no reason given' });
  t.same(await callTool(child, 'run', [0]), { outcome: 'cancelled', reason: '0' });
});

t.test('a cancel after the handler has ended says that it cancelled nothing, and where', async (t) => {
  const child = testChild(t, jail);
  const code = `middleware.inboundMessage = (ctx) => {
  Promise.resolve().then(() => ctx.cancel('too late'));
};`;
  await child.load(bundleOf(code));
  const options = { invocationId: 'call', deadlineAt: Date.now() + 60_000 };
  const target = { kind: 'hook', name: 'middleware.inboundMessage' } as const;
  t.match(await child.invoke(target, { message: {} }, options), { outcome: 'answered' });
  await eventually(async () => child.lines.length === 1);
  t.match(child.lines, [
    {
      level: 'error',
      message:
        /^uncaught: Error: ctx\.cancel\("too late"\) was called after middleware\.inboundMessage had ended, so it cancelled nothing\. Await [^\n]+\n +at .*plugin\.js:2:36/,
    },
  ]);
});

t.test('a function of the context that is kept does not keep the texts of the call', async (t) => {
  const kept: unknown[] = [];
  const invocations = trackInvocations(() => undefined);
  const invoke = (): WeakRef<object> => {
    const message = { text: 'a long text' };
    const target = { kind: 'hook', name: 'middleware.inboundMessage' } as const;
    const call = { target, invocationId: 'call', context: { message }, deadlineMs: 1_000 };
    const keep = (context: unknown): unknown => kept.push((context as { cancel: unknown }).cancel);
    t.match(invocations.run(call, keep, UNCANCELLED), { outcome: 'answered' });
    return new WeakRef(message);
  };
  const message = invoke();
  await collectGarbage();
  t.equal(message.deref(), undefined);
  t.type(kept[0], 'function');
});

t.test('V8 reads a context fast, and frees it and its functions in the next collection of young objects', async (t) => {
  const invocations = trackInvocations(() => undefined);
  const findPlace = compileFindPlace();
  const places: unknown[] = [];
  const target = { kind: 'hook', name: 'middleware.systemPrompt' } as const;
  // The first object of its kind is always fast.
  for (let index = 0; index < 3; index += 1) {
    const call = { target, invocationId: 'call', context: { systemPrompt: '' }, deadlineMs: 1_000 };
    invocations.run(call, recordPlaces, UNCANCELLED);
  }
  t.same(places, new Array(9).fill({ isYoung: true, isFast: true }));

  function recordPlaces(context: unknown): void {
    const { signal, cancel } = context as { readonly signal: object; readonly cancel: object };
    places.push(...[context as object, signal, cancel].map(findPlace));
  }
});

t.test('a generator that a cancelled handler returns is ended', async (t) => {
  const child = testChild(t, jail);
  const code = `providers.main = { models: [{ id: 'm', name: 'M' }], async chat(request, { signal }) {
    host.log('begun');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return { [Symbol.asyncIterator]() { return this; }, next() { host.log('read'); }, return() { host.log('ended'); } };
  } };`;
  await child.load(bundleOf(code));
  const caller = new AbortController();
  const options = { invocationId: 'call', deadlineAt: Date.now() + 60_000, signal: caller.signal };
  const call = t.rejects(
    child.invoke({ kind: 'providers', name: 'main' }, { request: {} }, options),
    errorOf('aborted'),
  );
  await eventually(async () => child.lines.length === 1);
  caller.abort();
  await call;
  await eventually(async () => child.lines.length === 2);
  t.match(child.lines, [{ message: 'begun' }, { message: 'ended' }]);
});
