/** The packages of docs/host-members.md, bundled as publishing does it and run in real children, and its requests. */
import { readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stop } from 'esbuild';
import t from 'tap';
import { BUILD_TIME_MS, ENTRY } from '../../api/package/bundle.ts';
import { buildInTime } from '../../api/package/bundler-worker.ts';
import type { ModelProvider } from '../../supervisor/host/llm/configuration.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { whyMissing } from '../runner/programs.ts';
import { amount } from '../runner/soak.ts';
import { openAi, startModelServer } from '../supervisor/host/model-server.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { runShellBlocks } from './shell-blocks.ts';

const page = readFileSync(join(root, 'docs/host-members.md'), 'utf8');
const PACKAGE = /```ts\n\/\/ capabilities: \[(.*?)\]\n([\s\S]*?)```/g;

const server = await startModelServer(t);
server.answers = [openAi('Good day')];
const main: ModelProvider = {
  name: 'main',
  kind: 'openai',
  baseUrl: server.url,
  structuredOutputs: true,
  models: [{ id: 'big', name: 'Big', contextWindow: undefined, price: undefined }],
};
const fixture = await startSupervisorFixture(t, { models: [main] });

t.test('every package of the page does what the page says', async (t) => {
  const folder = await temporaryFolder(t);
  const slugs = ['agents', 'models', 'provider', 'workspace', 'media'];
  const packages = [...page.matchAll(PACKAGE)];
  t.equal(packages.length, slugs.length);
  let accountId = '';
  t.equal(page.split('```ts').length - 1, slugs.length, 'no other code is on the page');
  for (const [index, [, capabilities = '', code = '']] of packages.entries()) {
    const entry = join(folder, `${index}.ts`);
    await writeFile(entry, code);
    const built = await buildInTime({ entry: ENTRY, files: { [ENTRY]: entry }, timeMs: BUILD_TIME_MS });
    if (built.outcome !== 'built') throw new Error(JSON.stringify(built));
    const declared = capabilities.split(', ').filter((one) => one !== '');
    ({ accountId } = await fixture.install({ slug: slugs[index] ?? '', code: built.bundle, capabilities: declared }));
  }
  await stop();
  const at = `/sessions/${await fixture.session()}`;
  const post = async (path: string, body: object) => (await fixture.call('POST', `${at}${path}`, body)).body;

  const question = { text: 'Researcher is asked.' };
  t.same(await post('/commands/agents__research', { input: 'Why is the sky blue?' }), question);
  t.same(await post('/commands/agents__research', { input: 'And the sea?' }), question);
  const { rows } = await fixture.pool.query(
    `SELECT a.name, m.text FROM session_messages m JOIN sessions s ON s.id = m.session_id JOIN agents a ON a.id = s.agent_id
      ORDER BY m.position`,
  );
  t.same(rows, [
    { name: 'Researcher', text: 'Why is the sky blue?' },
    { name: 'Researcher', text: 'And the sea?' },
  ]);
  t.same(await post('/commands/models__translate', { input: 'Guten Tag' }), { text: 'Good day' });
  const request = { messages: [{ role: 'user', text: 'hello' }] };
  t.match(await post('/providers/provider__parrot', { request }), { text: 'hello, squawk!', model: 'grey' });
  const note = (line: string) => post('/tools/workspace__note', { arguments: { line } });
  for (const line of ['milk', 'bread']) t.match(await note(line), { content: [{ text: 'Noted.' }] });
  const notes = join(fixture.dataDir, 'workspaces', accountId, 'notes');
  const today = join(notes, 'today.md');
  // More files than `host.workspace.list` lists: in a quick run, the note is one of those that it lists.
  for (let number = 0; number < amount({ quick: 1, soak: 5_000 }); number += 1)
    writeFileSync(join(notes, `${number}`), '');
  await note('eggs');
  t.equal(readFileSync(today, 'utf8'), '- milk\n- bread\n- eggs\n', 'no note is lost');
  const binary = Buffer.from([0xff]);
  writeFileSync(today, binary);
  t.match(await note('salt'), { isError: true, content: [{ text: /not UTF-8 text/ }] });
  t.same(readFileSync(today), binary, 'what cannot be read is not overwritten');
  const { content } = await post('/tools/media__export', { arguments: { rows: ['a,b', '1,2'] } });
  t.match(content, [{ json: { mediaType: 'text/plain' } }]);
  const file = await fixture.call('GET', `/media/${content[0].json.mediaId}`);
  t.equal(file.body, 'a,b\n1,2');
});

t.test('the requests of the page read a skill', { skip: whyMissing('curl') }, async (t) => {
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  await fixture.install({
    account: 'bea',
    slug: 'kit',
    code: 'middleware.systemPrompt = () => undefined;',
    files: {
      'skills/pdf/SKILL.md': '---\nname: pdf\ndescription: PDFs\n---\nRead it.',
      'skills/pdf/logo.png': 'a logo',
    },
    discovered: { skills: [{ name: 'pdf', description: 'PDFs' }] },
  });
  const env = { SESSION_API: url, TOKEN: await fixture.issuer.issue('bea') };
  const stdout = await runShellBlocks('host-members.md', env);
  t.match(JSON.parse(stdout), { name: 'kit__pdf', path: 'logo.png', content: 'a logo' });
});
