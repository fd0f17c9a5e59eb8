/** A turn of an agent, step by step: judged once, repeatable by ids, held by one runtime, and nothing past a veto. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { Session } from '../../../db/sessions/sessions.ts';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { RunningCalls } from '../../../supervisor/sessions/running-calls.ts';
import type { SessionServices } from '../../../supervisor/sessions/session-services.ts';
import { callToolInTurn } from '../../../supervisor/sessions/tool-journal.ts';
import { failedTool } from '../../../supervisor/sessions/tool-results.ts';
import { digestOf } from '../../../supervisor/sessions/turn-answers.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount, listCases, soakTest } from '../../runner/soak.ts';
import { connect, deliver } from '../delivery/channels.ts';
import {
  CrashOnce,
  DuringSteps,
  type Reply,
  refuseNotices,
  type SupervisorFixture,
  startSupervisorFixture,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

/** Ends of a turn at once, in rounds of three, and with two texts. */
const ROUNDS = amount({ quick: 3, soak: 10 });
const ENDS = amount({ quick: 16, soak: 50 });
/** Seconds of a lease of 100 that have passed at a step. All steps renew it by the same statement, as the first of them does at each. */
const PASSED = amount({ quick: [99], soak: [1, 24, 26, 49, 51, 99] });

const during = new DuringSteps();
const shared = withStartedPlugins(await startSupervisorFixture(t, { faultPoint: during.faultPoint }));

const GUARD = `
  middleware.inboundMessage = (ctx) => {
    host.log('inbound', { text: ctx.message.text, trigger: ctx.trigger });
    if (/bomb/.test(ctx.message.text)) ctx.cancel('no bombs');
    return { message: { text: ctx.message.text.replace('4111', '[card]') } };
  };
  middleware.outboundMessage = (ctx) => {
    host.log('outbound', { text: ctx.message.text, trigger: ctx.trigger });
    if (/secret/.test(ctx.message.text)) ctx.cancel('no secrets');
    return { message: { text: ctx.message.text.replace('darn', '[bleep]').replace(/^Hmm$/, '') } };
  };
  middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' Be kind.';`;
const ADDER = `
  tools.add = { description: 'Adds one', parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
    handler: ({ a }) => { host.log('added', { a }); if (a === 13) throw new Error('unlucky'); return String(a + 1); } };
  tools.wait = { description: 'Waits', parameters: { type: 'object' },
    handler: (args, { signal }) => new Promise((resolve) => {
      host.log('waiting');
      signal.addEventListener('abort', () => { host.log('aborted', { why: signal.reason.message }); resolve('late'); });
    }) };`;

type Runtime = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown) => Promise<Reply>;

