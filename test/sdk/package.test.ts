/** `@bulkhead/sdk` as an author gets it: built, laid where npm would lay it, compiled against. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { listExamples } from '../../examples/demo-packages.ts';
import { buildPackage } from '../../pack/build.ts';
import { temporaryFolder } from '../harness.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const TYPES = '{ "extends": "@bulkhead/sdk/tsconfig.plugin.json", "include": ["**/*.ts"] }';

const author = await temporaryFolder(t);
const sdkFolder = join(author, 'node_modules/@bulkhead/sdk');
await buildPackage(sdkFolder);
await stopEsbuild();
const { stdout: packed } = await run('npm', ['pack', '--json', '--dry-run'], { cwd: sdkFolder });
const [pack] = JSON.parse(packed) as [{ files: { path: string }[] }];

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
  const read = files.filter((path) => !path.startsWith('dist/'));
  t.strictSame(read, ['README.md', 'REFERENCE.md', 'globals.d.ts', 'package.json', 'tsconfig.plugin.json']);
  // One built from chunks, which are named by what they hold.
  const named = files.filter(
    (path) => /^dist\/([\w-]+|adapters\/[\w-]+)\.(c?js)$/.test(path) && !/-[A-Z0-9]{8}\./.test(path),
  );
  const adapters = ['ai-sdk', 'langchain', 'openai-agents'].map((name) => `dist/adapters/${name}.js`);
  t.strictSame(named, [...adapters, 'dist/bulkhead.js', 'dist/sandbox-child.cjs', 'dist/session.js']);
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
