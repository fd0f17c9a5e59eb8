/** The agent runtime's client against a real session API: what it asks, what it repeats, and what it does not. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createConnection, createServer as createTcpServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { buildSync } from 'esbuild';
import t from 'tap';
import { Agent, DecoratorHandler, fetch as fetchByUndici } from 'undici';
import { SessionClient } from '../../sdk/session/client.ts';
import {
  type Added,
  BulkheadError,
  ConnectionLostError,
  connect,
  type SessionEvent,
} from '../../sdk/session/session.ts';
import { Transport } from '../../sdk/session/transport.ts';
import { eventually } from '../runner/eventually.ts';
import type { Teardown } from '../runner/harness.ts';
import { soakTest } from '../runner/soak.ts';
import { DuringSteps, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const token = await fixture.issuer.issue('ann');
const client = connect({ url, token: async () => token });

await fixture.install({
  slug: 'guide',
  code: `
    middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' Be kind.';
    middleware.inboundMessage = (ctx) => { if (/bomb/.test(ctx.message.text)) ctx.cancel('not here'); };
    compaction.summarize = (ctx) => 'They said ' + ctx.messages.length + ' things.';
    tools.add = { description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
      handler: ({ a }) => String(a + 1) };
    let release;
    tools.hold = { description: 'Holds', parameters: { type: 'object' }, handler: (args, { signal }) => new Promise((resolve) => {
      host.log('holding', args);
      release = resolve;
      signal.addEventListener('abort', () => host.log('aborted', { why: signal.reason.message }));
    }) };
    tools.release = { description: 'Releases', parameters: {}, handler: () => { release('held'); return 'x'; } };
    commands.hello = { description: 'Greets', handler: (input) => 'Hello ' + input };
    providers.echo = { models: [{ id: 'e1', name: 'Echo' }], chat: (request) => ({ text: request.messages.at(-1).text,
      model: 'e1', usage: { inputTokens: 1, outputTokens: 1 } }) };
  `,
});

/** As Node's `fetch` has it, but shorter. */
const HEADERS_TIMEOUT_MS = 1_000;
const TOOL = `tools.late = { description: 'Late', parameters: {}, handler: () => 'x' };`;