/** Calls the steps of a turn in the name of a runtime. */
function asRuntime(fixture: SupervisorFixture, session: string, name: string): Runtime {
  return async (method, path, body) => {
    const reply = await fixture.app.inject({
      method,
      url: `/sessions/${session}/turns${path}`,
      headers: { authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}`, 'bulkhead-runtime': name },
      ...(body === undefined ? {} : { payload: body as object }),
    });
    return { status: reply.statusCode, body: reply.json(), headers: reply.headers };
  };
}

async function transcript(fixture: SupervisorFixture, session: string) {
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  return items as { id: string; role: string; text: string; data?: object; judgement?: object }[];
}

/** As if a time had passed. */
const letLeasePass = (fixture: SupervisorFixture, session: string, seconds: number) =>
  fixture.pool.query(`UPDATE turns SET lease_until = lease_until - make_interval(secs => $2) WHERE session_id = $1`, [
    session,
    seconds,
  ]);

/** As if its runtime had been silent for longer than the lease. */
const expireLease = (fixture: SupervisorFixture, session: string) =>
  fixture.pool.query(`UPDATE turns SET lease_until = now() - interval '1 second' WHERE session_id = $1`, [session]);

soakTest(t, 'a turn that was just opened ends with a text whose id is new, and with no other', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const open = (id: string) => turn('POST', '', { id, text: 'hello', trigger: 'user', prompt: true });
  t.match((await open('t1')).body.prompt.messages, [{ id: 't1', role: 'user', text: 'hello', at: /Z$/ }]);
  t.match(await turn('POST', '/t1/end', { text: 'hi', outputId: 't1' }), {
    status: 409,
    body: { code: 'id_reused' },
  });
  t.match((await turn('POST', '/t1/end', { text: 'hi', outputId: 'o1' })).body, { state: 'ended', replyId: 'o1' });
  t.match((await open('t2')).body.prompt.messages, [{ id: 't1' }, { id: 'o1', text: 'hi' }, { id: 't2' }]);
  await fixture.call('POST', `/sessions/${session}/clear`, { trigger: 'user' });
  t.match(await turn('POST', '/t2/end', { text: 'hi' }), { status: 409, body: { code: 'turn_ended' } });
  await open('t3');
  await expireLease(fixture, session);
  const other = asRuntime(fixture, session, 'r2');
  t.equal((await other('GET', '/t3/prompt')).status, 200);
  t.match(await turn('POST', '/t3/end', { text: 'hi' }), { status: 409, body: { code: 'turn_held' } });
  t.match((await other('POST', '/t3/end', { text: 'oh darn' })).body, { state: 'ended' });
  t.match((await transcript(fixture, session)).at(-1), { role: 'assistant', text: 'oh [bleep]' });
});

soakTest(t, 'a turn that was just opened ends although a piece comes while its last text is judged', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  during.set('turn.output-judged', async () => {
    t.equal((await turn('POST', '/t1/output', { id: 'o1', piece: 0, text: 'so far' })).status, 200);
  });
  const ended = await turn('POST', '/t1/end', { text: 'hi', outputId: 'o2' });
  t.match(ended, { status: 200, body: { state: 'ended' } });
  t.match((await transcript(fixture, session)).map(({ text }) => text).sort(), ['hello', 'hi', 'so far']);
});

soakTest(t, 'the end of a turn adds the text of an open output before the last text', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hi', trigger: 'user' });
  await turn('POST', '/t1/output', { id: 'o1', piece: 0, text: 'first' });
  t.match((await turn('POST', '/t1/end', { text: 'bye', outputId: 'o2' })).body, { state: 'ended', replyId: 'o2' });
  t.same(
    (await transcript(fixture, session)).map(({ text }) => text),
    ['hi', 'first', 'bye'],
  );
});

soakTest(t, 'a turn ends although another message got the id of an output whose last piece did not come', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const reused = { status: 409, body: { code: 'id_reused' } };
  const begin = async (id: string, output: string) => {
    await turn('POST', '', { id, text: id, trigger: 'user' });
    const piece = { id: output, piece: 0, text: `of ${id}` };
    t.equal((await turn('POST', `/${id}/output`, piece)).status, 200);
  };
  await begin('t1', 'o');
  await begin('t2', 'o');
  t.match((await turn('POST', '/t2/output', { id: 'o', piece: 1, text: '.', done: true })).body, { state: 'passed' });
  t.match(await turn('POST', '/t1/output', { id: 'o', piece: 1, text: '.', done: true }), reused);
  const ended = await turn('POST', '/t1/end', { text: 'bye' });
  t.match(ended, { status: 200, body: { state: 'ended' } });
  t.same((await turn('POST', '/t1/end', { text: 'bye' })).body, ended.body);
  await begin('t3', 'x');
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ id: 'x', role: 'user', text: 'x' }] });
  t.match(await turn('POST', '/t3/end', {}), { status: 200, body: { state: 'ended', replyId: /^t3:/ } });
  t.match((await turn('GET', '/t3')).body.outputs, [{ id: /^t3:/, state: 'passed', text: 'of t3' }]);
  t.same(
    (await transcript(fixture, session)).map(({ text }) => text),
    ['t1', 't2', 'of t2.', 'of t1.', 'bye', 't3', 'x', 'of t3'],
  );
});

soakTest(t, 'a last text is not added while a required guard cannot judge an open output', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `strict-${fixture.account}`;
  const code = `let isThrown = false;
    middleware.outboundMessage = ({ message: { text } }) => {
      if (text !== 'THROW' || isThrown) return;
      isThrown = true;
      throw new Error('x');
    };`;
  await fixture.install({ slug, code, required: true });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hi', trigger: 'user' });
  await turn('POST', '/t1/output', { id: 'o1', piece: 0, text: 'THROW' });
  const stopped = { action: 'cancel', isFinal: false, state: 'open', cancelledBy: slug };
  t.match((await turn('POST', '/t1/end', { text: 'bye' })).body, stopped);
  t.match((await turn('POST', '/t1/end', { text: 'other words' })).body, { action: 'continue', state: 'ended' });
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role !== 'notice').map(({ text }) => text),
    ['hi', 'THROW', 'other words'],
  );
});

t.test(
  'a turn that several requests end at once ends with one text, and each of them is answered for its own',
  async (t) => {
    const fixture = shared.withNewAccount();
    await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
    const session = await fixture.session();
    const turn = asRuntime(fixture, session, 'r1');
    const endAtOnce = (id: string, texts: readonly string[]) =>
      Promise.all(texts.map((text) => turn('POST', `/${id}/end`, { text, outputId: `${id} ${text}` })));
    for (let round = 0; round < ROUNDS; round += 1) {
      const id = `t${round}`;
      await turn('POST', '', { id, text: 'hi', trigger: 'user' });
      await turn('POST', `/${id}/output`, { id: `${id} piece`, piece: 0, text: 'open piece ' });
      const replies = await endAtOnce(id, ['bye', 'bye', 'bye']);
      t.match(replies[0], { status: 200, body: { state: 'ended', replyId: `${id} bye` } });
      for (const { status, body } of replies) t.same({ status, body }, { status: 200, body: replies[0]?.body });
    }
    for (const [id, isStreamed] of Object.entries({ streamed: true, whole: false })) {
      await turn('POST', '', { id, text: 'hi', trigger: 'user' });
      if (isStreamed) await turn('POST', `/${id}/output`, { id: `${id} piece`, piece: 0, text: 'open piece ' });
      const before = (await transcript(fixture, session)).length;
      const texts = Array.from({ length: ENDS }, (_, n) => (n % 2 === 0 ? 'bye' : 'bye2'));
      const replies = await endAtOnce(id, texts);
      const [won] = replies.flatMap(({ status, body }) => (status === 200 ? [body.replyId] : []));
      for (const [n, reply] of replies.entries()) {
        const isWinner = `${id} ${texts[n]}` === won;
        const ended = { status: 200, body: { state: 'ended', replyId: won } };
        t.match(reply, isWinner ? ended : { status: 409, body: { code: 'turn_ended' } });
      }
      t.equal((await transcript(fixture, session)).length, before + (isStreamed ? 2 : 1));
    }
  },
);

t.test('a whole turn; every repeated step returns the same and judges nothing twice', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const twice = async (method: 'GET' | 'POST', path: string, body?: unknown) => {
    const [first, second] = [await turn(method, path, body), await turn(method, path, body)];
    const withoutLease = ({ status, body }: Reply) => ({ status, body: { ...body, lease: null } });
    t.same(withoutLease(second), withoutLease(first), `${method} ${path} again`);
    return first;
  };
  const opening = { id: 't1', from: 'bob', text: 'pay with 4111', trigger: 'schedule', systemPrompt: 'Be brief.' };
  const opened = await twice('POST', '', opening);
  t.match(opened, {
    status: 201,
    headers: { location: `/sessions/${session}/turns/t1` },
    body: {
      state: 'open',
      action: 'continue',
      trigger: 'schedule',
      message: {
        id: 't1',
        from: 'bob',
        text: 'pay with [card]',
        judgement: { outcome: 'changed', by: [`guard-${fixture.account}`], asked: 1 },
      },
      lease: { runtime: 'r1' },
    },
  });
  const prompt = await twice('GET', '/t1/prompt');
  t.match(prompt.body, {
    action: 'continue',
    systemPrompt: 'Be brief. Be kind.',
    messages: [{ id: 't1', role: 'user', text: 'pay with [card]' }],
    tools: [{ name: `adder-${fixture.account}__add` }, { name: `adder-${fixture.account}__wait` }],
  });
  const ownPrompt = await turn('POST', '/t1/prompt', { systemPrompt: 'Other.', model: 'm' });
  t.match(ownPrompt.body, { systemPrompt: 'Other. Be kind.', model: 'm' });
  const called = await twice('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } });
  t.same(called.body, { content: [{ type: 'text', text: '2' }], isError: false });
  t.match((await turn('GET', '/t1/calls/c1')).body, {
    state: 'answered',
    name: `adder-${fixture.account}__add`,
    result: called.body,
  });
  const failed = await twice('POST', '/t1/calls/c2', { name: `adder-${fixture.account}__add`, arguments: { a: 13 } });
  t.match(failed.body, { isError: true, content: [{ text: /unlucky/ }] });
  const wrong = await twice('POST', '/t1/calls/c3', { name: `adder-${fixture.account}__add`, arguments: { a: 'x' } });
  t.match(wrong.body, { isError: true, content: [{ text: /arguments\.a.*must be number/ }] });
  const unknown = await twice('POST', '/t1/calls/c4', { name: `adder-${fixture.account}s__add` });
  t.match(unknown.body, { isError: true, content: [{ text: /Did you mean adder-.*__add/ }] });
  const said = await twice('POST', '/t1/output', { id: 'o1', text: 'oh darn', target: 'bob' });
  t.match(said.body, {
    state: 'passed',
    show: 'oh [bleep]',
    judgement: { outcome: 'changed', by: [`guard-${fixture.account}`] },
  });
  const ended = await twice('POST', '/t1/end', { text: 'Done.' });
  t.match(ended, { status: 200, body: { state: 'ended', action: 'continue', replyId: /^t1:/ } });
  t.same(
    (await transcript(fixture, session)).map(({ role, text }) => [role, text]),
    [
      ['user', 'pay with [card]'],
      ['tool', '2'],
      ['tool', failed.body.content[0].text],
      ['tool', wrong.body.content[0].text],
      ['tool', unknown.body.content[0].text],
      ['assistant', 'oh [bleep]'],
      ['assistant', 'Done.'],
    ],
  );
  t.same(await fixture.readLog('inbound'), [{ text: 'pay with 4111', trigger: 'schedule' }], 'judged once');
  t.same(
    (await fixture.readLog('outbound')).map(({ text }) => text),
    ['oh darn', 'Done.'],
  );
  t.equal((await fixture.readLog('added')).length, 2, 'one handler call per id');
  t.match((await turn('GET', '/t1')).body, {
    turn: { id: 't1', state: 'ended' },
    calls: [{ callId: 'c1' }, { callId: 'c2' }, { callId: 'c3' }, { callId: 'c4' }],
    outputs: [
      { id: 'o1', state: 'passed', text: 'oh [bleep]' },
      { state: 'passed', text: 'Done.' },
    ],
  });
  t.match((await turn('GET', '?state=ended')).body, { items: [{ id: 't1' }], nextCursor: null });
  t.same((await turn('GET', '?state=open')).body.items, []);
});

t.test('a turn is opened with its prompt, and turns are listed from either end', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const opening = { id: 't1', text: 'pay with 4111', trigger: 'user', systemPrompt: 'Be brief.', prompt: true };
  const opened = (await turn('POST', '', opening)).body;
  t.same(opened.prompt, (await turn('GET', '/t1/prompt')).body);
  t.match(opened.prompt, {
    systemPrompt: 'Be brief. Be kind.',
    messages: [{ text: 'pay with [card]' }],
    outbound: 'whole',
  });
  t.same((await turn('POST', '', opening)).body.prompt, opened.prompt, 'also of a turn that is open');
  await turn('POST', '/t1/end', {});
  t.notOk((await turn('POST', '', opening)).body.prompt, 'not of one that has ended');
  t.notOk((await turn('POST', '', { ...opening, id: 't2', text: 'a bomb' })).body.prompt, 'nor of one that was vetoed');
  await turn('POST', '', { ...opening, id: 't3', prompt: { compactAfter: 1, keep: 1 } });
  const page = async (query: string) => {
    const { items, nextCursor } = (await turn('GET', query)).body;
    return [items.map(({ id }: { id: string }) => id), nextCursor];
  };
  const [newest, cursor] = await page('?order=newest&limit=2');
  t.same(newest, ['t3', 't2']);
  t.same(await page(`?order=newest&limit=2&cursor=${cursor}`), [['t1'], null]);
  t.same(await page('?order=oldest'), [['t1', 't2', 't3'], null]);
  t.match(await turn('GET', '?order=random'), { status: 400 });
});

soakTest(t, 'the cost of a piece does not grow with the pieces before it', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `middleware.outboundMessage = { stream: true, handler: ({ partial }) => { host.log('before', { text: partial.before }); } };`;
  await fixture.install({ slug: `stream-${fixture.account}`, code });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const filler = 'x'.repeat(3_000);
  for (const [piece, text] of [filler, '😀 two. ', filler, 'End.'].entries())
    t.match((await turn('POST', '/t1/output', { id: 'o1', piece, text, done: piece === 3 })).body, { show: text });
  const befores = (await fixture.readLog('before')).map(({ text }) => text);
  const whole = `${filler}😀 two. ${filler}`;
  t.same(befores, ['', filler, `${filler}😀 two. `, whole.slice(-4_096)], 'each sees the end of what was judged');
});

t.test('a session shows the hooks that its runtime never fired, and the messages that none judged', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await turn('POST', '', { id: 't2', text: 'a bomb', trigger: 'user' });
  await turn('POST', '/t1/end', { text: 'hi' });
  const unjudged = [{ role: 'assistant', text: 'past the guard' }];
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: unjudged });
  const { items, coverage } = (await fixture.call('GET', `/sessions/${session}/hooks`)).body;
  t.equal(items.length, 3);
  const byName = Object.fromEntries(coverage.map((hook: { name: string }) => [hook.name, hook]));
  t.match(byName.inboundMessage, { asked: 2, cancelled: 1, messages: { judged: 1, total: 1 } });
  t.match(byName.outboundMessage, { asked: 1, cancelled: 0, messages: { judged: 1, total: 2 } });
  t.match(byName.systemPrompt, { asked: 0, lastAt: null, messages: null });
  t.match(byName.notifyDeliver, { asked: 0, lastAt: null });
});

t.test('a strict session takes only what was judged, and says how', async (t) => {
  const fixture = shared.withNewAccount();
  const start = (strict: boolean) => fixture.call('POST', '/sessions', { agentId: 'a', key: 'k', strict });
  const { id } = (await start(false)).body;
  const append = (role: string) =>
    fixture.call('POST', `/sessions/${id}/messages`, { messages: [{ role, text: 'unjudged' }] });
  for (const role of ['user', 'tool']) t.equal((await append(role)).status, 200);
  t.match((await start(true)).body, { id, strict: true });
  t.match((await start(false)).body, { strict: true }, 'it stays strict');
  for (const [role, route] of [
    ['user', /POST \/sessions\/{id}\/turns\.$/],
    ['assistant', /turns\/{turnId}\/output\.$/],
    ['tool', /calls\/{callId}\/result\.$/],
    ['system', /POST \/sessions\/{id}\/turns\.$/],
    ['notice', /only what hooks judged\.$/],
  ] as const)
    t.match(await append(role), { status: 409, body: { code: 'not_judged', detail: route } }, role);
  const turn = asRuntime(fixture, id, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const slug = `teller-${fixture.account}`;
  await fixture.install({
    slug,
    capabilities: ['host.agents', 'host.session'],
    code: `tools.tell = { description: 'x', parameters: { type: 'object' }, handler: async () => {
      await host.session.post('posted');
      await host.agents.send('a', 'sent');
      return 'told';
    } };`,
  });
  t.match(await turn('POST', '/t1/calls/c1', { name: `${slug}__tell` }), { status: 200, body: { isError: false } });
  const prompted = async (id: string) =>
    (await turn('GET', `/${id}/prompt`)).body.messages.map(({ role, text }: { role: string; text: string }) =>
      role === 'tool' ? role : text,
    );
  t.same(await prompted('t1'), ['hello', 'posted', 'sent', 'tool'], 'hooks judge what plugins write');
  t.match(await turn('POST', '/t1/end', { text: 'hi' }), { status: 200 });
  const messages = await transcript(fixture, id);
  t.same(
    messages.map(({ role, text }) => (role === 'tool' ? role : text)),
    ['unjudged', 'tool', 'hello', 'posted', 'sent', 'tool', 'hi'],
  );
  const judged = (hook: string) => ({ hook, outcome: 'unchanged', asked: 0, by: [], reason: null });
  t.match(
    messages.filter(({ text, role }) => ['posted', 'sent'].includes(text) || role === 'tool'),
    ['toolResult', 'outboundMessage', 'inboundMessage', 'toolResult'].map((hook, at) =>
      at === 0 ? { role: 'tool' } : { judgement: judged(hook) },
    ),
  );
  const sent = messages.find(({ text }) => text === 'sent')?.id ?? '';
  await turn('POST', '', { id: sent, trigger: 'agent' });
  t.same(await prompted(sent), ['hello', 'posted', 'sent', 'tool', 'hi'], 'as a turn of its own');
  t.match((await fixture.call('GET', `/sessions/${id}/hooks`)).body, { strict: true });
});

t.test('ids are not for other requests, and late steps are refused', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const reused = { status: 409, body: { code: 'id_reused' } };
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  t.match(await turn('POST', '', { id: 't1', text: 'other', trigger: 'user' }), reused);
  t.match(await turn('POST', '', { id: 't1', text: 'hello', trigger: 'agent' }), reused);
  await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } });
  t.match(await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 2 } }), reused);
  await turn('POST', '/t1/output', { id: 'o1', text: 'one' });
  t.match(await turn('POST', '/t1/output', { id: 'o1', text: 'two' }), reused);
  for (const output of [{ text: 'two' }, { text: 'two', piece: 0 }])
    t.match(
      await turn('POST', '/t1/output', { id: 't1', ...output }),
      { ...reused, body: { code: 'id_reused', detail: /^Another message .* Send this text with another id/ } },
      'the id of a message',
    );
  t.match(await turn('POST', '/nothing/output', { text: 'two' }), { status: 404 });
  t.match(await turn('GET', '/t1/calls/none'), { status: 404 });
  t.match(await turn('GET', '/nothing/prompt'), { status: 404 });
  t.match(await turn('POST', '', { id: 't2', trigger: 'user' }), {
    status: 400,
    body: { errors: [{ field: 'text' }] },
  });
  t.match(await turn('POST', '', { id: 't2', text: 'now with a text', trigger: 'user' }), { status: 201 });
  t.match(await turn('POST', '', { id: 't3', text: 'x' }), { status: 400, body: { errors: [{ field: 'trigger' }] } });
  await turn('POST', '/t1/end', {});
  const late = { status: 409, body: { code: 'turn_ended' } };
  t.match(await turn('GET', '/t1/prompt'), late);
  t.match(await turn('POST', '/t1/calls/c9', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } }), late);
  t.match(await turn('POST', '/t1/output', { text: 'late' }), late);
  t.match(await turn('POST', '/t1/end', { text: 'late' }), late);
  t.match(
    await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } }),
    { status: 200 },
    'known',
  );
  await fixture.call('POST', `/sessions/${session}/clear`, {});
  t.match(await turn('GET', '/t2/prompt'), late, 'a cleared turn does not go on');
  t.match(
    await turn('POST', '', { id: 't2', text: 'now with a text', trigger: 'user' }),
    late,
    'nor is it opened again',
  );
  t.match(await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' }), late, 'nor one that had ended');
  t.same(await transcript(fixture, session), [], 'and a late repetition brings nothing back');
  const other = shared.withNewAccount();
  const foreign = asRuntime(other, session, 'r1');
  t.match(await foreign('GET', '/t1'), { status: 404 });
  t.match(await foreign('POST', '', { id: 't1', text: 'x', trigger: 'user' }), { status: 404 });
});

t.test('a number of messages of a prompt is a whole number, and nothing else counts as one', async (t) => {
  const fixture = shared.withNewAccount();
  const turn = asRuntime(fixture, await fixture.session(), 'r1');
  const opening = { text: 'hello', trigger: 'user' };
  await turn('POST', '', { ...opening, id: 't1' });
  const refused = { status: 400, body: { errors: [{ field: 'keep', message: 'must be a whole number' }] } };
  for (const keep of [null, '', false, [], '2', 1.5])
    t.match(await turn('POST', '/t1/prompt', { keep }), refused, JSON.stringify(keep));
  for (const keep of ['', '1e2', 'null']) t.match(await turn('GET', `/t1/prompt?compactAfter=1&keep=${keep}`), refused);
  t.match(await turn('POST', '', { ...opening, id: 't2', prompt: { keep: null } }), { status: 400 });
  t.match(await turn('GET', '/t1/prompt?compactAfter=5&keep=2'), { status: 200 });
  t.match(await turn('POST', '/t1/prompt', { compactAfter: 5, keep: 2 }), { status: 200 });
});

t.test('a veto in each place, by a plugin and by a required plugin that fails', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const vetoed = await turn('POST', '', { id: 't1', text: 'a bomb', trigger: 'user' });
  const no = { action: 'cancel', reason: 'no bombs', cancelledBy: `guard-${fixture.account}`, isFinal: true };
  t.match(vetoed, { status: 201, body: { ...no, state: 'vetoed', message: null } });
  const repeated = await turn('POST', '', { id: 't1', text: 'a bomb', trigger: 'user' });
  t.ok(vetoed.body.endedAt);
  t.same({ ...repeated.body, lease: null }, { ...vetoed.body, lease: null }, 'the same answer');
  t.equal((await fixture.readLog('inbound')).length, 1, 'a veto is not asked for again');
  for (const [method, path, body] of [
    ['GET', '/t1/prompt', undefined],
    ['POST', '/t1/calls/c', { name: 'x' }],
    ['POST', '/t1/output', { text: 'x' }],
    ['POST', '/t1/end', {}],
  ] as const)
    t.match(await turn(method, path, body), { status: 409, body: { code: 'cancelled', detail: /no bombs/ } }, path);
  t.match(await transcript(fixture, session), [{ role: 'notice', text: /no bombs/ }], 'one notice, no message');

  await turn('POST', '', { id: 't2', text: 'hello', trigger: 'user' });
  const secret = await turn('POST', '/t2/output', { id: 'o1', text: 'a secret' });
  t.match(secret.body, { action: 'cancel', isFinal: true, reason: 'no secrets', show: '', state: 'vetoed' });
  t.match((await turn('POST', '/t2/output', { id: 'o1', text: 'a secret' })).body, { action: 'cancel', show: '' });
  t.match((await turn('POST', '/t2/end', { text: 'my secret' })).body, { action: 'cancel', state: 'open' });
  t.match((await turn('POST', '/t2/end', { text: 'other words' })).body, { action: 'continue', state: 'ended' });
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role !== 'notice').map(({ text }) => text),
    ['hello', 'other words'],
  );

  const code = `
    middleware.inboundMessage = (ctx) => { if (ctx.settings.fails === 'inboundMessage') throw new Error('x'); };
    middleware.outboundMessage = (ctx) => { if (ctx.settings.fails === 'outboundMessage') throw new Error('x'); };
    middleware.systemPrompt = (ctx) => { if (ctx.settings.fails === 'systemPrompt') throw new Error('x'); return ctx.systemPrompt; };
    compaction.summarize = (ctx) => { if (ctx.settings.fails === 'compaction') throw new Error('x'); return 'short'; };`;
  const required = await fixture.install({
    slug: `strict-${fixture.account}`,
    code,
    settings: { fails: 'inboundMessage' },
    required: true,
  });
  const failAt = async (hook: string) => {
    await fixture.pool.query('UPDATE installations SET settings = $2, updated_at = clock_timestamp() WHERE id = $1', [
      required.installationId,
      JSON.stringify({ fails: hook }),
    ]);
    await fixture.notify(required.installationId);
  };
  const stopped = { action: 'cancel', cancelledBy: `strict-${fixture.account}`, isFinal: false };
  const open = () => turn('POST', '', { id: 't3', text: 'hello again', trigger: 'user' });
  t.match((await open()).body, { ...stopped, state: 'judging', message: null });
  t.match(await turn('GET', '/t3/prompt'), { status: 409, body: { code: 'cancelled' } }, 'nothing unjudged goes on');
  await failAt('systemPrompt');
  t.match((await open()).body, { action: 'continue', state: 'open' }, 'the same id may pass later');
  const countNotices = async (hook: string) =>
    (await transcript(fixture, session)).filter(({ data }) => data && 'hook' in data && data.hook === hook).length;
  for (let attempt = 0; attempt < 3; attempt += 1)
    t.match((await turn('GET', '/t3/prompt')).body, { ...stopped, systemPrompt: '', messages: [], tools: [] });
  t.equal(await countNotices('middleware.systemPrompt'), 1, 'one notice, however often the prompt is requested');
  await failAt('compaction');
  for (let attempt = 0; attempt < 3; attempt += 1)
    t.match((await turn('GET', '/t3/prompt?compactAfter=1&keep=0')).body, { ...stopped, messages: [] });
  t.equal(await countNotices('compaction.summarize'), 1);
  await failAt('outboundMessage');
  t.match((await turn('POST', '/t3/output', { id: 'o2', text: 'hi' })).body, { ...stopped, show: '', state: 'open' });
  t.match((await turn('POST', '/t3/end', { text: 'hi' })).body, { ...stopped, state: 'open' });
  await failAt('');
  t.match((await turn('POST', '/t3/output', { id: 'o2', text: 'hi' })).body, { action: 'continue', show: 'hi' });
  t.match((await turn('POST', '/t3/end', {})).body, { state: 'ended', replyId: 'o2' });
});

soakTest(t, 'a turn whose message no required plugin has judged is opened as the last request says', async (t) => {
  const fixture = shared.withNewAccount();
  const { installationId } = await fixture.install({
    slug: `strict-${fixture.account}`,
    code: `middleware.inboundMessage = (ctx) => { if (ctx.settings.fails) throw new Error('x'); };`,
    settings: { fails: 'yes' },
    required: true,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const open = (request: object) => turn('POST', '', { id: 't1', trigger: 'user', prompt: true, ...request });
  const first = { text: 'one', systemPrompt: 'Be brief.', model: 'small', leaseSeconds: 600 };
  t.match((await open(first)).body, { action: 'cancel', isFinal: false, state: 'judging' });
  await fixture.pool.query(`UPDATE installations SET settings = '{}', updated_at = clock_timestamp() WHERE id = $1`, [
    installationId,
  ]);
  await fixture.notify(installationId);
  const last = { text: 'two', systemPrompt: 'Be thorough.', model: 'large', leaseSeconds: 60 };
  const prompt = { systemPrompt: 'Be thorough.', model: 'large', messages: [{ text: 'two' }] };
  t.match((await open(last)).body, { action: 'continue', message: { text: 'two' }, prompt });
  await expireLease(fixture, session);
  t.match((await turn('GET', '/t1/prompt')).body, { systemPrompt: 'Be thorough.', model: 'large' });
  const { lease } = (await turn('GET', '/t1')).body.turn;
  t.ok(Date.parse(lease.until) < Date.now() + 300_000, 'its lease is as long, too');
});

t.test('every tool call is judged before it runs, and its result before the agent reads it', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `adder-${fixture.account}`;
  const name = `${slug}__add`;
  await fixture.install({ slug, code: ADDER });
  const judge = await fixture.install({
    slug: `judge-${fixture.account}`,
    settings: { fails: '' },
    required: true,
    code: `
      middleware.toolCall = ({ call, cancel, settings, trigger }) => {
        if (settings.fails === 'call') throw new Error('x');
        host.log('call', { text: call.id + ' ' + call.name, trigger });
        if (call.arguments.a === 4) cancel('no fours');
        if (call.arguments.a === 5) return { call: { arguments: { a: 50 } } };
        if (call.arguments.a === 6) return { call: { arguments: { a: 'six' } } };
      };
      middleware.toolResult = ({ call, result, cancel, settings }) => {
        if (settings.fails === 'result') throw new Error('x');
        host.log('result', { text: call.id + ' ' + JSON.stringify(call.arguments) + ' ' + result.content[0].text });
        if (result.content[0].text === '8') cancel('eight is private');
        if (result.content[0].text === '9') return { result: { content: [{ type: 'text', text: 'nine' }] } };
        if (result.content[0].text === '10') return { result: { content: [{ type: 'text', text: 'x'.repeat(300_000) }] } };
      };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const call = async (id: string, a: number) => {
    const { status, body } = await turn('POST', `/t1/calls/${id}`, { name, arguments: { a } });
    return { status, isError: body.isError, text: body.content?.[0]?.text };
  };
  const readTexts = async (message: string) => (await fixture.readLog(message)).map(({ text }) => text);
  t.match(await call('c1', 1), { isError: false, text: '2' });
  t.match(await fixture.readLog('call'), [{ text: `c1 ${name}`, trigger: 'agent' }]);
  t.match(await call('c4', 4), { status: 200, isError: true, text: /judge-.* cancelled the operation: no fours/ });
  t.match(await call('c4', 4), { isError: true, text: /no fours/ });
  t.equal((await readTexts('call')).length, 2, 'a repeated call is not judged again');
  t.match(await call('c5', 5), { isError: false, text: '51' });
  t.match(
    await call('c6', 6),
    { isError: true, text: 'arguments.a must be number.' },
    'changed arguments are checked, too',
  );
  t.match(await call('c7', 7), {
    isError: true,
    text: /The tool ran, but judge-.* withheld its result: eight is private/,
  });
  t.match(await call('c8', 8), { isError: false, text: 'nine' });
  t.match(await call('c9', 9), { isError: true, text: /returned more than 262144 bytes/ });
  t.match(await call('c13', 13), { isError: true, text: 'unlucky' });
  t.same(
    await readTexts('result'),
    [
      'c1 {"a":1} 2',
      'c5 {"a":50} 51',
      'c6 {"a":"six"} arguments.a must be number.',
      'c7 {"a":7} 8',
      'c8 {"a":8} 9',
      'c9 {"a":9} 10',
      'c13 {"a":13} unlucky',
    ],
    'the arguments are those that the tool got, and what it threw or refused is a result',
  );
  t.match(await fixture.call('POST', `/sessions/${session}/tools/${name}`, { arguments: { a: 4 } }), {
    status: 200,
    body: { isError: true, content: [{ text: /no fours/ }] },
  });
  const kept = await transcript(fixture, session);
  t.match(
    kept.filter(({ role }) => role === 'tool').find(({ data }) => (data as { callId: string }).callId === 'c5'),
    { text: '51', data: { arguments: { a: 50 } } },
  );
  t.notMatch(JSON.stringify(kept), /"text":"8"/, 'a withheld result is nowhere');

  const failAt = async (hook: string) => {
    await fixture.pool.query('UPDATE installations SET settings = $2, updated_at = clock_timestamp() WHERE id = $1', [
      judge.installationId,
      JSON.stringify({ fails: hook }),
    ]);
    await fixture.notify(judge.installationId);
  };
  const ran = async () => (await fixture.readLog('added')).length;
  const before = await ran();
  await failAt('call');
  t.match(await call('d1', 1), { status: 200, isError: true, text: /account requires it/ });
  t.match(await turn('GET', '/t1/calls/d1'), { status: 404 }, 'the id stays free');
  t.equal(await ran(), before, 'and the tool did not run');
  await failAt('');
  t.match(await call('d1', 1), { isError: false, text: '2' });
  await failAt('result');
  t.match(await call('d2', 1), {
    isError: true,
    text: /The tool ran, but its result is withheld: .*account requires it\. See the plugin’s log/,
  });
  await failAt('');
  t.match(await call('d2', 1), { isError: true }, 'it ran, and does not run again');
  await refuseNotices(fixture, session);
  t.match(await call('d3', 7), { isError: true, text: /ran, but plugins could not judge its result/ });
  const judged = (await readTexts('call')).length;
  t.match(await call('d3', 7), { isError: true, text: /ran, but plugins/ }, 'also where the host failed');
  t.equal((await readTexts('call')).length, judged);
  const { coverage } = (await fixture.call('GET', `/sessions/${session}/hooks`)).body;
  t.match(
    coverage.filter(({ name }: { name: string }) => name.startsWith('tool')),
    [{ name: 'toolCall', asked: 13 }, { name: 'toolResult' }],
  );
});

soakTest(t, 'what a plugin says of a call that it cancels is judged by the others, like any result', async (t) => {
  const fixture = shared.withNewAccount();
  const name = `notes-${fixture.account}__read`;
  await fixture.install({
    slug: `notes-${fixture.account}`,
    code: `tools.read = { description: 'Reads', parameters: { type: 'object' }, handler: () => 'SECRET' };`,
  });
  await fixture.install({
    slug: `early-${fixture.account}`,
    code: `middleware.toolCall = ({ call, cancel }) => { if (call.id === 'c1') cancel('SECRET'); };
      middleware.toolResult = ({ call, result, cancel }) => { if (call.id !== 'c1') cancel(call.id + result.content[0].text); };`,
  });
  await fixture.install({
    slug: `guard-${fixture.account}`,
    required: true,
    code: `middleware.toolResult = ({ call, result, cancel }) => {
      const [{ text }] = result.content;
      if (call.id === 'c3') return { result: { content: [{ type: 'text', text: text.replace('SECRET', 'it') }] } };
      if (text.includes('SECRET')) cancel('no SECRET');
    };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const call = async (id: string) => (await turn('POST', `/t1/calls/${id}`, { name, arguments: {} })).body;
  const explained = (text: RegExp) => ({ isError: true, content: [{ text }] });
  const withheld = /early-.*: another plugin withheld its reason$/;
  t.match(await call('c1'), explained(withheld), 'the reason of a call that did not run');
  t.match(await call('c2'), explained(withheld), 'the reason of a result');
  t.match(await call('c3'), explained(/withheld its result: c3it$/), 'a changed reason');
  const own = await fixture.call('POST', `/sessions/${session}/tools/${name}`, { callId: 'c1', arguments: {} });
  t.match(own.body, explained(withheld), 'outside a turn');
  const texts = (await transcript(fixture, session)).filter(({ role }) => role === 'tool').map(({ text }) => text);
  t.equal(texts.length, 3);
  t.notMatch(texts.join(), /SECRET/);
});

t.test('two runtimes: one holds a turn, and the other gets it when the lease has expired', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const [one, two] = [asRuntime(fixture, session, 'one'), asRuntime(fixture, session, 'two')];
  const opening = { id: 't1', text: 'hello', trigger: 'user' };
  const both = await Promise.all([one('POST', '', opening), two('POST', '', opening)]);
  t.same(both.map(({ status }) => status).sort(), [201, 409], 'one of two gets it');
  t.equal((await fixture.readLog('inbound')).length, 1, 'and it was judged once');
  const [holder, other, name] = both[0]?.status === 201 ? [one, two, 'one'] : [two, one, 'two'];
  const held = { status: 409, body: { code: 'turn_held', detail: new RegExp(`“${name}” holds this turn until`) } };
  t.match(await other('POST', '', opening), held);
  t.match(await other('GET', '/t1/prompt'), held);
  t.match(await other('POST', '/t1/calls/c', { name: 'x' }), held);
  t.match(await other('POST', '/t1/output', { text: 'x' }), held);
  t.match(await other('POST', '/t1/output', { text: 'x', piece: 0 }), held);
  t.match(await other('POST', '/t1/end', {}), held);
  t.match(await holder('POST', '/t1/output', { id: 'o1', text: 'working on it' }), { status: 200 });
  await expireLease(fixture, session);
  t.match((await other('GET', '/t1')).body, { outputs: [{ id: 'o1', text: 'working on it' }] });
  t.match(await other('GET', '/t1/prompt'), { status: 200 });
  t.match(await holder('POST', '/t1/end', { text: 'too late' }), { status: 409, body: { code: 'turn_held' } });
  t.match(await other('POST', '/t1/end', { text: 'done' }), { status: 200, body: { state: 'ended' } });
  t.match(await holder('POST', '/t1/end', { text: 'done' }), { status: 200, body: { state: 'ended' } }, 'the same end');
  t.same(
    (await transcript(fixture, session)).map(({ text }) => text),
    ['hello', 'working on it', 'done'],
  );
  const unnamed = await fixture.call('POST', `/sessions/${session}/turns`, { ...opening, id: 't2' });
  t.match(unnamed, { status: 201, body: { lease: { runtime: /without a name|token/ } } });
});

t.test('a turn belongs to its runtime for `leaseSeconds` after each step', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const [one, two] = [asRuntime(fixture, session, 'one'), asRuntime(fixture, session, 'two')];
  const tool = { name: 'own', own: true };
  for (const [n, [path, body]] of (
    [
      ['/prompt'],
      ['/calls/c1', tool],
      ['/calls/c1/result', { content: [] }],
      ['/output', { id: 'o', text: 'so far' }],
      ['/output', { id: 'o', piece: 0, text: 'so far' }],
    ] as const
  ).entries())
    for (const passed of n === 0 ? [1, 24, 26, 49, 51, 99] : PASSED) {
      const id = `${n} ${passed}`;
      await one('POST', '', { id, text: 'hello', trigger: 'user', leaseSeconds: 100 });
      if (path.endsWith('result')) await one('POST', `/${id}/calls/c1`, tool);
      else await one('GET', `/${id}/prompt`);
      await letLeasePass(fixture, session, passed);
      const step = body ? { ...body, ...('id' in body ? { id: `${id} o` } : {}) } : undefined;
      const begun = Date.now();
      const { status } = await one(step ? 'POST' : 'GET', `/${id}${path}`, step);
      t.ok(status < 300, `${path}: ${status}`);
      const { lease } = (await one('GET', `/${id}`)).body.turn;
      // Each bound counts from the end of the step that a slow machine moves away from it.
      const [least, most] = [begun, Date.now()].map((at) => (Date.parse(lease.until) - at) / 1_000) as [number, number];
      t.ok(least > 99 && most < 151, `${path} after ${passed} s: the lease ends in ${most} to ${least} s`);
      await letLeasePass(fixture, session, 90);
      const held = { status: 409, body: { code: 'turn_held' } };
      t.match(await two('GET', `/${id}/prompt`), held, `${path} after ${passed} s`);
      await letLeasePass(fixture, session, 61);
      t.match(await two('GET', `/${id}/prompt`), { status: 200 });
    }
});

soakTest(t, 'a turn belongs to its runtime while a step runs, and afterwards', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `slow-${fixture.account}`;
  // Longer than a lease can last without a renewal: 6 s of the call, and 1.5 s of the message, whose hook has 5 s.
  const code = `const wait = async (ms) => {
      await new Promise((resolve) => setTimeout(resolve, ms));
      host.log('waited', { at: Date.now() });
    };
    tools.wait = { description: 'Waits', parameters: { type: 'object' },
      handler: async () => { host.log('waiting'); await wait(6_500); return 'done'; } };
    middleware.inboundMessage = ({ message }) => message.text === 'slow' ? wait(2_200) : undefined;`;
  await fixture.install({ slug, code });
  const session = await fixture.session();
  const [one, two] = [asRuntime(fixture, session, 'one'), asRuntime(fixture, session, 'two')];
  await one('POST', '', { trigger: 'user', leaseSeconds: 4, id: 't1', text: 'hello' });
  let isRunning = true;
  const call = one('POST', '/t1/calls/c1', { name: `${slug}__wait` }).finally(() => {
    isRunning = false;
  });
  await eventually(async () => (await fixture.readLog('waiting')).length === 1);
  const held = { status: 409, body: { code: 'turn_held' } };
  while (isRunning) {
    t.match(await two('GET', '/t1/prompt'), held);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  t.match(await call, { status: 200, body: { isError: false } });
  const readLease = async (id: string): Promise<string> => (await one('GET', `/${id}`)).body.turn.lease.until;
  /** What is left of a lease when the plugin has waited, milliseconds. */
  const measureLeft = async (until: string) => Date.parse(until) - (await fixture.readLog('waited')).at(-1).at;
  const leftOfCall = await measureLeft(await readLease('t1'));
  // The last renewal may have been late.
  t.ok(leftOfCall > 3_000, `of the lease of 4 s ${leftOfCall} ms are left`);
  const late = [{ id: 'late', role: 'user', text: 'slow' }];
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: late });
  const { lease } = (await one('POST', '', { trigger: 'user', leaseSeconds: 1, id: 'late' })).body;
  const leftOfMessage = await measureLeft(lease.until);
  t.ok(leftOfMessage >= 1_000, `of the lease of 1 s ${leftOfMessage} ms are left after a longer judgement`);
  t.equal(lease.until, await readLease('late'));
});

soakTest(t, 'a turn is opened again without its text, also with another prompt and model', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const [one, two] = [asRuntime(fixture, session, 'one'), asRuntime(fixture, session, 'two')];
  const opening = {
    id: 't1',
    from: 'bob',
    text: 'pay with 4111',
    trigger: 'user',
    systemPrompt: 'Be brief.',
    model: 'm1',
  };
  const opened = (await one('POST', '', opening)).body;
  const readPrompt = async (runtime: Runtime) => (await runtime('GET', '/t1/prompt')).body;
  t.match(await one('POST', '', { id: 't1', trigger: 'user' }), {
    status: 201,
    body: { action: 'continue', state: 'open', message: opened.message },
  });
  t.match(await readPrompt(one), { systemPrompt: 'Be brief. Be kind.', model: 'm1' }, 'what it omits stays');
  const reused = { status: 409, body: { code: 'id_reused' } };
  const newer = { systemPrompt: 'Be thorough.', model: 'm2' };
  t.match(await one('POST', '', { id: 't1', trigger: 'agent', ...newer }), reused);
  t.match(await one('POST', '', { ...opening, text: 'other', ...newer }), reused);
  t.match(await two('POST', '', { id: 't1', trigger: 'user', ...newer }), { body: { code: 'turn_held' } });
  t.match(await readPrompt(one), { systemPrompt: 'Be brief. Be kind.', model: 'm1' }, 'refused, it changes nothing');
  await expireLease(fixture, session);
  const { prompt } = (await two('POST', '', { id: 't1', trigger: 'user', prompt: true, ...newer })).body;
  t.match(prompt, { systemPrompt: 'Be thorough. Be kind.', model: 'm2', messages: [{ text: 'pay with [card]' }] });
  t.match((await two('POST', '', { ...opening, ...newer, systemPrompt: 'Be kind.' })).status, 201);
  t.match(await readPrompt(two), { systemPrompt: 'Be kind. Be kind.', model: 'm2' });
  t.equal((await fixture.readLog('inbound')).length, 1, 'its message is not judged again');
  await two('POST', '/t1/end', {});
  t.match((await two('POST', '', { id: 't1', trigger: 'user' })).body, { state: 'ended', message: opened.message });
});

t.test('a message that is sent twice at once is judged once', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const many = async (method: 'POST', path: string, body: unknown) => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => turn(method, path, body)));
    const bodies = replies.map(({ body }) => JSON.stringify({ ...body, lease: null }));
    t.equal(new Set(bodies).size, 1, `${path}: ${bodies[0]}`);
  };
  await many('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await many('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } });
  await many('POST', '/t1/output', { id: 'o1', text: 'hi' });
  await many('POST', '/t1/end', { text: 'bye' });
  t.equal((await fixture.readLog('inbound')).length, 1);
  t.equal((await fixture.readLog('outbound')).length, 2);
  t.equal((await fixture.readLog('added')).length, 1);
  t.equal((await transcript(fixture, session)).length, 4);
});

t.test('pieces are shown at once without a guard, and as a whole with one', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const send = async (id: string, piece: number, text: string, done = false) =>
    (await turn('POST', '/t1/output', { id, piece, text, done })).body;
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  t.match(await send('o1', 0, 'one '), { show: 'one ', state: 'open' });
  t.match(await send('o1', 0, 'one '), { show: 'one ' }, 'again');
  t.match(await send('o1', 0, 'else'), { code: 'id_reused' });
  t.match(await send('o1', 2, 'three'), { code: 'bad_request', detail: /piece: must be 1/ });
  t.match(await send('o1', 1, 'two', true), { show: 'two', state: 'passed' });
  t.match(await send('o1', 1, 'two', true), { show: 'two', state: 'passed' }, 'again');
  t.match(await send('o9', 1, 'x'), { detail: /must be 0/ });
  t.match(await send('o1', 0, 'one '), { code: 'id_reused', detail: /is complete: its pieces are not kept/ });
  const sendWithoutId = async (piece: number, text: string, done = false) =>
    (await turn('POST', '/t1/output', { piece, text, done })).body;
  t.match(await sendWithoutId(0, 'no id', true), { id: 't1:streamed', show: 'no id', state: 'passed' });
  t.match(await sendWithoutId(0, 'another'), { code: 'id_reused', detail: /Pieces without an `id` are of one output/ });

  t.match(await send('o2', 0, 'before '), { show: 'before ' });
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  t.match(await send('o2', 1, 'it came '), { show: '' }, 'a plugin was installed meanwhile');
  t.match(await send('o2', 2, 'fine', true), { show: 'it came fine', state: 'passed' });
  t.match(await send('o2', 2, 'fine', true), { show: 'it came fine' }, 'again');

  t.match(await send('o3', 0, 'a '), { show: '' });
  t.match(await send('o3', 1, 'darn '), { show: '' });
  t.match(await send('o3', 2, 'day', true), { show: 'a [bleep] day', state: 'passed' });
  t.match(await send('o4', 0, 'a sec'), { show: '' });
  t.match(await send('o4', 1, 'ret', true), { show: '', action: 'cancel', state: 'vetoed' }, 'across pieces');
  t.match(await send('o4', 1, 'ret', true), { show: '', action: 'cancel', state: 'vetoed' }, 'again');
  t.match(await send('o5', 0, 'never ended'), { show: '' });
  t.match(await turn('POST', '/t1/end', {}), { body: { state: 'ended', replyId: 'o5' } });
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role === 'assistant').map(({ text }) => text),
    ['one two', 'no id', 'before it came fine', 'a [bleep] day', 'never ended'],
  );
  t.equal((await fixture.pool.query('SELECT 1 FROM turn_pieces WHERE session_id = $1', [session])).rowCount, 0);
});

t.test('pieces are judged and shown one by one while all guards stream', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `stream-${fixture.account}`;
  const code = `middleware.outboundMessage = { stream: true, handler: ({ message: { text }, partial, cancel }) => {
    host.log('piece', { text: (partial ? partial.before : 'WHOLE') + '|' + text + (partial?.done ? '.' : '') });
    if (text.includes('secret')) cancel('that is secret');
    return { message: { text: text.replace('darn', '[bleep]') } };
  } };`;
  await fixture.install({ slug, code });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const send = async (id: string, piece: number, text: string, done = false) =>
    (await turn('POST', '/t1/output', { id, piece, text, done })).body;
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  t.match((await turn('GET', '/t1/prompt')).body, { outbound: 'pieces' });
  t.match(await send('o1', 0, 'A darn. '), { show: 'A [bleep]. ', state: 'open' });
  t.match(await send('o1', 0, 'A darn. '), { show: 'A [bleep]. ' }, 'again');
  t.match(await send('o1', 0, 'else'), { code: 'id_reused' });
  t.match(await send('o1', 1, 'day.', true), {
    show: 'day.',
    state: 'passed',
    judgement: { outcome: 'changed', asked: 1, by: [slug] },
  });
  t.match(await send('o1', 1, 'day.', true), { show: 'day.', state: 'passed' }, 'again');
  t.match(await send('o2', 0, 'Fine. '), { show: 'Fine. ' });
  const vetoed = { show: '', action: 'cancel', isFinal: true, cancelledBy: slug, state: 'vetoed' };
  t.match(await send('o2', 1, 'A secret. '), vetoed);
  t.match(await send('o2', 1, 'A secret. '), vetoed, 'again');
  t.match(await send('o2', 2, 'More.', true), { code: 'id_reused' });
  t.match(await send('o3', 0, 'Never ended. '), { show: 'Never ended. ' });
  const whole = await turn('POST', '/t1/output', { id: 'o4', text: 'A darn whole.' });
  t.match(whole.body, { show: 'A [bleep] whole.' });
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  t.match((await turn('GET', '/t1/prompt')).body, { outbound: 'whole' });
  t.match(await send('o3', 1, 'Held. '), { show: '' }, 'a plugin that does not stream was installed meanwhile');
  t.match(await turn('POST', '/t1/end', {}), { body: { state: 'ended', replyId: 'o4' } });
  t.same(
    (await fixture.readLog('piece')).map(({ text }) => text),
    [
      '|A darn. ',
      'A [bleep]. |day..',
      '|Fine. ',
      'Fine. |A secret. ',
      '|Never ended. ',
      'WHOLE|A darn whole.',
      'WHOLE|Never ended. Held. ',
    ],
  );
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role === 'assistant').map(({ text }) => text),
    ['A [bleep]. day.', 'A [bleep] whole.', 'Never ended. Held. '],
  );
});

t.test('a guard that is required while a text is streamed judges the pieces before, too', async (t) => {
  const fixture = shared.withNewAccount();
  const [slug, guard] = [`old-${fixture.account}`, `new-${fixture.account}`];
  await fixture.install({ slug, code: `middleware.outboundMessage = { stream: true, handler: () => {} };` });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const send = async (id: string, piece: number, text: string, done = false) =>
    (await turn('POST', '/t1/output', { id, piece, text, done })).body;
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  for (const id of ['o1', 'o2']) t.match(await send(id, 0, 'A secret. '), { show: 'A secret. ' });
  t.match(await send('o3', 0, 'A word. '), { show: 'A word. ' });
  const code = `middleware.outboundMessage = { stream: true, handler: ({ message: { text }, partial, cancel }) => {
    host.log('piece', { text, isPiece: partial !== undefined });
    if (text.includes('secret')) cancel('that is secret');
  } };`;
  await fixture.install({ slug: guard, code, required: true });
  const vetoed = { show: '', action: 'cancel', isFinal: true, cancelledBy: guard, state: 'vetoed' };
  t.match(await send('o1', 1, 'More.', true), vetoed);
  t.match(await send('o1', 1, 'More.', true), vetoed, 'again');
  t.match(await send('o3', 1, 'More.', true), { show: 'More.', state: 'passed' });
  t.match((await turn('POST', '/t1/end', {})).body, { state: 'ended', replyId: 'o3' }, 'completes the open output');
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role === 'assistant').map(({ text }) => text),
    ['A word. More.'],
  );
  t.same(
    (await fixture.readLog('piece')).filter(({ isPiece }) => !isPiece).map(({ text }) => text),
    ['A secret. More.', 'A word. More.', 'A secret. '],
  );
});

t.test('a required guard that streams and fails lets no piece out; the piece may be sent again', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `moody-${fixture.account}`;
  const code = `let calls = 0;
    middleware.outboundMessage = { stream: true, handler: () => { calls += 1; if (calls === 1) throw new Error('x'); } };`;
  await fixture.install({ slug, code, required: true });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const first = { id: 'o1', piece: 0, text: 'One. ' };
  const stopped = { show: '', action: 'cancel', isFinal: false, cancelledBy: slug, state: 'open' };
  t.match((await turn('POST', '/t1/output', first)).body, stopped);
  t.match((await turn('POST', '/t1/output', first)).body, { show: 'One. ', action: 'continue' });
  const last = { id: 'o1', piece: 1, text: 'Two.', done: true };
  t.match((await turn('POST', '/t1/output', last)).body, { show: 'Two.', state: 'passed' });
});

soakTest(t, 'the judged pieces of a text have together no more characters than a text may have', async (t) => {
  const JUDGED_CHARS = 200_000;
  const code = `middleware.outboundMessage = { stream: true, handler: ({ message: { text } }) => {
    if (text.length === 1) return { message: { text: '一'.repeat(${JUDGED_CHARS}) } };
  } };`;
  const long = '一'.repeat(JUDGED_CHARS);
  const start = async (required: boolean) => {
    const fixture = shared.withNewAccount();
    const slug = `long-${fixture.account}`;
    const { accountId } = await fixture.install({ slug, code, required });
    const session = await fixture.session();
    const turn = asRuntime(fixture, session, 'r1');
    await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
    const send = async (piece: number, text: string, done = false) =>
      (await turn('POST', '/t1/output', { id: 'o1', piece, text, done })).body;
    return { fixture, accountId, slug, session, turn, send };
  };
  const readUsed = async (accountId: string): Promise<number> => {
    const { rows } = await shared.pool.query(
      `SELECT usage_bytes($1, 'transcripts')::int AS used, (SELECT sum(stored_bytes)::int FROM stored_rows
         WHERE account_id = $1 AND kind = 'transcripts') AS stored`,
      [accountId],
    );
    t.equal(rows[0].used, rows[0].stored, 'as the rows are');
    return rows[0].used;
  };
  const optional = await start(false);
  const before = await readUsed(optional.accountId);
  t.match(await optional.send(0, 'a'), { show: long, state: 'open' });
  t.ok((await readUsed(optional.accountId)) - before > 3 * JUDGED_CHARS, 'a judged piece counts');
  t.match(await optional.send(1, 'b'), { show: 'b', state: 'open' }, 'as if the plugin had failed');
  const field = { code: 'bad_request', errors: [{ field: 'text' }] };
  t.match(await optional.send(2, 'c'.repeat(TEXT_MAX_CHARS - JUDGED_CHARS)), field, 'with the judged text before it');
  t.match(await optional.send(2, 'd', true), { show: 'd', state: 'passed' }, 'as if the plugin had failed');
  const replies = (await transcript(optional.fixture, optional.session)).filter(({ role }) => role === 'assistant');
  t.same(
    replies.map(({ text }) => text === `${long}bd`),
    [true],
  );
  const afterPieces = await readUsed(optional.accountId);
  const url = `https://example.com/${'x'.repeat(4_000)}`;
  const attachments = Array.from({ length: 50 }, () => ({ name: 'f', mediaType: 'text/plain', url }));
  await optional.turn('POST', '/t1/output', { id: 'o2', text: 'See these.', attachments });
  const added = (await readUsed(optional.accountId)) - afterPieces;
  t.ok(added > 2 * JSON.stringify(attachments).length, 'files count for the message and the output');

  const required = await start(true);
  t.match(await required.send(0, 'a'), { show: long, state: 'open' });
  const reason = new RegExp(`message.text has ${JUDGED_CHARS} characters, and the message has room for 62144`);
  const stopped = { show: '', action: 'cancel', isFinal: false, cancelledBy: required.slug, state: 'open', reason };
  t.match(await required.send(1, 'b'), stopped);
  t.match(await required.send(1, 'b', true), stopped, 'the last piece');
  const { rows } = await required.fixture.pool.query(
    'SELECT sum(length(judged_text))::int AS chars FROM turn_pieces WHERE account_id = $1',
    [required.accountId],
  );
  t.same(rows, [{ chars: JUDGED_CHARS }]);
});

t.test('a turn stays open while a required guard cannot judge what was streamed', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `tired-${fixture.account}`;
  const code = `let ends = 0;
    middleware.outboundMessage = { stream: true, handler: ({ partial }) => { if (partial.done && ++ends === 1) throw new Error('x'); } };`;
  await fixture.install({ slug, code, required: true });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  t.match((await turn('POST', '/t1/output', { id: 'o1', piece: 0, text: 'Shown. ' })).body, { show: 'Shown. ' });
  const stopped = { state: 'open', action: 'cancel', isFinal: false, cancelledBy: slug, replyId: null };
  t.match(await turn('POST', '/t1/end', {}), { status: 200, body: stopped });
  t.match(await turn('POST', '/t1/end', {}), { body: { state: 'ended', action: 'continue', replyId: 'o1' } });
  t.same(
    (await transcript(fixture, session)).filter(({ role }) => role === 'assistant').map(({ text }) => text),
    ['Shown. '],
  );
});

soakTest(t, 'what was shown before a plugin came cannot be changed by it', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await turn('POST', '/t1/output', { id: 'o1', piece: 0, text: 'darn ' });
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const last = { id: 'o1', piece: 1, text: 'it', done: true };
  const refused = {
    action: 'cancel',
    cancelledBy: `guard-${fixture.account}`,
    show: '',
    state: 'vetoed',
    reason: /already being streamed/,
  };
  t.match((await turn('POST', '/t1/output', last)).body, refused);
  t.match((await turn('POST', '/t1/output', last)).body, refused);
  const whole = { id: 'o2', text: 'darn it', isShown: true };
  t.match((await turn('POST', '/t1/output', whole)).body, refused, 'shown by the runtime');
  const harmless = { id: 'o3', text: 'it is', isShown: true };
  t.match((await turn('POST', '/t1/output', harmless)).body, { show: '', state: 'passed' });
});

t.test('a summary replaces what it covers, once', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `short-${fixture.account}`,
    code: `compaction.summarize = (ctx) => { host.log('summarized'); return ctx.messages.map(({ text }) => text).join('+'); };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const old = ['a', 'b', 'c', 'd'].map((text, at) => ({ id: text, role: at % 2 ? 'assistant' : 'user', text }));
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: old });
  await turn('POST', '', { id: 't1', text: 'e', trigger: 'user' });
  const read = async (query = '') => {
    const { messages } = (await turn('GET', `/t1/prompt${query}`)).body;
    return messages.map(({ role, text }: { role: string; text: string }) => `${role}: ${text}`);
  };
  const whole = ['user: a', 'assistant: b', 'user: c', 'assistant: d', 'user: e'];
  t.same(await read(), whole);
  t.same(await read('?compactAfter=5'), whole);
  const head = 'system: Summary of the conversation so far:\n';
  t.same(await read('?compactAfter=4&keep=2'), [`${head}a+b+c`, 'assistant: d', 'user: e']);
  t.same(await read('?compactAfter=4&keep=2'), [`${head}a+b+c`, 'assistant: d', 'user: e']);
  t.same(await read(), [`${head}a+b+c`, 'assistant: d', 'user: e']);
  t.equal((await fixture.readLog('summarized')).length, 1);
  t.same(await read('?compactAfter=1&keep=1'), [`${head}Summary of the conversation so far:\na+b+c+d`, 'user: e']);
  t.equal((await transcript(fixture, session)).length, 5, 'the transcript keeps everything');
});

t.test('a turn with the id “summary” is opened while the session is summarized', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `short-${fixture.account}`,
    code: `let end;
      compaction.summarize = () => new Promise((resolve) => { end = resolve; host.log('asked'); });
      middleware.inboundMessage = ({ message }) => { if (message.text === 'end it') end('short'); };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const old = ['a', 'b', 'c'].map((text) => ({ id: text, role: 'user', text }));
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: old });
  await turn('POST', '', { id: 't1', text: 'd', trigger: 'user' });
  const prompt = turn('GET', '/t1/prompt?compactAfter=1&keep=1');
  await eventually(async () => (await fixture.readLog('asked')).length === 1);
  t.match((await turn('POST', '', { id: 'summary', text: 'end it', trigger: 'user' })).body, { state: 'open' });
  t.match((await prompt).body.messages[0], { text: /short/ });
});

