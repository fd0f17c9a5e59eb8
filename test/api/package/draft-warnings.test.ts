/** Warnings of a draft: mistakes that are allowed. */
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, readmeWith } from './packages.ts';

const api = await startApiFixture(t);
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'warned', displayName: 'Warned' })).body;
const warnings = async (readme: string[], index: string, more: Record<string, string> = {}): Promise<string[]> => {
  const files = fileList({ 'readme.md': readmeWith(...readme), 'index.ts': index, ...more });
  const { status, body } = await ann.post(`/plugins/${id}/draft`, { files });
  t.equal(status, 200, JSON.stringify(body));
  return body.warnings;
};
const hook = (body: string) => `middleware.systemPrompt = async (ctx) => { ${body} return ctx.systemPrompt; };`;

t.test('declared and not used, used and not declared', async (t) => {
  const head = [
    'capabilities: [host.llm, "host.storage:read", "host.http:example.com"]',
    'settings: { tone: { label: Tone }, mood: { label: Mood } }',
    'secrets: { apiKey: { label: Key }, old: { label: Old } }',
  ];
  const index = hook(
    "await host.storage.get(ctx.settings.tone); await host.secrets.get('apiKey'); await host.ssh.hosts(); /* mood */",
  );
  t.same(await warnings(head, index, { 'commands/review.md': 'Review this' }), [
    'host.llm is declared but never used. Remove it, so that users need not grant it.',
    'host.http:example.com is declared but never used. Remove it, so that users need not grant it.',
    'host.ssh is used but not declared, so it will be undefined. Add host.ssh to the capabilities.',
    'The setting “mood” is declared but never read.',
    'The secret “old” is declared but never read.',
    'commands/review.md has no description: menus show its name alone.',
  ]);
});

t.test('no warning about computed accesses', async (t) => {
  const head = ['capabilities: [host.llm]', 'settings: { tone: { label: Tone } }', 'secrets: { key: { label: Key } }'];
  const index = hook('const { llm, secrets } = host; await secrets.get("k" + "ey"); Object.keys(ctx.settings); llm;');
  t.same(await warnings(head, index), []);
  t.same(await warnings([], hook("host.log('hello');")), []);
});
