/** Every example: listed in the table with its capabilities, published, and installed as it lies there. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readFrontmatter } from '../../api/package/frontmatter.ts';
import { listExamples } from '../../examples/demo-packages.ts';
import { manifest } from '../../sdk/contract/manifest.ts';
import { root } from '../house/source-files.ts';
import { isSoak } from '../runner/soak.ts';
import { startExamplesFixture } from './examples-fixture.ts';

const folder = join(root, 'examples');
const slugs = listExamples();
/** Other tests publish, install and run them; here only a soak run does. */
const PUBLISHED_ELSEWHERE: readonly string[] = [
  'counter',
  'media-gallery',
  'prompt-pack',
  'quiet-hours',
  'session-diary',
  'skill-pack',
  'standup',
  'summarizer',
  'todo-policy',
  'tool-guard',
  'workspace-notes',
];
const table = readFileSync(join(folder, 'README.md'), 'utf8');
const headOf = (slug: string) =>
  readFrontmatter({ path: 'readme.md', text: readFileSync(join(folder, slug, 'readme.md'), 'utf8') }, manifest).data;

t.test('the table names each of them, with what it asks for', async (t) => {
  for (const slug of slugs) {
    const row = table.split('\n').find((line) => line.startsWith(`| [${slug}](${slug}) |`));
    const capabilities = new Set(headOf(slug).capabilities.map((one) => one.replace(/^host\.http:.*/, 'host.http:…')));
    t.equal(row?.split('|')[3]?.trim(), [...capabilities].map((one) => `\`${one}\``).join(', '), slug);
  }
  t.equal(table.split('\n').filter((line) => line.startsWith('| [')).length, slugs.length);
});

t.test('each is published without a warning and installed, and runs once it has the secrets it asks for', async (t) => {
  const service = await startExamplesFixture(t);
  const check = async (slug: string) => {
    const secrets = Object.fromEntries(Object.keys(headOf(slug).secrets).map((name) => [name, 'canary']));
    const { installationId, discovered } = await service.publish(slug, {}, secrets);
    const { body } = await service.ann.get(`/installations/${installationId}`);
    t.match(body, { status: 'ready', secretNames: Object.keys(secrets).sort() }, slug);
    t.ok(Object.values(discovered).flat().filter(Boolean).length > 0, `${slug} registers something`);
  };
  const published = slugs.filter((slug) => isSoak() || !PUBLISHED_ELSEWHERE.includes(slug));
  // As many at once as the bundler takes without saying that it is busy.
  for (let at = 0; at < published.length; at += 4) await Promise.all(published.slice(at, at + 4).map(check));
});
