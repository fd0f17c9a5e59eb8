/** Bad input at every endpoint of the session API: problem+json with the right code, never a 500. */
import t from 'tap';
import { hooks } from '../../../sdk/contract/protocol.ts';
import { connect } from '../delivery/channels.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);

t.test('requests need a token and a session of the account', async (t) => {
  const session = await fixture.session('ann');
  for (const authorization of [undefined, '', 'Bearer', 'Bearer x', 'Basic abc', 'Bearer a.b.c']) {
    const reply = await fixture.app.inject({
      url: `/sessions/${session}`,
      headers: authorization === undefined ? {} : { authorization },
    });
    t.match(reply.json(), { status: 401, code: 'unauthenticated' }, String(authorization));
    t.match(reply.headers, { 'content-type': /^application\/problem\+json/, 'x-request-id': reply.json().requestId });
  }
  const paths: [string, string, unknown?][] = [
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/messages'],
    ['POST', '/messages', { messages: [{ role: 'user', text: 'x' }] }],
    ['POST', '/hooks/systemPrompt', { context: { systemPrompt: 'a', model: 'm' } }],
    ['POST', '/compaction', {}],
    ['GET', '/tools'],
    ['POST', '/tools/a__b', { arguments: {} }],
    ['GET', '/commands'],
    ['POST', '/commands/a__b', {}],
    ['GET', '/skills'],
    ['GET', '/skills/a__b'],
    ['GET', '/providers'],
    ['POST', '/providers/a__b', { request: { messages: [{ role: 'user', text: 'x' }] } }],
    ['POST', '/clear', {}],
  ];
  for (const [method, path, body] of paths) {
    for (const [id, account] of [
      [session, 'bob'],
      ['nonsense', 'ann'],
      ['%00', 'ann'],
      ['x'.repeat(400), 'ann'],
    ] as const) {
      const reply = await fixture.call(method as 'GET', `/sessions/${id}${path}`, body, account);
      t.match(
        reply,
        { status: 404, body: { code: 'not_found' } },
        `${method} ${path} as ${account} of ${id.slice(0, 20)}`,
      );
    }
  }
  t.equal((await fixture.call('GET', `/sessions/${session}`, undefined, 'ann')).status, 200, 'it is still there');
});

t.test('bodies and queries', async (t) => {
  const session = await fixture.session();
  const at = (path: string) => `/sessions/${session}${path}`;
  const cases: [string, string, unknown][] = [
    ['POST', '/sessions', {}],
    ['POST', '/sessions', []],
    ['POST', '/sessions', { agentId: 7 }],
    ['POST', '/sessions', { agentId: '' }],
    ['POST', '/sessions', { agentId: 'a\0b' }],
    ['POST', '/sessions', { agentId: 'a\ud800' }],
    ['POST', '/sessions', { agentId: 'a', channelId: 3 }],
    ['POST', '/sessions', { agentId: 'x'.repeat(201) }],
    ['POST', at('/messages'), {}],
    ['POST', at('/messages'), { messages: [] }],
    ['POST', at('/messages'), { messages: [{ role: 'king', text: 'x' }] }],
    ['POST', at('/messages'), { messages: [{ role: 'user', text: 'a\0' }] }],
    ['POST', at('/messages'), { messages: [{ role: 'user', text: 'x', data: { deep: ['a\0b'] } }] }],
    ['POST', at('/messages'), { messages: [{ role: 'user', text: 'x', data: { 'a\ud800': 1 } }] }],
    ['POST', at('/hooks/systemPrompt'), { context: { systemPrompt: 'a\0', model: 'm' } }],
    ['POST', at('/tools/a__b'), { arguments: { 'a\0': 1 } }],
    ['POST', at('/messages'), { messages: [{ role: 'user', text: 'x'.repeat(262_145) }] }],
    ['POST', at('/messages'), { messages: Array(1001).fill({ role: 'user', text: 'x' }) }],
    ['POST', at('/compaction'), { focus: 3 }],
    ['POST', at('/compaction'), { messages: [{}] }],
    ['POST', at('/clear'), { reason: 3 }],
    ['POST', at('/hooks/systemPrompt'), { context: 3 }],
    ['POST', at('/hooks/systemPrompt'), {}],
    ['POST', at('/hooks/systemPrompt'), { context: {}, trigger: 'moon' }],
    ['GET', '/sessions?limit=0', undefined],
    ['GET', '/sessions?limit=1001', undefined],
    ...['x', '', '1e2', '0x10', '5.0', '+5', '%205'].map((limit): [string, string, unknown] => [
      'GET',
      `/sessions?limit=${limit}`,
      undefined,
    ]),
    ['GET', '/sessions?cursor=%00', undefined],
    ['GET', at('/messages?cursor=!!'), undefined],
    ...[at('/messages'), at('/turns'), at('/notifications'), at('/todos')].map((list): [string, string, unknown] => [
      'GET',
      `${list}?cursor=${Buffer.from('not a position').toString('base64url')}`,
      undefined,
    ]),
  ];
  for (const [method, path, body] of cases) {
    const reply = await fixture.call(method as 'GET', path, body);
    t.match(
      reply,
      { status: 400, body: { code: 'bad_request' } },
      `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}`,
    );
  }
  for (const name of Object.keys(hooks).filter((hook) => hook.startsWith('middleware.'))) {
    const path = at(`/hooks/${name.slice('middleware.'.length)}`);
    t.match(
      await fixture.call('POST', path, { context: {} }),
      { status: 400, body: { errors: [{ field: /^context\./ }] } },
      name,
    );
    const good = await fixture.call('POST', path, { context: hooks[name as keyof typeof hooks].example.context });
    t.match(good, { status: 200, body: { action: 'continue', trace: [] } }, name);
  }
});

