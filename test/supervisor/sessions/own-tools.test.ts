/** Tools that the runtime performs itself pass the same hooks as all others, once for each call. */
import t from 'tap';
import { connect } from '../../../sdk/session/session.ts';
import { soakTest } from '../../runner/soak.ts';
import {
  type Reply,
  type SupervisorFixture,
  startSupervisorFixture,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

let crashAt = '';
const crash = (step: string) => {
  if (step !== crashAt) return undefined;
  crashAt = '';
  return Promise.reject(new Error('as if it were killed here'));
};
const shared = withStartedPlugins(await startSupervisorFixture(t, { faultPoint: crash }));

const JUDGE = `
  middleware.toolCall = ({ call, cancel }) => {
    host.log('judged', { text: call.id });
    if (call.arguments.path === '/etc') cancel('not there');
    if (call.arguments.path === '~') return { call: { arguments: { path: '/home' } } };
  };
  middleware.toolResult = ({ call, result, cancel }) => {
    host.log('judged', { text: call.id + ' ' + result.content[0].text });
    if (/secret/.test(result.content[0].text)) cancel('a secret');
    return { result: { content: [{ type: 'text', text: result.content[0].text.replace('4111', '[card]') }] } };
  };`;
const LIST_FILES = {
  name: 'list-files',
  description: 'Lists a folder',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
};

/** The calls of the plugins, in order. */
const listJudged = async (fixture: SupervisorFixture) => (await fixture.readLog('judged')).map(({ text }) => text);

async function openFixture() {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `judge-${fixture.account}`, code: JUDGE });
  const session = (await fixture.call('POST', '/sessions', { agentId: 'a', tools: [LIST_FILES] })).body.id;
  const turn = (method: 'GET' | 'POST', path: string, body?: unknown): Promise<Reply> =>
    fixture.call(method, `/sessions/${session}/turns${path}`, body);
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  return { fixture, session, turn };
}

t.test('a call is judged, handed to the runtime, and its result judged', async (t) => {
  const { fixture, session, turn } = await openFixture();
  const listed = { ...LIST_FILES, installationId: null, slug: '', performedBy: 'runtime' };
  t.same((await turn('GET', '/t1/prompt')).body.tools, [listed]);
  const call = { name: 'list-files', arguments: { path: '~' }, attempt: 'a1' };
  const handed = { callId: 'c1', name: 'list-files', arguments: { path: '/home' } };
  t.match(await turn('POST', '/t1/calls/c1', call), { status: 202, body: { ...handed, isRepeated: false } });
  t.match(await turn('POST', '/t1/calls/c1', call), { status: 202, body: { ...handed, isRepeated: false } });
  t.match(await turn('POST', '/t1/calls/c1', { ...call, attempt: 'a2' }), { status: 202, body: { isRepeated: true } });
  t.match((await turn('GET', '/t1/calls/c1')).body, {
    state: 'performing',
    arguments: { path: '/home' },
    result: null,
  });
  const result = { content: [{ type: 'text', text: 'pay 4111' }] };
  const judged = { content: [{ type: 'text', text: 'pay [card]' }], isError: false };
  t.same((await turn('POST', '/t1/calls/c1/result', result)).body, judged);
  t.same((await turn('POST', '/t1/calls/c1/result', result)).body, judged, 'the same result again');
  t.match(await turn('POST', '/t1/calls/c1/result', { content: [] }), { status: 409, body: { code: 'id_reused' } });
  t.same(await turn('POST', '/t1/calls/c1', call).then(({ status, body }) => [status, body]), [200, judged]);
  t.same(await listJudged(fixture), ['c1', 'c1 pay 4111'], 'each was judged once');

  t.match(await turn('POST', '/t1/calls/c2', { ...call, arguments: { path: '/etc' } }), {
    status: 200,
    body: { isError: true, content: [{ text: /cancelled the operation: not there/ }] },
  });
  t.match(await turn('POST', '/t1/calls/c2/result', result), { status: 409 }, 'a cancelled call takes no result');
  await turn('POST', '/t1/calls/c3', call);
  const secret = { content: [{ type: 'text', text: 'a secret' }], isError: false };
  t.match((await turn('POST', '/t1/calls/c3/result', secret)).body, { isError: true, content: [{ text: /withheld/ }] });
  t.match(await turn('POST', '/t1/calls/c4', { name: 'unlisted', own: true }), {
    status: 202,
    body: { arguments: {} },
  });
  t.match(await turn('POST', '/t1/calls/c4/result', { content: [{ type: 'text', text: 'x'.repeat(300_000) }] }), {
    status: 413,
    body: { detail: /The result of unlisted has more than 262144 bytes/ },
  });
  t.match(await turn('POST', '/t1/calls/none/result', result), { status: 404 });
  t.match(await fixture.call('POST', `/sessions/${session}/tools/list-files`, {}), {
    status: 400,
    body: { detail: /performs list-files itself.*turns/ },
  });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.match(
    items.filter(({ role }: { role: string }) => role === 'tool'),
    [
      { text: 'pay [card]', data: { callId: 'c1', tool: 'list-files', arguments: { path: '/home' } } },
      { text: /not there/ },
      { text: /withheld/ },
    ],
  );
  await turn('POST', '/t1/end', {});
  t.match(await turn('POST', '/t1/calls/c4/result', result), { status: 409, body: { code: 'turn_ended' } });
});

