/**
 * docs/errors-authors.md shows the exact output of the command line for common mistakes. WRITE_PAGES=1 writes the page
 * again; review its texts before committing it.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { localTools } from '../../pack/local-tools.ts';
import { Accounts } from '../../sdk/cli/accounts.ts';
import { listen, startApiFixture } from '../api/api-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';
import { GOOD, type Mistake, mistakes } from './author-errors.ts';
import { bulkhead } from './typed.ts';

t.after(() => stopEsbuild());

const PAGE = fileURLToPath(new URL('../../docs/errors-authors.md', import.meta.url));
const HEAD = `# Error messages

The output of \`bulkhead\` for common mistakes. A test writes this page. Faults in a package have a file, a line and a column.
Exit codes: 1 refused or failed, 2 invalid command line, 3 invalid package, 4 not signed in, 5 service unavailable.
`;

const api = await startApiFixture(t);
const url = `http://127.0.0.1:${await listen(api)}`;
const tokens = { ann: (await api.user('ann')).token, bob: (await api.user('bob')).token, nobody: '', expired: 'a.b.c' };
const home = await temporaryFolder(t);

async function renderMistake({ title, args, files = {}, as = 'ann', exit }: Mistake): Promise<string> {
  const folder = join(home, title.replaceAll(' ', '-'), 'weather');
  await mkdir(folder, { recursive: true });
  for (const [path, text] of Object.entries({ ...GOOD, ...files })) {
    if (text === null) continue;
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const env = { HOME: home, BULKHEAD_URL: url };
  const accounts = new Accounts(env);
  if (as === 'nobody') await accounts.remove(url);
  else await accounts.save(url, { token: tokens[as], name: as });
  const { code, stdout, stderr } = await bulkhead(args, { folder, env, localTools });
  t.equal(code, exit, `${title}: ${stdout}${stderr}`);
  const output = `${stdout}${stderr}`
    .replaceAll(folder, '/home/ann/weather')
    .replaceAll(url, 'http://localhost:4000')
    .replace(/checked in \d+ ms/, 'checked in 300 ms')
    .replace(/\d+ bytes, checked/, '400 bytes, checked');
  return `## ${title}\n\n\`\`\`\n$ bulkhead ${args.join(' ')}\n${output}\`\`\`\n`;
}

t.test('every mistake has a message that says what to do', async (t) => {
  await mkdir(join(home, 'first'));
  for (const [path, text] of Object.entries(GOOD)) await writeFile(join(home, 'first', path), text);
  const env = { HOME: home, BULKHEAD_URL: url, BULKHEAD_TOKEN: tokens.ann };
  for (const args of [['publish'], ['install', 'weather', '--yes']]) {
    const { code, stderr } = await bulkhead(args, { folder: join(home, 'first'), env, localTools });
    t.equal(code, 0, stderr);
  }
  const isWhole = isSoak() || process.env.WRITE_PAGES === '1';
  const parts: string[] = [];
  for (const mistake of mistakes) if (isWhole || !mistake.isRare) parts.push(await renderMistake(mistake));
  const page = `${HEAD}\n${parts.join('\n')}`;
  if (process.env.WRITE_PAGES === '1') await writeFile(PAGE, page);
  const written = await readFile(PAGE, 'utf8').catch(() => '');
  if (isWhole) t.equal(page, written, 'docs/errors-authors.md is current');
  else for (const part of [HEAD, ...parts]) t.ok(written.includes(part), `docs/errors-authors.md has:\n${part}`);
  const titles = [...written.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
  t.same(
    titles,
    mistakes.map(({ title }) => title),
  );
});
