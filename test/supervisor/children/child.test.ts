/** A child's life cycle, calls, refusals and end, with real children in real jails. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { limits, MIB } from '../../../sdk/contract/limits.ts';
import type { HostCall } from '../../../supervisor/children/child.ts';
import { HostCallRefusal } from '../../../supervisor/children/child-errors.ts';
import { eventually } from '../../runner/eventually.ts';
import { listCases, soakTest } from '../../runner/soak.ts';
import { bundleOf, callTool, errorOf, isAlive, testChild, testJail, toolOf } from './jailed-child.ts';

/** `bench/neighbours.ts` measures when a call ends after its deadline, and its child. Milliseconds. */
const DEADLINE_MS = 200;
/** A deadline before which a child must have begun its calls, also on a busy machine. Milliseconds. */
const BEGUN_MS = 1_000;
/** A budget that no call uses up. Milliseconds. */
const PATIENT_MS = 60_000;
/** For a child that handles SIGTERM: on a busy machine that takes longer than a stop waits for it by default. Milliseconds. */
const TERMINATE_MS = 60_000;

const jail = await testJail(t);
/** It has no call while the other tests run. */
const idle = testChild(t, jail);
await idle.load(bundleOf(toolOf('return 1;')));
const idleBytes = idle.rss();

t.test('load, call, configure, stop', async (t) => {
  const child = testChild(t, jail);
  t.equal(child.state, 'spawning');
  await child.ready;
  t.equal(child.state, 'ready');
  t.ok(isAlive(child.pid));
  t.ok(child.rss() > 10_000_000);
  const code = `return { settings: host.settings, sum: args.a + 1, frozen: Object.isFrozen(host) };`;
  const loaded = await child.load(bundleOf(toolOf(code), { settings: { units: 'metric' } }));
  t.same(loaded.registrations.tools, { run: { description: 'test', parameters: {} } });
  t.equal(child.state, 'loaded');
  const answer = (units: string) => ({ outcome: 'answered', answer: { settings: { units }, sum: 2, frozen: true } });
  t.same(await callTool(child, 'run', { a: 1 }), answer('metric'));
  child.configure({ units: 'imperial' }, []);
  t.same(await callTool(child, 'run', { a: 1 }), answer('imperial'));
  const end = await child.stop({ graceMs: 1_000 });
  t.match(end, { requested: true, gone: true, reason: 'it was stopped' });
  t.equal(child.state, 'dead');
  t.notOk(isAlive(child.pid));
  await t.rejects(callTool(child, 'run'), errorOf('dead'));
  await t.rejects(child.load(bundleOf('')), errorOf('dead'));
});

t.test('an answer that came while the supervisor was busy counts, however late it is read', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('return "done";')));
  // The child has so much time for its answer, and then its budget.
  const answer = callTool(child, 'run', {}, 5 * DEADLINE_MS);
  for (const until = performance.now() + 7 * DEADLINE_MS; performance.now() < until; );
  t.same(await answer, { outcome: 'answered', answer: 'done' });
  t.equal(child.state, 'loaded');
});

t.test('the message of a bundle that throws is cut', async (t) => {
  const child = testChild(t, jail);
  const loading = child.load(bundleOf('throw new Error("x".repeat(1e6));'));
  await t.rejects(loading, { ...errorOf('load'), message: /^x{8192}$/ });
});

soakTest(t, 'a promise whose own then throws is a failure of its hook', async (t) => {
  const handlers = {
    'middleware.systemPrompt':
      'return Object.assign(Promise.resolve(), { then() { throw new Error("from its then"); } });',
    'middleware.outboundMessage':
      'return Object.defineProperty(Promise.resolve(), "constructor", { get() { throw new Error("from its constructor"); } });',
  };
  const child = testChild(t, jail);
  const options = { invocationId: 'own', deadlineAt: Date.now() + 5_000 };
  const register = ([name, code]: [string, string]): string => `${name} = () => { ${code} };`;
  await child.load(bundleOf(Object.entries(handlers).map(register).join('\n')));
  for (const name of Object.keys(handlers)) {
    const outcome = await child.invoke({ kind: 'hook', name }, { systemPrompt: '' }, options);
    t.match(outcome, { outcome: 'failed', message: /^from its (then|constructor)$/ }, name);
  }
});

