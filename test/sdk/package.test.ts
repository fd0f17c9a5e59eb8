/** `@bulkhead/sdk` as an author gets it: packed, installed in an empty folder, compiled against. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { listExamples } from '../../examples/demo-packages.ts';
import { temporaryFolder } from '../harness.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const TYPES = '{ "extends": "@bulkhead/sdk/tsconfig.plugin.json", "include": ["**/*.ts"] }';

const author = await temporaryFolder(t);
const { stdout: packed } = await run('npm', ['pack', '--json', '--pack-destination', author], {
  cwd: join(root, 'sdk'),
});
const [pack] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }];
await writeFile(join(author, 'package.json'), '{ "name": "author", "private": true }');
await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(author, pack.filename)], { cwd: author });

/** Writes files into a folder of the author's and compiles it. */
async function complaints(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(author, name);
  await mkdir(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  return run(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { cwd: author }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}

t.test('the tarball holds what authors need and nothing of the host', async (t) => {
  const files = pack.files.map(({ path }) => path).sort();
  t.strictSame(files, ['README.md', 'REFERENCE.md', 'globals.d.ts', 'package.json', 'tsconfig.plugin.json']);
  const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const sdk = JSON.parse(await readFile(join(root, 'sdk/package.json'), 'utf8'));
  t.equal(sdk.version, own.version, 'both carry one version');
});

t.test('the example packages compile', async (t) => {
  for (const name of listExamples()) {
    await cp(join(root, 'examples', name), join(author, name), { recursive: true });
    t.equal(await complaints(name, { 'tsconfig.json': TYPES }), '', name);
  }
});

t.test('what is wrong does not', async (t) => {
  const files: Record<string, string> = {};
  const folder = join(root, 'test/plugins/types');
  for (const name of await readdir(folder)) files[name] = await readFile(join(folder, name), 'utf8');
  files['tsconfig.json'] = TYPES;
  t.equal(await complaints('wrong', files), '', 'every line marked as an error is one');
});

t.test('with the capabilities said, an undeclared member does not compile', async (t) => {
  const declared = (capabilities: string) =>
    `declare namespace Bulkhead { interface Package { capabilities: ${capabilities} } }\n`;
  const index = `host.log('x', host.settings);
await host.secrets.get('key');
await host.storage.set('a', 1);
await host.workspace.readText('a.txt');
await host.http.fetch('https://api.example.com');
// @ts-expect-error not declared
await host.llm.complete({ messages: [] });
// @ts-expect-error not declared
await host.ssh.hosts();
// @ts-expect-error only reading is
await host.workspace.write('a.txt', 'x');
`;
  const some = declared("'host.storage' | 'host.workspace:read' | 'host.http:api.example.com'");
  t.equal(await complaints('declared', { 'tsconfig.json': TYPES, 'bulkhead.d.ts': some, 'index.ts': index }), '');
  const none = `host.log('x');
await host.secrets.get('key');
// @ts-expect-error not declared
await host.storage.get('a');
// @ts-expect-error not declared
await host.http.fetch('https://api.example.com');
`;
  t.equal(
    await complaints('none', { 'tsconfig.json': TYPES, 'bulkhead.d.ts': declared('never'), 'index.ts': none }),
    '',
  );
});

t.test('"types" alone adds the globals to a project with options of its own', async (t) => {
  const options = { target: 'es2022', lib: ['es2022'], strict: true, noEmit: true, types: ['@bulkhead/sdk'] };
  const own = JSON.stringify({ compilerOptions: { ...options, module: 'esnext', moduleResolution: 'bundler' } });
  const right = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;\n';
  t.equal(await complaints('own', { 'tsconfig.json': own, 'index.ts': right }), '');
  const wrong = 'middleware.systemPromt = (ctx) => ctx.systemPrompt;\n';
  t.match(await complaints('own', { 'index.ts': wrong }), /systemPromt/);
});
