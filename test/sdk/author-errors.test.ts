/**
 * What authors read when something is wrong, all of it on one page: docs/errors-authors.md, which is what the command line
 * says. With WRITE_PAGES=1 the page is written anew; read it as a beginner would before committing it.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { localToolbox } from '../../pack/local-toolbox.ts';
import { listen, startApiFixture } from '../api/api-fixture.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { GOOD, type Mistake, mistakes } from './author-errors.ts';
import { bulkhead } from './typed.ts';

t.setTimeout(400_000);
t.after(() => stopEsbuild());

const PAGE = fileURLToPath(new URL('../../docs/errors-authors.md', import.meta.url));
const HEAD = `# When something is wrong

What \`bulkhead\` says about the mistakes that authors make, as it says it. A test prints this page; it is not written by hand.
A fault in a package names file, line and column, as a publish over REST does. Exit codes: 1 refused, 2 typed wrongly,
3 the package has faults, 4 not signed in, 5 the service is away.
`;

const api = await startApiFixture(t);
const url = `http://127.0.0.1:${await listen(api)}`;
const tokens = { ann: (await api.user('ann')).token, bob: (await api.user('bob')).token, nobody: '', expired: 'a.b.c' };
const home = await temporaryFolder(t);

async function say({ title, args, files = {}, as = 'ann', exit }: Mistake): Promise<string> {
  const folder = join(home, title.replaceAll(' ', '-'), 'weather');
  await mkdir(folder, { recursive: true });
  for (const [path, text] of Object.entries({ ...GOOD, ...files })) {
    if (text !== null) await writeFile(join(folder, path), text);
  }
  const env = { HOME: home, BULKHEAD_URL: url, BULKHEAD_TOKEN: tokens[as] };
  const { code, stdout, stderr } = await bulkhead(args, { folder, env, toolbox: localToolbox });
  t.equal(code, exit, `${title}: ${stdout}${stderr}`);
  const said = `${stdout}${stderr}`
    .replaceAll(folder, '/home/ann/weather')
    .replaceAll(url, 'http://localhost:4000')
    .replace(/checked in \d+ ms/, 'checked in 300 ms')
    .replace(/\d+ bytes, checked/, '400 bytes, checked');
  return `## ${title}\n\n\`\`\`\n$ bulkhead ${args.join(' ')}\n${said}\`\`\`\n`;
}

t.test('every mistake is answered by a sentence that says what to do', async (t) => {
  await mkdir(join(home, 'first'));
  for (const [path, text] of Object.entries(GOOD)) await writeFile(join(home, 'first', path), text);
  const env = { HOME: home, BULKHEAD_URL: url, BULKHEAD_TOKEN: tokens.ann };
  for (const args of [['publish'], ['install', 'weather']]) {
    const { code, stderr } = await bulkhead(args, { folder: join(home, 'first'), env, toolbox: localToolbox });
    t.equal(code, 0, stderr);
  }
  const parts: string[] = [];
  for (const mistake of mistakes) parts.push(await say(mistake));
  const page = `${HEAD}\n${parts.join('\n')}`;
  if (process.env.WRITE_PAGES === '1') await writeFile(PAGE, page);
  t.equal(page, await readFile(PAGE, 'utf8').catch(() => ''), 'docs/errors-authors.md says it');
});