t.test('a stop lets running calls finish, within its grace', async (t) => {
  const code = bundleOf(toolOf('await new Promise((resolve) => setTimeout(resolve, args)); return "done";'));
  const child = testChild(t, jail);
  await child.load(code);
  const quick = callTool(child, 'run', 50);
  const stopping = child.stop({ graceMs: PATIENT_MS, terminateMs: TERMINATE_MS });
  t.equal(child.state, 'draining');
  await t.rejects(callTool(child, 'run', 1), errorOf('dead'));
  t.same(await quick, { outcome: 'answered', answer: 'done' });
  await stopping;
  const hurried = testChild(t, jail);
  await hurried.load(code);
  const slow = t.rejects(callTool(hurried, 'run', PATIENT_MS, PATIENT_MS), errorOf('dead'));
  await hurried.stop({ graceMs: 50 });
  await slow;
});

soakTest(t, 'a second stop leaves running calls their grace, and the shorter grace counts', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('await new Promise((resolve) => setTimeout(resolve, args)); return "done";')));
  const quick = callTool(child, 'run', 50);
  const slow = t.rejects(callTool(child, 'run', 20_000, 60_000), errorOf('dead'));
  const first = child.stop({ graceMs: 60_000, terminateMs: TERMINATE_MS });
  const second = child.stop({ graceMs: 2_000, terminateMs: TERMINATE_MS });
  t.same(await quick, { outcome: 'answered', answer: 'done' });
  await slow;
  const ends = await Promise.all([first, second]);
  t.match(ends, [{ code: 0 }, { code: 0 }], 'neither kills what ends when it is asked to');
});

t.test('a stop is polite first: what listens leaves by itself, what does not is killed', async (t) => {
  const polite = testChild(t, jail);
  await polite.load(bundleOf(toolOf('return 1;')));
  t.match(await polite.stop({ graceMs: 30_000, terminateMs: TERMINATE_MS }), {
    code: 0,
    signal: null,
    requested: true,
    gone: true,
  });
  const deaf = testChild(t, jail);
  await deaf.load(bundleOf(toolOf('console.log("begun"); for (;;);')));
  callTool(deaf, 'run', {}, PATIENT_MS).catch(() => undefined);
  // Before its loop it would listen.
  await eventually(() => deaf.lines.length > 0);
  t.match(await deaf.stop({ graceMs: 50 }), {
    signal: 'SIGKILL',
    requested: true,
    gone: true,
    reason: 'it was stopped',
  });
  const blocked = testChild(t, jail);
  await blocked.load(bundleOf(toolOf('return 1;')));
  t.match(await blocked.stop({ graceMs: 0 }), { signal: 'SIGKILL', gone: true }, 'no grace: killed at once');
});

soakTest(t, 'without the jail SIGTERM ends what does not listen', async (t) => {
  const bare = await testJail(t, { walls: { node: true, os: false } });
  const deaf = testChild(t, bare);
  await deaf.load(bundleOf(toolOf('for (;;);')));
  callTool(deaf, 'run').catch(() => undefined);
  t.match(await deaf.stop({ graceMs: 50, terminateMs: TERMINATE_MS }), {
    signal: 'SIGTERM',
    requested: true,
    gone: true,
  });
});

t.test('a result that is not read need not be one that can be sent', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf('events.sessionStarted = () => 1n; channel.send = async () => ({ sent: new Set([1]) });'));
  const options = { invocationId: 'unread', deadlineAt: Date.now() + 5_000 };
  for (const target of [
    { kind: 'event', name: 'sessionStarted' },
    { kind: 'channel', name: 'send' },
  ] as const)
    t.same(await child.invoke(target, {}, options), { outcome: 'answered', answer: undefined }, target.name);
});

t.test('a hook may return what its last expression happens to be, of which JSON keeps nothing', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf('const seen = new Set(); middleware.inboundMessage = (ctx) => seen.add(ctx.message.id);'));
  const context = { message: { id: 'm1', text: 'hello' } };
  const options = { invocationId: 'lost', deadlineAt: Date.now() + 5_000 };
  t.same(await child.invoke({ kind: 'hook', name: 'middleware.inboundMessage' }, context, options), {
    outcome: 'answered',
    answer: {},
  });
});

