/** Tools: listed, checked before the child sees anything, answered. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const dice = `tools.roll = {
  description: 'Rolls dice',
  parameters: { type: 'object', properties: { sides: { type: 'integer', minimum: 2 } }, required: ['sides'], additionalProperties: false },
  handler: (args, ctx) => {
    host.log('rolled', { sides: args.sides, call: ctx.callId });
    if (args.sides === 13) throw new Error('unlucky');
    if (args.sides === 14) return { content: [{ type: 'text', text: 'x'.repeat(300000) }] };
    if (args.sides === 15) return { content: 'a text', isError: false };
    if (args.sides === 16) return undefined;
    if (args.sides === 17) return { nothing: true };
    if (args.sides === 18) return 18;
    if (args.sides === 19) return 'nineteen';
    if (args.sides === 20) return { content: [{ type: 'text', text: 'a\\0b' }] };
    if (args.sides === 21) throw new Error('a\\ud800b');
    if (args.sides === 22) host.log('odd', { ['a\\ud800']: '\\0' });
    return { content: [{ type: 'json', json: { sides: args.sides } }], isError: false };
  },
};`;

t.test('the tools of an account fit into 4 MiB, those that come first in hook order', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `tools.big = { description: 'x', handler: () => 'x', parameters: { description: 'x'.repeat(1_500_000) } };`;
  for (const slug of ['one', 'two', 'three']) await fixture.install({ slug, code });
  const { items } = (await fixture.call('GET', `/sessions/${await fixture.session()}/tools`)).body;
  t.same(
    items.map(({ name }: { name: string }) => name),
    ['one__big', 'two__big'],
  );
});

t.test('names that every object has are property names like any other, in schemas and arguments', async (t) => {
  const fixture = shared.withNewAccount();
  const names = ['__proto__', 'constructor', 'toString'];
  const properties = names.map((name) => `"${name}": { "type": "string", "maxLength": 700 }`).join(', ');
  const schema = `{ "type": "object", "properties": { ${properties} }, "required": ${JSON.stringify(names)}, "additionalProperties": false }`;
  await fixture.install({
    slug: 'names',
    code: `tools.echo = { description: 'd', parameters: JSON.parse('${schema}'), handler: (args) => ({
      content: [{ type: 'text', text: JSON.stringify(args) }, { type: 'json', json: args }],
    }) };`,
  });
  const session = await fixture.session();
  const list = await fixture.call('GET', `/sessions/${session}/tools`);
  t.strictSame(Object.keys(list.body.items[0].parameters.properties).sort(), names);
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}`,
  };
  // As text: an object literal has no property of these names.
  const send = async (json: string) => {
    const url = `/sessions/${session}/tools/names__echo`;
    const reply = await fixture.app.inject({ method: 'POST', url, headers, payload: `{"arguments": ${json}}` });
    return { status: reply.statusCode, body: reply.json() };
  };
  for (const value of ['short', 'long '.repeat(120)]) {
    const json = `{${names.map((name) => `"${name}":"${value}"`).join(',')}}`;
    const { body } = await send(json);
    t.equal(body.content?.[0]?.text, json, 'the handler gets them');
    t.equal(JSON.stringify(body.content?.[1]?.json), json, 'and they come back');
  }
  t.match(await send('{"constructor":"a","toString":"b"}'), { status: 422, body: { code: 'invalid_arguments' } });
  t.match(await send('{}'), { status: 422 });
  t.match(await send('{"__proto__":7,"constructor":"a","toString":"b"}'), { status: 422 });
});

t.test('the result of a tool whose process ends names the tool', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'ended',
    capabilities: ['host.storage'],
    code: `tools.wait = { description: 'd', parameters: {}, handler: async () => { await host.storage.set('begun', 1); await new Promise(() => {}); } };`,
  });
  const session = await fixture.session();
  const call = fixture.call('POST', `/sessions/${session}/tools/ended__wait`, { arguments: {} });
  await eventually(async () => {
    const { rows } = await fixture.pool.query('SELECT FROM installation_storage WHERE installation_id = $1', [
      made.installationId,
    ]);
    return rows.length === 1;
  });
  process.kill(fixture.supervisor.fleet.getPid(made.installationId) ?? 0, 'SIGKILL');
  t.match((await call).body, {
    isError: true,
    content: [{ type: 'text', text: /^ended__wait failed: it was ended by SIGKILL$/ }],
  });
});

t.test('tools are listed by slug and name, and called', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'dice', code: dice });
  const session = await fixture.session();
  const list = await fixture.call('GET', `/sessions/${session}/tools`);
  t.match(list.body, {
    items: [{ name: 'dice__roll', description: 'Rolls dice', parameters: { required: ['sides'] }, slug: 'dice' }],
    nextCursor: null,
  });
  const path = `/sessions/${session}/tools/dice__roll`;
  const answer = await fixture.call('POST', path, { callId: 'c1', arguments: { sides: 6 } });
  t.same(answer.body, { content: [{ type: 'json', json: { sides: 6 } }], isError: false });
  await fixture.call('POST', path, { callId: 'c1', arguments: { sides: 6 } });
  await fixture.supervisor.logs.flush();
  const rolls = await fixture.pool.query(`SELECT FROM plugin_logs WHERE message = 'rolled' AND data ->> 'call' = 'c1'`);
  t.equal(rolls.rows.length, 2, 'outside a turn, a repeated id runs the handler again, which sees the id');
  const thrown = await fixture.call('POST', path, { arguments: { sides: 13 } });
  t.match(thrown, { status: 200, body: { isError: true, content: [{ type: 'text', text: /unlucky/ }] } });
  const odd = await fixture.call('POST', path, { arguments: { sides: 20 } });
  t.match(odd.body, {
    isError: true,
    content: [{ text: /^content\.0\.text in what it returned must not contain U\+0000 or lone surrogates/ }],
  });
  const shown = await fixture.call('POST', path, { arguments: { sides: 21 } });
  t.match(shown.body, { isError: true, content: [{ text: /a\ufffdb/ }] });
  await fixture.call('POST', path, { arguments: { sides: 22 } });
  await fixture.supervisor.logs.flush();
  const oddLines = await fixture.pool.query(`SELECT data FROM plugin_logs WHERE message = 'odd'`);
  t.same(oddLines.rows, [{ data: { 'a\ufffd': '\ufffd' } }]);
  t.match(await fixture.call('POST', path, { arguments: { sides: 14 } }), {
    status: 502,
    body: { code: 'plugin_failed' },
  });
  for (const sides of [15, 16])
    t.match(await fixture.call('POST', path, { arguments: { sides } }), {
      status: 502,
      body: { code: 'plugin_failed' },
    });
  const texts = [
    [17, '{"nothing":true}'],
    [18, '18'],
    [19, 'nineteen'],
  ] as const;
  for (const [sides, text] of texts) {
    const { body } = await fixture.call('POST', path, { arguments: { sides } });
    t.same(body, { content: [{ type: 'text', text }], isError: false });
  }
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    `SELECT * FROM plugin_logs WHERE installation_id = $1 AND level = 'info' ORDER BY id`,
    [made.installationId],
  );
  t.match(rows[0], { message: 'rolled', data: { sides: 6, call: 'c1' }, source: 'tools.roll', session_id: session });
});

t.test('a wrong name gets the name of a tool that is nearly the same, or the reason why no tool has it', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'cubes', code: dice });
  const tools = [{ name: 'delete_all', parameters: { type: 'object' } }];
  const session = (await fixture.call('POST', '/sessions', { agentId: 'a', hostTools: ['todo'], tools })).body.id;
  const refuse = async (name: string) => {
    const { status, body } = await fixture.call('POST', `/sessions/${session}/tools/${name}`, {});
    t.equal(status, 404, name);
    return body.detail;
  };
  const meant = (name: string) => `No tool has this name. Did you mean ${name}?`;
  t.equal(await refuse('cubse__roll'), meant('cubes__roll'));
  t.equal(await refuse('roll'), meant('cubes__roll'), 'without the slug');
  t.equal(await refuse('delete_al'), meant('delete_all'));
  t.equal(await refuse('todo__creat'), meant('todo__create'));
  t.equal(await refuse('todo__remove'), 'No tool has this name.');
  t.equal(await refuse('todo__lisp'), 'No tool has this name.', 'of such a short name, one character may mean another');
  t.equal(await refuse('t'), 'No tool has this name.');
  t.equal(await refuse('search'), 'No tool has this name.');
  t.equal(await refuse('cards__deal'), 'No tool has this name. No plugin with the slug “cards” is installed.');
  for (const slug of ['dices', 'pips']) await fixture.install({ slug, code: dice });
  const several = 'No tool has this name. Several tools end with it, so use the full name:';
  t.equal(await refuse('roll'), `${several} cubes__roll, dices__roll, pips__roll.`);
  await fixture.install({ slug: 'spots', code: dice });
  t.equal(await refuse('roll'), `${several} cubes__roll, dices__roll, pips__roll and 1 more.`);
  const stopped = (why: string) => `No tool has this name. The plugin cubes does not run: ${why}.`;
  await fixture.change(made, `status = 'paused'`);
  t.equal(await refuse('cubes__roll'), stopped('the installation is paused'));
  await fixture.change(made, `status = 'needs_configuration'`);
  t.equal(await refuse('cubes__roll'), stopped('a setting or secret that it requires is missing'));
});

t.test('arguments that do not fit never reach the handler', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'dice-2', code: dice });
  const path = `/sessions/${await fixture.session()}/tools/dice-2__roll`;
  t.equal(fixture.supervisor.fleet.getPid(made.installationId), null, 'the first call starts the child');
  for (const bad of [{}, { sides: 'six' }, { sides: 1 }, { sides: 6, more: 1 }, null, [], 'x', { sides: 1.5 }]) {
    const answer = await fixture.call('POST', path, { arguments: bad });
    t.match(
      answer,
      { status: 422, body: { code: 'invalid_arguments', errors: [{ field: /^arguments/ }] } },
      JSON.stringify(bad),
    );
  }
  t.match(await fixture.call('POST', path, { arguments: { sides: 'six' } }), {
    status: 422,
    body: {
      detail: 'arguments.sides must be integer.',
      errors: [{ field: 'arguments.sides', message: 'must be integer' }],
    },
  });
  t.match(await fixture.call('POST', path, {}), { status: 422 });
  await fixture.supervisor.logs.flush();
  const query = 'SELECT message FROM plugin_logs WHERE installation_id = $1';
  const lines = (await fixture.pool.query(query, [made.installationId])).rows;
  t.equal(lines.length, 10, 'each call is logged');
  for (const { message } of lines) t.match(message, /^tools\.roll \(error\): arguments/, 'no handler ran');
});

soakTest(t, 'a hostile schema costs its own plugin', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'hostile',
    code: `const tool = (parameters) => ({ description: 'd', parameters, handler: (args) => JSON.stringify(args) });
      tools.redos = tool({ type: 'object', properties: { s: { type: 'string', pattern: '^(a+)+$' } } });
      tools.loop = tool({ $ref: '#' });
      tools.remote = tool({ $ref: 'http://127.0.0.1:1/schema.json' });
      tools.proto = tool({ type: 'object', properties: { ['__proto__']: { type: 'string' }, toString: { type: 'string' } }, additionalProperties: false });`,
  });
  const session = await fixture.session();
  const call = (tool: string, args: unknown) =>
    fixture.call('POST', `/sessions/${session}/tools/hostile__${tool}`, { arguments: args });
  for (const tool of ['loop', 'remote']) {
    const answer = await call(tool, {});
    t.match(answer, { status: 200, body: { isError: true, content: [{ text: /schema cannot be used/ }] } }, tool);
  }
  t.match(await call('proto', {}), { status: 200, body: { isError: false } });
  t.match(await call('proto', { toString: 'x' }), { status: 200, body: { isError: false } });
  t.match(await call('proto', { toString: 1 }), { status: 422, body: { code: 'invalid_arguments' } });
  const text = JSON.parse('{"__proto__":"x"}');
  t.match(await call('proto', text), {
    status: 200,
    body: { isError: false, content: [{ text: '{"__proto__":"x"}' }] },
  });
  for (const bad of ['{"__proto__":1}', '{"constructor":{"prototype":{"polluted":1}}}'])
    t.match(await call('proto', JSON.parse(bad)), { status: 422, body: { code: 'invalid_arguments' } }, bad);
  t.notOk('polluted' in {});
  const beside = JSON.parse('{"arguments":{},"__proto__":{"callId":"x"}}');
  t.match(
    await fixture.call('POST', `/sessions/${session}/tools/hostile__proto`, beside),
    { status: 400, body: { code: 'bad_request', errors: [{ field: '__proto__' }] } },
    'it sets nothing',
  );

  const other = shared.withNewAccount();
  await other.install({ slug: 'dice-3', code: dice });
  const path = `/sessions/${await other.session()}/tools/dice-3__roll`;
  let hasEnded = false;
  const endless = call('redos', { s: `${'a'.repeat(60)}!` }).finally(() => {
    hasEnded = true;
  });
  t.match(await other.call('POST', path, { arguments: { sides: 6 } }), { status: 200 });
  t.match(await other.call('POST', path, { arguments: {} }), { status: 422 });
  t.equal(hasEnded, false, 'another account is answered while the check runs on');
  await fixture.supervisor.fleet.retire(made.installationId, 0);
  await endless;
});
