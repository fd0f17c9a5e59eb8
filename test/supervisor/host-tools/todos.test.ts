/** To-dos: one list of an account, through the REST interface and through tools, each step through its hook, also after a crash. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { findShard } from '../../../db/cluster/shards.ts';
import { connect } from '../../../sdk/session/session.ts';
import { soakTest } from '../../runner/soak.ts';
import {
  CrashOnce,
  DuringSteps,
  type Reply,
  type SupervisorFixture,
  startSupervisorFixture,
} from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const POLICY = `
  const note = (hook) => (ctx) => {
    host.log('asked', { hook, trigger: ctx.trigger, agent: ctx.agent.id, by: ctx.by, changes: ctx.changes });
    const title = ctx.changes?.title ?? ctx.todo?.title ?? '';
    if (title.includes('refuse ' + hook)) ctx.cancel('not this');
    if (hook === 'create' && title.includes('darn')) return { todo: { title: title.replace('darn', 'dear') } };
    if (hook === 'update' && title === 'shift') return { changes: { notes: 'by the policy', done: true } };
  };
  middleware.todoCreate = note('create');
  middleware.todoUpdate = note('update');
  middleware.todoComplete = note('complete');
  middleware.todoDelete = note('delete');`;

async function startSession(fixture: SupervisorFixture, agentId = 'planner', hostTools = ['todo']): Promise<string> {
  return (await fixture.call('POST', '/sessions', { agentId, hostTools })).body.id;
}

t.test('the hooks run for each caller that changes a to-do, and name it', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `policy-${fixture.account}`, code: POLICY });
  const session = await startSession(fixture);
  const todos = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) =>
    fixture.call(method, `/sessions/${session}/todos${path}`, body);
  const made = await todos('POST', '', { id: 'a', title: 'darn socks', trigger: 'user' });
  t.match(made, { status: 201, body: { id: 'a', title: 'dear socks', done: false, createdBy: 'planner' } });
  t.same((await todos('POST', '', { id: 'a', title: 'darn socks', trigger: 'user' })).body, made.body, 'the same id');
  t.match(await todos('POST', '', { id: 'a', title: 'other', trigger: 'user' }), { body: { code: 'id_reused' } });
  t.match(await todos('POST', '', { title: 'no trigger' }), { status: 400, body: { errors: [{ field: 'trigger' }] } });
  t.match(await todos('POST', '', { title: 'refuse create', trigger: 'user' }), {
    status: 409,
    body: { code: 'cancelled', detail: /not this/ },
  });
  const due = { dueAt: '2030-01-01T01:00:00+01:00', trigger: 'agent' };
  t.match(await todos('PATCH', '/a', due), { status: 200, body: { dueAt: '2030-01-01T00:00:00.000Z' } });
  t.match(await todos('PATCH', '/a', due), { status: 200 }, 'nothing changes, so no hook runs');
  for (const dueAt of ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00Z', '0001-01-01T00:00:00+01:00'])
    t.match(await todos('PATCH', '/a', { dueAt, trigger: 'agent' }), {
      status: 400,
      body: { detail: 'dueAt: must be a time between the years 1 and 9999, in UTC' },
    });
  const { errors } = (await todos('PATCH', '/a', { dueAt: 'tomorrow', trigger: 'agent' })).body;
  t.match(errors, [{ field: 'dueAt', message: /^must be a time in ISO 8601/ }]);
  t.equal(errors.length, 1);
  t.match(await todos('PATCH', '/a', { title: 'refuse update', trigger: 'agent' }), { body: { code: 'cancelled' } });
  t.match(
    await todos('PATCH', '/a', { title: 'shift', trigger: 'agent' }),
    { body: { title: 'dear socks', notes: 'by the policy', done: false } },
    'a plugin replaces the changes, but cannot complete the to-do with them',
  );
  t.match(await todos('PATCH', '/a', { done: true, trigger: 'user' }), { body: { done: true } });
  t.match(await todos('PATCH', '/a', { done: true, trigger: 'user' }), { body: { done: true } }, 'done already');
  t.match(await todos('PATCH', '/a', { done: false, trigger: 'user' }), { body: { done: false } });
  const both = { title: 'refuse complete', done: true, trigger: 'agent' };
  t.match(await todos('PATCH', '/a', both), { body: { code: 'cancelled' } });
  t.match(
    (await todos('GET', '/a')).body,
    { title: 'dear socks', done: false },
    'a refused part refuses the whole change',
  );
  t.match(await todos('DELETE', '/a'), { status: 400, body: { errors: [{ field: 'trigger' }] } });
  t.match(await todos('DELETE', '/a?trigger=user'), { status: 200, body: { id: 'a' } });
  t.match(await todos('DELETE', '/a?trigger=user'), { status: 404 });
  t.match(await fixture.readLog('asked'), [
    { hook: 'create', trigger: 'user', agent: 'planner' },
    { hook: 'create', trigger: 'user' },
    { hook: 'update', trigger: 'agent', changes: { dueAt: due.dueAt } },
    { hook: 'update', trigger: 'agent' },
    { hook: 'update', trigger: 'agent' },
    { hook: 'complete', trigger: 'user', by: 'user' },
    { hook: 'update', trigger: 'user', changes: { done: false } },
    { hook: 'update', trigger: 'agent' },
    { hook: 'complete', trigger: 'agent', by: 'planner' },
    { hook: 'delete', trigger: 'user' },
  ]);
  const { coverage } = (await fixture.call('GET', `/sessions/${session}/hooks`)).body;
  t.match(
    coverage.filter(({ name }: { name: string }) => name.startsWith('todo')),
    [{ asked: 2 }, { asked: 5 }, { asked: 2 }, { asked: 1 }],
  );
  const other = shared.withNewAccount();
  await todos('POST', '', { id: 'mine', title: 'mine', trigger: 'user' });
  const theirs = await startSession(other);
  t.match(await other.call('GET', `/sessions/${theirs}/todos/mine`), { status: 404 });
  t.match((await other.call('GET', `/sessions/${theirs}/todos`)).body, { items: [] });
  t.match(await todos('GET', '?cursor=YWJj'), { status: 400 }, 'a cursor that was made up');
  const page = await todos('GET', '?limit=1&done=false');
  t.match(page.body, { items: [{ id: 'mine' }], nextCursor: null });
});

t.test('agents share one list through the tools of their sessions', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `policy-${fixture.account}`, code: POLICY });
  const [planner, worker] = [await startSession(fixture), await startSession(fixture, 'worker')];
  const { body } = await fixture.call('GET', `/sessions/${planner}/tools`);
  const names = body.items.map(({ name }: { name: string }) => name);
  const expected = ['create', 'list', 'read', 'update', 'complete', 'delete'].map((name) => `todo__${name}`);
  t.same(names, expected);
  t.match(body.items[0], { installationId: null, slug: 'todo', parameters: { type: 'object', required: ['title'] } });
  await fixture.call('POST', `/sessions/${planner}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  const { tools } = (await fixture.call('GET', `/sessions/${planner}/turns/t1/prompt`)).body;
  t.equal(tools.length, expected.length);
  const call = async (session: string, name: string, args: object) => {
    const reply = await fixture.call('POST', `/sessions/${session}/tools/${name}`, { arguments: args });
    return reply.status === 200 ? (reply.body.content[0].json ?? reply.body.content[0].text) : reply.body;
  };
  const todo = await call(planner, 'todo__create', { title: 'Bake', assigneeAgentId: 'worker' });
  t.match(await call(worker, 'todo__list', { assigneeAgentId: 'worker' }), { todos: [{ id: todo.id, title: 'Bake' }] });
  const notes = `${'n'.repeat(499)}😀${'n'.repeat(99)}`;
  t.match(await call(worker, 'todo__update', { id: todo.id, notes }), { notes });
  const [listed] = (await call(worker, 'todo__list', {})).todos;
  t.equal(listed.notes.length, 500, 'a list shortens the notes');
  t.ok(listed.notes.isWellFormed(), 'and leaves no half of a surrogate pair');
  t.equal((await call(worker, 'todo__read', { id: todo.id })).notes.length, 600);
  t.match(await call(worker, 'todo__complete', { id: todo.id }), { done: true });
  t.same((await call(worker, 'todo__list', {})).todos, []);
  t.match(await call(worker, 'todo__delete', { id: todo.id }), { deleted: { id: todo.id } });
  t.match(await call(worker, 'todo__delete', { id: todo.id }), /no to-do with this id/);
  t.match(
    await call(worker, 'todo__create', { title: 'refuse create' }),
    /policy-.* cancelled the operation: not this/,
  );
  t.match(await call(worker, 'todo__create', { title: 7, colour: 'red' }), {
    code: 'invalid_arguments',
    errors: [{ field: 'title' }, { message: /colour/ }],
  });
  t.match(
    (await fixture.readLog('asked')).map(({ hook, trigger, by }) => [hook, trigger, by]),
    [
      ['create', 'agent', undefined],
      ['update', 'agent', undefined],
      ['complete', 'agent', 'worker'],
      ['delete', 'agent', undefined],
      ['create', 'agent', undefined],
    ],
  );
});

t.test('a session offers what its runtime chose, and a plugin cannot take the name', async (t) => {
  const fixture = shared.withNewAccount();
  const tool = `{ description: 'd', parameters: { type: 'object' }, handler: () => 'of the plugin' }`;
  // As if it had been published before the host had tools.
  await fixture.install({ slug: 'todo', code: `tools.create = ${tool}; tools.mine = ${tool};` });
  const session = await startSession(fixture, 'a', []);
  const names = async () =>
    (await fixture.call('GET', `/sessions/${session}/tools`)).body.items.map(({ name }: { name: string }) => name);
  const create = () => fixture.call('POST', `/sessions/${session}/tools/todo__create`, { arguments: { title: 'x' } });
  t.same((await names()).sort(), ['todo__create', 'todo__mine']);
  t.match((await create()).body.content[0].text, 'of the plugin');
  t.match(await fixture.call('PUT', `/sessions/${session}/tools`, { hostTools: ['nothing'] }), { status: 400 });
  const chosen = await fixture.call('PUT', `/sessions/${session}/tools`, { hostTools: ['todo'] });
  t.equal(chosen.body.items.length, 7);
  t.same((await names()).filter((name: string) => name === 'todo__create').length, 1);
  t.match((await create()).body.content[0].json, { title: 'x' });
  t.match((await fixture.call('GET', `/sessions/${session}`)).body, { hostTools: ['todo'] });
});

t.test('the client of the session API creates, lists, changes and deletes to-dos', async (t) => {
  const fixture = shared.withNewAccount();
  const call: typeof fetch = async (url, init) => {
    const { pathname, search } = new URL(String(url));
    const { method = 'GET', body = null } = init ?? {};
    const reply = await fixture.call(method as 'GET', pathname + search, body ? JSON.parse(String(body)) : undefined);
    return Response.json(reply.body, { status: reply.status });
  };
  const client = connect({ url: 'http://service', token: 'any', fetch: call });
  const session = await client.start({ agentId: 'a', hostTools: ['todo'] });
  const { services } = session;
  const { id } = await services.createTodo({ title: 'Bake' }, { trigger: 'user' });
  t.match(await services.todos({ done: false }), { items: [{ id, title: 'Bake' }] });
  t.match(await services.changeTodo(id, { done: true }, { trigger: 'user' }), { done: true });
  t.match(await services.deleteTodo(id, { trigger: 'user' }), { id });
  t.same(await session.offerTools({ hostTools: [] }), []);
});

t.test('a call that a crash interrupts is made again, and has its effect once', async (t) => {
  const crash = new CrashOnce();
  const fixture = await startSupervisorFixture(t, { faultPoint: crash.faultPoint });
  await fixture.install({ slug: 'policy', code: POLICY });
  const session = await startSession(fixture, 'planner', ['todo', 'notify']);
  await fixture.call('POST', `/sessions/${session}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  const send = (id: string, name: string, args: object): Promise<Reply> =>
    fixture.call('POST', `/sessions/${session}/turns/t1/calls/${id}`, { name, arguments: args });
  const steps = { 'call.claimed': 1, 'todo.judged': 2, 'todo.written': 1, 'call.answered': 1 };
  for (const [step, asked] of Object.entries(steps)) {
    const before = (await fixture.readLog('asked')).length;
    crash.next = step;
    t.equal((await send(step, 'todo__create', { title: step })).status, 500);
    t.equal(crash.next, '', `${step} was reached`);
    const again = await send(step, 'todo__create', { title: step });
    t.match(again.body, { isError: false, content: [{ json: { title: step } }] }, step);
    t.same((await send(step, 'todo__create', { title: step })).body, again.body, 'and its answer is kept');
    t.equal((await fixture.readLog('asked')).length - before, asked, `${step}: hooks`);
  }
  const { items } = (await fixture.call('GET', `/sessions/${session}/todos`)).body;
  t.same(
    items.map(({ title }: { title: string }) => title),
    Object.keys(steps),
    'each once',
  );
  const later = { text: 'later', at: '2099-01-05T06:00:00Z' };
  const reminder = (await send('schedule', 'notify__schedule', later)).body.content[0].json;
  for (const [name, id, key] of [
    ['todo__delete', items[0].id, 'deleted'],
    ['notify__cancel', reminder.id, 'cancelled'],
  ]) {
    crash.next = 'call.answered';
    t.equal((await send(name, name, { id })).status, 500);
    const again = await send(name, name, { id });
    t.same(again.body, { content: [{ type: 'json', json: { [key]: { id } } }], isError: false }, name);
    t.match((await send(`${name} 2`, name, { id })).body, { isError: true }, 'another call finds nothing');
  }
  const listed = await send('list', 'todo__list', {});
  t.equal(listed.body.content[0].json.todos.length, items.length - 1);
});

soakTest(t, 'a change that a crash interrupts is not made over a later one', async (t) => {
  const crash = new CrashOnce();
  const fixture = await startSupervisorFixture(t, { faultPoint: crash.faultPoint });
  await fixture.install({ slug: 'policy', code: POLICY });
  const session = await startSession(fixture);
  const todo = `/sessions/${session}/todos/a`;
  await fixture.call('POST', `/sessions/${session}/todos`, { id: 'a', title: 'Milk', trigger: 'user' });
  await fixture.call('POST', `/sessions/${session}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  for (const [name, changes, later] of [
    ['todo__update', { title: 'Buy milk' }, { title: 'Buy oat milk' }],
    ['todo__complete', {}, { done: false }],
  ] as const) {
    const send = () =>
      fixture.call('POST', `/sessions/${session}/turns/t1/calls/${name}`, {
        name,
        arguments: { id: 'a', ...changes },
      });
    crash.next = 'call.answered';
    t.equal((await send()).status, 500);
    t.equal(crash.next, '', 'the change was written, and the answer lost');
    t.match((await fixture.call('PATCH', todo, { ...later, trigger: 'user' })).body, later);
    const asked = (await fixture.readLog('asked')).length;
    t.match((await send()).body, { isError: true, content: [{ text: /may have run: check/ }] }, name);
    t.match((await fixture.call('GET', todo)).body, later, `${name}: the later change stays`);
    t.equal((await fixture.readLog('asked')).length, asked, `${name}: no hook runs a second time`);
  }
});

t.test('a supervisor that no longer owns the account writes no change that it had begun', async (t) => {
  const steps = new DuringSteps();
  const fixture = await startSupervisorFixture(t, { faultPoint: steps.faultPoint });
  const session = await startSession(fixture);
  const todos = `/sessions/${session}/todos`;
  const made = await fixture.call('POST', todos, { id: 'a', title: 'Milk', trigger: 'user' });
  t.equal(made.status, 201);
  const { id: accountId } = await findOrCreateAccount(fixture.pool, fixture.account);
  const shard = findShard(accountId);
  const changeEpoch = (by: number) =>
    fixture.pool.query('UPDATE shards SET epoch = epoch + $1 WHERE id = $2', [by, shard]);
  const requests = [
    ['POST', todos, { id: 'b', title: 'Bread', trigger: 'user' }],
    ['PATCH', `${todos}/a`, { title: 'Buy milk', trigger: 'user' }],
    ['DELETE', `${todos}/a?trigger=user`],
  ] as const;
  for (const [method, path, body] of requests) {
    steps.set('todo.judged', async () => void (await changeEpoch(1)));
    t.match(await fixture.call(method, path, body), { status: 503, body: { code: 'unavailable' } }, method);
    await changeEpoch(-1);
  }
  t.match((await fixture.call('GET', todos)).body.items, [{ title: 'Milk' }]);
});

t.test('an account has a limited number of to-dos', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  await fixture.pool.query(
    `INSERT INTO todos (account_id, id, digest, title, notes, created_by)
     SELECT account_id, 'n' || n, '', 't', '', '' FROM sessions, generate_series(1, 5000) n WHERE id = $1`,
    [session],
  );
  const over = await fixture.call('POST', `/sessions/${session}/todos`, { title: 'one more', trigger: 'user' });
  t.match(over, { status: 409, body: { code: 'too_many', detail: /5000 to-dos\. Delete some/ } });
});