soakTest(t, 'a result whose keys come in another order is the same result', async (t) => {
  const fixture = shared.withNewAccount();
  const session = (await fixture.call('POST', '/sessions', { agentId: 'a', tools: [LIST_FILES] })).body.id;
  const turn = (path: string, body: object): Promise<Reply> =>
    fixture.call('POST', `/sessions/${session}/turns${path}`, body);
  await turn('', { id: 't1', text: 'hello', trigger: 'user' });
  await turn('/t1/calls/c1', { name: 'list-files' });
  const answer = (json: object) => turn('/t1/calls/c1/result', { content: [{ type: 'json', json }] });
  const files = { names: ['a', 'b'], sizes: { a: 1, b: 2 } };
  const judged = { content: [{ type: 'json', json: files }], isError: false };
  t.same((await answer(files)).body, judged);
  t.same((await answer({ sizes: { b: 2, a: 1 }, names: ['a', 'b'] })).body, judged);
  t.match(await answer({ ...files, names: ['b', 'a'] }), { status: 409, body: { code: 'id_reused' } });
});

t.test('a prompt has the JSON of a result, and of a picture its type and size', async (t) => {
  const fixture = shared.withNewAccount();
  const session = (await fixture.call('POST', '/sessions', { agentId: 'a', tools: [LIST_FILES] })).body.id;
  const turn = (method: 'GET' | 'POST', path: string, body?: unknown): Promise<Reply> =>
    fixture.call(method, `/sessions/${session}/turns${path}`, body);
  await turn('POST', '', { id: 't1', text: 'hello', trigger: 'user' });
  await turn('POST', '/t1/calls/c1', { name: 'list-files' });
  const picture = { type: 'image', data: Buffer.alloc(150_000).toString('base64'), mimeType: 'image/png' };
  const content = [{ type: 'text', text: 'Two:' }, picture, { type: 'json', json: { a: 1 } }];
  t.same((await turn('POST', '/t1/calls/c1/result', { content })).body, { content, isError: false });
  const message = { role: 'tool', text: 'Two:\n[image/png, 147 KB]\n{"a":1}', data: { callId: 'c1' } };
  t.match((await turn('GET', '/t1/prompt')).body.messages, [{ id: 't1' }, message]);
  t.same((await turn('GET', '/t1/calls/c1')).body.result, { content, isError: false }, 'the call has the picture');
});

t.test('a call that the runtime performs ends when it is aborted', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) =>
    fixture.call(method, `/sessions/${session}/turns${path}`, body);
  await turn('POST', '', { id: 't1', text: 'list', trigger: 'user' });
  await turn('POST', '/t1/calls/c1', { name: 'list', arguments: { a: 1 }, own: true });
  t.match((await turn('GET', '/t1/calls/c1')).body, { state: 'performing' });
  const text = /aborted: the runtime aborted it/;
  const aborted = await turn('DELETE', '/t1/calls/c1');
  t.match(aborted, {
    status: 200,
    body: { state: 'answered', endedAt: String, result: { isError: true, content: [{ text }] } },
  });
  t.same((await turn('DELETE', '/t1/calls/c1')).body, aborted.body, 'again');
  const late = { content: [{ type: 'text', text: 'late' }], isError: false };
  const refused = { code: 'id_reused', detail: /ended without a result of the runtime: it was aborted/ };
  t.match(await turn('POST', '/t1/calls/c1/result', late), { status: 409, body: refused });
  t.match(
    (await turn('POST', '/t1/calls/c1', { name: 'list', arguments: { a: 1 }, own: true })).body,
    aborted.body.result,
  );
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.match(
    items.filter(({ role }: { role: string }) => role === 'tool'),
    [{ text, data: { callId: 'c1', arguments: { a: 1 }, isError: true, performedBy: 'runtime' } }],
  );
  t.equal(items.length, 2);
});

