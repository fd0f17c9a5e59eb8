/** Every list takes `limit` and `cursor`. Those of a session's tools and the like are answered whole without them. */
import t from 'tap';
import type { OpenApiDocument } from '../../../service/http/openapi.ts';
import type { SshTarget } from '../../../supervisor/host/ssh/hosts.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const target = (id: string): SshTarget => ({
  id,
  name: id,
  address: '127.0.0.1',
  port: 22,
  user: 'x',
  hostKeys: [],
  privateKey: '',
  accounts: ['*'],
});
const fixture = await startSupervisorFixture(t, { sshTargets: ['web', 'mail', 'files'].map(target) });
const code = `
  tools.one = { description: 'd', parameters: {}, handler: () => 'x' };
  tools.two = { description: 'd', parameters: {}, handler: () => 'x' };
  commands.one = { description: 'd', handler: () => 'x' };
  commands.two = { description: 'd', handler: () => 'x' };
  providers.one = { models: [{ id: 'm', name: 'M' }], chat: () => ({ text: 'x' }) };
  middleware.systemPrompt = () => undefined;
  middleware.inboundMessage = () => undefined;`;
const discovered = { skills: ['one', 'two'].map((name) => ({ name, description: 'd' })), commands: [] };
const files = Object.fromEntries(
  ['one', 'two'].map((name) => [`skills/${name}/SKILL.md`, `---\nname: ${name}\ndescription: d\n---\nx`]),
);
const first = await fixture.install({ slug: 'first', code, discovered, files });
await fixture.install({ slug: 'second', code, discovered, files });
const session = await fixture.session();

const document: OpenApiDocument = (await fixture.call('GET', '/openapi.json')).body;
/** The addresses of the lists of the account and of the session. */
const lists = Object.entries(document.paths).flatMap(([path, { get }]) => {
  const schema = JSON.stringify(get?.responses['200']?.content?.['application/json']?.schema ?? null);
  const address = path.replace('{sessionId}', session);
  return schema.includes('"nextCursor"') && !address.includes('{') ? [address] : [];
});
const WHOLE = ['tools', 'commands', 'skills', 'providers', 'hooks', 'ssh-hosts'].map(
  (name) => `/sessions/${session}/${name}`,
);

async function readPages(path: string, limit: number): Promise<unknown[]> {
  const items: unknown[] = [];
  for (let cursor = ''; ; ) {
    const answer = await fixture.call('GET', `${path}?limit=${limit}${cursor}`);
    if (answer.status !== 200 || answer.body.items.length > limit) throw new Error(JSON.stringify(answer));
    items.push(...answer.body.items);
    if (answer.body.nextCursor === null) return items;
    cursor = `&cursor=${answer.body.nextCursor}`;
  }
}

t.test('every list takes a limit', async (t) => {
  t.same(
    WHOLE.filter((path) => !lists.includes(path)),
    [],
  );
  for (const path of lists) {
    const answer = await fixture.call('GET', `${path}?limit=1`);
    t.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
    t.ok(answer.body.items.length <= 1, path);
  }
});

t.test('a whole list can be read in pages, too', async (t) => {
  for (const path of WHOLE) {
    const { body } = await fixture.call('GET', path);
    t.ok(body.items.length >= 2, path);
    t.equal(body.nextCursor, null);
    t.same(await readPages(path, 1), body.items, path);
    t.same(await readPages(path, 3), body.items, path);
    for (const wrong of ['limit=0', 'limit=1001', 'limit=x', 'cursor=x', 'offset=1'])
      t.match(await fixture.call('GET', `${path}?${wrong}`), { status: 400, body: { code: 'bad_request' } }, wrong);
  }
  const [tools, commands] = WHOLE;
  const { nextCursor } = (await fixture.call('GET', `${tools}?limit=1`)).body;
  const foreign = await fixture.call('GET', `${commands}?cursor=${nextCursor}`);
  t.match(foreign, { status: 400, body: { code: 'bad_request', errors: [{ field: 'cursor' }] } });
  const rest = (await fixture.call('GET', `${tools}?cursor=${nextCursor}`)).body;
  t.equal(rest.items.length, 3, 'a cursor alone has the default limit');
});

t.test('a page goes on behind the last item, or says that this item is gone', async (t) => {
  const [tools] = WHOLE;
  const request = (query: string) => fixture.call('GET', `${tools}?${query}`);
  const read = async (query: string) => (await request(query)).body;
  const names = ({ items }: { items: { name: string }[] }) => items.map(({ name }) => name);
  const [two, three] = [await read('limit=2'), await read('limit=3')];
  t.same(names(three), ['first__one', 'first__two', 'second__one']);
  await fixture.change(first, `status = 'paused'`);
  t.same(names(await read(`cursor=${three.nextCursor}`)), ['second__two']);
  t.match(await request(`cursor=${two.nextCursor}`), {
    status: 400,
    body: {
      code: 'bad_request',
      detail: 'The list changed. Read it again from the start.',
      errors: [{ field: 'cursor' }],
    },
  });
});