t.test('a body may be missing, but not null', async (t) => {
  const session = `/sessions/${await fixture.session('null')}`;
  const token = await fixture.issuer.issue('null');
  await fixture.call('POST', `${session}/messages`, { messages: [{ role: 'user', text: 'x' }] }, 'null');
  for (const [method, path] of [
    ['POST', '/clear'],
    ['POST', '/compaction'],
    ['PUT', '/tools'],
    ['POST', '/tools/a__b'],
    ['POST', '/turns'],
  ] as const) {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const reply = await fixture.app.inject({ method, url: `${session}${path}`, payload: 'null', headers });
    t.equal(reply.statusCode, 400, path);
    t.match(reply.json(), { code: 'bad_request', detail: 'the body: must be an object, not null' }, path);
  }
  const list = async () => (await fixture.call('GET', `${session}/messages`, undefined, 'null')).body.items;
  t.match(await list(), [{ text: 'x' }]);
  t.equal((await fixture.call('POST', `${session}/clear`, undefined, 'null')).status, 200);
  t.same(await list(), []);
});

t.test('a field of a hook that is wrong is named, with what it must be', async (t) => {
  const session = await fixture.session();
  const call = (hook: string, context: unknown) =>
    fixture.call('POST', `/sessions/${session}/hooks/${hook}`, { context });
  const message = { id: 'm', from: 'ann', text: 'hi' };
  const cases: [string, unknown, string][] = [
    ['inboundMessage', {}, 'context.message: is required and must be an object'],
    ['inboundMessage', 5, 'context: must be an object, not a number'],
    ['inboundMessage', { message: { ...message, text: 5 } }, 'context.message.text: must be text, not a number'],
    ['inboundMessage', { message: { ...message, id: '' } }, 'context.message.id: must not be empty'],
    [
      'inboundMessage',
      { message: { ...message, from: 'x'.repeat(501) } },
      'context.message.from: must have at most 500 characters',
    ],
    [
      'inboundMessage',
      { message: { ...message, attachments: null } },
      'context.message.attachments: must be a list, not null',
    ],
    [
      'inboundMessage',
      { message: { ...message, attachments: [{ name: 'a', mediaType: 'b', url: 'c' }] } },
      'context.message.attachments.0.url: must be an absolute address, such as https://example.com/',
    ],
    [
      'todoCreate',
      { todo: { title: 'x', dueAt: 'soon', assigneeAgentId: null } },
      'context.todo.dueAt: must be a time in ISO 8601 with an offset, such as 2026-01-05T09:00:00Z',
    ],
    [
      'sshCommandOutput',
      { ...hooks['middleware.sshCommandOutput'].example.context, exitCode: 0.5 },
      'context.exitCode: must be a whole number, not 0.5',
    ],
  ];
  for (const [hook, context, detail] of cases)
    t.match(await call(hook, context), { status: 400, body: { code: 'bad_request', detail } }, detail);

  const wrongValues = [undefined, null, true, 0.5, 'x', [], [1], {}, { text: 1 }];
  for (const hook of Object.keys(hooks).filter((name) => name.startsWith('middleware.'))) {
    const fields = Object.keys(hooks[hook as keyof typeof hooks].example.context);
    for (const value of wrongValues) {
      const { status, body } = await call(
        hook.slice('middleware.'.length),
        Object.fromEntries(fields.map((field) => [field, value])),
      );
      if (status === 200) continue;
      const foreign = body.errors.filter((error: { message: string }) => !/^(is|must) /.test(error.message));
      t.same(foreign, [], `${hook} with ${JSON.stringify(value)}`);
    }
  }
});