soakTest(t, 'the prompts of a turn whose summarizer fails add one notice', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `compaction.summarize = () => { throw new Error('x'); };`;
  await fixture.install({ slug: `broken-${fixture.account}`, code });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  for (const id of ['t1', 't2']) {
    await turn('POST', '', { id, text: 'hello', trigger: 'user' });
    // What is summarized ends with another message each time.
    for (const output of ['one', 'two', 'three']) {
      await turn('POST', `/${id}/output`, { id: `${id}-${output}`, text: output });
      const { body } = await turn('GET', `/${id}/prompt?compactAfter=1&keep=1`);
      t.match(body, { action: 'continue', notice: /^No plugin summarized the conversation/ });
    }
  }
  const notices = (await transcript(fixture, session)).filter(({ role }) => role === 'notice');
  t.match(notices[0], { text: /^No plugin summarized/, data: { kind: 'compaction_fallback' } });
  t.equal(notices.length, 2, 'one for each turn');
});

/** Opens a turn of a session with the messages m1, m2 and so on, whose summarizer logs the first and the last message of each request. */
async function startLongConversation(messages: number, keep = 1) {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `short-${fixture.account}`,
    code: `let made = 0;
      compaction.summarize = ({ messages }) => {
        host.log('summarized', { texts: [messages[0].text, messages[1]?.text ?? null, messages.at(-1).text] });
        return 'summary ' + ++made;
      };`,
  });
  const session = await fixture.session();
  const add = (role: string, name: string, count: number) =>
    fixture.pool.query(
      `INSERT INTO session_messages (session_id, account_id, id, role, text)
       SELECT id, account_id, $3 || n, $2, $3 || n FROM sessions, generate_series(1, $4) n WHERE id = $1 ORDER BY n`,
      [session, role, name, count],
    );
  await add('user', 'm', messages);
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'e', trigger: 'user' });
  const readPrompt = async () => (await turn('GET', `/t1/prompt?compactAfter=4&keep=${keep}`)).body;
  const readSummarized = async () => (await fixture.readLog('summarized')).map(({ texts }) => texts);
  return { add, readPrompt, readSummarized };
}