/** A server that sends the given responses in order, and repeats the last one. Its `client` tries for some seconds, `hasty` once. */
async function scripted(
  test: Teardown,
  ...answers: ((at: number) => [number, string?, Record<string, string>?] | 'break')[]
) {
  let at = 0;
  const server: Server = createServer((request, response) => {
    request.resume();
    const answer = (answers[Math.min(at, answers.length - 1)] as (at: number) => ReturnType<(typeof answers)[0]>)(at++);
    if (answer === 'break') return void request.socket.destroy();
    const [status, body = '{}', headers = {}] = answer;
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close', ...headers }).end(body);
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  test.teardown(() => new Promise<unknown>((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  const options = { url: `http://127.0.0.1:${port}/`, token: 'x' };
  return {
    asked: () => at,
    client: connect({ ...options, retryForMs: 5_000 }),
    hasty: connect({ ...options, retryForMs: 0 }),
  };
}

t.test('what happens to the sessions of one agent, beside messages', async (t) => {
  const [mine, other] = [await client.start({ agentId: 'followed' }), await client.start({ agentId: 'other' })];
  await other.append([{ role: 'user', text: 'not this' }]);
  await mine.append([{ role: 'user', text: 'hello' }]);
  const seen: SessionEvent[] = [];
  // From the first event that there is.
  for await (const event of client.events({ agentId: 'followed', after: '0-0' })) {
    seen.push(event);
    if (event.type === 'message') await fixture.install({ slug: 'late', code: TOOL });
    if (event.type === 'tools') await mine.clear({ by: 'user' });
    if (event.type === 'cleared') await mine.delete();
    if (event.type === 'deleted') break;
  }
  t.same(
    seen.map(({ type }) => type),
    ['open', 'message', 'tools', 'cleared', 'deleted'],
  );
  t.match(seen[0], { position: '0-0', gap: false });
  t.match(seen.at(-1), { sessionId: mine.id, agentId: 'followed' });
  await t.rejects(client.added({ sessionId: 'nothing' }).next(), { code: 'not_found' });
});

t.test('texts that cannot be stored, and results that the service cannot take, reach it in another form', async (t) => {
  const odd = {
    content: [
      { type: 'text' as const, text: 'cut \ud83d' },
      { type: 'json' as const, json: { 'a\0': ['b\0', '\\u0000', null] } },
    ],
  };
  const session = await client.start({
    agentId: 'odd',
    tools: [
      { name: 'odd', run: async () => ({ ...odd, isError: false }) },
      { name: 'long', run: async () => 'x'.repeat(300_000) },
      { name: 'deep', run: async () => JSON.parse(`${'['.repeat(150)}1${']'.repeat(150)}`) },
      { name: 'half', run: async () => ({ content: [{ type: 'text' }] }) },
    ],
  });
  const turn = await session.openTurn({ text: 'Hi', trigger: 'user' });
  t.same(await turn.call('c1', 'odd'), {
    content: [
      { type: 'text', text: 'cut \ufffd' },
      { type: 'json', json: { 'a\ufffd': ['b\ufffd', '\\u0000', null] } },
    ],
    isError: false,
  });
  t.match(await turn.call('c2', 'long'), { isError: true, content: [{ text: /has more than 262144 bytes/ }] });
  t.match(await turn.call('c3', 'deep'), { isError: true, content: [{ text: /deeper than 100 levels/ }] });
  t.match(await turn.call('c4', 'half'), { isError: true, content: [{ text: /text/ }] });
  t.match(await turn.output('nul \0'), { show: 'nul \ufffd' });
  const shown: string[] = [];
  const pieces = async function* () {
    yield 'nul \0';
    yield 'cut \ud83d';
  };
  for await (const { show } of turn.stream(pieces())) shown.push(show);
  t.equal(shown.join(''), 'nul \ufffdcut \ufffd');
  const attachments = [{ name: 'plan.txt', mediaType: 'text/plain', url: 'https://example.com/plan.txt' }];
  const noText = async function* (): AsyncGenerator<string> {};
  await t.rejects(
    turn.stream(noText(), { attachments }).next(),
    { code: 'bad_request' },
    'files are not dropped silently',
  );
  // As a program without types passes it.
  const fields = { text: 'ok' } as unknown as string;
  const sentence = (name: string) => ({
    name: 'TypeError',
    message: `turn.${name} takes the text as its first argument: turn.${name}('…')`,
  });
  await t.rejects(turn.output(fields), sentence('output'));
  await t.rejects(turn.piece(fields, { id: 'o9', piece: 0 }), sentence('piece'));
  await t.rejects(turn.end(fields), sentence('end'));
  t.match(await turn.end('cut \ud83d'), { state: 'ended' });
});

t.test('a turn with many and large steps is read in pages', async (t) => {
  const PAGE_MAX_BYTES = 6 * 1_048_576;
  const session = await client.start({ agentId: 'pages' });
  const turn = await session.openTurn({ id: 't1', text: 'Hi', trigger: 'user' });
  await fixture.pool.query(
    `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name, answer, ended_at)
     SELECT $1, 't1', 'c' || n, '', account_id, 'x',
       json_build_object('result', json_build_object('isError', false, 'content', json_build_array(
         json_build_object('type', 'text', 'text', repeat('x', CASE WHEN n <= 30 THEN 250000 ELSE 1 END))))), now()
       FROM sessions, generate_series(1, 1500) n WHERE id = $1 ORDER BY n`,
    [session.id],
  );
  await fixture.pool.query(
    `WITH added AS (
       INSERT INTO turn_outputs (session_id, turn_id, id, account_id, state, pieces, is_held)
       SELECT $1, 't1', 'o' || n, account_id, 'passed', 0, true
         FROM sessions, generate_series(1, 40) n WHERE id = $1 ORDER BY n RETURNING *)
     INSERT INTO session_messages (session_id, account_id, id, role, text, judgement)
     SELECT session_id, account_id, id, 'assistant', repeat('x', 250000), '{"hook":"h","outcome":"unchanged","asked":0,"by":[],"reason":null}' FROM added`,
    [session.id],
  );
  const headers = { authorization: `Bearer ${token}` };
  const first = await (await fetch(`${url}/sessions/${session.id}/turns/t1`, { headers })).text();
  t.ok(first.length < PAGE_MAX_BYTES, `one answer has ${first.length} bytes`);
  const { calls, outputs, nextCursor } = await turn.look();
  const listIds = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`);
  t.same(
    calls.map(({ callId }) => callId),
    listIds('c', 1_500),
  );
  t.same(
    outputs.map(({ id }) => id),
    listIds('o', 40),
  );
  t.equal(nextCursor, null);
  const wrong = await fetch(`${url}/sessions/${session.id}/turns/t1?cursor=wrong`, { headers });
  t.match(await wrong.json(), { code: 'bad_request', errors: [{ field: 'cursor' }] });
  t.match(await turn.end(), { state: 'ended', replyId: 'o40' });
});

t.test('a turn, with a streamed answer and pairs of surrogates split between pieces', async (t) => {
  const session = await client.start({ agentId: 'turns' });
  const turn = await session.openTurn({
    id: 't1',
    from: 'bob',
    text: 'Hi',
    trigger: 'user',
    systemPrompt: 'Be brief.',
  });
  t.match(turn.record, { id: 't1', action: 'continue', message: { text: 'Hi', judgement: { asked: 1 } } });
  const prompt = await turn.prompt({ model: 'm' });
  t.match(prompt, { systemPrompt: 'Be brief. Be kind.', messages: [{ role: 'user', text: 'Hi' }], model: 'm' });
  t.match(prompt.tools, [{ name: 'guide__add' }]);
  t.same(await turn.call('c1', 'guide__add', { a: 1 }), { content: [{ type: 'text', text: '2' }], isError: false });
  t.match(await turn.lookUpCall('c1'), { state: 'answered' });
  t.match(await turn.output('Wait.', { id: 'o1' }), { show: 'Wait.' });
  const pieces = (async function* () {
    yield* ['a \ud83d', '\ude00 b', '', ' \ud83d'];
  })();
  let shown = '';
  for await (const { show } of turn.stream(pieces)) shown += show;
  t.equal(shown, 'a \u{1f600} b \ufffd');
  t.match(await turn.end('Bye.'), { state: 'ended', action: 'continue' });
  const again = connect({ url, token: async () => token }).open(session.id);
  await t.rejects(again.turn('t1').prompt(), { code: 'turn_ended' });
  t.match(await again.turn('t1').look(), { turn: { state: 'ended' }, outputs: [{ id: 'o1' }, {}, { text: 'Bye.' }] });
  t.match(await session.turns({ state: 'ended' }), { items: [{ id: 't1' }] });
  await session.openTurn({ id: 't2', text: 'Hi', trigger: 'user' });
  await t.rejects(again.openTurn({ id: 't2', text: 'Hi', trigger: 'user' }), { code: 'turn_held' }, 'another runtime');
  const named = connect({ url, token: async () => token, runtime: 'Küche 日本' }).open(session.id);
  const { record } = await named.openTurn({ id: 't3', text: 'Hi', trigger: 'user' });
  t.equal(record?.lease.runtime, 'Küche 日本');
});

t.test('a session and everything below it', async (t) => {
  const session = await client.start({ agentId: 'a1', agentName: 'Ann' });
  t.match(await session.look(), { id: session.id, agentName: 'Ann' });
  const prompt = await session.hook('systemPrompt', { systemPrompt: 'Be brief.', model: 'm' });
  t.equal(prompt.context.systemPrompt, 'Be brief. Be kind.');
  t.match(prompt.trace, [{ slug: 'guide', outcome: 'changed' }]);
  const message = { id: 'm1', from: 'bob', text: 'a bomb', attachments: [] };
  t.match(await session.hook('inboundMessage', { message }), {
    action: 'cancel',
    reason: 'not here',
    cancelledBy: 'guide',
  });
  t.match(await session.tools(), [{ name: 'guide__add', parameters: { required: ['a'] } }]);
  t.same(await session.callTool('guide__add', { a: 2 }), { content: [{ type: 'text', text: '3' }], isError: false });
  t.equal(await session.runCommand('guide__hello', 'you'), 'Hello you');
  t.match(await session.commands(), [{ name: 'guide__hello', kind: 'code' }]);
  t.same(await session.skills(), []);
  t.match(await session.providers(), [{ name: 'guide__echo', models: [{ id: 'e1' }] }]);
  t.match(await session.complete('guide__echo', { messages: [{ role: 'user', text: 'Hi' }] }), { text: 'Hi' });
  await session.append([
    { role: 'user', text: 'one' },
    { role: 'assistant', text: 'two' },
  ]);
  t.match(await session.compact(), { source: 'plugin', summary: 'They said 2 things.' }, 'without notices');
  t.equal((await session.messages({ limit: 1 })).items.length, 1);
  t.ok((await client.list()).items.some(({ id }) => id === session.id));
  t.ok((await session.clear({ reason: 'done' })).clearedAt);
  await session.delete();
  await t.rejects(session.look(), { name: 'BulkheadError', status: 404, code: 'not_found' });
  await t.rejects(connect({ url, token: 'nonsense' }).list(), {
    status: 401,
    code: 'unauthenticated',
    message: /Sign in/,
  });
});

t.test('a refusal says which field is wrong', async (t) => {
  const session = await client.start({ agentId: 'a2' });
  const refused: unknown = await session.callTool('guide__add', { a: 'x' }).catch((error: unknown) => error);
  t.ok(refused instanceof BulkheadError);
  t.match(refused, { status: 422, code: 'invalid_arguments', requestId: /./, errors: [{ field: /a/ }] });
});

t.test('calls that did not start are retried after the requested delay', async (t) => {
  const { client, asked } = await scripted(
    t,
    () => [503, '{"code":"unavailable","detail":"Not now."}', { 'retry-after': '1' }],
    () => [503, '{"code":"unavailable"}'],
    () => [200, '{"content":[],"isError":false}'],
  );
  const started = Date.now();
  t.same(await client.open('s').callTool('x__y', {}), { content: [], isError: false });
  t.equal(asked(), 3);
  t.ok(Date.now() - started >= 1_000);
});

t.test('calls that may have run are retried only if they are idempotent', async (t) => {
  const tool = await scripted(t, () => 'break');
  await t.rejects(tool.client.open('s').callTool('x__y', {}), ConnectionLostError);
  t.equal(tool.asked(), 1);
  const html = { 'content-type': 'text/html' };
  const ofProxy = [
    [502, '<html><h1>502 Bad Gateway</h1></html>', html],
    [503, 'upstream connect error or disconnect/reset before headers', { 'content-type': 'text/plain' }],
    [504, '', html],
    [504, '{"message":"Endpoint request timed out"}'],
  ] as const;
  for (const answer of ['break', [502, '{"code":"outcome_unknown"}'], ...ofProxy] as const) {
    const named = await scripted(t, () => (answer === 'break' ? answer : [...answer]));
    await t.rejects(named.client.open('s').callTool('x__y', {}, { callId: 'c1' }), ConnectionLostError);
    t.equal(named.asked(), 1, 'the id of a call does not make it idempotent');
  }
  const forwarded = await scripted(t, () => [502, '{"code":"outcome_unknown"}']);
  await t.rejects(forwarded.client.open('s').runCommand('x__y'), ConnectionLostError);
  t.equal(forwarded.asked(), 1);
  const hook = await scripted(
    t,
    () => 'break',
    () => [502, '{"code":"outcome_unknown"}'],
    () => [200, '{"action":"continue"}'],
  );
  t.match(await hook.client.open('s').hook('systemPrompt', { systemPrompt: 'a', model: 'm' }), { action: 'continue' });
  t.equal(hook.asked(), 3);
  for (const answer of ofProxy) {
    const list = await scripted(
      t,
      () => [...answer],
      () => [200, '{"items":[],"nextCursor":null}'],
    );
    t.match(await list.client.list(), { items: [] });
    t.equal(list.asked(), 2);
  }
  const failed = await scripted(t, () => [502, '{"code":"plugin_failed","detail":"It failed."}']);
  await t.rejects(failed.client.list(), { status: 502, code: 'plugin_failed' });
  t.equal(failed.asked(), 1, 'a problem of the service is not one of a proxy');
});

soakTest(t, 'a call that takes longer than the HTTP library waits for a response is answered', async (t) => {
  const during = new DuringSteps();
  const slow = await startSupervisorFixture(t, { faultPoint: during.faultPoint, sessionApi: { interimMs: 50 } });
  const slowUrl = await slow.app.listen({ port: 0, host: '127.0.0.1' });
  await slow.install({ slug: 'late', code: TOOL });
  const isLate = Promise.withResolvers<void>();
  let started = Number.POSITIVE_INFINITY;
  const agent = new Agent({ headersTimeout: HEADERS_TIMEOUT_MS });
  t.teardown(() => agent.close());
  const dispatcher = agent.compose((dispatch) => (options, handler) => {
    const onResponseStart: typeof handler.onResponseStart = (controller, status, ...rest) => {
      if (status === 102 && performance.now() - started > 2 * HEADERS_TIMEOUT_MS) isLate.resolve();
      handler.onResponseStart?.(controller, status, ...rest);
    };
    return dispatch(options, Object.assign(new DecoratorHandler(handler), { onResponseStart }));
  });
  const slowClient = connect({
    url: slowUrl,
    token: await slow.issuer.issue(slow.account),
    retryForMs: 0,
    fetch: ((input: string, init: RequestInit) =>
      fetchByUndici(input, { ...(init as object), dispatcher })) as unknown as typeof fetch,
  });
  const session = await slowClient.start({ agentId: 'a' });
  const turn = await session.openTurn({ id: 't1', text: 'hello', trigger: 'user' });
  during.set('call.claimed', () => isLate.promise);
  started = performance.now();
  t.match(await turn.call('c1', 'late__late'), { content: [{ text: 'x' }], isError: false });
});

t.test('a call whose connection breaks returns the result of its tool', async (t) => {
  const sockets = new Set<Socket>();
  const proxy = createTcpServer((socket) => {
    const upstream = createConnection(Number(new URL(url).port), '127.0.0.1');
    sockets.add(socket);
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const)
      from
        .on('error', () => undefined)
        .on('close', () => to.destroy())
        .pipe(to);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());
  const { port } = proxy.address() as AddressInfo;
  const { id } = await client.start({ agentId: 'broken' });
  const session = connect({ url: `http://127.0.0.1:${port}`, token: async () => token }).open(id);
  const turn = await session.openTurn({ id: 't1', text: 'Hi', trigger: 'user' });
  const call = turn.call('c1', 'guide__hold', { of: 'broken' });
  const held = async () => (await fixture.readLog('holding')).filter((data) => data.of === 'broken').length;
  await eventually(async () => (await held()) === 1);
  for (const socket of sockets) socket.destroy();
  await client.open(id).callTool('guide__release', {});
  t.same(await call, { content: [{ type: 'text', text: 'held' }], isError: false });
  t.equal(await held(), 1, 'it ran once');
  await turn.end();
});

t.test('the signal of a call aborts it, also when its request has not arrived yet', async (t) => {
  const { id } = await client.start({ agentId: 'stopped' });
  let asked = Promise.withResolvers<void>();
  let arrives = Promise.withResolvers<void>();
  let isHeld = false;
  let opensAfter = 0;
  const deletes: string[] = [];
  const countDeletes = (callId: string): number => deletes.filter((deleted) => deleted === callId).length;
  const slow = connect({
    url,
    token: async () => token,
    runtime: 'stopped',
    fetch: async (input, init) => {
      if (isHeld && init?.method === 'POST') {
        asked.resolve();
        await arrives.promise;
      }
      const response = await fetch(input, init);
      if (init?.method === 'DELETE') {
        const callId = new URL(response.url).pathname.split('/').at(-1) ?? '';
        deletes.push(callId);
        if (countDeletes(callId) === opensAfter) arrives.resolve();
      }
      return response;
    },
  });
  const turn = await slow.open(id).openTurn({ id: 't1', text: 'Hi', trigger: 'user' });
  const stop = async (callId: string, isRunning: () => Promise<unknown>) => {
    const stopping = new AbortController();
    const call = turn.call(callId, 'guide__hold', { of: callId }, { signal: stopping.signal });
    await isRunning();
    const abortedAt = performance.now();
    stopping.abort(new Error('stopped by the user'));
    await t.rejects(call, { message: 'stopped by the user' });
    const hasWaited = countDeletes(callId) > 0 || performance.now() - abortedAt >= 1_000;
    t.ok(hasWaited, 'the service has aborted it, or a second has passed: the process may exit');
    const isOver = async () => {
      const state = await turn.lookUpCall(callId).catch(() => null);
      return state?.state === 'answered' && state;
    };
    const text = /aborted: the runtime aborted it|aborted before the tool ran/;
    t.match(await eventually(isOver), { result: { isError: true, content: [{ text }] } });
  };
  const isHeldBy = (callId: string) => async () => (await fixture.readLog('holding')).some(({ of }) => of === callId);
  await stop('s1', () => eventually(isHeldBy('s1')));
  t.match(await eventually(async () => (await fixture.readLog('aborted'))[0]), { why: /the runtime aborted it/ });
  isHeld = true;
  // The service does not know the call.
  opensAfter = 1;
  await stop('s2', () => asked.promise);
  isHeld = false;
  await turn.call('s4', 'guide__add', { a: 1 });
  // As a supervisor leaves it that is killed while the tool runs.
  const killed = `UPDATE tool_calls SET answer = NULL, ended_at = NULL WHERE session_id = $1 AND call_id = 's4'`;
  await fixture.pool.query(killed, [id]);
  isHeld = true;
  asked = Promise.withResolvers();
  arrives = Promise.withResolvers();
  opensAfter = 2;
  const stopping = new AbortController();
  const interrupted = turn.call('s4', 'guide__add', { a: 1 }, { signal: stopping.signal });
  await asked.promise;
  stopping.abort(new Error('stopped'));
  await t.rejects(interrupted, { message: 'stopped' });
  await arrives.promise;
  t.ok(countDeletes('s4') >= 2, 'the call may be made again until it is answered, so it is aborted again');
  isHeld = false;
  const late = AbortSignal.abort(new Error('before'));
  await t.rejects(turn.call('s3', 'guide__hold', {}, { signal: late }), { message: 'before' });
  await t.rejects(turn.lookUpCall('s3'), { code: 'not_found' });
  await turn.end();
});

t.test('the signal of a call of a tool of the runtime aborts it at the service, whatever the tool does', async (t) => {
  const begun = Promise.withResolvers<AbortSignal | undefined>();
  const never = () => new Promise<never>(() => undefined);
  const run = (_args: unknown, { signal }: { signal?: AbortSignal }) => {
    begun.resolve(signal);
    return never();
  };
  const session = await client.start({ agentId: 'own-stopped', tools: [{ name: 'oven', run }] });
  const turn = await session.openTurn({ id: 't1', text: 'Hi', trigger: 'user' });
  const stopping = new AbortController();
  const call = turn.call('c1', 'oven', {}, { signal: stopping.signal });
  t.equal((await begun.promise)?.aborted, false);
  stopping.abort(new Error('stopped by the user'));
  await t.rejects(call, { message: 'stopped by the user' });
  const result = { isError: true, content: [{ text: /aborted: the runtime aborted it/ }] };
  t.match(await turn.lookUpCall('c1'), { state: 'answered', result });
  t.match(await turn.call('c1', 'oven'), result, 'it is over');
  await turn.end();
});

t.test('a permanent error is thrown once, and a caller can abort', async (t) => {
  const wrong = await scripted(t, () => [500, 'no json']);
  await t.rejects(wrong.client.list(), {
    status: 500,
    code: 'internal',
    message: 'The service responded with status 500.',
  });
  t.equal(wrong.asked(), 1);
  const busy = await scripted(t, () => [503, '{"detail":"Not now."}', { 'retry-after': '60' }]);
  await t.rejects(busy.client.list(), { status: 503, message: 'Not now.' }, 'a wait that is too long is not begun');
  const away = connect({ url: 'http://127.0.0.1:9', token: 'x' });
  const control = new AbortController();
  setTimeout(() => control.abort(new Error('enough')), 50);
  await t.rejects(away.list({ signal: control.signal }), { message: 'enough' });
});

t.test('a request that cannot be made is not repeated, and is no lost connection', async (t) => {
  let asked = 0;
  const failing = connect({
    url,
    token: () => {
      asked += 1;
      throw new Error('no token');
    },
  });
  await t.rejects(failing.open('s').callTool('x__y', {}), { message: 'no token' });
  await t.rejects(failing.list(), { message: 'no token' });
  t.equal(asked, 2);
  await t.rejects(client.open('s').callTool('x__y', { a: 1n }), TypeError);
});

t.test('the stream yields new messages and resumes at its position', async (t) => {
  const session = await client.start({ agentId: 'a3' });
  const control = new AbortController();
  const { signal } = control;
  const appendText = (text: string) => session.append([{ role: 'user', text }]);
  // A stream opens at its own time: said again until it is heard.
  const appends: Promise<unknown>[] = [];
  const poke = setInterval(() => appends.push(appendText('one')), 300);
  const [first] = await takeUntil('one', client.added({ signal }));
  clearInterval(poke);
  // One that is under way could be added after the next text.
  await Promise.all(appends);
  t.match(first, { type: 'message', sessionId: session.id, message: { role: 'user' } });
  await appendText('two');
  await appendText('three');
  const rest = await takeUntil('three', client.added({ after: first?.position ?? '', signal }));
  t.same(
    rest.slice(-2).map(({ message }) => message.text),
    ['two', 'three'],
  );
  control.abort();
  await t.rejects(client.added({ signal }).next());
});

/** Sends one message on each stream, and then nothing, as when the machine of the service or the link to it vanishes. */
async function startSilentStreams(test: Teardown) {
  const resumedAfter: (string | undefined)[] = [];
  const closed: Promise<unknown>[] = [];
  const server = createServer((request, response) => {
    if (!request.url?.startsWith('/sessions/stream')) return void response.end('{"items":[],"nextCursor":null}');
    const id = String(resumedAfter.push(request.headers['last-event-id'] as string | undefined));
    closed.push(once(response, 'close'));
    const message = { id, role: 'user', text: `message ${id}` };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`id: ${id}\nevent: message\ndata: ${JSON.stringify({ sessionId: 's1', message })}\n\n`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const transport = new Transport({ url: `http://127.0.0.1:${port}`, token: 'x' });
  return { client: new SessionClient(transport, SILENCE_MS), resumedAfter, closed };
}
const SILENCE_MS = 100;

t.test('a stream that sends nothing is opened again after its last event', async (t) => {
  const { client, resumedAfter, closed } = await startSilentStreams(t);
  const taken = await takeUntil('message 3', client.added());
  t.same(
    taken.map(({ message }) => message.text),
    ['message 1', 'message 2', 'message 3'],
  );
  t.same(resumedAfter, [undefined, '1', '2']);
  await Promise.all(closed);
});

t.test('an inbox yields a message whose id one of another session has', async (t) => {
  const sessions = [await client.start({ agentId: 'same-ids' }), await client.start({ agentId: 'same-ids' })];
  const message = { id: 'one', role: 'user' as const, text: 'hello' };
  await sessions[0]?.append([message]);
  const seen: string[] = [];
  for await (const { session, message: found } of client.inbox({ agentId: 'same-ids' })) {
    if (seen.push(session.id) === sessions.length) break;
    // It would come again with the list of a new stream.
    await (await session.openTurn({ id: found.id, trigger: 'user' })).end();
    // After the list was read: this one comes with the stream.
    await sessions[1]?.append([message]);
  }
  t.same(
    seen,
    sessions.map(({ id }) => id),
  );
});

t.test('an inbox whose stream sends nothing opens another', async (t) => {
  const { client, closed } = await startSilentStreams(t);
  const texts: string[] = [];
  for await (const { message } of client.inbox()) if (texts.push(message.text) === 2) break;
  t.same(texts, ['message 1', 'message 2']);
  await Promise.all(closed);
});

t.test('streams that were open are opened again, however long the service is away', async (t) => {
  // The pauses before a stream is opened again have a random length.
  const realRandom = Math.random;
  Math.random = () => 0;
  t.teardown(() => {
    Math.random = realRandom;
  });
  const message = { id: 'm', role: 'user', text: 'hello' };
  const stream = (id: string) => (): [number, string, Record<string, string>] => [
    200,
    `id: ${id}\nevent: message\ndata: ${JSON.stringify({ sessionId: id, message })}\n\n`,
    { 'content-type': 'text/event-stream' },
  ];
  const failures = [
    () => 'break',
    () => [502, '<html></html>'],
    () => [503, '{"code":"unavailable"}'],
    () => [429, '{"code":"rate_limited"}'],
  ] as const;
  const away = Array.from({ length: 3 }, () => failures).flat() as (() => [number, string] | 'break')[];
  const refuse = (): [number, string] => [403, '{"code":"forbidden"}'];

  const followed = await scripted(t, stream('1'), ...away, stream('2'), ...away, refuse);
  const positions: string[] = [];
  const follow = async (): Promise<void> => {
    for await (const { position } of followed.hasty.added()) positions.push(position);
  };
  await t.rejects(follow(), { code: 'forbidden' }, 'a stream that is refused is not asked for again');
  t.same(positions, ['1', '2']);

  const list = (): [number, string] => [
    200,
    JSON.stringify({ items: [{ sessionId: '3', message }], nextCursor: null }),
  ];
  const filled = await scripted(t, stream('1'), ...away, stream('2'), list);
  const seen: string[] = [];
  for await (const { session } of filled.hasty.inbox()) if (seen.push(session.id) === 2) break;
  t.same(seen, ['3', '2'], 'the list and then the stream, when the service is back');

  const absent = await scripted(t, () => 'break');
  await t.rejects(absent.hasty.added().next(), { message: 'fetch failed' }, 'a wrong address shows at the start');
  await t.rejects(absent.hasty.inbox().next(), { message: 'fetch failed' });
  t.equal(absent.asked(), 2);
});

async function takeUntil(text: string, stream: AsyncGenerator<Added>): Promise<Added[]> {
  const taken: Added[] = [];
  for await (const added of stream) {
    taken.push(added);
    if (added.message.text === text) break;
  }
  return taken;
}

t.test('the client needs web globals only', async (t) => {
  const built = buildSync({
    entryPoints: [fileURLToPath(new URL('../../sdk/session/session.ts', import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    format: 'iife',
    globalName: 'sdk',
    platform: 'browser',
    target: 'es2022',
  });
  const code = built.outputFiles[0]?.text ?? '';
  const others = Object.keys(built.metafile.inputs).filter((path) => !path.startsWith('sdk/session/'));
  t.same(others, [], 'no library and nothing of the protocol’s schemas');
  const web = {
    fetch,
    AbortController,
    URLSearchParams,
    TextDecoderStream,
    TextEncoder,
    ReadableStream,
    setTimeout,
    clearTimeout,
    crypto,
    performance,
  };
  const context = vm.createContext({ ...web, url, token });
  const found = await vm.runInContext(
    `${code}; sdk.connect({ url, token }).list().then((page) => page.items.length)`,
    context,
  );
  t.ok(found >= 1);
});