t.test('what a handler throws and vetoes', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('return (0, eval)(args)(ctx);')));
  const outcome = (code: string) => callTool(child, 'run', `(async (ctx) => { ${code} })`);
  t.match(await outcome('throw new Error("no luck")'), { outcome: 'failed', message: 'no luck', stack: /no luck/ });
  t.match(await outcome('throw null'), { outcome: 'failed', message: 'null' });
  t.match(await outcome('throw { get message() { throw 1; } }'), { outcome: 'failed' });
  t.match(await outcome('throw new Proxy({}, { get() { throw 1; }, ownKeys() { throw 1; } })'), { outcome: 'failed' });
  t.match(await outcome('ctx.cancel("not today")'), { outcome: 'cancelled', reason: 'not today' });
  t.match(await outcome('try { ctx.cancel("x") } catch {} return 1'), { outcome: 'cancelled', reason: 'x' });
  t.match(await outcome('ctx.cancel("y".repeat(9000))'), { outcome: 'cancelled', reason: 'y'.repeat(500) });
  t.match(await outcome('ctx.cancel("")'), { outcome: 'cancelled', reason: 'no reason given' });
  t.match(await outcome('return { rows: [{ id: 1n }] }'), {
    outcome: 'failed',
    message: 'the result cannot be sent: answer.rows[0].id is a BigInt, which JSON cannot hold. Pass String(value)',
  });
  t.match(await outcome('const a = {}; a.a = a; return a'), {
    outcome: 'failed',
    message: /^the result cannot be sent: .*circular/,
  });
  t.match(await outcome('return "x".repeat(5e6)'), {
    outcome: 'failed',
    message: /^the result cannot be sent: a message of \d+ bytes; the limit is 4194304$/,
  });
  t.match(await outcome('return { rates: new Map([[1, 2]]) }'), {
    outcome: 'failed',
    message:
      'the result cannot be sent: answer.rates is an object of the class Map, of which JSON keeps nothing. Pass Object.fromEntries(map)',
  });
  t.match(
    await outcome('return ctx'),
    { outcome: 'answered', answer: { signal: {} } },
    'a whole context may be returned',
  );
  for (const [code, refusal] of [
    ['return () => 0', 'a function, of which JSON keeps nothing. Call it and pass what it returns'],
    ['return new Error("x")', 'an object of the class Error, of which JSON keeps nothing. Pass its message'],
    [
      'return new Response("x")',
      'an object of the class Response, of which JSON keeps nothing. Pass await response.text()',
    ],
  ] as const)
    t.match(await outcome(code), { outcome: 'failed', message: `the result is ${refusal}` });
  t.match(await outcome('return { toJSON() { return { a: 1 }; } }'), { outcome: 'answered', answer: { a: 1 } });
  t.match(await outcome('return { get a() { throw new Error("trap"); } }'), { outcome: 'failed', message: 'trap' });
  const pollution = await outcome(
    'return JSON.parse(\'{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}\')',
  );
  t.equal(pollution.outcome, 'answered');
  t.equal(({} as { polluted?: number }).polluted, undefined);
  let nested = 'return 1';
  nested = `let a = []; for (let i = 0; i < 1e5; i += 1) a = [a]; ${nested.replace('1', 'a')}`;
  t.match(await outcome(nested), { outcome: 'failed' });
  t.equal(child.state, 'loaded', 'it lives through all of it');
});

const loops: Readonly<Record<string, string>> = {
  'an endless loop': 'for (;;);',
  'an endless loop of microtasks':
    'const again = () => Promise.resolve().then(again); await again(); await new Promise(() => 0);',
  'a hopeless regular expression': '/^(a+)+$/.test("a".repeat(40) + "b");',
  'an endless loop in what is returned': 'return { toJSON() { for (;;); } };',
  'an endless loop in a timer': 'setTimeout(() => { for (;;); }); await new Promise(() => 0);',
};
for (const [name, code] of listCases(loops, 'an endless loop', 'an endless loop of microtasks')) {
  t.test(`${name} ends at its deadline, and the child with it`, async (t) => {
    const child = testChild(t, jail);
    await child.load(bundleOf(toolOf(code)));
    const timeout = { kind: 'timeout', message: /tools\.run took longer than its \d+ ms \(\d+ ms\)/ };
    await t.rejects(callTool(child, 'run', {}, DEADLINE_MS), timeout);
    t.equal((await child.ended).gone, true);
    t.notOk(isAlive(child.pid));
  });
}