t.test('unknown fields and parameters are refused with the nearest name', async (t) => {
  const session = await fixture.session();
  const at = (path: string) => `/sessions/${session}${path}`;
  const cases: [string, string, unknown, RegExp][] = [
    ['POST', '/sessions', { agentId: 'a', agent: 'a' }, /^agent: is not known; did you mean “agentId”/],
    ['POST', at('/messages'), { messages: [{ role: 'user', text: 'x', txt: 'x' }] }, /^messages\.0\.txt: .*“text”/],
    [
      'POST',
      at('/hooks/todoCreate'),
      { context: { todo: { title: 'x', note: 'x' } } },
      /^context\.todo\.note: .*“notes”/,
    ],
    ['POST', at('/hooks/systemPrompt'), { contxt: {} }, /“context”/],
    ['POST', at('/clear'), { force: true }, /known: reason, by, trigger/],
    ['GET', at('/messages?after=1'), undefined, /^query after: /],
    ['GET', at('?expand=1'), undefined, /leave it out/],
  ];
  for (const [method, path, body, detail] of cases)
    t.match(
      await fixture.call(method as 'GET', path, body),
      { status: 400, body: { code: 'bad_request', detail } },
      path,
    );
});

t.test('queries and lists that are too long are refused with one fault', async (t) => {
  const session = await fixture.session();
  const parameters = Array.from({ length: 4_000 }, (_, index) => index.toString(36)).join('&');
  t.match(await fixture.call('GET', `/sessions?${parameters}`), {
    status: 400,
    body: { code: 'bad_request', detail: 'The query has more than 100 parameters. Send fewer.' },
  });
  const add = (messages: unknown[]) => fixture.call('POST', `/sessions/${session}/messages`, { messages });
  const tooMany = await add(Array(20_000).fill({ x: 0 }));
  t.same(tooMany.body.errors, [{ field: 'messages', message: 'must have at most 1000 entries' }]);
  const incomplete = await add(Array(1_000).fill({ text: 'x' }));
  t.match(incomplete.body.errors, [{ field: 'messages.0.role' }]);
  t.equal(incomplete.body.errors.length, 1);
});

t.test('a session’s channel is one of the account', async (t) => {
  const made = await fixture.install({ slug: 'inbox', account: 'bob', code: 'channel.receive = () => undefined;' });
  const { id: channelId } = await connect(fixture, made);
  const start = (account: string) => fixture.call('POST', '/sessions', { agentId: 'a', channelId }, account);
  t.match(await start('ann'), { status: 404, body: { code: 'not_found', detail: /You have no channel/ } });
  t.match(await start('bob'), { status: 201, body: { channelId } });
});