t.test('the result of a call that ends after its turn is not added to the transcript', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const turn = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) =>
    fixture.call(method, `/sessions/${session}/turns${path}`, body);
  await turn('POST', '', { id: 't1', text: 'list', trigger: 'user' });
  await turn('POST', '/t1/calls/c1', { name: 'list', own: true });
  t.match((await turn('POST', '/t1/end', { text: 'Done.' })).body, { state: 'ended' });
  await turn('POST', '', { id: 't2', text: 'next', trigger: 'user' });
  const answered = { state: 'answered', result: { isError: true, content: [{ text: /the runtime aborted it/ }] } };
  t.match(await turn('DELETE', '/t1/calls/c1'), { status: 200, body: answered });
  const { messages } = (await turn('GET', '/t2/prompt')).body;
  t.same(
    messages.map(({ text }: { text: string }) => text),
    ['list', 'Done.', 'next'],
  );
});

t.test('a known key replaces the groups of tools that are given, and no other field', async (t) => {
  const fixture = shared.withNewAccount();
  const start = (more: object) => fixture.call('POST', '/sessions', { agentId: 'a', key: 'k', ...more });
  const fields = { agentName: 'Ann', hostTools: ['todo'] };
  t.match(await start(fields), { status: 201, body: fields });
  t.match(await start({ agentName: 'Bob' }), { status: 200, body: fields });
  t.match(await start({ hostTools: ['agent'] }), { status: 200, body: { agentName: 'Ann', hostTools: ['agent'] } });
  t.same((await start({ hostTools: [] })).body.hostTools, []);
  t.match(await start({ hostTools: ['todo', 'todo'] }), {
    status: 400,
    body: { detail: 'hostTools: must have each group once' },
  });
});

t.test('names and sizes are checked, and a key opens the session with the tools of now', async (t) => {
  const fixture = shared.withNewAccount();
  const start = (tools: unknown, more: object = {}) =>
    fixture.call('POST', '/sessions', { agentId: 'a', key: 'k', tools, ...more });
  for (const [tools, message] of [
    [[{ name: 'acme__send' }], /must not contain “__”/],
    [[{ name: 'with space' }], /must be of letters/],
    [[{ name: 'one' }, { name: 'one' }], /must have each name once/],
    [[{ name: 'one', parameters: { description: 'x'.repeat(270_000) } }], /at most 262144 bytes/],
  ] as const)
    t.match(await start(tools), { status: 400, body: { errors: [{ message }] } });
  const { id } = (await start([{ name: 'one' }])).body;
  const listNames = async () =>
    (await fixture.call('GET', `/sessions/${id}/tools`)).body.items.map(({ name }: { name: string }) => name);
  t.same(await listNames(), ['one']);
  t.match(await start([{ name: 'two' }, { name: 'three' }]), { status: 200, body: { id } });
  t.same(await listNames(), ['two', 'three']);
  await start(undefined);
  t.same(await listNames(), ['two', 'three'], 'what is left out stays');
  await fixture.call('PUT', `/sessions/${id}/tools`, { hostTools: ['agent'] });
  t.same(await listNames(), ['agent__send', 'two', 'three']);
  await fixture.call('PUT', `/sessions/${id}/tools`, { tools: [] });
  t.same(await listNames(), ['agent__send']);
  const bytes = async () =>
    (
      await fixture.pool.query(
        `SELECT count(*)::int AS rows, sum(stored_bytes)::int AS bytes FROM stored_rows s
       JOIN accounts a ON a.id = s.account_id WHERE a.name = $1 AND kind = 'transcripts'`,
        [fixture.account],
      )
    ).rows[0];
  await fixture.call('PUT', `/sessions/${id}/tools`, { tools: [{ name: 'one', description: 'x'.repeat(5_000) }] });
  t.ok((await bytes()).bytes > 5_000, 'and their bytes are counted');
  await fixture.call('DELETE', `/sessions/${id}`);
  t.equal((await bytes()).rows, 5, 'only the changes that the stream of sessions tells for a day are left');
});