t.test('the reason of a hang names the handler that did not return, not one that waits for it', async (t) => {
  const tool = (name: string, code: string) =>
    `tools.${name} = { description: 'test', parameters: {}, async handler(args, ctx) { ${code} } };`;
  const code = [tool('wait', 'await new Promise(() => 0);'), tool('spin', 'for (;;);'), tool('queued', '')].join('\n');
  const hang = /^tools\.spin did not return for \d+ ms/;
  const blocked = testChild(t, jail);
  await blocked.load(bundleOf(code));
  const spin = callTool(blocked, 'spin', {}, PATIENT_MS);
  const queued = callTool(blocked, 'queued', {}, DEADLINE_MS);
  const victim = {
    kind: 'timeout',
    blockedBy: hang,
    message: /did not return for \d+ ms, so tools\.queued did not start$/,
  };
  await t.rejects(queued, victim);
  await t.rejects(spin, { kind: 'timeout', message: hang });
  t.match((await blocked.ended).reason, hang);
  const waiting = testChild(t, jail);
  await waiting.load(bundleOf(code));
  const waits = callTool(waiting, 'wait', {}, BEGUN_MS);
  const spins = callTool(waiting, 'spin', {}, PATIENT_MS);
  await t.rejects(waits, { kind: 'timeout', blockedBy: undefined, message: /^tools\.wait took longer/ });
  await t.rejects(spins, { kind: 'timeout', message: hang }, 'although another call was sent before it');
  const later = testChild(t, jail);
  await later.load(bundleOf(code));
  const stays = callTool(later, 'wait', {}, PATIENT_MS);
  const spinsLater = callTool(later, 'spin', {}, BEGUN_MS);
  await t.rejects(spinsLater, { kind: 'timeout', message: /^tools\.spin took longer/ });
  await t.rejects(stays, { kind: 'dead', message: /^tools\.spin took longer/ });
});

t.test('a handler that merely waits too long is left behind, and its child serves on', async (t) => {
  const child = testChild(t, jail);
  await child.load(
    bundleOf(
      toolOf(
        'if (args === "wait") await new Promise((_, no) => ctx.signal.addEventListener("abort", () => { console.log(ctx.signal.reason.name); no(1); })); return 1;',
      ),
    ),
  );
  await t.rejects(callTool(child, 'run', 'wait', BEGUN_MS), errorOf('timeout'));
  await sleep(100);
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: 1 });
  t.match(child.lines, [{ message: 'TimeoutError', invocationId: null }], 'its signal has aborted');
});

t.test('time spent waiting for the host can be taken out of the budget', async (t) => {
  // Enough for a busy machine to begin and to end the call.
  const budgetMs = 2_000;
  const child = testChild(t, jail, {
    onHostCall: async ({ invocationId }: HostCall) => {
      const endCall = child.beginHostCall(invocationId ?? '', 'paused');
      await sleep(budgetMs + 100);
      endCall();
      return 'answer';
    },
  });
  await child.load(bundleOf(toolOf('return await host.llm.complete({});'), { members: ['llm.complete'] }));
  t.same(await callTool(child, 'run', {}, budgetMs), { outcome: 'answered', answer: 'answer' });
});

t.test('a caller may give up', async (t) => {
  const started = Promise.withResolvers<null>();
  const child = testChild(t, jail, {
    onHostCall: async () => {
      started.resolve(null);
      return null;
    },
  });
  const code = `
    ctx.signal.addEventListener('abort', () => console.log(ctx.signal.reason.name, ctx.signal.aborted));
    await host.storage.get('started');
    await new Promise(() => 0);`;
  await child.load(bundleOf(toolOf(code), { members: ['storage.get'] }));
  const controller = new AbortController();
  const options = { invocationId: 'x', deadlineAt: Date.now() + 5_000, signal: controller.signal };
  const call = t.rejects(child.invoke({ kind: 'tools', name: 'run' }, {}, options), errorOf('aborted'));
  await started.promise;
  controller.abort();
  await call;
  while (child.lines.length === 0) await sleep(5);
  t.match(child.lines, [{ message: 'AbortError true', invocationId: null }], 'its signal has aborted, and says why');
  await t.rejects(child.invoke({ kind: 'tools', name: 'run' }, {}, options), errorOf('aborted'));
});

soakTest(t, 'a child that hangs in a call whose caller gave up is ended at the deadline of the call', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('console.log("hangs"); for (;;);')));
  const caller = new AbortController();
  const options = { invocationId: 'x', deadlineAt: Date.now() + DEADLINE_MS, signal: caller.signal };
  const call = t.rejects(child.invoke({ kind: 'tools', name: 'run' }, {}, options), errorOf('aborted'));
  while (child.lines.length === 0) await sleep(5);
  caller.abort();
  await call;
  t.equal(child.state, 'loaded');
  t.match((await child.ended).reason, /tools\.run took longer than its/);
});

t.test('the handler of a call whose caller gave up before does not start', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('console.log("started"); return 1;')));
  const run = (invocationId: string, signal: AbortSignal) =>
    child.invoke({ kind: 'tools', name: 'run' }, {}, { invocationId, deadlineAt: Date.now() + 5_000, signal });
  await t.rejects(run('given up', AbortSignal.abort()), { ...errorOf('aborted'), isUnsent: true });
  t.same(await run('wanted', new AbortController().signal), { outcome: 'answered', answer: 1 });
  while (child.lines.length === 0) await sleep(5);
  t.match(child.lines[0], { message: 'started', invocationId: 'wanted' });
});

