/** Commands and providers of a session, and its transcript. */
import t from 'tap';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

// A publish refuses a command that is there twice; a version of before that rule may have one.
t.test('commands as code and as prompts', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'kit',
    code: `commands.hello = { description: 'greets', handler: (input) => ({ text: 'hello ' + input }) };
      commands.broken = { description: 'breaks', handler: () => { throw new Error('no'); } };`,
    files: {
      'commands/review.md': '---\ndescription: reviews\n---\nReview this: $ARGUMENTS please',
      'commands/plain.md': 'Just do it',
      'commands/hello.md': 'never seen',
    },
    discovered: { commands: [{ name: 'review', description: 'reviews' }] },
  });
  const at = `/sessions/${await fixture.session()}/commands`;
  const list = await fixture.call('GET', at);
  t.match(list.body.items.map((item: { name: string; kind: string }) => [item.name, item.kind]).sort(), [
    ['kit__broken', 'code'],
    ['kit__hello', 'code'],
    ['kit__plain', 'prompt'],
    ['kit__review', 'prompt'],
  ]);
  t.equal(list.body.items.find((item: { name: string }) => item.name === 'kit__review').description, 'reviews');
  t.same((await fixture.call('POST', `${at}/kit__hello`, { input: 'you' })).body, { text: 'hello you' });
  t.same((await fixture.call('POST', `${at}/kit__review`, { input: '$& this' })).body, {
    text: 'Review this: $& this please',
  });
  t.same((await fixture.call('POST', `${at}/kit__plain`, { input: 'now' })).body, { text: 'Just do it\n\nnow' });
  t.match(await fixture.call('POST', `${at}/kit__broken`, {}), { status: 502, body: { code: 'plugin_failed' } });
  t.match(await fixture.call('POST', `${at}/kit__none`, { input: '' }), { status: 404 });
  t.match(await fixture.call('POST', `${at}/kit__hello`, { input: 3 }), { status: 400 });
});

t.test('providers', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'kit-2',
    code: `providers.acme = { models: [{ id: 'm1', name: 'One' }, { id: 'm2', name: 'Two', contextWindow: 9 }], chat: (request, ctx) => request.messages[0].text === 'bad' ? 'nothing' :
      ({ text: 'echo ' + request.messages[0].text + (ctx.session ? ' session' : ''), model: request.model, usage: { inputTokens: 1, outputTokens: 1 } }) };`,
  });
  const at = `/sessions/${await fixture.session()}/providers`;
  t.match((await fixture.call('GET', at)).body, {
    items: [
      {
        name: 'kit-2__acme',
        models: [
          { id: 'm1', name: 'One' },
          { id: 'm2', contextWindow: 9 },
        ],
      },
    ],
  });
  const ask = (text: string, model?: string) =>
    fixture.call('POST', `${at}/kit-2__acme`, { request: { messages: [{ role: 'user', text }], model } });
  t.match(await ask('hi'), { status: 200, body: { text: 'echo hi', model: 'm1' } });
  t.match(await ask('hi', 'm2'), { status: 200, body: { text: 'echo hi', model: 'm2' } });
  t.match(await ask('hi', 'm3'), {
    status: 422,
    body: { code: 'invalid_arguments', detail: 'kit-2__acme has no model with this name; it has m1, m2.' },
  });
  t.match(await ask('bad'), { status: 502 });
  t.match(await fixture.call('POST', `${at}/kit-2__acme`, { request: {} }), { status: 400 });
  const known = { request: { messages: [{ role: 'user', text: 'x' }] } };
  t.match(await fixture.call('POST', `${at}/kit-2__none`, known), { status: 404 });
});

t.test('transcripts: pages, ids that come twice, lists of sessions', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const at = `/sessions/${session}/messages`;
  const messages = Array.from({ length: 5 }, (_, n) => ({
    id: `m${n}`,
    role: 'user',
    text: String(n),
    data: { n, odd: '\\u0000 \\ud800 \u{1f600}' },
  }));
  t.equal((await fixture.call('POST', at, { messages })).status, 200);
  await fixture.call('POST', at, { messages: [{ id: 'm0', role: 'user', text: 'again' }] });
  const first = (await fixture.call('GET', `${at}?limit=3`)).body;
  t.strictSame(
    first.items.map((item: { text: string }) => item.text),
    ['0', '1', '2'],
  );
  t.same(first.items[0].data, { n: 0, odd: '\\u0000 \\ud800 \u{1f600}' }, 'escapes as text stay text');
  const second = (await fixture.call('GET', `${at}?limit=3&cursor=${first.nextCursor}`)).body;
  t.strictSame(
    second.items.map((item: { text: string }) => item.text),
    ['3', '4'],
  );
  t.equal(second.nextCursor, null);
  const other = await fixture.session();
  await fixture.call('POST', `/sessions/${other}/messages`, { messages: [{ id: 'm0', role: 'user', text: 'mine' }] });
  t.match((await fixture.call('GET', `/sessions/${other}/messages`)).body.items, [{ id: 'm0', text: 'mine' }]);
  await fixture.session('bob');
  const page = (await fixture.call('GET', '/sessions?limit=1')).body;
  t.match(page.items, [{ id: other, agentId: 'agent-1', agentName: 'agent-1', channelId: null }]);
  t.match((await fixture.call('GET', `/sessions?limit=1&cursor=${page.nextCursor}`)).body, {
    items: [{ id: session }],
    nextCursor: null,
  });
});

t.test('a key opens the same session, also when it is sent twice at once', async (t) => {
  const fixture = shared.withNewAccount();
  const start = (body: object, account?: string) =>
    fixture.call('POST', '/sessions', { agentId: 'baker', key: 'morning', ...body }, account);
  const opened = await Promise.all([start({}), start({}), start({})]);
  const [id] = new Set(opened.map(({ body }) => body.id));
  t.same(opened.map(({ status }) => status).sort(), [200, 200, 201]);
  t.match(opened, [{ body: { id } }, { body: { id, key: 'morning' } }, { body: { id } }]);
  t.match(await start({ agentName: 'Another name' }), { status: 200, body: { id, agentName: 'baker' } });
  t.match(await start({ agentId: 'cook' }), { status: 409, body: { code: 'id_reused', detail: /agent “baker”/ } });
  t.not((await start({}, 'bob')).body.id, id, 'a key belongs to its account');
  t.not((await start({ key: null })).body.id, (await start({ key: null })).body.id);
  const events = await fixture.pool.query(`SELECT data FROM events WHERE type = 'sessionStarted'`);
  t.ok(events.rows.filter(({ data }) => data.sessionId === id).length <= 1, 'it started once');
  await fixture.call('DELETE', `/sessions/${id}`);
  t.match(await start({}), { status: 201, body: { key: 'morning' } });
});