const SUMMARY_HEAD = 'Summary of the conversation so far:\n';

soakTest(
  t,
  'a prompt has the message of its turn and what its model has not read, whatever a summary replaces',
  async (t) => {
    const fixture = shared.withNewAccount();
    await fixture.install({
      slug: `short-${fixture.account}`,
      code: `compaction.summarize = (ctx) => ctx.messages.map(({ text }) => text).join('+');`,
    });
    await fixture.install({ slug: `calc-${fixture.account}`, code: ADDER });
    const session = await fixture.session();
    const turn = asRuntime(fixture, session, 'r1');
    const add = async (from: number, to: number) => {
      for (let a = from; a <= to; a += 1) {
        const call = { name: `calc-${fixture.account}__add`, arguments: { a } };
        t.equal((await turn('POST', `/t1/calls/c${a}`, call)).status, 200);
      }
    };
    const read = async (query: string) => {
      const { messages } = (await turn('GET', `/t1/prompt?${query}`)).body;
      return messages.map(({ role, text }: { role: string; text: string }) => `${role}: ${text}`);
    };
    const summary = `system: ${SUMMARY_HEAD}`;
    await turn('POST', '', { id: 't1', text: 'Which?', trigger: 'user' });
    await add(1, 3);
    await turn('POST', '/t1/output', { id: 'o1', text: 'Now the rest.' });
    await add(4, 8);
    const rest = ['assistant: Now the rest.', ...[5, 6, 7, 8, 9].map((sum) => `tool: ${sum}`)];
    t.same(await read('compactAfter=6'), [`${summary}Which?+2+3+4`, 'user: Which?', ...rest]);
    t.same(await read('compactAfter=1&keep=0'), [`${summary}Which?+2+3+4`, 'user: Which?', ...rest]);
    await turn('POST', '/t1/output', { id: 'o2', text: 'All.' });
    const [head, ...others] = await read('compactAfter=1&keep=0');
    t.match(head, /Now the rest\.\+5\+6\+7\+8\+9\+All\.$/);
    t.same(others, ['user: Which?']);
    t.match(
      (await turn('POST', '', { id: 't2', text: 'Thanks.', trigger: 'user', prompt: true })).body.prompt.messages,
      [{ role: 'system' }, { id: 't2' }],
    );
  },
);