soakTest(t, 'a signal that is read after the deadline is already aborted', async (t) => {
  const child = testChild(t, jail);
  const code = `if (args !== 'wait') return 1;
    await new Promise((resolve) => setTimeout(resolve, ${2 * DEADLINE_MS}));
    console.log(ctx.signal.reason.name);`;
  await child.load(bundleOf(toolOf(code)));
  await t.rejects(callTool(child, 'run', 'wait', DEADLINE_MS), errorOf('timeout'));
  while (child.lines.length === 0) await sleep(5);
  t.match(child.lines, [{ message: 'TimeoutError' }]);
});

t.test('signals: in a copy of the context, and the static methods of AbortSignal', async (t) => {
  const child = testChild(t, jail);
  const code = `const copy = { ...ctx };
    const mine = new AbortController();
    const any = AbortSignal.any([copy.signal, mine.signal]);
    const seen = new Promise((resolve) => any.addEventListener('abort', resolve));
    mine.abort('enough');
    await seen;
    const late = AbortSignal.timeout(1);
    await new Promise((resolve) => { late.onabort = resolve; });
    const refused = [];
    for (const wrong of [() => new AbortSignal(), () => AbortSignal.timeout(-1), () => AbortSignal.any([{}]), () => { any.aborted = false; }])
      try { wrong(); refused.push(null); } catch (error) { refused.push(error.name); }
    return [copy.signal === ctx.signal, copy.signal instanceof AbortSignal, any.reason, AbortSignal.abort().reason.name,
      AbortSignal.any([AbortSignal.abort(7)]).reason, late.reason.name, refused, JSON.stringify(Object.keys(copy).includes('signal'))];`;
  await child.load(bundleOf(toolOf(code)));
  t.same(await callTool(child, 'run'), {
    outcome: 'answered',
    answer: [
      true,
      true,
      'enough',
      'AbortError',
      7,
      'TimeoutError',
      ['TypeError', 'RangeError', 'TypeError', 'TypeError'],
      'true',
    ],
  });
});

soakTest(
  t,
  'signals of a signal that lives as long as the plugin are given up, and abort with it while it has listeners',
  async (t) => {
    const child = testChild(t, jail);
    // More than the heap holds, if any of them stay.
    const code = `const shutdown = new AbortController();
    const seen = [];
    const make = [
      () => AbortSignal.any([new AbortController().signal, shutdown.signal]),
      () => AbortSignal.any([AbortSignal.any([shutdown.signal])]),
      () => new Request('https://a.example/', { signal: shutdown.signal }).signal,
      () => { const one = new AbortController(); const any = AbortSignal.any([one.signal, shutdown.signal]); any.onabort = () => 0; one.abort(); return any; },
      () => { const any = AbortSignal.any([shutdown.signal]); const run = () => 0; any.addEventListener('abort', run); any.removeEventListener('abort', run); return any; },
    ];
    for (const [index, signal] of make.slice(0, 3).entries()) signal().addEventListener('abort', (event) => seen.push([index, event.target.reason]));
    const kept = AbortSignal.any([shutdown.signal]);
    for (let wave = 0; wave < 80; wave += 1) {
      for (let n = 0; n < 100; n += 1) make[n % make.length]().payload = new Array(5_000).fill(n);
      await new Promise((resolve) => setTimeout(resolve));
    }
    shutdown.abort('over');
    return [seen, kept.aborted];`;
    await child.load(bundleOf(toolOf(code)));
    t.same(await callTool(child, 'run', {}, 120_000), {
      outcome: 'answered',
      answer: [
        [
          [0, 'over'],
          [1, 'over'],
          [2, 'over'],
        ],
        true,
      ],
    });
  },
);

t.test('calls beyond what may wait are refused', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('await new Promise((resolve) => setTimeout(resolve, 100)); return 1;')));
  const calls = Array.from({ length: limits.callsInFlight + limits.callsWaiting + 5 }, () =>
    callTool(child, 'run').catch((error) => error),
  );
  const results = await Promise.all(calls);
  t.equal(results.filter((result) => result.kind === 'busy').length, 5);
  t.equal(results.filter((result) => result.outcome === 'answered').length, limits.callsInFlight + limits.callsWaiting);
});

