/** `acme-models`: its models are asked like any other, and its vendor over `host.http`. */
import t from 'tap';
import { eventually, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { readExample, startVendor } from './example.ts';

const requests: { authorization: string | undefined; body: unknown }[] = [];
let status = 200;
const vendor = await startVendor(t, ['api.acme.example'], async (request, response) => {
  const body = JSON.parse((await request.toArray()).join(''));
  requests.push({ authorization: request.headers.authorization, body });
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ output: 'Four.', tokens: { in: 9, out: 2 } }));
});
const fixture = await startSupervisorFixture(t, { http: vendor.http });
await fixture.install(
  await readExample('acme-models', { secrets: { apiKey: 'acme-canary' }, addresses: vendor.addresses }),
);
await fixture.install({
  slug: 'asker',
  capabilities: ['host.llm', 'host.models:read'],
  code: `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async (args) => {
    const said = args.messages ? await host.llm.complete(args).catch((error) => ({ refused: error.message })) : await host.models.list();
    return { content: [{ type: 'json', json: said }] };
  } };`,
});

async function run(args: object) {
  const path = `/sessions/${await fixture.session()}/tools/asker__run`;
  // A first start may be late on a busy machine; the answer says so and asks to come again.
  return eventually(async () => {
    const { body } = await fixture.call('POST', path, { arguments: args });
    const answer = body.content?.[0]?.json;
    return /is unavailable now/.test(answer?.refused) ? null : answer;
  });
}
const question = { messages: [{ role: 'user', text: '2 + 2?' }], model: 'acme-models__acme/deep' };

t.test('its models are listed and asked', async (t) => {
  t.match(await run({}), [
    { id: 'acme-models__acme/swift', name: 'Acme Swift', contextWindow: 32_000 },
    { id: 'acme-models__acme/deep' },
  ]);
  const answer = await run({ ...question, system: 'Be brief.', maxTokens: 5 });
  t.same(answer, { text: 'Four.', model: question.model, usage: { inputTokens: 9, outputTokens: 2 } });
  const turns = [{ speaker: 'user', words: '2 + 2?' }];
  t.same(requests.at(-1), {
    authorization: 'Bearer acme-canary',
    body: { model: 'deep', instructions: 'Be brief.', turns, limit: 5 },
  });
});

t.test('what it cannot do and what Acme refuses is a failure, and no words of it get out', async (t) => {
  const before = requests.length;
  t.match((await run({ ...question, schema: { type: 'object' } })).refused, /acme-models__acme failed/);
  t.equal(requests.length, before);
  status = 401;
  const { refused } = await run(question);
  t.match(refused, /acme-models__acme failed/);
  t.notMatch(refused, /401|canary/);
});