soakTest(t, 'a prompt has the message of its turn although newer messages left no room for it', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'Which?', trigger: 'user' });
  await fixture.pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text)
     SELECT id, account_id, 'm' || n, 'tool', 'm' || n FROM sessions, generate_series(1, 1100) n WHERE id = $1`,
    [session],
  );
  const { messages, isTruncated } = (await turn('GET', '/t1/prompt')).body;
  t.match(messages.slice(0, 2), [{ id: 't1', role: 'user', text: 'Which?' }, { id: 'm101' }]);
  t.match({ length: messages.length, isTruncated }, { length: 1_001, isTruncated: true });
});

soakTest(t, 'messages that are too old for a prompt are summarized before its own', async (t) => {
  const { readPrompt, readSummarized } = await startLongConversation(1_100);
  t.match(await readPrompt(), {
    messages: [{ text: `${SUMMARY_HEAD}summary 2` }, { text: 'e' }],
    isTruncated: false,
  });
  t.same(await readSummarized(), [
    ['m1', 'm2', 'm999'],
    [`${SUMMARY_HEAD}summary 1`, 'm1000', 'm1100'],
  ]);
});

soakTest(t, 'the last messages of a long conversation stay, as many as are asked for', async (t) => {
  const { readPrompt, readSummarized } = await startLongConversation(1_001, 20);
  const { messages, isTruncated } = await readPrompt();
  const kept = Array.from({ length: 19 }, (_, index) => `m${983 + index}`);
  t.same(
    messages.map(({ text }: { text: string }) => text),
    [`${SUMMARY_HEAD}summary 1`, ...kept, 'e'],
  );
  t.equal(isTruncated, false);
  t.same(await readSummarized(), [['m1', 'm2', 'm982']]);
});

soakTest(t, 'results that the model has not read stay, also if their call is too old for the prompt', async (t) => {
  const { add, readPrompt, readSummarized } = await startLongConversation(0);
  await add('assistant', 'calls', 1);
  await add('tool', 'result', 1_001);
  const { messages, isTruncated } = await readPrompt();
  const texts = messages.map(({ text }: { text: string }) => text);
  t.same([texts.length, ...texts.slice(0, 2), texts.at(-1)], [1_001, 'e', 'result2', 'result1001']);
  t.equal(isTruncated, true);
  t.same(await readSummarized(), []);
});

soakTest(
  t,
  'results whose call is too old for the prompt are summarized with it, once the model has read them',
  async (t) => {
    const { add, readPrompt, readSummarized } = await startLongConversation(0, 20);
    await add('assistant', 'calls', 1);
    await add('tool', 'result', 1_100);
    await add('assistant', 'answer', 1);
    t.match(await readPrompt(), {
      messages: [{ text: `${SUMMARY_HEAD}summary 3` }, { text: 'e' }, { text: 'answer1' }],
      isTruncated: false,
    });
    t.same(await readSummarized(), [
      ['e', null, 'e'],
      [`${SUMMARY_HEAD}summary 1`, 'calls1', 'result999'],
      [`${SUMMARY_HEAD}summary 2`, 'result1000', 'result1100'],
    ]);
  },
);

soakTest(t, 'a prompt whose summary lacks older messages says so, and the next one summarizes them', async (t) => {
  const { readPrompt, readSummarized } = await startLongConversation(4_500);
  t.match(await readPrompt(), {
    messages: [{ text: `${SUMMARY_HEAD}summary 3` }, { text: 'e' }],
    isTruncated: true,
  });
  t.match(await readPrompt(), {
    messages: [{ text: `${SUMMARY_HEAD}summary 5` }, { text: 'e' }],
    isTruncated: false,
  });
  t.same(await readSummarized(), [
    ['m1', 'm2', 'm999'],
    [`${SUMMARY_HEAD}summary 1`, 'm1000', 'm1998'],
    [`${SUMMARY_HEAD}summary 2`, 'm1999', 'm2997'],
    [`${SUMMARY_HEAD}summary 3`, 'm2998', 'm3996'],
    [`${SUMMARY_HEAD}summary 4`, 'm3997', 'm4500'],
  ]);
});

t.test('a message of a channel is answered without a second judgement, and the reply is sent once', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  await fixture.install({
    slug: `reader-${fixture.account}`,
    code: `middleware.outboundMessage = ({ target }) => { host.log('judged', { target }); };`,
  });
  const desk = await fixture.install({
    slug: `desk-${fixture.account}`,
    code: `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'v', text: 'pay 4111' }] });
      channel.send = (message) => { host.log('sent', { text: message.text }); };`,
  });
  await deliver(fixture, desk, await connect(fixture, desk), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const [message] = await eventually(async () => {
    const found = await transcript(fixture, session);
    return found.length > 0 ? found : undefined;
  });
  const id = message?.id ?? '';
  const turn = asRuntime(fixture, session, 'r1');
  const at = `/${encodeURIComponent(id)}`;
  t.match(await turn('POST', '', { id, trigger: 'channel' }), {
    status: 201,
    body: { message: { id, from: 'v', text: 'pay [card]', judgement: { by: [`guard-${fixture.account}`] } } },
  });
  t.equal((await fixture.readLog('inbound')).length, 1, 'the channel’s own judgement');
  for (const _ of [1, 2])
    t.match(await turn('POST', `${at}/end`, { text: 'thanks', target: 'audit' }), { body: { state: 'ended' } });
  t.same(await fixture.readLog('judged'), [{ target: 'k' }], 'its real recipient');
  await eventually(async () => (await fixture.readLog('sent')).length > 0);
  t.same(await fixture.readLog('sent'), [{ text: 'thanks' }]);
  t.equal(
    (
      await fixture.pool.query(`SELECT 1 FROM deliveries WHERE direction = 'out' AND installation_id = $1`, [
        desk.installationId,
      ])
    ).rowCount,
    1,
  );
  // As after the last attempt that the vendor refused.
  await fixture.pool.query(`UPDATE deliveries SET state = 'dead' WHERE direction = 'out' AND installation_id = $1`, [
    desk.installationId,
  ]);
  t.match((await transcript(fixture, session)).at(-1), {
    role: 'notice',
    text: /could not be delivered/,
    data: { kind: 'delivery_failed' },
  });
});

soakTest(t, 'a turn ends with a text that an earlier output has, and the channel gets it', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const desk = await fixture.install({
    slug: `desk-${fixture.account}`,
    code: `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'v', text: 'go' }] });
      channel.send = (message) => { host.log('sent', { text: message.text }); };`,
  });
  await deliver(fixture, desk, await connect(fixture, desk), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const id = await eventually(async () => (await transcript(fixture, session))[0]?.id);
  const turn = asRuntime(fixture, session, 'r1');
  const at = `/${encodeURIComponent(id)}`;
  await turn('POST', '', { id, trigger: 'channel' });
  const first = (await turn('POST', `${at}/output`, { text: 'Done.' })).body;
  await turn('POST', `${at}/output`, { text: 'One more thing' });
  t.match((await turn('POST', `${at}/output`, { text: 'Done.' })).body, { id: first.id }, 'another output needs an id');
  during.set('turn.output-saved', () => Promise.reject(new Error('as if it were killed here')));
  t.equal((await turn('POST', `${at}/end`, { text: 'Done.' })).status, 500);
  for (const _ of [1, 2]) t.match((await turn('POST', `${at}/end`, { text: 'Done.' })).body, { state: 'ended' });
  t.same(
    (await transcript(fixture, session)).map(({ text }) => text),
    ['go', 'Done.', 'One more thing', 'Done.'],
  );
  t.equal((await fixture.readLog('outbound')).length, 3, 'the repeated end judges nothing again');
  await eventually(async () => (await fixture.readLog('sent')).length > 0);
  t.same(await fixture.readLog('sent'), [{ text: 'Done.' }]);

  const other = asRuntime(fixture, await fixture.session(), 'r1');
  await other('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await other('POST', '/t1/output', { id: 'o1', text: 'Let me look.' });
  const last = (await other('POST', '/t1/output', { text: 'Done.' })).body;
  t.equal((await other('POST', '/t1/output', { text: 'Hmm' })).body.show, '', 'not in the transcript');
  t.equal((await other('POST', '/t1/end', { text: 'Done.' })).body.replyId, last.id, 'the same message');
});

t.test('messages that wait for an answer are listed, until their turns are over', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const messages = ['m1', 'm2', 'a bomb'].map((text) => ({ id: text, role: 'user', text }));
  await fixture.call('POST', `/sessions/${session}/messages`, {
    messages: [...messages, { role: 'assistant', text: 'x' }],
  });
  await turn('POST', '', { id: 'own', text: 'of a runtime that opened its turn with it', trigger: 'user' });
  const list = async (runtime: string, query = '') => {
    const url = `/sessions/unanswered${query}`;
    const headers = {
      authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}`,
      'bulkhead-runtime': runtime,
    };
    const { items, nextCursor } = (await fixture.app.inject({ method: 'GET', url, headers })).json();
    return { ids: items.map(({ message }: { message: { id: string } }) => message.id), nextCursor };
  };
  t.same((await list('r1')).ids, ['m1', 'm2', 'a bomb']);
  const { ids, nextCursor } = await list('r1', '?limit=2&agentId=agent-1');
  t.same(ids, ['m1', 'm2']);
  t.same(await list('r1', `?limit=2&cursor=${nextCursor}`), { ids: ['a bomb'], nextCursor: null });
  t.same((await list('r1', '?agentId=nobody')).ids, []);
  await turn('POST', '', { id: 'm1', trigger: 'user' });
  await turn('POST', '', { id: 'a bomb', trigger: 'user' });
  t.same((await list('r1')).ids, ['m1', 'm2'], 'one that was vetoed waits no longer');
  t.same((await list('r2')).ids, ['m2'], 'nor one that another runtime works on');
  await expireLease(fixture, session);
  t.same((await list('r2')).ids, ['m1', 'm2'], 'until its lease has expired');
  await turn('POST', '/m1/end', {});
  t.same((await list('r1')).ids, ['m2']);
  t.same((await list('r1', `?sessionId=${await fixture.session()}`)).ids, []);
});