t.test('host calls carry the invocation they were made in, also after an await', async (t) => {
  const calls: HostCall[] = [];
  const child = testChild(t, jail, {
    onHostCall: async (call) => {
      calls.push(call);
      if (call.args[0] === 'refuse') throw new HostCallRefusal('not_granted', 'no');
      if (call.args[0] === 'break') throw new Error('internal detail');
      return { echo: call.args };
    },
  });
  const code = `
    const at = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    await at(args);
    const answer = await host.storage.get(String(args));
    const error = await host.storage.get('refuse').catch((e) => [e.message, e.code, e instanceof Error]);
    const broken = await host.storage.get('break').catch((e) => [e.message, e.code]);
    // The answer is sent first.
    setTimeout(() => host.storage.get('late').catch(() => 0), 100);
    return { answer, error, broken, members: Object.keys(host.storage), absent: typeof host.llm };`;
  await child.load(bundleOf(toolOf(code), { members: ['storage.get'] }));
  const invoke = (id: string, ms: number) =>
    child.invoke(
      { kind: 'tools', name: 'run' },
      { arguments: ms },
      { invocationId: id, deadlineAt: Date.now() + 5_000 },
    );
  const outcomes = await Promise.all([invoke('first', 30), invoke('second', 10)]);
  t.match(outcomes[0], {
    answer: {
      answer: { echo: ['30'] },
      error: ['no', 'not_granted', true],
      broken: ['The host failed to answer this call.', 'internal'],
      members: ['get'],
      absent: 'undefined',
    },
  });
  const owner = (arg: string) => calls.filter((call) => call.args[0] === arg).map((call) => call.invocationId);
  await eventually(async () => owner('late').length === 2);
  t.same(owner('30'), ['first']);
  t.same(owner('10'), ['second']);
  t.same(owner('late'), [null, null], 'output after the answer has no owner');
});

t.test('100,000 pending host calls hurt the plugin alone', async (t) => {
  let calls = 0;
  const child = testChild(t, jail, {
    onHostCall: async () => {
      calls += 1;
      await sleep(5);
      return 1;
    },
  });
  const code = `const all = await Promise.allSettled(Array.from({ length: 1e5 }, () => host.storage.get('x')));
    return all.filter((one) => one.status === 'fulfilled').length;`;
  await child.load(bundleOf(toolOf(code), { members: ['storage.get'] }));
  t.same(await callTool(child, 'run', {}, 20_000), { outcome: 'answered', answer: 80 });
  t.equal(calls, 80);
});

