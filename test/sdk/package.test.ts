/** `@bulkhead/sdk` as an author gets it: built, laid where npm would lay it, compiled against. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'acorn';
import { publint } from 'publint';
import t from 'tap';
import { listExamples } from '../../examples/demo-packages.ts';
import { renderTemplate, templates } from '../../sdk/cli/templates.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { installPackages } from '../runner/installed-packages.ts';
import { whyMissing } from '../runner/programs.ts';
import { amount, isSoak, listCases, soakTest } from '../runner/soak.ts';
import { openAi, startModelServer } from '../supervisor/host/model-server.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const TYPES = '{ "extends": "@bulkhead/sdk/tsconfig.plugin.json", "include": ["**/*.ts"] }';

const adapters = ['ai-sdk', 'langchain', 'openai-agents'];

const author = await temporaryFolder(t);
const sdkFolder = join(author, 'node_modules/@bulkhead/sdk');
const pack = await packInCheckout();

/** Runs the documented `npm pack ./sdk` in a copy of the checkout, where other tests do not see what it builds, and unpacks it. */
async function packInCheckout(): Promise<{ filename: string; files: { path: string }[]; left: string[] }> {
  const checkout = join(author, 'checkout');
  const sources = [
    'api',
    'conform',
    'db',
    'deploy',
    'pack',
    'sandbox-child',
    'sdk',
    'service',
    'supervisor',
    'package.json',
  ];
  const filter = (path: string) => !path.endsWith('/node_modules');
  for (const name of sources) await cp(join(root, name), join(checkout, name), { recursive: true, filter });
  await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'));
  const { stdout } = await run('npm', ['pack', './sdk', '--json'], { cwd: checkout });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  await mkdir(sdkFolder, { recursive: true });
  await run('tar', ['xf', join(checkout, packed.filename), '--strip-components=1', '-C', sdkFolder]);
  const left = await readdir(join(checkout, 'sdk'));
  await rm(checkout, { recursive: true });
  return { ...packed, left };
}

const bulkhead = join(sdkFolder, 'dist/bulkhead.js');
const OLDEST_NODE = join(root, 'test/oldest-node');
/** Runs a program where `/proc` is empty. */
const HIDE_PROC = ['--dev-bind', '/', '/', '--tmpfs', '/proc', '--die-with-parent', '--'];

/** The version of the oldest Node that npm has for this processor. */
async function readOldestVersion(): Promise<string> {
  const { optionalDependencies } = JSON.parse(await readFile(join(OLDEST_NODE, 'package.json'), 'utf8'));
  return String(optionalDependencies[`node-22-${process.arch}`]).split('@').at(-1) ?? '';
}

/** Why `/proc` cannot be hidden here, for example because the kernel refuses user namespaces; false where it can be. */
const whyProcStays = async (): Promise<string | false> =>
  whyMissing('bwrap') ||
  run('bwrap', [...HIDE_PROC, 'true']).then(
    () => false as const,
    ({ stderr }: { stderr: string }) => `bwrap cannot hide /proc: ${stderr.trim()}`,
  );
/** Touches every global of the realm, some of which are made when they are first read, and fails if one has no value. */
const READS_EVERYTHING = `
const missing = Object.getOwnPropertyNames(globalThis).filter((name) => globalThis[name] === undefined);
if (missing.join() !== 'undefined') throw new Error(missing.join());
for (const segment of new Intl.Segmenter('en').segment('a b')) console.log(segment, new Response('x').body, new Date());
tools.read = { description: 'Reads', parameters: { type: 'object' }, handler: () => '' };
`;

async function writePlugin(slug: string, code: string): Promise<string> {
  const folder = join(author, slug);
  await mkdir(folder);
  const name = slug.replace(/^./, (first) => first.toUpperCase()).replace('-', ' ');
  const readme = `---\nname: ${name}\ndescription: For a test.\ncapabilities: [host.http:example.com]\n---\n`;
  await writeFile(join(folder, 'readme.md'), readme);
  await writeFile(join(folder, 'index.ts'), code);
  return folder;
}