t.test('turns that are not over are listed by the account’s messages that arrived without one', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const [one, two] = [await fixture.session(), await fixture.session()];
  const append = (session: string, ...texts: string[]) => {
    const messages = texts.map((text) => ({ id: text, role: 'user', text }));
    return fixture.call('POST', `/sessions/${session}/messages`, { messages });
  };
  await append(one, 'm1', 'm2');
  await append(two, 'm3', 'a bomb');
  const list = async (query = '') => (await fixture.call('GET', `/sessions/turns${query}`)).body;
  t.same(await list(), { items: [], nextCursor: null });
  await asRuntime(fixture, one, 'r1')('POST', '', { id: 'own', text: 'of a runtime itself', trigger: 'channel' });
  for (const [session, id] of [
    [two, 'a bomb'],
    [two, 'm3'],
    [one, 'm1'],
  ] as const)
    await asRuntime(fixture, session, 'r1')('POST', '', { id, trigger: 'channel' });
  const { items } = await list();
  t.match(items, [
    { id: 'm1', sessionId: one, state: 'open', trigger: 'channel', message: { text: 'm1' }, lease: { runtime: 'r1' } },
    { id: 'm3', sessionId: two },
  ]);
  t.equal(items.length, 2, 'neither one that was vetoed, nor one that a runtime opened with a text of its own');
  const { nextCursor } = await list('?limit=1&agentId=agent-1');
  t.match(await list(`?limit=1&cursor=${nextCursor}`), { items: [{ id: 'm3' }], nextCursor: null });
  t.same((await list('?agentId=another')).items, []);
  await asRuntime(fixture, one, 'r1')('POST', '/m1/end', {});
  t.match(await list(), { items: [{ id: 'm3' }] });
  t.same((await shared.withNewAccount().call('GET', '/sessions/turns')).body.items, []);
});

soakTest(t, 'a message with an id of any length is answered in a turn', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const id = 'm'.repeat(200);
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ id, role: 'user', text: 'hi' }] });
  t.match((await fixture.call('GET', '/sessions/unanswered')).body.items, [{ message: { id } }]);
  t.match((await turn('POST', '', { id, trigger: 'user' })).body, { state: 'open', message: { text: 'hi' } });
  t.match((await turn('POST', `/${id}/output`, { text: 'whole' })).body, { state: 'passed' });
  t.match((await turn('POST', `/${id}/output`, { text: 'pieces', piece: 0 })).body, { state: 'open' });
  t.match((await turn('POST', `/${id}/end`, { text: 'last' })).body, { state: 'ended' });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.same(
    items.map(({ text }: { text: string }) => text),
    ['hi', 'whole', 'pieces', 'last'],
  );
  t.ok(items.every((item: { id: string }) => item.id.length <= 200));
});

t.test('a message that was added unjudged is judged when its turn opens', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const messages = ['pay 4111', 'a bomb'].map((text, at) => ({ id: `m${at}`, role: 'user', text }));
  await fixture.call('POST', `/sessions/${session}/messages`, { messages });
  t.notOk(
    (await transcript(fixture, session)).some(({ judgement }) => judgement),
    'marked as not judged',
  );
  t.match((await turn('POST', '', { id: 'm0', trigger: 'user' })).body, { message: { text: 'pay [card]' } });
  const vetoed = { action: 'cancel', state: 'vetoed', endedAt: String };
  t.match((await turn('POST', '', { id: 'm1', trigger: 'user' })).body, vetoed);
  t.same(
    (await turn('GET', '/m0/prompt')).body.messages.map(({ text }: { text: string }) => text),
    ['pay [card]'],
    'the model sees no vetoed message',
  );
});

/** Summarizes so that a guard, which judges summaries too, finds nothing of the messages that it would refuse. */
const IN_OTHER_WORDS = `(messages) => messages.map(({ text }) => text).join('+').replace('bomb', 'b-o-m-b').replace('4111', '4-1-1-1')`;

t.test('a message that was vetoed in the transcript is left there without its text', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const slug = `reader-${fixture.account}`;
  await fixture.install({
    slug,
    capabilities: ['host.session:read'],
    code: `tools.read = { description: 'x', parameters: { type: 'object' },
        handler: async () => JSON.stringify(await host.session.messages(100)) };
      compaction.summarize = (ctx) => (${IN_OTHER_WORDS})(ctx.messages);`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const bomb = { id: 'm0', role: 'user', text: 'a bomb', data: { note: 'how to build it' } };
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [bomb, { role: 'user', text: 'more' }] });
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const prompt = async (query = '') => JSON.stringify((await turn('GET', `/t1/prompt${query}`)).body.messages);
  t.match(await prompt('?compactAfter=1&keep=1'), /a b-o-m-b\+more/, 'unjudged, it was summarized');
  t.match((await turn('POST', '', { id: 'm0', trigger: 'user' })).body, { state: 'vetoed', message: null });
  t.notMatch(await prompt(), /bomb|b-o-m-b/, 'nor does a summary keep it');
  t.notMatch(JSON.stringify(await transcript(fixture, session)), /a bomb|build/);
  t.notMatch((await turn('GET', '/m0')).body, { turn: { message: Object } });
  const read = await turn('POST', '/t1/calls/c1', { name: `${slug}__read` });
  t.match(read.body.content[0].text, /more/);
  t.notMatch(read.body.content[0].text, /a bomb/);
});

const SLOW_SUMMARIES = `
  let open;
  const opened = new Promise((resolve) => { open = resolve; });
  tools.open = { description: 'x', parameters: { type: 'object' }, handler: () => { open(); return 'open'; } };
  compaction.summarize = async ({ messages }) => {
    const summary = (${IN_OTHER_WORDS})(messages);
    if (/hold on/.test(summary)) { host.log('summarizing'); await opened; }
    return summary;
  };`;

/** A session with messages, and a function that returns a prompt during whose summary something happens. */
async function startSlowSummary(fixture: SupervisorFixture) {
  const slug = `slow-${fixture.account}`;
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  await fixture.install({ slug, code: SLOW_SUMMARIES });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  const add = (messages: object[]) => fixture.call('POST', `/sessions/${session}/messages`, { messages });
  const readPrompt = async (query = ''): Promise<string[]> =>
    (await turn('GET', `/t1/prompt${query}`)).body.messages.map(({ text }: { text: string }) => text);
  const readPromptDuring = async (query: string, happen: () => Promise<unknown>) => {
    await add([{ role: 'user', text: 'hold on' }]);
    const prompt = readPrompt(query);
    await eventually(async () => (await fixture.readLog('summarizing')).length === 1);
    await happen();
    await fixture.call('POST', `/sessions/${session}/tools/${slug}__open`, { arguments: {} });
    return prompt;
  };
  await add([
    { id: 'm0', role: 'user', text: 'a bomb' },
    { role: 'user', text: 'more' },
  ]);
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  return { session, turn, readPrompt, readPromptDuring };
}

soakTest(t, 'a summary of a message that is vetoed while it is made is in no prompt', async (t) => {
  const { turn, readPrompt, readPromptDuring } = await startSlowSummary(shared.withNewAccount());
  const veto = () => turn('POST', '', { id: 'm0', trigger: 'user' });
  t.same(await readPromptDuring('?compactAfter=1&keep=0', veto), ['more', 'hello', 'hold on']);
  t.same(await readPrompt(), ['more', 'hello', 'hold on']);
});

