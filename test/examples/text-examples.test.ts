/** The examples that are text before all: skills with their files, and prompts. */
import t from 'tap';
import { filesOf, startExamplesFixture } from './examples-fixture.ts';

const service = await startExamplesFixture(t);

t.test('skill-pack teaches two crafts, with the files they name', async (t) => {
  const { discovered, pluginId } = await service.publish('skill-pack');
  t.match(discovered, { skills: [{ name: 'logo' }, { name: 'release-notes' }], middleware: [], tools: [] });
  const session = await service.session();
  const { body } = await service.call('GET', `/sessions/${session}/skills`);
  t.match(body.items, [{ name: 'skill-pack__logo' }, { name: 'skill-pack__release-notes', description: /^Writes/ }]);
  const opened = await service.call('GET', `/sessions/${session}/skills/skill-pack__logo`);
  const picture = filesOf('skill-pack')['skills/logo/assets/logo.png'];
  t.match(opened.body.text, /^# The logo/);
  t.same(opened.body.resources, [{ path: 'assets/logo.png', sizeBytes: picture?.length }]);
  const files = Object.entries(filesOf('skill-pack')).map(([path, bytes]) => ({ path, contentText: String(bytes) }));
  const asText = await service.ann.post(`/plugins/${pluginId}/versions`, { semVer: '1.0.1', files });
  t.match(asText, { status: 422 }, 'a picture goes in a zip only');
});

t.test('prompt-pack offers prompts and a command of code', async (t) => {
  await service.publish('prompt-pack');
  const path = `/sessions/${await service.session()}/commands`;
  const { body } = await service.call('GET', path);
  t.match(body.items.map(({ name, kind }: { name: string; kind: string }) => `${name} ${kind}`).sort(), [
    'prompt-pack__decide prompt',
    'prompt-pack__review prompt',
    'prompt-pack__table code',
  ]);
  const run = async (name: string, input: string) =>
    (await service.call('POST', `${path}/prompt-pack__${name}`, { input })).body.text;
  t.match(await run('decide', 'rye or wheat'), /^Help me decide: rye or wheat\n/);
  t.match(await run('review', 'My plan'), /\n\nMy plan\n*$/);
  t.equal(await run('table', 'name, age\n\nAnn,7\nB|b'), '| name | age |\n| --- | --- |\n| Ann | 7 |\n| B\\|b |  |');
  t.match(await run('table', ' '), /^Give it lines/);
});