/** Writes files into a folder of the author's and compiles it. */
async function complaints(
  name: string,
  files: Readonly<Record<string, string>>,
  project = 'tsconfig.json',
): Promise<string> {
  const folder = join(author, name);
  await mkdir(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  return run(join(root, 'test/node_modules/typescript-7/bin/tsc'), ['-p', join(folder, project), '--singleThreaded'], {
    cwd: author,
  }).then(
    () => '',
    // A compiler that does not start has empty output; it must not pass as “no complaints”.
    (error: { stdout: string; message: string }) => error.stdout || error.message,
  );
}

t.test('the tarball holds what authors need and nothing of the host', async (t) => {
  t.notOk(pack.left.includes('dist'), 'and leaves nothing in the checkout');
  const files = pack.files.map(({ path }) => path).sort();
  const read = files.filter((path) => !path.startsWith('dist/'));
  t.strictSame(read, ['README.md', 'REFERENCE.md', 'globals.d.ts', 'package.json', 'tsconfig.plugin.json']);
  // One built from chunks, which are named by what they hold.
  const named = files.filter(
    (path) => /^dist\/([\w-]+|adapters\/[\w-]+)\.(c?js)$/.test(path) && !/-[A-Z0-9]{8}\./.test(path),
  );
  t.strictSame(named, [
    ...adapters.map((name) => `dist/adapters/${name}.js`),
    'dist/bulkhead.js',
    'dist/command-line.js',
    'dist/sandbox-child.cjs',
    'dist/session.js',
    'dist/spawner-process.js',
    'dist/testing.js',
  ]);
  const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const sdk = JSON.parse(await readFile(join(root, 'sdk/package.json'), 'utf8'));
  t.equal(sdk.version, own.version, 'both carry one version');
});

t.test('what npm packed can be imported, and the command runs', async (t) => {
  for (const name of ['zod', 'esbuild'])
    await symlink(join(root, 'node_modules', name), join(author, 'node_modules', name));
  const program = `import { connect } from '@bulkhead/sdk/session'; import { openPlugin } from '@bulkhead/sdk/testing';
    console.log(typeof connect, typeof openPlugin);`;
  await writeFile(join(author, 'imports.mjs'), program);
  t.equal((await run(process.execPath, [join(author, 'imports.mjs')])).stdout, 'function function\n');
  const TMPDIR = join(author, 'tmp');
  await mkdir(TMPDIR);
  const { stdout } = await run(process.execPath, [bulkhead, '--help'], { env: { PATH: process.env.PATH, TMPDIR } });
  t.match(stdout, /Usage: bulkhead/);
  const kept = (await readdir(TMPDIR, { recursive: true, withFileTypes: true })).filter((one) => one.isFile());
  t.ok(kept.length > 0, 'its modules are compiled once for all starts');
});

t.test('check says so where npm left out the program of esbuild', async (t) => {
  const incomplete = join(author, 'incomplete');
  await cp(join(root, 'node_modules/esbuild'), join(incomplete, 'node_modules/esbuild'), { recursive: true });
  await cp(join(author, 'node_modules/@bulkhead'), join(incomplete, 'node_modules/@bulkhead'), { recursive: true });
  const command = join(incomplete, 'node_modules/@bulkhead/sdk/dist/bulkhead.js');
  const plugin = await writePlugin('incomplete-build', `tools.a = { description: 'A', parameters: {}, handler() {} };`);
  const checked = await run(process.execPath, [command, 'check', plugin]).catch((error: { stderr: string }) => error);
  t.match(checked, { stderr: /The package "@esbuild\/linux-\w+" could not be found/ });
  t.notMatch(checked.stderr, 'nested too deeply');
});

// Its Node is a download of 170 MB.
const skipOldest = amount<string | false>({ quick: 'with --soak', soak: false });
t.test(`check runs on Node ${await readOldestVersion()}`, { skip: skipOldest }, async (t) => {
  await installPackages(OLDEST_NODE);
  const node = join(OLDEST_NODE, 'node_modules', `node-22-${process.arch}`, 'bin/node');
  const check = (folder: string) => run(node, [bulkhead, 'check', folder]).catch((error: { stderr: string }) => error);
  const checked = await check(await writePlugin('every-global', READS_EVERYTHING));
  t.match(checked, { stderr: /^$/, stdout: /^ok Every global: /m });
  const late = await check(
    await writePlugin('newer-global', `commands[Temporal.Now.timeZoneId()] = { handler() {} };`),
  );
  t.match(late, { code: 3, stderr: /Temporal is not defined \(checked with Node 22\.\S+, but .* plugins on Node 26/ });
});

const skipWithoutProc = isSoak() ? await whyProcStays() : 'with --soak';
t.test('check runs where there is no /proc, as on macOS', { skip: skipWithoutProc }, async (t) => {
  const folder = await writePlugin('without-proc', READS_EVERYTHING);
  const checked = await run('bwrap', [...HIDE_PROC, process.execPath, bulkhead, 'check', folder]);
  t.match(checked, { stderr: /^$/, stdout: /^ok Without proc: /m });
});

soakTest(t, 'check says what the process of the plugin wrote before it failed to start', async (t) => {
  const program = join(sdkFolder, 'dist/sandbox-child.cjs');
  const before = await readFile(program, 'utf8');
  t.teardown(() => writeFile(program, before));
  await writeFile(program, `throw new Error('the build is damaged');`);
  const failure = await run(process.execPath, [
    bulkhead,
    'check',
    await writePlugin('unstarted', READS_EVERYTHING),
  ]).catch((error: unknown) => error);
  t.match(failure, {
    code: 1,
    stderr:
      /^error Node v\S+ could not start a process for the plugin: it ended with code 1\. It wrote:\n.*the build is damaged/s,
  });
});

t.test('an old Node gets a sentence', async (t) => {
  const file = join(sdkFolder, 'dist/bulkhead.js');
  const { body } = parse(await readFile(file, 'utf8'), {
    ecmaVersion: 2020,
    sourceType: 'module',
    allowHashBang: true,
  });
  const imported = body.flatMap((statement) =>
    statement.type === 'ImportDeclaration' ? [statement.source.value] : [],
  );
  t.same(imported, ['node:module'], 'the program can be read by Node 14 and loads nothing before its check');
  const versions = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`;
  const old = ['--import', `data:text/javascript,${encodeURIComponent(versions)}`];
  const failure = await run(process.execPath, [...old, file, 'status']).catch((error: unknown) => error);
  const { engines } = JSON.parse(await readFile(join(sdkFolder, 'package.json'), 'utf8'));
  const minimum = engines.node.replace(/^>=/, '').replace(/\.0$/, '');
  t.match(failure, {
    code: 1,
    stderr: new RegExp(`^bulkhead needs Node ${minimum} or newer, and this is Node 20\\.20\\.2 .*\n$`),
  });
});

t.test('the example packages compile, and invalid code does not', async (t) => {
  // One project: each of their files is a module, and the compiler names the file that it complains about.
  const packages = join(author, 'packages');
  const names = listExamples();
  for (const name of names) await cp(join(root, 'examples', name), join(packages, name), { recursive: true });
  // Every wrong line is marked @ts-expect-error, and TypeScript complains about a mark with nothing wrong below it.
  await cp(join(root, 'test/plugins/types'), join(packages, 'invalid'), { recursive: true });
  t.equal(await complaints('packages', { 'tsconfig.json': TYPES }), '', `${names.join()}, and every marked line`);
});

soakTest(t, 'a test beside the plugin of a template has types of its own', async (t) => {
  const types = join(author, 'node_modules/@types');
  await mkdir(types, { recursive: true });
  await symlink(join(root, 'node_modules/@types/node'), join(types, 'node'));
  const template = templates.find(({ name }) => name === 'tool');
  if (!template) throw new Error('there is no template tool');
  const test = (place: string) => `import test from 'node:test';
import { openPlugin } from '@bulkhead/sdk/testing';
test('counts', async () => {
  await using plugin = await openPlugin(${place});
  await plugin.tool('count', { text: 'one two' });
});
`;
  const fresh = renderTemplate(template, 'Fresh', 'fresh');
  const files = { ...fresh, 'fresh.test.ts': test('import.meta.dirname') };
  t.equal(await complaints('fresh', files), '', 'the project of the plugin');
  const readme = await readFile(join(root, 'sdk/README.md'), 'utf8');
  const [, own = ''] = /`tsconfig\.test\.json`.*?```json\n(.*?)```/s.exec(readme) ?? [];
  const tests = { ...files, 'tsconfig.test.json': own };
  const said = await complaints('fresh', { ...tests, 'wrong.test.ts': test('7') }, 'tsconfig.test.json');
  t.match(said, /wrong\.test\.ts.*TS2345/);
  t.notMatch(said, /fresh\.test\.ts/, 'the documented project of the tests');
  t.match(readme, fresh['tsconfig.json'] ?? 'none', 'the readme shows the project that init writes');
});

t.test('with declared capabilities, an undeclared member does not compile', async (t) => {
  const declared = (capabilities: string) =>
    `declare namespace Bulkhead { interface Package { capabilities: ${capabilities} } }\n`;
  const index = `host.log('x', host.settings);
await host.secrets.get('key');
await host.storage.set('a', 1);
await host.workspace.readText('a.txt');
await host.http.fetch('https://api.example.com');
// @ts-expect-error no call of it only reads
await host.llm.complete({ messages: [] });
// @ts-expect-error not declared
await host.ssh.hosts();
// @ts-expect-error only reading is
await host.workspace.write('a.txt', 'x');
`;
  const some = declared("'host.storage' | 'host.workspace:read' | 'host.llm:read' | 'host.http:api.example.com'");
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

soakTest(t, '"types" alone adds the globals to a project with options of its own', async (t) => {
  const options = { target: 'es2022', lib: ['es2022'], strict: true, noEmit: true, types: ['@bulkhead/sdk'] };
  const own = JSON.stringify({ compilerOptions: { ...options, module: 'esnext', moduleResolution: 'bundler' } });
  const right = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;\n';
  const wrong = 'middleware.systemPromt = (ctx) => ctx.systemPrompt;\n';
  const said = await complaints('own', { 'tsconfig.json': own, 'right.ts': right, 'wrong.ts': wrong });
  t.match(said, /wrong\.ts\b.*systemPromt/);
  t.notMatch(said, /right\.ts/);
});

t.test('publint finds nothing', async (t) => {
  const { messages } = await publint({ pkgDir: sdkFolder, pack: false, strict: true });
  t.same(messages, []);
});

soakTest(t, 'arethetypeswrong finds no fault for ES modules', async (t) => {
  const files: Record<string, Uint8Array> = {};
  for (const { path } of pack.files)
    files[`/node_modules/@bulkhead/sdk/${path}`] = await readFile(join(sdkFolder, path));
  const { checkPackage, Package } = await import('@arethetypeswrong/core');
  const result = await checkPackage(new Package(files, '@bulkhead/sdk', '0.1.0'), {
    entrypoints: ['./session', ...adapters.map((name) => `./adapters/${name}`)],
  });
  if (!result.types) throw new Error('there are no types');
  // Its two exceptions are what a package without CommonJS means: an old resolver, and `require` of a module.
  const kept = result.problems.filter((problem) => problem.kind !== 'CJSResolvesToESM');
  t.same(
    kept.filter((problem) => !('resolutionKind' in problem) || problem.resolutionKind !== 'node10'),
    [],
  );
});

/** Right lines, and wrong ones that are marked. */
const RUNTIME = `import { connect, BulkheadError, type HookName, type Session } from '@bulkhead/sdk/session';
const session: Session = await connect({ url: 'http://localhost:4010', token: async () => 't' }).start({ agentId: 'a' });
const name: HookName = 'systemPrompt';
const { context, action } = await session.hook(name, { systemPrompt: 'x', model: 'm' });
const prompt: string = context.systemPrompt;
const done: 'continue' | 'cancel' = action;
const failed = (error: unknown): string | null => (error instanceof BulkheadError ? error.code : null);
for (const tool of await session.tools()) failed(tool.description + prompt + done);
// @ts-expect-error no such hook
await session.hook('systemPromt', { systemPrompt: 'x', model: 'm' });
// @ts-expect-error a field is missing
await session.hook('systemPrompt', { model: 'm' });
// @ts-expect-error it is text
const wrong: number = context.systemPrompt;
export { wrong };
`;
const ADAPTED = `import { bulkhead } from '@bulkhead/sdk/adapters/ai-sdk';
import { connect } from '@bulkhead/sdk/session';
const session = connect({ url: 'http://localhost:4010', token: 't' }).open('s');
export const middleware = bulkhead(session, { compactAfter: 10 });
// @ts-expect-error a number
bulkhead(session, { compactAfter: '10' });
`;

const RESOLUTIONS: readonly (readonly [module: string, moduleResolution: string])[] = [
  ['esnext', 'bundler'],
  ['nodenext', 'nodenext'],
];

t.test('the types of the session client and an adapter work with TypeScript 5.9 and 7', async (t) => {
  await symlink(join(root, 'node_modules/ai'), join(author, 'node_modules/ai'));
  const compilers = { typescript: [], 'typescript-7': ['--singleThreaded'] };
  // Version 5.9, which is written in JavaScript, takes several times the processor time of 7.
  for (const [compiler, flags] of listCases(compilers, 'typescript-7')) {
    for (const [module, moduleResolution] of amount({ quick: RESOLUTIONS.slice(1), soak: RESOLUTIONS })) {
      const folder = join(author, `${compiler}-${moduleResolution}`);
      await mkdir(folder);
      const options = {
        target: 'es2024',
        lib: ['es2024', 'dom', 'dom.iterable'],
        strict: true,
        noEmit: true,
        types: [],
      };
      const compilerOptions = {
        ...options,
        module,
        moduleResolution,
        exactOptionalPropertyTypes: true,
        skipLibCheck: true,
      };
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
      await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
      await writeFile(join(folder, 'runtime.ts'), RUNTIME);
      await writeFile(join(folder, 'adapted.ts'), ADAPTED);
      const script = join(root, 'test/node_modules', compiler, 'bin/tsc');
      const result = await run(process.execPath, [script, '-p', folder, ...flags]).then(
        () => '',
        // A compiler that does not start has empty output; it must not pass as “no complaints”.
        (error: { stdout: string; message: string }) => error.stdout || error.message,
      );
      t.equal(result, '', `${compiler}, ${moduleResolution}`);
    }
  }
});

/** Where the frameworks are installed that an author installs next to the package. */
const FRAMEWORKS = { node_modules: ['ai', '@ai-sdk'], 'test/node_modules': ['langchain', '@langchain', '@openai'] };

soakTest(t, 'the programs of the page for runtimes stream from the packed package', async (t) => {
  const fixture = withStartedPlugins(await startSupervisorFixture(t));
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const code = `middleware.outboundMessage = { stream: true, handler: (ctx) => {
    if (ctx.message.text.includes('secret')) ctx.cancel('we keep the recipe');
    return { message: { text: ctx.message.text.replace('loafs', 'loaves') } };
  } };`;
  await fixture.install({ slug: 'house', code });
  for (const [folder, names] of Object.entries(FRAMEWORKS))
    for (const name of names) {
      const link = join(author, 'node_modules', name);
      await rm(link, { recursive: true, force: true });
      await symlink(join(root, folder, name), link);
    }
  const page = await readFile(join(root, 'docs/getting-started-runtimes.md'), 'utf8');
  t.equal(
    page.split(`npm install ../${pack.filename} `).length - 1,
    adapters.length,
    'each is installed from the packed file',
  );
  const programs = [...page.matchAll(/## ([^\n]+)\n\n```js\n(.*?)```/gs)];
  t.equal(programs.length, adapters.length);
  const model = await startModelServer(t);
  model.answers = [openAi('Forty lo', 'afs. ', 'And a se', 'cret.')];
  const env = {
    ...bareEnvironment,
    MODEL_URL: model.url,
    BULKHEAD_URL: url,
    BULKHEAD_TOKEN: await fixture.issuer.issue('ann'),
  };
  for (const [, framework = '', program = ''] of programs) {
    const file = join(author, 'agent.mjs');
    await writeFile(file, program);
    const { stdout } = await run(process.execPath, [file, 'How many?'], { cwd: author, env });
    t.equal(stdout.replace(/\s+/g, ' '), 'Forty loaves. house cancelled the operation: we keep the recipe', framework);
  }
});
