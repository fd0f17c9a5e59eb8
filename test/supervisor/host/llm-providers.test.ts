/** `host.models` and `host.llm` with models that other plugins of the account provide. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';
import { ASK, hello, writeTool } from './asking-plugin.ts';
import { startModelServer } from './model-server.ts';

const LIST = writeTool(`return { content: [{ type: 'json', json: await host.models.list() }] };`);
const provider = (models: readonly string[], chat: string) =>
  `providers.acme = {
     models: ${JSON.stringify(models.map((id) => ({ id, name: `Acme ${id}`, contextWindow: 1000 })))},
     chat: async (request, ctx) => { ${chat} },
   };`;
const answer = (text: string) =>
  `return { text: ${text}, model: request.model, usage: { inputTokens: 1, outputTokens: 2 } };`;

const server = await startModelServer(t);
const fixture = await startSupervisorFixture(t, {
  models: [
    {
      name: 'main',
      kind: 'openai',
      baseUrl: server.url,
      structuredOutputs: true,
      models: [{ id: 'big', name: 'Big', contextWindow: 5, price: undefined }],
    },
  ],
});
async function run(slug: string, args: unknown = {}, account = 'ann') {
  const session = await fixture.session(account);
  const path = `/sessions/${session}/tools/${slug}__run`;
  // A first start may be late on a busy machine; the answer says so and asks to come again.
  const result = await eventually(async () => {
    const { body } = await fixture.call('POST', path, { arguments: args }, account);
    return /is unavailable now/.test(body.content?.[0]?.json?.refused) || body.status === 503 ? null : body;
  });
  return result.content?.[0]?.json ?? result;
}
await fixture.install({ slug: 'asker', capabilities: ['host.llm'], code: ASK });
await fixture.install({ slug: 'lister', capabilities: ['host.models:read'], code: LIST });
await fixture.install({
  slug: 'maker',
  capabilities: ['host.models', 'host.llm'],
  code: provider(['m/1', 'm2'], answer('"I heard " + request.messages[0].text + " " + Object.keys(ctx).sort()')) + LIST,
});

t.test(
  'the list names the operator’s models and those of other plugins, never one’s own or another account’s',
  async (t) => {
    const ids = (list: { id: string }[]) => list.map(({ id }) => id);
    t.same(await run('lister'), [
      { id: 'main/big', name: 'Big', contextWindow: 5 },
      { id: 'maker__acme/m/1', name: 'Acme m/1', contextWindow: 1000 },
      { id: 'maker__acme/m2', name: 'Acme m2', contextWindow: 1000 },
    ]);
    t.same(ids(await run('maker')), ['main/big']);
    await fixture.install({ slug: 'far', account: 'eve', capabilities: ['host.models', 'host.llm'], code: LIST });
    await fixture.install({ slug: 'far-asker', account: 'eve', capabilities: ['host.llm'], code: ASK });
    t.same(ids(await run('far', {}, 'eve')), ['main/big']);
    const stolen = await run('far-asker', { ...hello, model: 'maker__acme/m2' }, 'eve');
    t.match(stolen.refused, /no model has this id/);
  },
);

t.test('a plugin’s model answers without knowing the caller', async (t) => {
  const result = await run('asker', { ...hello, model: 'maker__acme/m/1' });
  t.same(result, {
    text: 'I heard hello cancel,deadlineAt,invocationId,settings,signal',
    model: 'maker__acme/m/1',
    usage: { inputTokens: 1, outputTokens: 2 },
  });
  t.equal(server.asked.length, 0);
});

t.test('a failing provider’s error does not contain its own text', async (t) => {
  await fixture.install({ slug: 'broken', code: provider(['x'], `throw new Error('my secret');`) });
  await fixture.install({ slug: 'liar', code: provider(['x'], `return { text: 7, secret: 'my secret' };`) });
  for (const slug of ['broken', 'liar']) {
    const { refused } = await run('asker', { ...hello, model: `${slug}__acme/x` });
    t.match(refused, new RegExp(`${slug}__acme failed`));
    t.notMatch(refused, /my secret/);
  }
});

t.test('a call ends when the plugin that asked has ended', async (t) => {
  const waiting = `host.log('asked'); await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve)); host.log('aborted');`;
  await fixture.install({ slug: 'patient', code: provider(['x'], waiting + answer('"late"')) });
  const leaver = await fixture.install({ slug: 'leaver', capabilities: ['host.llm'], code: ASK });
  const path = `/sessions/${await fixture.session()}/tools/leaver__run`;
  const asking = fixture.call('POST', path, { arguments: { ...hello, model: 'patient__acme/x' } });
  await eventually(async () => (await fixture.readLog('asked')).length === 1);
  await fixture.supervisor.fleet.retire(leaver.installationId, 0);
  await asking;
  t.ok(await eventually(async () => (await fixture.readLog('aborted')).length === 1));
});

t.test('a structured answer of a plugin is checked too', async (t) => {
  await fixture.install({
    slug: 'json',
    code: provider(
      ['good', 'bad'],
      `const json = { n: request.model === 'good' ? 1 : 'one' }; ${answer('""').replace('usage', 'json, usage')}`,
    ),
  });
  const schema = { type: 'object', properties: { n: { type: 'integer' } } };
  t.same((await run('asker', { ...hello, schema, model: 'json__acme/good' })).json, { n: 1 });
  t.match(
    (await run('asker', { ...hello, schema, model: 'json__acme/bad' })).refused,
    /does not fit.*n must be integer/,
  );
});

t.test('providers that ask each other come to an end', async (t) => {
  const ring = (next: string) =>
    provider(
      ['x'],
      `const { text } = await host.llm.complete({ messages: request.messages, model: '${next}__acme/x' })
         .catch((error) => ({ text: error.message }));
       ${answer('"(" + text + ")"')}`,
    );
  await fixture.install({ slug: 'ping', capabilities: ['host.llm'], code: ring('pong') });
  await fixture.install({ slug: 'pong', capabilities: ['host.llm'], code: ring('ping') });
  const { text } = await run('asker', { ...hello, model: 'ping__acme/x' });
  t.match(text, /^\(\(\([^(]*more than 3 plugin providers ask each other[^)]*\)\)\)$/);
  // Over the session API the first provider is asked without host.llm, and counts all the same.
  const direct = await fixture.call('POST', `/sessions/${await fixture.session()}/providers/ping__acme`, {
    request: { ...hello, model: 'x' },
  });
  t.match(direct.body.text, /^\(\(\([^(]*more than 3[^)]*\)\)\)$/);
});

t.test('agent runtimes list and ask them over the session API', async (t) => {
  const path = `/sessions/${await fixture.session()}/providers`;
  const { body } = await fixture.call('GET', path);
  const maker = body.items.find(({ slug }: { slug: string }) => slug === 'maker');
  t.match(maker, { name: 'maker__acme', models: [{ id: 'm/1' }, { id: 'm2' }] });
  const response = await fixture.call('POST', `${path}/maker__acme`, { request: { ...hello, model: 'm2' } });
  t.match(response.body, { model: 'm2', text: /I heard hello/ });
  t.equal((await fixture.call('POST', `${path}/maker__nobody`, { request: hello })).status, 404);
  t.equal((await fixture.call('POST', `${path}/maker__acme`, { request: { messages: [] } })).status, 400);
});