t.test('what a runtime may leave out', async (t) => {
  const session = await fixture.session();
  const run = async (hook: string, context: object) =>
    (await fixture.call('POST', `/sessions/${session}/hooks/${hook}`, { context })).body.context;
  t.same(await run('systemPrompt', { systemPrompt: 'x' }), { systemPrompt: 'x', model: '' });
  t.match(await run('inboundMessage', { message: { id: 'm', from: 'a', text: 'x' } }), {
    message: { attachments: [] },
  });
  t.match(await run('outboundMessage', { message: { id: 'm', text: 'x' }, target: 'a' }), {
    message: { attachments: [] },
  });
  const todo = { title: 'x', dueAt: null, assigneeAgentId: null };
  t.match(await run('todoCreate', { todo }), { todo: { notes: '' } });
  const before = { ...todo, id: 't', done: false };
  t.same((await run('todoUpdate', { before, changes: { title: 'y' } })).changes, { title: 'y' }, 'no change of notes');
});

t.test('unknown resources and invalid JSON are rejected', async (t) => {
  const session = await fixture.session();
  const unknown = await fixture.call('POST', `/sessions/${session}/hooks/systemPromt`, { context: {} });
  t.match(unknown, { status: 404, body: { code: 'not_found', detail: /systemPrompt/ } });
  for (const hook of ['__proto__', 'constructor', 'compaction.summarize', 'middleware.systemPrompt', 'toString'])
    t.match(await fixture.call('POST', `/sessions/${session}/hooks/${hook}`, { context: {} }), { status: 404 }, hook);
  t.match(await fixture.call('POST', `/sessions/${session}/tools/nope__nope`, {}), { status: 404 });
  t.match(await fixture.call('GET', '/nowhere'), { status: 404, body: { code: 'not_found' } });
  const raw = (payload: string | Buffer, token: string) =>
    fixture.app.inject({
      method: 'POST',
      url: '/sessions',
      payload,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    });
  t.equal((await raw('{', 'x')).statusCode, 401, 'authentication comes before the body');
  const notUtf8 = await raw(Buffer.from('{"agentId":"\xff"}', 'latin1'), await fixture.issuer.issue('ann'));
  t.match(notUtf8.json(), { status: 400, code: 'bad_request', detail: /not UTF-8/ });
});

t.test('a list refuses the cursor of another list', async (t) => {
  const own = fixture.withNewAccount();
  const [one, two] = [await own.session(), await own.session()];
  for (const id of [one, two]) {
    const messages = ['a', 'b', 'c'].map((text) => ({ role: 'user', text }));
    await own.call('POST', `/sessions/${id}/messages`, { messages });
    for (const turn of ['t1', 't2'])
      await own.call('POST', `/sessions/${id}/turns`, { id: turn, text: turn, trigger: 'user' });
  }
  const lists = ['/sessions', '/sessions/unanswered', ...[one, two].map((id) => `/sessions/${id}/messages`)];
  lists.push(`/sessions/${one}/turns`);
  const read = (list: string, cursor: string) => own.call('GET', `${list}?limit=1&cursor=${cursor}`);
  for (const list of lists) {
    const { nextCursor } = (await read(list, '')).body;
    for (const other of lists) {
      const { status, body } = await read(other, nextCursor);
      if (other === list) t.match([status, body.items.length], [200, 1], list);
      else t.match([status, body.detail], [400, /Use the nextCursor of a page of this list/], `${list} in ${other}`);
    }
  }
});

t.test('a refused id in the path is called one of the path', async (t) => {
  const turn = `/sessions/${await fixture.session()}/turns/t1`;
  const call = await fixture.call('GET', `${turn}/calls/${'x'.repeat(201)}`);
  t.match(call, { status: 400, body: { detail: /^path callId: must be at most 200 characters/ } });
});

t.test('a field that may be null says so where it is missing or of another type', async (t) => {
  const path = `/sessions/${await fixture.session()}/hooks/todoCreate`;
  const create = async (todo: object) =>
    (await fixture.call('POST', path, { context: { todo: { title: 'x', notes: '', ...todo } } })).body.errors;
  t.match(await create({}), [{ field: 'context.todo.dueAt', message: 'is required and must be text or null' }]);
  t.match(await create({ dueAt: 3 }), [{ field: 'context.todo.dueAt', message: 'must be text or null, not a number' }]);
  t.match(await create({ title: null, dueAt: null }), [
    { field: 'context.todo.title', message: 'must be text, not null' },
  ]);
});