soakTest(t, 'a summary that builds on one that is removed while it is made is in no prompt', async (t) => {
  const { turn, readPrompt, readPromptDuring } = await startSlowSummary(shared.withNewAccount());
  t.match(await readPrompt('?compactAfter=1&keep=1'), [/a b-o-m-b\+more/, 'hello']);
  const veto = () => turn('POST', '', { id: 'm0', trigger: 'user' });
  t.same(await readPromptDuring('?compactAfter=1&keep=0', veto), ['more', 'hello', 'hold on']);
  t.same(await readPrompt(), ['more', 'hello', 'hold on']);
});

const removals = { 'before it is judged': false, 'while it is judged': true };
for (const [when, isDuring] of listCases(removals, 'before it is judged'))
  t.test(`a summary that is made of a message ${when} does not keep what a plugin removes`, async (t) => {
    const fixture = shared.withNewAccount();
    const { session, turn, readPrompt, readPromptDuring } = await startSlowSummary(fixture);
    const card = { id: 'm9', role: 'user', text: 'it is 4111' };
    await fixture.call('POST', `/sessions/${session}/messages`, { messages: [card] });
    const judge = () => turn('POST', '', { id: 'm9', trigger: 'user' });
    if (isDuring) await readPromptDuring('?compactAfter=1&keep=0', judge);
    else {
      t.match(await readPrompt('?compactAfter=1&keep=0'), [/it is 4-1-1-1/]);
      await judge();
    }
    const prompt = await readPrompt();
    t.ok(prompt.includes('it is [card]'), prompt.join(', '));
    t.notMatch(prompt.join(), /4111|4-1-1-1/);
  });

soakTest(t, 'a message that is committed between those of a summary while it is made is in the prompts', async (t) => {
  const fixture = shared.withNewAccount();
  const { session, readPrompt, readPromptDuring } = await startSlowSummary(fixture);
  const late = await fixture.pool.connect();
  await late.query('BEGIN');
  await late.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text)
     SELECT id, account_id, 'late', 'user', 'late' FROM sessions WHERE id = $1`,
    [session],
  );
  const commit = () => late.query('COMMIT');
  const texts = ['a bomb', 'more', 'hello', 'late', 'hold on'];
  t.same(await readPromptDuring('?compactAfter=1&keep=0', commit), texts);
  late.release();
  t.match(await readPrompt('?compactAfter=1&keep=0'), [/a b-o-m-b\+more\+hello\+late\+hold on$/]);
});

soakTest(t, 'a session that becomes strict forgets its summaries', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: `short-${fixture.account}`,
    code: `compaction.summarize = (ctx) => ctx.messages.map(({ text }) => text).join('+');`,
  });
  const { id } = (await fixture.call('POST', '/sessions', { agentId: 'a', key: 'k' })).body;
  const turn = asRuntime(fixture, id, 'r1');
  const messages = ['a', 'b', 'c'].map((text) => ({ role: 'user', text: `unjudged ${text}` }));
  await fixture.call('POST', `/sessions/${id}/messages`, { messages });
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const texts = async (query = '') =>
    (await turn('GET', `/t1/prompt${query}`)).body.messages.map(({ text }: { text: string }) => text);
  t.match(await texts('?compactAfter=2&keep=1'), [/unjudged a\+unjudged b\+unjudged c$/, 'hello']);
  await fixture.call('POST', '/sessions', { agentId: 'a', key: 'k', strict: true });
  t.same(await texts(), ['hello']);
});

t.test('the arguments of a call are kept as plugins let them pass, or not at all', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  await fixture.install({
    slug: `guard-${fixture.account}`,
    code: `middleware.toolCall = (ctx) => {
      if (ctx.call.arguments.card || ctx.call.name === 'forbidden') ctx.cancel('no cards');
      if (ctx.call.arguments.pin) return { call: { ...ctx.call, arguments: { a: 'masked' } } };
    };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const name = `adder-${fixture.account}__add`;
  for (const [id, call] of Object.entries({
    cancelled: { name, arguments: { a: 1, card: 'card 4111' } },
    changed: { name, arguments: { a: 1, pin: 'card 4111' } },
    unknown: { name: 'none', arguments: { pin: 'card 4111' } },
    own: { name: 'own', own: true, arguments: { card: 'card 4111' } },
    forbidden: { name: 'forbidden' },
  }))
    t.match(await turn('POST', `/t1/calls/${id}`, call), { status: 200, body: { isError: true } }, id);
  const kept = await transcript(fixture, session);
  t.notMatch(JSON.stringify(kept), /card 4111/);
  t.same(
    kept.filter(({ role }) => role === 'tool').map(({ data }) => (data as { arguments: unknown }).arguments),
    [null, { a: 'masked' }, { a: 'masked' }, null, null],
  );
  t.match(
    kept.at(-1),
    { text: /no cards/, judgement: { by: [`guard-${fixture.account}`] } },
    'also without such a tool',
  );
});

soakTest(t, 'a call of a tool that does not exist is answered once a required plugin has judged it', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `guard-${fixture.account}`;
  const code = `let isFirst = true;
    middleware.toolCall = () => { if (isFirst) { isFirst = false; throw new Error('x'); } };
    middleware.toolResult = ({ result }) => ({ result: { ...result, content: [{ type: 'text', text: 'judged' }] } });`;
  await fixture.install({ slug, code, required: true });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const call = () => turn('POST', '/t1/calls/c1', { name: 'none', arguments: { a: 1 } });
  t.match(await call(), { body: { isError: true, isFinal: false, content: [{ text: /requires it/ }] } });
  t.notOk((await transcript(fixture, session)).some(({ role }) => role === 'tool'));
  t.match(await call(), { status: 200, body: { isError: true, content: [{ text: 'judged' }] } });
  t.match((await transcript(fixture, session)).at(-1), { text: 'judged', data: { arguments: { a: 1 } } });
});

t.test('no unjudged message with the id of an output is sent for it', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const output = (id: string, piece: number, text: string, done = false) =>
    turn('POST', '/t1/output', { id, piece, text, done });
  await output('X', 0, 'Hello');
  await output('Y', 0, '');
  t.match((await output('Y', 1, '', true)).body, { state: 'passed' }, 'a text of no characters is no message');
  const forged = ['X', 'Y'].map((id) => ({ id, role: 'assistant', text: 'a secret' }));
  t.equal((await fixture.call('POST', `/sessions/${session}/messages`, { messages: forged })).status, 200);
  t.match(await output('X', 1, '', true), {
    status: 409,
    body: { code: 'id_reused', detail: /^Another message .* End the turn, which completes this output with a new id/ },
  });
  for (const id of ['X', 'Y']) t.notMatch((await output(id, 1, '', true)).body, { show: 'a secret' });
  t.notMatch(JSON.stringify((await turn('GET', '/t1')).body), /a secret/);
});

soakTest(t, 'lists of large messages end early, so that none takes much memory', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `reader-${fixture.account}`;
  await fixture.install({
    slug,
    capabilities: ['host.session:read'],
    code: `tools.count = { description: 'x', parameters: { type: 'object' },
      handler: async () => String((await host.session.messages(1_000)).length) };`,
  });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 'first', text: 'x'.repeat(TEXT_MAX_CHARS), trigger: 'user' });
  const data = Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`key ${n}`, n]));
  const sent = Array.from({ length: 30 }, (_, n) =>
    n % 5 === 0
      ? { id: `m${n}`, role: 'user', text: 'short', data }
      : { id: `m${n}`, role: 'user', text: 'x'.repeat(TEXT_MAX_CHARS) },
  );
  for (let at = 0; at < sent.length; at += 10)
    await fixture.call('POST', `/sessions/${session}/messages`, { messages: sent.slice(at, at + 10) });
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [n, Array.from({ length: 100 }, () => 0)]));
  t.match(
    await fixture.call('POST', `/sessions/${session}/messages`, {
      messages: [
        { role: 'user', text: '', data: many },
        { role: 'user', text: '', data: many },
      ],
    }),
    {
      status: 400,
      body: { errors: [{ field: 'messages', message: 'must have at most 20000 values in their data together' }] },
    },
  );
  const follow = async (path: string) => {
    const ids: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ''; cursor !== null; pages += 1) {
      const page: { items: { id: string }[]; nextCursor: string | null } = (
        await fixture.call('GET', `/sessions/${session}/${path}limit=1000&cursor=${cursor}`)
      ).body;
      t.ok(JSON.stringify(page.items).length < 5_000_000);
      ids.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor;
    }
    return { ids, pages };
  };
  const all = await follow('messages?');
  t.same(all.ids, ['first', ...sent.map(({ id }) => id)]);
  t.ok(all.pages > 2, `${all.pages} pages`);
  const newest = await follow('messages?order=newest&');
  t.same(newest.ids, all.ids.toReversed());
  t.ok(newest.pages > 2, `${newest.pages} pages`);
  const { isTruncated, messages } = (await turn('GET', '/first/prompt')).body;
  t.equal(isTruncated, true);
  t.match([messages.length < 20, messages.at(-1)], [true, { id: 'm29' }]);
  const read = await turn('POST', '/first/calls/c1', { name: `${slug}__count` });
  t.ok(Number(read.body.content[0].text) < 20);
  for (const { id } of sent.filter(({ text }) => text !== 'short').slice(0, 17))
    await turn('POST', '', { id, trigger: 'user' });
  for (const order of ['oldest', 'newest']) {
    const turns = await follow(`turns?order=${order}&`);
    t.equal(new Set(turns.ids).size, 18);
    t.ok(turns.pages > 1);
  }
});

t.test('a call is aborted by its runtime, and its id does not run it again', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const calling = turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__wait` });
  await eventually(async () => (await fixture.readLog('waiting')).length === 1);
  t.match((await turn('GET', '/t1/calls/c1')).body, { state: 'running', result: null });
  const aborted = { isError: true, content: [{ text: /was aborted: the runtime aborted it/ }] };
  t.match((await turn('DELETE', '/t1/calls/c1')).body, { state: 'answered', result: aborted });
  t.match((await calling).body, aborted);
  t.match((await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__wait` })).body, aborted);
  t.equal((await fixture.readLog('waiting')).length, 1);
});

/** Lets a test close the connection of a request. @returns the address of the service, and the headers of the runtime `r1` */
async function listen({ app, issuer, account }: SupervisorFixture) {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const headers = {
    authorization: `Bearer ${await issuer.issue(account)}`,
    'content-type': 'application/json',
    'bulkhead-runtime': 'r1',
  };
  return { address: `http://127.0.0.1:${port}`, headers };
}

t.test('closing a request aborts its call with the true reason, unless it shall go on', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const { address, headers } = await listen(fixture);
  const name = `adder-${fixture.account}__wait`;
  const waiting = async () => (await fixture.readLog('waiting')).length;
  const closeWhileItRuns = async (path: string, body: object) => {
    const before = await waiting();
    const closing = new AbortController();
    const request = { method: 'POST', headers, body: JSON.stringify(body), signal: closing.signal };
    const call = fetch(`${address}/sessions/${session}${path}`, request);
    await eventually(async () => (await waiting()) > before);
    closing.abort();
    await t.rejects(call);
  };
  await closeWhileItRuns(`/tools/${name}`, { arguments: {} });
  await closeWhileItRuns('/turns/t1/calls/c1', { name });
  await eventually(async () => (await fixture.readLog('aborted')).length === 2);
  const why = 'The caller of this handler cancelled the call: the runtime closed the request';
  t.same(await fixture.readLog('aborted'), [{ why }, { why }]);
  await eventually(async () => (await turn('GET', '/t1/calls/c1')).body.state === 'answered');
  t.match((await turn('POST', '/t1/calls/c1', { name })).body, {
    isError: true,
    content: [{ text: /was aborted: the runtime closed the request/ }],
  });
  await closeWhileItRuns('/turns/t1/calls/c2', { name, keepRunning: true });
  t.match((await turn('GET', '/t1/calls/c2')).body, { state: 'running' });
  await turn('DELETE', '/t1/calls/c2');
});

soakTest(
  t,
  'arguments in another order are the same arguments, also of a call that an earlier release stored',
  async (t) => {
    const fixture = shared.withNewAccount();
    const slug = `pair-${fixture.account}`;
    const code = `tools.pair = { description: 'x', parameters: { type: 'object' },
    handler: (args) => { host.log('paired'); return JSON.stringify(args); } };`;
    await fixture.install({ slug, code });
    const session = await fixture.session();
    const turn = asRuntime(fixture, session, 'r1');
    await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
    const name = `${slug}__pair`;
    const args = { b: [{ d: 1, c: null }], a: 2, '10': 3 };
    const reordered = { '10': 3, a: 2, b: [{ c: null, d: 1 }] };
    const call = (given: object) => turn('POST', '/t1/calls/c1', { name, arguments: given });
    const made = await call(args);
    t.match(
      made,
      { status: 200, body: { content: [{ text: JSON.stringify(args) }] } },
      'the tool gets the order of its call',
    );
    t.same((await call(reordered)).body, made.body);
    t.match(await call({ ...args, b: [{ d: 1 }] }), { status: 409, body: { code: 'id_reused' } });
    t.match(await call({ ...args, b: [1, 2] }), { status: 409 });
    t.match(await call({ ...args, a: '2' }), { status: 409 });
    const { rows } = await fixture.pool.query('SELECT digest FROM tool_calls WHERE session_id = $1', [session]);
    t.same(rows, [{ digest: digestOf([name, args]) }], 'the previous release recognizes the call');
    await fixture.pool.query('UPDATE tool_calls SET sorted_digest = NULL WHERE session_id = $1', [session]);
    t.same((await call(args)).body, made.body);
    t.match(
      await call(reordered),
      { status: 409 },
      'of a call that the previous release stored, the order is not known',
    );
    t.equal((await fixture.readLog('paired')).length, 1, 'it ran once');
  },
);

t.test('the end of a turn aborts the calls that still run, so that their results are of this turn', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const request = { name: `adder-${fixture.account}__wait`, arguments: { b: 1, a: 2 }, keepRunning: true };
  const calling = turn('POST', '/t1/calls/c1', request);
  await eventually(async () => (await fixture.readLog('waiting')).length === 1);
  const other = await asRuntime(fixture, session, 'r2')('POST', '/t1/end', { text: 'bye' });
  t.match(other, { status: 409, body: { code: 'turn_held' } });
  t.match((await turn('GET', '/t1/calls/c1')).body, { state: 'running' }, 'not by a runtime without the lease');
  t.match(await turn('POST', '/t1/end', { text: 'bye' }), { status: 200, body: { state: 'ended' } });
  t.match((await calling).body, { isError: true, content: [{ text: /was aborted: the runtime ended the turn/ }] });
  t.match(await transcript(fixture, session), [{ text: 'hello' }, { role: 'tool', text: /aborted/ }, { text: 'bye' }]);
});