t.test('log lines: levels, cut to size, and what is thrown outside of handlers', async (t) => {
  const child = testChild(t, jail);
  const code = `console.log('a', { b: 1 }, [2]); host.log.warn('w', { n: 1 }); host.log('x'.repeat(9e3), 'y'.repeat(2e4));
    host.log({ get toJSON() { throw 1; } }); const odd = { n: 1, big: 2n ** 70n, date: new Date(0), list: [1n, { ok: true }],
      get broken() { throw new Error('no'); }, byId: new Map([['a', { ok: true }]]), seen: new Set([1, 'b']) };
    odd.byId.set(odd.seen, odd.byId);
    odd.self = odd; odd.list.push(odd); host.log('odd', odd); host.log('large', { big: 1n, text: 'x'.repeat(2e4) });
    host.log('many', new Set(Array(1e5).keys()));
    setTimeout(() => { throw new Error('in a timer'); }); Promise.reject(new Error('nobody waits')); return 1;`;
  await child.load(bundleOf(toolOf(code)));
  await callTool(child, 'run');
  await eventually(async () => child.lines.length >= 9);
  t.match(child.lines.slice(0, 3), [
    { level: 'info', message: 'a { b: 1 } [ 2 ]', truncated: false },
    { level: 'warn', message: 'w', data: { n: 1 } },
    { message: 'x'.repeat(8192), data: 'y'.repeat(16384), truncated: true },
  ]);
  const unprintable = '[a value that cannot be shown]';
  t.same(child.lines[4]?.data, {
    n: 1,
    big: '1180591620717411303424',
    date: '1970-01-01T00:00:00.000Z',
    list: ['1', { ok: true }, '[a cycle]'],
    broken: unprintable,
    byId: [
      ['a', { ok: true }],
      [[1, 'b'], '[a cycle]'],
    ],
    seen: [1, 'b'],
    self: '[a cycle]',
  });
  t.match(child.lines[5], { message: 'large', data: /^\{"big":"1","text":"x+$/, truncated: true });
  t.match(child.lines[6], { message: 'many', data: /^\[0,1,2,/, truncated: true });
  t.equal(child.lines.length, 9);
  t.ok(child.lines.some((line) => line.level === 'error' && line.message.includes('in a timer')));
  t.ok(child.lines.some((line) => line.level === 'error' && line.message.includes('nobody waits')));
  t.equal(child.state, 'loaded');
});

soakTest(
  t,
  'log data of objects that all link to each other is cut, without following every path through them',
  async (t) => {
    const child = testChild(t, jail);
    // An enumerable getter counts how often the data is read.
    const code = `let reads = 0;
    const nodes = Array.from({ length: 8 }, (_, id) => ({ id, get reads() { return (reads += 1); } }));
    for (const node of nodes) node.links = nodes.filter((other) => other !== node);
    host.log.info('state', nodes); host.log.info('three', { three: 3n, nodes: nodes.slice(0, 3).map(({ id }) => id) });
    return reads;`;
    await child.load(bundleOf(toolOf(code)));
    const { answer } = (await callTool(child, 'run', {}, 60_000)) as { answer: number };
    t.ok(answer > 8 && answer <= 16_384, `${answer} reads`);
    t.match(child.lines, [
      { message: 'state', data: /^\[\{"id":0,"reads":\d+,"links":\[\{"id":1,/, truncated: true },
      { message: 'three', data: { three: '3', nodes: [0, 1, 2] }, truncated: false },
    ]);
  },
);

t.test(
  'a stack has the frames of the plugin, also of code that it evaluates, and none of the program around it',
  async (t) => {
    const child = testChild(t, jail, {
      onHostCall: async () => {
        throw new HostCallRefusal('failed', 'the host has no address');
      },
    });
    const code = `const run = new Function('work', 'return work()');
    return run(() => args === 'fetch' ? fetch('https://vendor.test/') : new Response('{').json());`;
    await child.load(bundleOf(toolOf(code), { members: ['http.fetch'] }));
    for (const [argument, cause] of [
      ['fetch', /^TypeError: fetch failed\n?[\s\S]*Caused by: Error: the host has no address/],
      ['json', /^SyntaxError: Expected/],
    ] as const) {
      const outcome = (await callTool(child, 'run', argument)) as { stack: string };
      t.match(outcome.stack, cause);
      t.notMatch(outcome.stack, /child\.cjs|\/fd\/\d|node:internal/);
    }
    const evaluated = testChild(t, jail);
    await evaluated.load(bundleOf(toolOf(`return new Function('\\n  return null.x')();`)));
    const { stack } = (await callTool(evaluated, 'run', {})) as { stack: string };
    t.match(stack, /at anonymous .*<anonymous>:4:15\)/);
  },
);

t.test('the causes of an error are in its message, its stack and its log data', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('return (0, eval)(args)(ctx);')));
  const outcome = (code: string) => callTool(child, 'run', `(async (ctx) => { ${code} })`);
  const chain = `const deepest = new RangeError('no such host'); const middle = new Error('not reached', { cause: deepest });
    const error = new TypeError('fetch failed', { cause: middle });`;
  const stack =
    /^TypeError: fetch failed\n[\s\S]+\nCaused by: Error: not reached\n[\s\S]+\nCaused by: RangeError: no such host\n/;
  t.match(await outcome(`${chain} throw error;`), { outcome: 'failed', message: 'fetch failed: not reached', stack });
  const all = `new AggregateError([new Error('one'), 'two'], 'all failed')`;
  t.match(await outcome(`throw ${all};`), {
    message: 'all failed: one',
    stack: /Caused by: Error: one\n[\s\S]+\nCaused by: two$/,
  });
  t.match(await outcome(`throw new Error('no: reason', { cause: new Error('reason') });`), { message: /^no: reason$/ });
  t.match(await outcome(`throw new Error('odd', { cause: { code: 7 } });`), {
    message: /^odd$/,
    stack: /Caused by: \{"code":7\}$/,
  });
  const cycle = `const a = new Error('a'); const b = new Error('b', { cause: a }); a.cause = b;`;
  const ring = (await outcome(`${cycle} throw a;`)) as { message: string; stack: string };
  t.equal(ring.message, 'a: b');
  t.equal(ring.stack.split('Caused by').length, 2, 'each error once');
  const trap = `const trap = Object.defineProperty(new Error('trap'), 'cause', { get() { throw 1; } });`;
  t.match(await outcome(`${trap} throw trap;`), { message: /^trap$/, stack: /^Error: trap\n/ });
  const long = await outcome(`let e; for (let i = 0; i < 100; i++) e = new Error('e' + i, { cause: e }); throw e;`);
  t.equal((long as { stack: string }).stack.split('Caused by').length, 6);
  const logged = await outcome(`${chain} ${cycle} ${trap} host.log.error(error); host.log.error('data', { error });
    host.log.error('all', ${all}); host.log('ring', a); host.log('trap', trap); Promise.reject(error); return 1;`);
  t.match(logged, { answer: 1 });
  await eventually(async () => child.lines.length >= 6);
  const cause = { message: 'not reached', stack: /^Error: not reached\n/, cause: { name: 'RangeError' } };
  t.match(child.lines, [
    { message: stack },
    { data: { error: { name: 'TypeError', message: 'fetch failed', cause } } },
    { data: { message: 'all failed', errors: [{ message: 'one' }, 'two'] } },
    { data: { message: 'a', cause: { message: 'b', cause: '[a cycle]' } } },
    { data: { message: 'trap' } },
    { message: /^uncaught: TypeError: fetch failed\n[\s\S]+Caused by: RangeError: no such host/ },
  ]);
});

t.test('an error of a change to a frozen object says what is frozen', async (t) => {
  const child = testChild(t, jail);
  await child.load(bundleOf(toolOf('return (0, eval)(args)(ctx);')));
  const frozen = 'In a plugin, the built-in objects, such as Array.prototype, and host are frozen';
  const changes: Readonly<Record<string, string>> = {
    'Array.prototype.last = 1': 'Cannot add property last, object is not extensible',
    'Array.prototype.map = 1': "Cannot assign to read only property 'map' of object",
    'Object.defineProperty(Math, "clamp", { value: 1 })': 'Cannot define property clamp, object is not extensible',
    'delete Math.max': "Cannot delete property 'max' of [object Math]",
  };
  for (const [code, message] of Object.entries(changes))
    t.match(
      await callTool(child, 'run', `(ctx) => { 'use strict'; ${code}; }`),
      { outcome: 'failed', message: `${message}. ${frozen}` },
      code,
    );
});

t.test('a generator yields ahead of its reader only so far, and ends with the call', async (t) => {
  const child = testChild(t, jail);
  await child.load(
    bundleOf(`
    let yielded = 0;
    const { promise: ended, resolve: end } = Promise.withResolvers();
    providers.flood = {
      models: [{ id: 'm', name: 'M' }],
      async *chat() {
        try {
          for (;;) yield { text: String(yielded++) };
        } finally {
          end();
        }
      },
    };
    tools.count = { description: 'c', parameters: {}, handler: () => String(yielded) };
    tools.ended = { description: 'e', parameters: {}, handler: () => ended.then(() => 'ended') };`),
  );
  const arrived: unknown[] = [];
  const { promise: filled, resolve } = Promise.withResolvers<void>();
  const left = new AbortController();
  const call = child.invoke(
    { kind: 'providers', name: 'flood' },
    { request: {}, settings: {} },
    {
      invocationId: 'flood',
      deadlineAt: Date.now() + 60_000,
      signal: left.signal,
      // The first two are read, the third never.
      onDelta: (delta) => () => {
        arrived.push(delta);
        if (arrived.length < 3) return Promise.resolve();
        resolve();
        return new Promise(() => undefined);
      },
    },
  );
  await filled;
  // 16 are sent beyond the two that were read, and the next one waits.
  t.match(
    await eventually(async () => {
      const counted = await callTool(child, 'count');
      return counted.outcome === 'answered' && counted.answer === '19' ? counted : null;
    }),
    { answer: '19' },
  );
  t.match(await callTool(child, 'count'), { answer: '19' });
  t.same(arrived, [{ text: '0' }, { text: '1' }, { text: '2' }]);
  left.abort();
  await t.rejects(call, errorOf('aborted'));
  t.match(await callTool(child, 'ended'), { answer: 'ended' });
  t.equal(child.state, 'loaded');
});

soakTest(t, 'a generator that yields a value that is not JSON is ended', async (t) => {
  const child = testChild(t, jail);
  await child.load(
    bundleOf(`
    const { promise: ended, resolve: end } = Promise.withResolvers();
    providers.odd = {
      models: [{ id: 'm', name: 'M' }],
      async *chat() {
        try {
          yield { text: 1n };
        } finally {
          end('ended');
        }
      },
    };
    tools.ended = { description: 'e', parameters: {}, handler: () => ended };`),
  );
  const target = { kind: 'providers', name: 'odd' } as const;
  const options = { invocationId: 'odd', deadlineAt: Date.now() + 60_000, onDelta: () => () => Promise.resolve() };
  const failed = await child.invoke(target, { request: {}, settings: {} }, options);
  t.match(failed, { outcome: 'failed', message: /BigInt/ });
  t.match(await callTool(child, 'ended'), { answer: 'ended' });
});

t.test('an idle child gives the memory of its start back', async (t) => {
  await eventually(async () => idle.rss() < idleBytes - MIB);
  t.same(await callTool(idle, 'run'), { outcome: 'answered', answer: 1 });
});