t.test('an unknown hook is answered with the names of all', async (t) => {
  const { status, body } = await fixture.call('POST', `/sessions/${await fixture.session()}/hooks/todoCraete`, {});
  t.equal(status, 404);
  t.match(body.detail, /^No hook has this name\. The hooks are systemPrompt, .*todoCreate.*sessionClear\.$/);
});

t.test('no request makes an id that clients of HTTP would remove from an address', async (t) => {
  const session = await fixture.session();
  const at = (path: string) => `/sessions/${session}${path}`;
  await fixture.call('POST', at('/turns'), { id: 't1', text: 'x', trigger: 'user' });
  for (const id of ['.', '..']) {
    const requests: [string, object][] = [
      ['/turns', { id, text: 'x', trigger: 'user' }],
      ['/turns/t1/output', { id, text: 'x' }],
      ['/turns/t1/end', { outputId: id, text: 'x' }],
      ['/messages', { messages: [{ id, role: 'user', text: 'x' }] }],
      ['/todos', { id, title: 'x', trigger: 'user' }],
      ['/notifications', { id, text: 'x', at: '2100-01-01T00:00:00Z', trigger: 'user' }],
    ];
    for (const [path, body] of requests)
      t.match(
        await fixture.call('POST', at(path), body),
        { status: 400, body: { code: 'bad_request', detail: /clients of HTTP remove such a part of an address/ } },
        path,
      );
  }
  const long = await fixture.call('POST', at('/turns/t1/output'), { id: 'x'.repeat(201), text: 'x' });
  t.same(long.body.errors, [{ field: 'id', message: 'must be at most 150 characters' }], 'with one fault');
  t.equal((await fixture.call('POST', at('/turns'), { id: '...', text: 'x', trigger: 'user' })).status, 201);
});

t.test('a message with a known id is the same message, or it is refused', async (t) => {
  const own = fixture.withNewAccount();
  const code = `middleware.inboundMessage = ({ message }) => ({ message: { text: message.text.replace('4111', '[card]') } });`;
  await own.install({ slug: `card-${own.account}`, code });
  const session = await own.session();
  const add = (...messages: object[]) => own.call('POST', `/sessions/${session}/messages`, { messages });
  const reused = { status: 409, body: { code: 'id_reused', detail: /“1” belongs to another message/ } };
  const first = { id: '1', role: 'user', text: 'pay 5', data: { a: 1, b: [2] } };
  t.equal((await add(first)).status, 200);
  t.match(await add({ ...first, data: { b: [2], a: 1 } }), { status: 200, body: { items: [{ text: 'pay 5' }] } });
  t.match(await add({ id: '0', role: 'user', text: 'not added' }, { ...first, text: 'pay 500' }), reused);
  t.match(await add({ ...first, role: 'assistant' }), reused);
  t.match(await add({ ...first, data: { a: 1 } }), reused);
  t.match(await add({ ...first, data: { a: 1, b: ['2'] } }), reused);
  t.match(await add({ id: 'new', role: 'user', text: 'x', data: { b: 1, a: 2 } }, first), { status: 200 });
  t.match(await add({ id: '2', role: 'user', text: 'x' }, { id: '2', role: 'user', text: 'y' }), {
    status: 409,
    body: { detail: /“2” belongs/ },
  });
  t.equal((await add({ id: '3', role: 'user', text: 'pay with 4111' })).status, 200);
  for (const id of ['1', '3']) await own.call('POST', `/sessions/${session}/turns`, { id, trigger: 'user' });
  t.match(await add({ id: '3', role: 'user', text: 'pay with 4111' }), {
    status: 200,
    body: { items: [{ text: 'pay with [card]' }] },
  });
  t.equal((await add(first)).status, 200, 'judged and unchanged');
  t.match(await add({ ...first, text: 'pay 500' }), reused);
  await own.call('POST', `/sessions/${session}/turns`, { id: 't1', text: 'of a turn', trigger: 'user' });
  t.match(await add({ id: 't1', role: 'user', text: 'else' }), { status: 409 });
  const { items } = (await own.call('GET', `/sessions/${session}/messages`)).body;
  t.same(
    items.map(({ id }: { id: string }) => id),
    ['1', 'new', '3', 't1'],
  );
});