soakTest(t, 'a call that begins while its turn ends adds no result after the last text', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const call = { name: `adder-${fixture.account}__wait`, arguments: {}, keepRunning: true };
  let called: Promise<Reply> | undefined;
  during.set('turn.output-judged', async () => {
    called = turn('POST', '/t1/calls/c1', call);
    await eventually(async () => (await fixture.readLog('waiting')).length === 1);
  });
  t.match((await turn('POST', '/t1/end', { text: 'bye' })).body, { state: 'ended' });
  t.match((await turn('DELETE', '/t1/calls/c1')).body, { state: 'answered' });
  t.match(await called, { status: 200 });
  t.same(
    (await transcript(fixture, session)).map(({ text }) => text),
    ['hello', 'bye'],
  );
});

soakTest(t, 'a call whose request was closed before its tool ran is made when it is sent again', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const { app } = fixture;
  const { address, headers } = await listen(fixture);
  const closing = new AbortController();
  const path = `/sessions/${session}/turns/t1/calls/c1`;
  const closed = Promise.withResolvers<void>();
  app.server.on('request', function watch(request, response) {
    if (request.url !== path) return;
    app.server.off('request', watch);
    response.once('close', closed.resolve);
  });
  let repeated: Promise<Reply> | undefined;
  const body = { name: `adder-${fixture.account}__add`, arguments: { a: 1 } };
  during.set('call.claimed', async () => {
    closing.abort();
    await closed.promise;
    repeated = turn('POST', '/t1/calls/c1', body);
  });
  const call = fetch(`${address}${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    signal: closing.signal,
  });
  await t.rejects(call);
  await eventually(() => repeated !== undefined);
  t.match(await repeated, { status: 200, body: { isError: false, content: [{ text: '2' }] } });
  t.match((await turn('POST', '/t1/calls/c1', body)).body, { isError: false, content: [{ text: '2' }] });
  t.equal((await fixture.readLog('added')).length, 1, 'it ran once');
  const tools = (await transcript(fixture, session)).filter(({ role }) => role === 'tool');
  t.match(tools, [{ text: '2' }], 'and the transcript has this result alone');
});

soakTest(t, 'a call that its runtime lets go on ends before its supervisor gives the account up', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const code = `tools.slow = { description: 'x', parameters: { type: 'object' }, handler: async () => {
    host.log('waiting');
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    return 'done';
  } };`;
  await fixture.install({ slug: 'slow', code });
  const session = await fixture.session();
  await asRuntime(fixture, session, 'r1')('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const closing = new AbortController();
  const call = fetch(`${url}/sessions/${session}/turns/t1/calls/c1`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}`,
      'content-type': 'application/json',
      'bulkhead-runtime': 'r1',
    },
    body: JSON.stringify({ name: 'slow__slow', keepRunning: true }),
    signal: closing.signal,
  });
  await eventually(async () => (await fixture.readLog('waiting')).length === 1);
  closing.abort();
  await t.rejects(call);
  await fixture.supervisor.stop();
  const { rows } = await fixture.pool.query('SELECT answer FROM tool_calls');
  t.match(rows, [{ answer: { result: { isError: false, content: [{ text: 'done' }] } } }]);
});

soakTest(t, 'the result of a tool is kept while the database is away', async (t) => {
  const fixture = await startSupervisorFixture(t);
  await fixture.install({ slug: 'adder', code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await fixture.pool.query(`CREATE SEQUENCE attempts;
    CREATE FUNCTION shut_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('attempts') < 3 THEN RAISE EXCEPTION 'it shuts down' USING ERRCODE = 'admin_shutdown'; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER shut_down BEFORE UPDATE ON tool_calls FOR EACH ROW WHEN (NEW.answer IS NOT NULL) EXECUTE FUNCTION shut_down()`);
  const call = () => turn('POST', '/t1/calls/c1', { name: 'adder__add', arguments: { a: 1 } });
  const both = await Promise.all([call(), call()]);
  for (const { status, body } of both) t.match({ status, body }, { status: 200, body: { content: [{ text: '2' }] } });
  t.equal((await fixture.readLog('added')).length, 1, 'it ran once');
});

t.test('a call for which two requests wait is aborted when both are closed', async (t) => {
  const calls = new RunningCalls();
  const key = { sessionId: 's', turnId: 't', callId: 'c', digest: 'd' };
  const result = { content: [], isError: true };
  const made: AbortSignal[] = [];
  const request = () => {
    const closing = new AbortController();
    const answer = calls.run(key, closing.signal, async (signal) => {
      made.push(signal);
      await once(signal, 'abort');
      return { result };
    });
    return { answer, close: () => closing.abort(new Error('the runtime closed the request')) };
  };
  const [first, second] = [request(), request()];
  first.close();
  t.same(
    made.map(({ aborted }) => aborted),
    [false],
    'the other one still waits',
  );
  second.close();
  t.match(made[0]?.reason, { message: 'the runtime closed the request' });
  t.same(await Promise.all([first.answer, second.answer]), [{ result }, { result }]);
  t.notOk(calls.has(key));
});

t.test('a request for a call that is being aborted waits for its end and begins it', async (t) => {
  const calls = new RunningCalls();
  const key = { sessionId: 's', turnId: 't', callId: 'c', digest: 'd' };
  const closing = new AbortController();
  const ended = Promise.withResolvers<{ result: ReturnType<typeof failedTool> }>();
  const first = calls.run(key, closing.signal, () => ended.promise);
  closing.abort(new Error('the runtime closed the request'));
  let starts = 0;
  const repeat = () =>
    calls.run(key, undefined, async () => {
      starts += 1;
      return { result: failedTool('second') };
    });
  const repeated = [repeat(), repeat()];
  t.equal(starts, 0);
  ended.resolve({ result: failedTool('first') });
  t.match(await first, { result: failedTool('first') });
  for (const answer of await Promise.all(repeated)) t.match(answer, { result: failedTool('second') });
  t.equal(starts, 1);
});

t.test('calls of different turns are different calls, whatever characters their ids have', async (t) => {
  const calls = new RunningCalls();
  const running = { sessionId: 's', turnId: 'bake', callId: 'bread now', digest: 'd' };
  const first = calls.run(running, undefined, async () => ({ result: failedTool('first') }));
  const other = { ...running, turnId: 'bake bread', callId: 'now' };
  const second = calls.run(other, undefined, async () => ({ result: failedTool('second') }));
  t.match(await Promise.all([first, second]), [{ result: failedTool('first') }, { result: failedTool('second') }]);
});

soakTest(t, 'a runtime without the lease gets no call to perform that it asked for while it was judged', async (t) => {
  const fixture = shared.withNewAccount();
  const sessionId = await fixture.session();
  await asRuntime(fixture, sessionId, 'r1')('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  const runningCalls = new RunningCalls();
  const turn = { sessionId, turnId: 't1' };
  const call = { callId: 'c1', name: 'oven', arguments: {}, isOwn: true };
  const judged = Promise.withResolvers<{ handed: { arguments: object; attempt: string } }>();
  const key = { ...turn, callId: 'c1', digest: digestOf([call.name, call.arguments]) };
  runningCalls.run(key, undefined, () => judged.promise as never);
  const services = { pool: fixture.pool, runningCalls } as SessionServices;
  const ask = (runtime: string) =>
    callToolInTurn(services, { id: sessionId } as Session, turn, { ...call, runtime, attempt: `of ${runtime}` });
  const asked = Promise.allSettled([ask('r1'), ask('r2')]);
  judged.resolve({ handed: { arguments: {}, attempt: 'first' } });
  t.match(await asked, [{ value: { isRepeated: true } }, { reason: { code: 'turn_held' } }]);
});

t.test('the call of a supervisor that died is not made again', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } });
  // As a supervisor leaves it that is killed while the handler runs: a lease that nobody holds.
  await fixture.pool.query(`UPDATE tool_calls SET answer = NULL, ended_at = NULL WHERE session_id = $1`, [session]);
  t.match((await turn('GET', '/t1/calls/c1')).body, { state: 'interrupted', result: { isError: true } });
  const again = await turn('POST', '/t1/calls/c1', { name: `adder-${fixture.account}__add`, arguments: { a: 1 } });
  t.match(again.body, { isError: true, content: [{ text: /interrupted.*may have run/ }] });
  t.match((await turn('GET', '/t1/calls/c1')).body, { state: 'answered' });
  t.equal((await fixture.readLog('added')).length, 1);
});

t.test('a call that a crash interrupted is made again only in an open turn, and by its runtime', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `adder-${fixture.account}`, code: ADDER });
  const tools = [{ name: 'oven', description: 'Heats' }];
  const { id: session } = (await fixture.call('POST', '/sessions', { agentId: 'a', tools, hostTools: ['todo'] })).body;
  const turn = asRuntime(fixture, session, 'r1');
  const other = asRuntime(fixture, session, 'r2');
  const calls = {
    create: { name: 'todo__create', arguments: { title: 'Buy milk' } },
    list: { name: 'todo__list', arguments: {} },
    add: { name: `adder-${fixture.account}__add`, arguments: { a: 1 } },
    bake: { name: 'oven', arguments: {}, attempt: 'a1' },
    own: { name: 'mixer', arguments: {}, own: true, attempt: 'a1' },
  };
  const interrupt = async (id: string) => {
    await turn('POST', '', { id, text: 'hello', trigger: 'user' });
    for (const [name, call] of Object.entries(calls)) await turn('POST', `/${id}/calls/${name}`, call);
    // As a supervisor leaves the calls that is killed before it has made them.
    await fixture.pool.query(`DELETE FROM session_messages WHERE session_id = $1 AND role = 'tool'`, [session]);
    await fixture.pool.query(
      `UPDATE tool_calls SET answer = NULL, ended_at = NULL, arguments = NULL, attempt = NULL
        WHERE session_id = $1 AND turn_id = $2`,
      [session, id],
    );
    await fixture.pool.query(
      `DELETE FROM todos WHERE created_by = 'a' AND account_id =
      (SELECT account_id FROM sessions WHERE id = $1)`,
      [session],
    );
  };
  const readEffects = async () => ({
    texts: (await transcript(fixture, session)).map(({ role, text }) => [role, text]),
    todos: (await fixture.call('GET', `/sessions/${session}/todos`)).body.items,
    added: (await fixture.readLog('added')).length,
  });
  await interrupt('t1');
  const before = await readEffects();
  for (const [name, call] of Object.entries(calls))
    t.match(await other('POST', `/t1/calls/${name}`, call), { status: 409, body: { code: 'turn_held' } }, name);
  t.same(await readEffects(), before, 'another runtime has made none');
  t.match(await turn('POST', '/t1/calls/bake', calls.bake), { status: 202, body: { isRepeated: false } });
  await expireLease(fixture, session);
  t.match(await other('POST', '/t1/calls/create', calls.create), { status: 200, body: { isError: false } });

  await interrupt('t2');
  t.match((await turn('POST', '/t2/end', { text: 'Done.' })).body, { state: 'ended' });
  const ended = await readEffects();
  for (const [name, call] of Object.entries(calls))
    t.match(await turn('POST', `/t2/calls/${name}`, call), { status: 409, body: { code: 'turn_ended' } }, name);
  t.same(await readEffects(), ended, 'none is made after the reply');
  t.match((await turn('GET', '/t2/calls/add')).body, { state: 'interrupted' });
});

t.test('a crash at any step loses nothing and repeats nothing that was written', async (t) => {
  const crash = new CrashOnce();
  const fixture = withStartedPlugins(await startSupervisorFixture(t, { faultPoint: crash.faultPoint }));
  await fixture.install({ slug: 'guard', code: GUARD });
  await fixture.install({ slug: 'adder', code: ADDER });
  const session = await fixture.session();
  const turn = asRuntime(fixture, session, 'r1');
  let turns = 0;
  const steps = {
    // The hook ran and its result was lost, so it runs again; everything after it counts once.
    'turn.judged': [2, 2, 1],
    'turn.opened': [1, 2, 1],
    'call.claimed': [1, 2, 0],
    'call.answered': [1, 2, 1],
    'turn.output-judged': [1, 3, 1],
    'turn.output-saved': [1, 2, 1],
    'turn.ended': [1, 2, 1],
  };
  for (const [step, [inbound = 0, outbound = 0, added = 0]] of Object.entries(steps)) {
    turns += 1;
    const id = `t${turns}`;
    const before = (await transcript(fixture, session)).length;
    const counts = async () =>
      (await Promise.all(['inbound', 'outbound', 'added'].map((line) => fixture.readLog(line)))).map(
        (all) => all.length,
      );
    const counted = await counts();
    crash.next = step;
    const insist = async (path: string, body: object) => {
      const reply = await turn('POST', path, body);
      return reply.status < 500 ? reply : turn('POST', path, body);
    };
    await insist('', { id, text: `hello ${id}`, trigger: 'user' });
    const call = await insist(`/${id}/calls/c`, { name: 'adder__add', arguments: { a: turns } });
    const isLost = step.startsWith('call.');
    t.match(call.body, isLost ? { isError: true, content: [{ text: /may have run/ }] } : { isError: false }, step);
    await insist(`/${id}/output`, { id: `${id}-o`, text: 'one' });
    t.match(await insist(`/${id}/end`, { text: 'two' }), { status: 200, body: { state: 'ended' } }, step);
    t.equal(crash.next, '', `${step} was reached`);
    const ran = (await counts()).map((count, at) => count - (counted[at] ?? 0));
    t.same(ran, [inbound, outbound, added], `${step}: hooks and handlers`);
    const texts = (await transcript(fixture, session)).slice(before).map(({ role, text }) => [role, text]);
    const result = ['tool', isLost ? call.body.content[0].text : String(turns + 1)];
    t.same(texts, [['user', `hello ${id}`], result, ['assistant', 'one'], ['assistant', 'two']], step);
  }
});
