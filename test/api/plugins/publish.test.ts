/** Publishing a package, by file list and by zip. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, introspectsMinimal, MINIMAL, README, upload, zipOf } from '../package/packages.ts';

const api = await startApiFixture(t);
const ann = await api.user('ann');
let count = 0;
const newPlugin = async () => {
  count += 1;
  const made = await ann.post('/plugins', { slug: `plugin-${count}`, displayName: 'Plugin' });
  return made.body.id as string;
};
const zip = (pluginId: string, body: Buffer, semVer: string) =>
  ann.send({ method: 'POST', url: `/api/plugins/${pluginId}/versions/zip`, ...upload(body, semVer) });

t.test('a plugin is made, found and listed to its owner', async (t) => {
  const made = await ann.post('/plugins', { slug: 'first', displayName: 'First', description: 'The first one' });
  t.equal(made.status, 201);
  t.match(made.body, { slug: 'first', displayName: 'First', visibility: 'private', tier: 'community' });
  const read = await ann.get(`/plugins/${made.body.id}`);
  t.same(read.body.versions, []);
  t.notOk('files' in read.body);
  t.ok((await ann.get('/plugins')).body.items.some((plugin: { id: string }) => plugin.id === made.body.id));
  const again = await ann.post('/plugins', { slug: 'first', displayName: 'Other' });
  t.equal(again.status, 409);
  t.equal(again.body.code, 'slug_taken');
});

t.test('a file list becomes an immutable version', async (t) => {
  const id = await newPlugin();
  const made = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  t.equal(made.status, 201, JSON.stringify(made.body));
  t.match(made.body, {
    semVer: '1.0.0',
    status: 'published',
    capabilities: ['middleware.systemPrompt'],
    discovered: { middleware: ['middleware.systemPrompt'], tools: [], commands: [], channel: null },
  });
  const again = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  t.equal(again.status, 409);
  t.equal(again.body.code, 'version_exists');
  const detail = await ann.get(`/plugins/${id}?includeFiles=true`);
  t.match(detail.body.versions, [{ semVer: '1.0.0', status: 'published', sourceSha256: made.body.sourceSha256 }]);
  t.same(
    detail.body.files.map((file: { path: string; contentText: string }) => [file.path, file.contentText]),
    [
      ['index.ts', INDEX],
      ['readme.md', README],
    ],
  );
});

t.test('the same tree has the same hash by zip, by wrapped zip and by file list', async (t) => {
  const id = await newPlugin();
  const wrapped = Object.fromEntries(Object.entries(MINIMAL).map(([path, text]) => [`my-plugin/${path}`, text]));
  const litter = { '__MACOSX/._readme.md': 'x', 'my-plugin/.DS_Store': 'x', ...wrapped };
  const answers = [
    await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) }),
    await zip(id, await zipOf(MINIMAL), '1.0.1'),
    await zip(id, await zipOf(wrapped, { compress: false }), '1.0.2'),
    await zip(id, await zipOf(litter), '1.0.3'),
  ];
  t.same(
    answers.map(({ status }) => status),
    [201, 201, 201, 201],
    JSON.stringify(answers.map(({ body }) => body.detail)),
  );
  t.equal(new Set(answers.map(({ body }) => body.sourceSha256)).size, 1);
});

t.test('commands, skills, tools, events and capabilities are found', async (t) => {
  const id = await newPlugin();
  const files = {
    'readme.md': README.replace('---\n#', 'capabilities: [host.llm, "host.workspace:read"]\n---\n#'),
    'index.ts': `import { sides } from './lib/dice.js';
      tools.roll = { description: 'Rolls', parameters: { type: 'object', properties: { n: { type: 'integer' } } }, handler: () => String(sides) };
      commands.hello = { description: 'Says hello', handler: () => 'hello' };
      events.pluginInstalled = () => {};`,
    'lib/dice.ts': 'export const sides: number = 6;',
    'commands/review.md': '---\ndescription: Reviews\n---\nReview this.',
    'skills/careful-work/SKILL.md': '---\nname: careful-work\ndescription: Works with care\n---\nBe careful.',
  };
  const made = await ann.post(`/plugins/${id}/versions`, { semVer: '0.1.0', files: fileList(files) });
  t.equal(made.status, 201, JSON.stringify(made.body));
  t.same(made.body.capabilities, [
    'commands.hello',
    'commands.review',
    'events.pluginInstalled',
    'host.llm',
    'host.workspace:read',
    'tools.roll',
  ]);
  t.match(made.body.discovered, {
    commands: [
      { name: 'hello', source: 'code' },
      { name: 'review', description: 'Reviews', source: 'prompt' },
    ],
    skills: [{ name: 'careful-work', description: 'Works with care' }],
    lifecycle: ['pluginInstalled'],
    tools: [{ name: 'roll', description: 'Rolls', parameters: { type: 'object' } }],
  });
});

t.test('added capabilities are those against the previous version by precedence', async (t) => {
  const id = await newPlugin();
  const more = { ...MINIMAL, 'index.ts': `${INDEX}events.pluginInstalled = () => {};` };
  await ann.post(`/plugins/${id}/versions`, { semVer: '2.0.0', files: fileList(more) });
  const older = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  t.same(older.body.addedCapabilities, ['middleware.systemPrompt']);
  const newer = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files: fileList(more) });
  t.same(newer.body.addedCapabilities, ['events.pluginInstalled']);
});

t.test(
  'the frontmatter of the latest version names the plugin, in lists, catalog, search and installations',
  async (t) => {
    const bob = await api.user('bob');
    const made = await ann.post('/plugins', { slug: 'named', displayName: 'Working title', description: 'Soon' });
    const path = `/plugins/${made.body.id}`;
    const renamed = await ann.patch(path, { displayName: 'Quokkas' });
    t.match(renamed, { status: 200, body: { displayName: 'Quokkas', description: 'Soon' } });
    t.match(await ann.patch(path, { description: '' }), {
      status: 200,
      body: { displayName: 'Quokkas', description: '' },
    });
    t.equal((await bob.patch(path, { displayName: 'Mine' })).status, 404);
    t.equal((await ann.patch(path, { displayName: '\u202eReversed' })).status, 400);
    const publish = (semVer: string, name: string) => {
      const readme = `---\nname: ${name}\ndescription: Facts for ${name.toLowerCase()}\n---\n`;
      return ann.post(`${path}/versions`, { semVer, files: fileList({ ...MINIMAL, 'readme.md': readme }) });
    };
    const shown = async () => {
      const entry = (await bob.get('/marketplace/named')).body;
      const { displayName, description } = (await ann.get(path)).body;
      t.match(entry, { displayName, description });
      return displayName;
    };
    const find = async (q: string) =>
      (await bob.get(`/marketplace?q=${q}`)).body.items.map(({ slug }: { slug: string }) => slug);
    await publish('1.0.0', 'Wombats');
    await ann.post(`${path}/listing`);
    t.equal(await shown(), 'Wombats');
    t.same([await find('wombats'), await find('quokkas')], [['named'], []]);
    const { body: second } = await publish('1.1.0', 'Numbats');
    t.equal(await shown(), 'Numbats');
    t.same([await find('numbats'), await find('facts')], [['named'], ['named']]);
    t.equal((await bob.post('/installations', { slug: 'named' })).body.displayName, 'Numbats');
    await publish('1.0.1', 'Bilbies');
    t.equal(await shown(), 'Numbats', 'an older number changes nothing');
    t.match(await ann.patch(path, { displayName: 'Other' }), {
      status: 409,
      body: { code: 'published_version_exists', detail: /readme\.md/ },
    });
    await ann.post(`${path}/versions/${second.id}/yank`);
    t.equal(await shown(), 'Bilbies', 'the new latest version names it');
    t.same([await find('bilbies'), await find('numbats')], [['named'], []]);
  },
);

t.test('the archive of a version depends on its tree alone', async (t) => {
  const id = await newPlugin();
  const files = { ...MINIMAL, 'assets/ä/pixel.bin': Buffer.from([0, 255, 1]), 'assets/empty': '' };
  const reversed = Object.fromEntries(Object.entries(files).reverse());
  const wrapped = Object.entries(reversed).map(([path, content]) => [`p/${path}`, content]);
  await zip(id, await zipOf(files), '1.0.0');
  const { body: version } = await zip(id, await zipOf(Object.fromEntries(wrapped), { compress: false }), '1.0.1');
  const { versions } = (await ann.get(`/plugins/${id}`)).body;
  const archives = [];
  for (const { id: versionId } of versions) {
    const url = `/api/plugins/${id}/versions/${versionId}/archive`;
    const headers = { authorization: `Bearer ${ann.token}` };
    archives.push(await api.app.inject({ method: 'GET', url, headers }));
  }
  const [newest, first] = archives;
  t.equal(newest?.headers.etag, `"${version.sourceSha256}"`);
  t.match(newest?.headers['content-disposition'], /plugin-\d+-1\.0\.1-source\.zip/);
  t.ok(newest && first && newest.rawPayload.equals(first.rawPayload), 'byte by byte');
  const again = await zip(id, newest?.rawPayload ?? Buffer.alloc(0), '1.0.2');
  t.equal(again.body.sourceSha256, version.sourceSha256, 'it is a package itself');
  const saved = await ann.post(`/plugins/${id}/draft`, { files: fileList(MINIMAL) });
  t.equal(saved.status, 200);
  const draft = await ann.get(`/plugins/${id}/versions/draft/archive`);
  t.equal(draft.headers.etag, `"${saved.body.sourceSha256}"`);
  t.equal((await ann.get(`/plugins/${id}/versions/none/archive`)).status, 404);
});

t.test('of many publishes of one number exactly one wins', async (t) => {
  const id = await newPlugin();
  const body = { semVer: '1.0.0', files: fileList(MINIMAL) };
  const answers = await Promise.all(Array.from({ length: 12 }, () => ann.post(`/plugins/${id}/versions`, body)));
  const statuses = answers.map(({ status }) => status).sort();
  t.same(statuses, [201, ...Array.from({ length: 11 }, () => 409)]);
});

t.test('an outage after the commit does not fail a publish, whose repetition would be refused', async (t) => {
  let isAway = false;
  const finishUpdate = async () => {
    if (!isAway) return;
    isAway = false;
    throw new Error('Connection terminated unexpectedly');
  };
  const fixture = await startApiFixture(t, {
    introspect: introspectsMinimal,
    prepare: (services) => ({ ...services, finishUpdate }),
  });
  const author = await fixture.user('author');
  const { id } = (await author.post('/plugins', { slug: 'outage', displayName: 'Outage' })).body;
  const publish = (semVer: string) => author.post(`/plugins/${id}/versions`, { semVer, files: fileList(MINIMAL) });
  t.equal((await publish('1.0.0')).status, 201);
  t.equal((await author.post('/installations', { slug: 'outage' })).status, 201);
  isAway = true;
  t.match(await publish('1.0.1'), { status: 201, body: { semVer: '1.0.1' } });
});

t.test('nothing stays in the staging directory', async (t) => {
  t.same(await readdir(join(api.dataDir, 'staging')), []);
});