t.test('a crash between the steps hands a call over once and judges a result once more at most', async (t) => {
  const { fixture, turn } = await openFixture();
  const result = { content: [{ type: 'text', text: 'pay 4111' }] };
  const insist = async (path: string, body: object) => {
    const reply = await turn('POST', path, body);
    return reply.status < 500 ? reply : turn('POST', path, body);
  };
  const steps = { 'call.claimed': 2, 'call.answered': 3, 'call.judged': 3 };
  for (const [step, asked] of Object.entries(steps)) {
    const before = (await listJudged(fixture)).length;
    crashAt = step;
    const id = step.replace('.', '-');
    const call = { name: 'list-files', arguments: { path: '~' }, attempt: 'a1' };
    t.match(await insist(`/t1/calls/${id}`, call), { status: 202, body: { isRepeated: false } }, step);
    t.match(await insist(`/t1/calls/${id}/result`, result), { status: 200, body: { isError: false } }, step);
    t.equal(crashAt, '', `${step} was reached`);
    t.equal((await listJudged(fixture)).length - before, asked, `${step}: hooks`);
  }
});

soakTest(t, 'a call that a crash interrupted waits where its tool cannot be looked up', async (t) => {
  const { fixture, turn } = await openFixture();
  const call = { name: 'list-files', arguments: { path: '~' }, attempt: 'a1' };
  crashAt = 'call.claimed';
  t.equal((await turn('POST', '/t1/calls/c1', call)).status, 500);
  await fixture.pool.query('ALTER TABLE session_tools RENAME TO away');
  t.equal((await turn('POST', '/t1/calls/c1', call)).status, 500);
  await fixture.pool.query('ALTER TABLE away RENAME TO session_tools');
  t.match(await turn('POST', '/t1/calls/c1', call), { status: 202, body: { isRepeated: false } }, 'it never ran');
});

t.test('the client performs its tools in a turn', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `judge-${fixture.account}`, code: JUDGE });
  const call: typeof fetch = async (url, init) => {
    const { pathname, search } = new URL(String(url));
    const { method = 'GET', body = null } = init ?? {};
    const reply = await fixture.call(method as 'GET', pathname + search, body ? JSON.parse(String(body)) : undefined);
    return Response.json(reply.body, { status: reply.status });
  };
  const client = connect({ url: 'http://service', token: 'any', fetch: call });
  const ran: unknown[] = [];
  const run = async (args: { path: string }, { callId }: { callId: string }) => {
    ran.push([callId, args]);
    if (args.path === '/dev') throw new Error('no such folder');
    if (args.path === '/tmp')
      await turn.answerCall(callId, { content: [{ type: 'text', text: 'first' }], isError: false });
    return args.path === '/json' ? { files: 2 } : 'pay 4111';
  };
  const session = await client.start({ agentId: 'a', tools: [{ ...LIST_FILES, run }] });
  const turn = await session.openTurn({ text: 'hello', trigger: 'user' });
  const calls = [turn.call('c1', 'list-files', { path: '~' }), turn.call('c1', 'list-files', { path: '~' })];
  const judged = { content: [{ type: 'text', text: 'pay [card]' }], isError: false };
  t.same(await Promise.all(calls), [judged, judged]);
  t.same(ran, [['c1', { path: '/home' }]], 'it ran once');
  t.match(await turn.call('c2', 'list-files', { path: '/dev' }), {
    isError: true,
    content: [{ text: 'no such folder' }],
  });
  t.same((await turn.call('c4', 'list-files', { path: '/etc' })).isError, true);
  t.equal(ran.length, 2, 'a cancelled call does not run');

  t.hasStrict(await turn.requestCall('c5', 'list-files', { path: '/home' }), { isRepeated: false });
  const restarted = client.open(session.id).turn(turn.id);
  await t.rejects(restarted.call('c5', 'list-files', { path: '/home' }), /no function for it/);
  t.match(await turn.call('c5', 'list-files', { path: '/home' }), {
    isError: true,
    content: [{ text: /interrupted because its runtime stopped. The tool may have run/ }],
  });
  t.match(await session.offerTools({ tools: [{ ...LIST_FILES, run, isRepeatable: true }] }), [{ name: 'list-files' }]);
  await turn.requestCall('c6', 'list-files', { path: '/home' });
  t.same(await turn.call('c6', 'list-files', { path: '/home' }), judged);
  const first = { content: [{ type: 'text', text: 'first' }], isError: false };
  t.same(await turn.call('c7', 'list-files', { path: '/tmp' }), first, 'another process sent a result meanwhile');
  await t.rejects(turn.call('c7', 'list-files', { path: '/home' }), { code: 'id_reused' });
});
