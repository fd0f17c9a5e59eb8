/** `bulkhead` itself: templates, numbers, help, completion, and how it answers programs. */
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import tls from 'node:tls';
import { promisify } from 'node:util';
import { stop as stopEsbuild, transform } from 'esbuild';
import t from 'tap';
import { buildLocally } from '../../pack/local-build.ts';
import { localTools } from '../../pack/local-tools.ts';
import { openPlugin } from '../../pack/testing/testing.ts';
import { Accounts, normalizeServiceUrl } from '../../sdk/cli/accounts.ts';
import { runCommandLine } from '../../sdk/cli/command-line.ts';
import { commands } from '../../sdk/cli/command-list.ts';
import { Context } from '../../sdk/cli/context.ts';
import { Draft } from '../../sdk/cli/dev/draft.ts';
import { watchFolder } from '../../sdk/cli/dev/folder-watcher.ts';
import { createUnreachableError, exitCodes, toFailure } from '../../sdk/cli/failure.ts';
import { formatLine } from '../../sdk/cli/log-lines.ts';
import { listRequested, proposeVersion } from '../../sdk/cli/next-version.ts';
import { Output, type Paint } from '../../sdk/cli/output.ts';
import { type FileId, readPackageFolder } from '../../sdk/cli/package-folder.ts';
import { hashFiles, readTexts, uploadVersion } from '../../sdk/cli/package-upload.ts';
import type { Rest } from '../../sdk/cli/rest.ts';
import type { Version } from '../../sdk/cli/rest-types.ts';
import { renderTemplate, templates } from '../../sdk/cli/templates.ts';
import { MIB, PACKAGE_FILES_MAX, PACKAGE_MAX_BYTES, SECOND } from '../../sdk/contract/limits.ts';
import { connect } from '../../sdk/session/session.ts';
import { BulkheadError } from '../../sdk/session/transport.ts';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import { listenOn, serve } from '../fixtures/listening-server.ts';
import { mountSmallDisk, NO_DISK } from '../fixtures/small-disk.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { listCandidates } from '../runner/leak-guard.ts';
import { whyMissing } from '../runner/programs.ts';
import { amount, isSoak } from '../runner/soak.ts';
import { makeCertificate } from '../supervisor/host/http-target.ts';
import { bulkhead, noTools } from './typed.ts';

t.after(() => stopEsbuild());

t.test('an error that a package throws cannot look like a line of the check', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'readme.md'), '---\nname: A\ndescription: B\n---\n');
  await writeFile(join(folder, 'index.ts'), "throw new Error('one\\nok\\r\\nerror two');");
  t.match(await bulkhead(['check'], { folder, localTools }), {
    code: 3,
    stderr: /^error index\.ts:1:7: one\n {4}ok\n {4}error two\n/,
  });
});

/** Whether this process has started the bundler. */
const runsEsbuild = (): boolean =>
  listCandidates().some((pid) => readProcessStat(Number(pid))?.name.startsWith('esbuild'));

t.test('an interrupted check ends while the bundler runs', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'readme.md'), '---\nname: A\ndescription: B\n---\n');
  await writeFile(join(folder, 'index.ts'), '');
  // That of an earlier test would be found before the bundling.
  await stopEsbuild();
  const interrupted = new AbortController();
  let isOver = false;
  const checked = bulkhead(['check'], { folder, localTools, signal: interrupted.signal }).finally(() => {
    isOver = true;
  });
  while (!isOver && !runsEsbuild()) await nextTurn();
  interrupted.abort();
  t.equal((await checked).code, 130);
});

t.test('a build of the author’s own is not stopped with the idle bundler', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const folder = await temporaryFolder(t);
  const files = { 'readme.md': '---\nname: A\ndescription: B\n---\n', 'index.ts': '' };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const listed = Object.keys(files).map((path) => ({ path, at: join(folder, path) }));
  const introspect = async () => ({ ok: false, message: 'not loaded here' }) as const;
  await t.rejects(buildLocally(listed, 'a', await temporaryFolder(t), { introspect }), { message: /not loaded here/ });
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  void transform('let a: number', { loader: 'ts' }).then(end, end);
  mock.timers.tick(600 * SECOND);
  while (!isOver && runsEsbuild()) await nextTurn();
  t.ok(isOver, 'esbuild never settles a build whose process was stopped');
});

t.test('every template passes the check', async (t) => {
  const home = await temporaryFolder(t);
  // The test of a new author checks two of the others. Each check starts a process.
  for (const template of templates.filter(({ name }) => isSoak() || name === 'provider')) {
    const folder = join(home, template.name);
    for (const [path, text] of Object.entries(renderTemplate(template, 'A “name”: with # signs', template.name))) {
      await mkdir(join(folder, path, '..'), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    const { code, stdout, stderr } = await bulkhead(['check', '--json'], { folder, localTools });
    t.equal(code, 0, `${template.name} ${stderr}`);
    t.same(JSON.parse(stdout).warnings, [], template.name);
  }
});

t.test('the template of a prompt adds its text once', async (t) => {
  const folder = await temporaryFolder(t);
  t.equal((await bulkhead(['init', '--slug', 'style', '--template', 'prompt'], { folder })).code, 0);
  const plugin = await openPlugin(folder);
  t.teardown(() => plugin.close());
  const judge = (systemPrompt: string, repeated = false) =>
    plugin.hook('middleware.systemPrompt', { systemPrompt }, { repeated });
  const { systemPrompt } = (await judge('Hi.')).context;
  t.equal(systemPrompt, 'Hi.\n\nAnswer in one short sentence.');
  t.equal((await judge(systemPrompt, true)).changed, false);
});

t.test('init writes over nothing', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'package.json'), '{ "name": "mine" }');
  const made = await bulkhead(['init', '--slug', 'mine'], { folder });
  t.match(made, {
    code: 0,
    stdout: /^Wrote readme\.md, index\.ts, tsconfig\.json, \.gitignore\nAdded bulkhead\.slug “mine” to package\.json\n/,
  });
  t.same(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')), {
    name: 'mine',
    bulkhead: { slug: 'mine' },
  });
  await writeFile(join(folder, 'index.ts'), '// mine');
  t.match(await bulkhead(['init'], { folder }), {
    code: 1,
    stderr: /(index\.ts|readme\.md) already exists/,
  });
  t.equal(await readFile(join(folder, 'index.ts'), 'utf8'), '// mine');
});

t.test('init writes nothing beside a file whose name differs by letter case', async (t) => {
  for (const [own, template, path] of [
    ['README.md', 'tool', 'readme.md'],
    ['Skills', 'skill-pack', 'skills/release-notes/SKILL.md'],
  ] as const) {
    const folder = await temporaryFolder(t);
    if (own === 'Skills') await mkdir(join(folder, own));
    else await writeFile(join(folder, own), '# Mine');
    t.match(await bulkhead(['init', '--template', template], { folder }), {
      code: 1,
      stderr: `${join(folder, own)} already exists, and a package cannot have it beside ${path}. Pass another folder,`,
    });
    t.same(await readdir(folder), [own]);
  }
});

t.test('init refuses a name that the check refuses, and writes nothing', async (t) => {
  const folder = await temporaryFolder(t);
  for (const [name, fault] of [
    ['', 'must not be empty'],
    ['x'.repeat(65), 'must be at most 64 characters'],
    ['a\nb', 'must be one line'],
    ['a\u200b', 'contains U+200B'],
  ] as const)
    t.match(await bulkhead(['init', '--name', name], { folder }), { code: 2, stderr: `error The name ${fault}` });
  t.same(await readdir(folder), []);
});

t.test('a package.json with a byte order mark is read', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'package.json'), '\uFEFF{ "bulkhead": { "slug": "mine" } }');
  t.equal((await bulkhead(['init', '--slug', 'mine', '--json'], { folder })).code, 0);
  t.equal((await readPackageFolder(folder, undefined)).slug, 'mine');
});

t.test('init says what it changes in a package.json', async (t) => {
  for (const [slug, words] of [
    ['mine', /\.gitignore\nNext/],
    ['yours', /\.gitignore\nChanged bulkhead\.slug in package\.json from “mine” to “yours”\nNext/],
  ] as const) {
    const folder = await temporaryFolder(t);
    await writeFile(join(folder, 'package.json'), '{ "bulkhead": { "slug": "mine" } }');
    t.match((await bulkhead(['init', '--slug', slug], { folder })).stdout, words);
  }
});

t.test('init takes the title from the name of the folder, and prints commands that a shell takes', async (t) => {
  const folder = await temporaryFolder(t);
  const printed = async (name: string) => (await bulkhead(['init', name], { folder })).stdout;
  const title = async (name: string) =>
    /^name: (.*)$/m.exec(await readFile(join(folder, name, 'readme.md'), 'utf8'))?.[1];
  t.match(await printed('word-count'), 'Next: cd word-count\n');
  t.equal(await title('word-count'), '"Word count"');
  const strange = "Ünï côde 😀 it's";
  t.match(await printed(strange.normalize('NFD')), `Next: cd '${strange.normalize('NFD').replace("'", `'\\''`)}'\n`);
  t.equal(await title(strange.normalize('NFD')), JSON.stringify(strange));
  const long = `${'Œ'.repeat(70)} y`;
  await printed(long);
  t.equal(await title(long), `"${'Œ'.repeat(64)}"`);
  for (const name of amount({ quick: [], soak: [strange.normalize('NFD'), long] })) {
    const checked = await bulkhead(['check'], { folder: join(folder, name), localTools });
    t.equal(checked.code, 0, checked.stderr);
  }
});

t.test('skills of a folder become a package, over nothing that is there', async (t) => {
  const folder = await temporaryFolder(t);
  const skill = join(folder, 'skills', 'hello');
  await mkdir(skill, { recursive: true });
  await writeFile(join(skill, 'SKILL.md'), '---\nname: hello\ndescription: Says hello\n---\nSay hello.\n');
  const made = await bulkhead(['import-skills', 'skills', 'mine', '--json'], { folder });
  t.match(JSON.parse(made.stdout), { folder: join(folder, 'mine'), skills: ['hello'], notes: [] });
  const checked = await bulkhead(['check', '--json'], { folder: join(folder, 'mine'), localTools });
  t.equal(checked.code, 0, checked.stderr);
  t.match(await bulkhead(['import-skills', 'skills', 'mine'], { folder }), { code: 1, stderr: /mine is not empty/ });
  t.match(await bulkhead(['import-skills', 'nowhere'], { folder }), { code: 1, stderr: /is not a folder/ });
});

t.test('a package that cannot be written ends its command, whatever the file system', async (t) => {
  const folder = await temporaryFolder(t);
  const skill = join(folder, 'skills', 'hello');
  await mkdir(skill, { recursive: true });
  await writeFile(join(skill, 'SKILL.md'), '---\nname: hello\ndescription: Says hello\n---\nSay hello.\n');
  await writeFile(join(folder, 'file'), '');
  for (const [place, code] of [
    ['file/plugin', 'ENOTDIR'],
    // A file system without new folders, which Node does not recognize.
    ...(process.platform === 'linux' ? [['/proc/bulkhead/plugin', 'ENOENT'] as const] : []),
  ] as const) {
    const stderr = new RegExp(
      `${place}/\\S+ cannot be written \\(${code}\\)\\. Pass a folder in which you can create files`,
    );
    t.match(await bulkhead(['init', place, '--template', 'tool'], { folder }), { code: 1, stderr });
    if (code === 'ENOENT') t.match(await bulkhead(['import-skills', 'skills', place], { folder }), { code: 1, stderr });
  }
});

const disk = await mountSmallDisk(t, 1);
t.test('on a full disk, commands say so and leave what was there before', { skip: !disk && NO_DISK }, async (t) => {
  if (!disk) return;
  const folder = join(disk.folder, 'weather');
  await mkdir(folder);
  const own = `${JSON.stringify({ name: 'weather', note: 'mine'.repeat(2_000) })}\n`;
  await writeFile(join(folder, 'package.json'), own);
  const accounts = new Accounts({ XDG_CONFIG_HOME: disk.folder });
  await accounts.save('http://localhost:4000', { token: 'first', name: 'ann' });
  await disk.fill();
  t.match(await bulkhead(['init', '--template', 'tool'], { folder }), {
    code: 1,
    stderr: /weather\/readme\.md cannot be written \(ENOSPC\)\. Pass a folder in which/,
  });
  t.same(await readdir(folder), ['package.json']);
  t.equal(await readFile(join(folder, 'package.json'), 'utf8'), own);
  await t.rejects(accounts.save('http://localhost:4000', { token: 'x'.repeat(5_000), name: 'bob' }), {
    message: `Tokens cannot be stored in ${disk.folder}/bulkhead (its disk is full): make room there, set XDG_CONFIG_HOME to a folder that you can write to, or set BULKHEAD_URL and BULKHEAD_TOKEN.`,
  });
  t.match(await accounts.find('http://localhost:4000'), { token: 'first', name: 'ann' });
  t.same(await readdir(join(disk.folder, 'bulkhead')), ['accounts.json']);
  const full = await writeFile(join(folder, 'any'), 'x'.repeat(5_000)).catch((error: unknown) => error);
  t.match(toFailure(full, ''), { exit: 'failed', message: /^The disk of \S+ is full: make room there, or set TMPDIR/ });
  await rm(join(folder, 'any'));
  await disk.empty();
  t.match(await bulkhead(['init', '--template', 'tool'], { folder }), { code: 0 });
  const skills = await temporaryFolder(t);
  await mkdir(join(skills, 'hello/pictures'), { recursive: true });
  await writeFile(join(skills, 'hello/SKILL.md'), '---\nname: hello\ndescription: Says hello\n---\nSay hello.\n');
  await writeFile(join(skills, 'hello/pictures/large.png'), Buffer.alloc(3 * MIB));
  const target = join(disk.folder, 'imported');
  const stderr = /pictures\/large\.png cannot be written \(ENOSPC\)/;
  t.match(await bulkhead(['import-skills', skills, target]), { code: 1, stderr });
  t.same(await readdir(target), [], 'the next attempt finds an empty folder');
  t.match(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')), { bulkhead: { slug: 'weather' } });
});

t.test('logout without a stored token writes nothing', async (t) => {
  const folder = await temporaryFolder(t);
  const accounts = new Accounts({ XDG_CONFIG_HOME: folder });
  t.equal(await accounts.remove('http://localhost:4000'), false);
  t.same(await readdir(folder), []);
  await accounts.save('http://localhost:4000', { token: 'first', name: 'ann' });
  t.equal(await accounts.remove('https://bulkhead.example'), false);
  t.equal(await accounts.getCurrentUrl(), 'http://localhost:4000');
  t.equal(await accounts.remove('http://localhost:4000'), true);
  t.equal(await accounts.find('http://localhost:4000'), null);
});

t.test('an accounts file without services is one without tokens', async (t) => {
  const folder = await temporaryFolder(t);
  const accounts = new Accounts({ XDG_CONFIG_HOME: folder });
  await mkdir(dirname(accounts.path));
  for (const text of ['null', '{}', '{"services":null}']) {
    await writeFile(accounts.path, text);
    t.equal(await accounts.find('http://localhost:4000'), null, text);
  }
  await accounts.save('http://localhost:4000', { token: 'first', name: 'ann' });
  t.match(await accounts.find('http://localhost:4000'), { name: 'ann' });
});

t.test('init replaces what a link to package.json leads to, and keeps its mode', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'weather'));
  const shared = join(folder, 'shared.json');
  await writeFile(shared, '{"name":"weather"}', { mode: 0o640 });
  await symlink(shared, join(folder, 'weather/package.json'));
  t.match(await bulkhead(['init', '--template', 'tool'], { folder: join(folder, 'weather') }), { code: 0 });
  t.match(JSON.parse(await readFile(shared, 'utf8')), { bulkhead: { slug: 'weather' } });
  t.equal((await stat(shared)).mode & 0o777, 0o640);
});

t.test('init does not replace a package.json that it cannot read', async (t) => {
  const folder = await temporaryFolder(t);
  // Opening it fails, and its name can be replaced, as with a file of another user.
  const loop = join(folder, 'package.json');
  await symlink('package.json', loop);
  t.match(await bulkhead(['init', '--template', 'tool'], { folder }), { code: 1, stderr: /ELOOP.*package\.json/ });
  t.same(await readdir(folder), ['package.json']);
});

t.test('init that cannot write a file leaves package.json as it was', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'package.json'), '{ "bulkhead": { "slug": "mine" } }');
  // The template has a folder of this name.
  await writeFile(join(folder, 'skills'), '');
  t.match(await bulkhead(['init', '--template', 'skill-pack', '--slug', 'yours'], { folder }), {
    code: 1,
    stderr: /SKILL\.md cannot be written \(ENOTDIR\)/,
  });
  t.same((await readdir(folder)).sort(), ['package.json', 'skills']);
  t.equal(await readFile(join(folder, 'package.json'), 'utf8'), '{ "bulkhead": { "slug": "mine" } }');
});

t.test('a file of another program stays if the process has no file descriptor left to open it', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'readme.md');
  await writeFile(file, 'mine');
  const source = `
    import { openSync } from 'node:fs';
    import { writeNewFiles } from ${JSON.stringify(new URL('../../sdk/cli/new-file.ts', import.meta.url).href)};
    try { for (;;) openSync('/dev/null'); } catch {}
    const files = [{ path: 'readme.md', read: () => 'new' }];
    await writeNewFiles(${JSON.stringify(folder)}, files, 'wx').catch((error) => { process._rawDebug(error.message); });`;
  const node = [process.execPath, '--input-type=module', '-e', source];
  const { stderr } = await promisify(execFile)('sh', ['-c', 'ulimit -n 100 && exec "$@"', 'sh', ...node]);
  t.match(stderr, 'readme.md cannot be written (EMFILE)');
  t.equal(await readFile(file, 'utf8'), 'mine');
});

t.test('import-skills names everything that it leaves out, each on one line', async (t) => {
  const folder = await temporaryFolder(t);
  const write = async (root: string, paths: readonly string[]): Promise<void> => {
    for (const path of paths) {
      await mkdir(dirname(join(folder, root, path)), { recursive: true });
      await writeFile(join(folder, root, path), '{"name":"Team","description":"x"}');
    }
  };
  const importNotes = async (root: string): Promise<string[]> => {
    const { stderr } = await bulkhead(['import-skills', root, `${root}-package`], { folder });
    return stderr.trimEnd().split('\n');
  };
  const skill = ['a/SKILL.md', 'a/.env', 'a/b/.cache/x'];
  const [hidden, code] = ['names that begin with a dot are left out', 'a plugin implements tools in its own code'];
  await write('plugin', [
    'plugin.json',
    'mcp.json',
    '.git/HEAD',
    'hooks/x',
    'read\nme',
    ...skill.map((path) => `skills/${path}`),
  ]);
  t.same(await importNotes('plugin'), [
    `Skipped .git: ${hidden}.`,
    'Skipped hooks: only the folder skills is imported.',
    `Skipped mcp.json: ${code}, not in a server.`,
    'Skipped read me: only the folder skills is imported.',
    `Skipped skills/a/.env: ${hidden}.`,
    `Skipped skills/a/b/.cache: ${hidden}.`,
  ]);
  await write('loose', ['plugin.json', 'README.md', '.git/HEAD', 'notes/x', ...skill]);
  t.same((await importNotes('loose')).sort(), [
    `Skipped .git: ${hidden}.`,
    'Skipped README.md: it belongs to no skill.',
    'Skipped notes: it has no SKILL.md.',
    `Skipped skills/a/.env: ${hidden}.`,
    `Skipped skills/a/b/.cache: ${hidden}.`,
  ]);
});

t.test('dist and coverage are folders of tools at the top only, and left out with a warning', async (t) => {
  const folder = await temporaryFolder(t);
  for (const name of ['coverage', 'dist']) {
    const skill = join(folder, 'skills', name);
    await mkdir(skill, { recursive: true });
    await writeFile(join(skill, 'SKILL.md'), `---\nname: ${name}\ndescription: Says ${name}\n---\nSay it.\n`);
    await writeFile(join(skill, 'package.json'), '{}');
  }
  const mine = join(folder, 'mine');
  await bulkhead(['import-skills', 'skills', 'mine'], { folder });
  for (const path of ['dist', 'coverage', 'node_modules', '.git', 'skills/dist/node_modules']) {
    await mkdir(join(mine, path));
    await writeFile(join(mine, path, 'lib.js'), 'export const x = 1;');
  }
  const checked = JSON.parse((await bulkhead(['check', '--json'], { folder: mine, localTools })).stdout);
  t.match(checked, {
    discovered: { skills: [{ name: 'coverage' }, { name: 'dist' }] },
    warnings: ['coverage', 'dist', 'skills/dist/node_modules'].map(
      (path) => `${path}/ is left out: it has the name of a tool’s folder. If it belongs to the package, rename it.`,
    ),
    files: ['index.ts', 'readme.md', 'skills/coverage/SKILL.md', 'skills/coverage/package.json'],
  });
  const imports: readonly (readonly [from: string, advice: string])[] = [
    ['./dist/lib.js', 'rename the folder “dist”'],
    ['./dist', 'rename it'],
    ['./lib.test', 'rename it'],
  ];
  for (const [from, advice] of amount({ quick: imports.slice(0, 1), soak: imports })) {
    await writeFile(join(mine, 'index.ts'), `import { x } from '${from}';\nx;`);
    t.match(await bulkhead(['check'], { folder: mine, localTools }), {
      code: 3,
      stderr: `error index.ts:1:19: “${from}” is not in the package. The command line and the console leave it out as part of your tools: ${advice}\n`,
    });
  }
});

t.test('files of the author’s tools are left out, except below assets/ and skills/', async (t) => {
  const folder = await temporaryFolder(t);
  await bulkhead(['init', '--slug', 'tooled'], { folder });
  for (const path of ['assets', 'assets/data', 'assets-old']) {
    await mkdir(join(folder, path));
    await writeFile(join(folder, path, 'package.json'), '{}');
  }
  const { files } = await readPackageFolder(folder, undefined);
  t.same(
    files.map(({ path }) => path),
    ['assets/data/package.json', 'assets/package.json', 'index.ts', 'readme.md'],
  );
});

t.test(
  'only files that may belong to the package start a save, and the output of the command never does',
  async (t) => {
    const folder = await temporaryFolder(t);
    await mkdir(join(folder, 'lib.log'));
    const output = join(folder, 'out.txt');
    await writeFile(output, '');
    const countCalls = async (outputIds: readonly FileId[]) => {
      const calls = { count: 0 };
      const watch = await watchFolder(folder, outputIds, async () => {
        calls.count += 1;
        return null;
      });
      t.teardown(() => watch.stop());
      return calls;
    };
    const own = await countCalls([await stat(output)]);
    const other = await countCalls([]);
    for (const path of ['package.json', 'index.test.ts', 'dev.log']) await writeFile(join(folder, path), '{}');
    await writeFile(output, 'live');
    // The output of another command is a file like any other.
    await eventually(async () => other.count > 0);
    t.equal(own.count, 0);
    await writeFile(join(folder, 'lib.log', 'index.ts'), '// A folder may have the name of a file of tools.');
    await eventually(async () => own.count > 0);
  },
);

t.test('a file that lies too deep is refused, not left out', async (t) => {
  const folder = await temporaryFolder(t);
  await bulkhead(['init', '--slug', 'deep'], { folder });
  const deep = join(folder, 'assets', ...Array.from({ length: 25 }, () => 'a'));
  await mkdir(deep, { recursive: true });
  await writeFile(join(deep, 'x.txt'), 'x');
  const checked = await bulkhead(['check'], { folder, localTools });
  t.match(checked, { code: 3, stderr: /is more than 16 folders deep/ });
});

t.test('Ctrl-C ends a check at once, so that no publish follows it', async (t) => {
  const folder = await temporaryFolder(t);
  await bulkhead(['init', '--slug', 'stopped'], { folder });
  const scratch = await temporaryFolder(t);
  const { TMPDIR } = process.env;
  process.env.TMPDIR = scratch;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });
  // The second package would be checked until the time of its start is over.
  for (const code of amount({ quick: [null], soak: [null, 'for (;;);'] })) {
    if (code !== null) await writeFile(join(folder, 'index.ts'), code);
    const stop = new AbortController();
    const check: typeof localTools.check = (...given) => {
      const checked = localTools.check(...given);
      stop.abort();
      return checked;
    };
    const { signal } = stop;
    const checked = await bulkhead(['check'], { folder, localTools: { ...localTools, check }, signal });
    t.same(checked, { code: 130, stdout: '', stderr: '' });
    t.same(await readdir(scratch), []);
  }
});

t.test('a folder with more than a package may have is refused before its files are read', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'README.md'), '# A repository');
  await writeFile(join(folder, 'data'), '');
  const check = () => bulkhead(['check'], { folder, localTools });
  await truncate(join(folder, 'data'), PACKAGE_MAX_BYTES);
  t.same(await check(), {
    code: 3,
    stdout: '',
    stderr: `error ${folder} has more than 1024 MB of files, the most that a package may have. Pass the folder of a package, or move other files out of it.\n`,
  });
  if (!isSoak()) return;
  // Not as much, but a wrong folder: a sparse file of this size takes seconds to compress.
  await truncate(join(folder, 'data'), PACKAGE_MAX_BYTES / 2);
  t.match(await check(), { code: 3, stderr: /The file is missing; every package has readme\.md and index\.ts/ });
  await rm(join(folder, 'data'));
  const names = Array.from({ length: PACKAGE_FILES_MAX }, (_, index) => join(folder, `${index}.txt`));
  for (const name of names) writeFileSync(name, '');
  t.match(await check(), { code: 3, stderr: `${folder} has more than 10000 files, the most that a package may have.` });
});

t.test('only commands that read the current folder fail if it was removed', async (t) => {
  t.match(await bulkhead(['check'], { folder: null }), { code: 2, stderr: /^error The current folder does not exist/ });
  t.match(await bulkhead(['completion', 'bash'], { folder: null }), { code: 0 });
});

t.test('a publish refuses a folder without index.ts before it reads the other files', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'README.md'), '# A repository');
  await writeFile(join(folder, 'data'), '');
  await symlink('data', join(folder, 'link'));
  let stderr = '';
  const code = await runCommandLine(['publish', '--slug', 'wrong'], {
    folder,
    localTools,
    env: { HOME: '/nonexistent', BULKHEAD_URL: 'http://127.0.0.1:1', BULKHEAD_TOKEN: 'bh_x' },
    version: '0.0.0',
    signal: new AbortController().signal,
    stdout: { write: () => true },
    stderr: {
      write: (text) => {
        stderr += text;
        // Reading it fails from now on: the warning about the link is written when the folder was listed.
        rmSync(join(folder, 'data'), { force: true });
        return true;
      },
    },
  });
  t.match({ code, stderr }, { code: 3, stderr: /The file is missing; every package has readme\.md and index\.ts/ });
});

t.test('symbolic links of a package are left out with a warning', async (t) => {
  const folder = await temporaryFolder(t);
  await bulkhead(['init', '--slug', 'linked'], { folder });
  await mkdir(join(folder, 'commands'));
  await symlink('../readme.md', join(folder, 'commands', 'copy.md'));
  await symlink('.', join(folder, 'node_modules'));
  await symlink('readme.md', join(folder, 'tsconfig.test.json'));
  const warning = 'commands/copy.md is left out: it is a symbolic link. Replace it with a copy.';
  const checked = await bulkhead(['check'], { folder, localTools });
  t.match(checked, { code: 0, stdout: `warning ${warning}\n` });
  if (isSoak())
    t.same(JSON.parse((await bulkhead(['check', '--json'], { folder, localTools })).stdout).warnings, [warning]);
  await rm(join(folder, 'index.ts'));
  await symlink('readme.md', join(folder, 'index.ts'));
  t.match(await bulkhead(['check'], { folder, localTools }), { code: 3, stdout: /index\.ts is left out/ });
});

/** What a package offers that registers nothing. */
const NOTHING = { commands: [], skills: [], middleware: [], lifecycle: [], providers: [], channel: null, tools: [] };

t.test('a log line has its local time, and the date if it is not of today', (t) => {
  const { TZ } = process.env;
  t.teardown(() => (TZ === undefined ? delete process.env.TZ : Object.assign(process.env, { TZ })));
  process.env.TZ = 'America/New_York';
  const paint = new Proxy({}, { get: () => String }) as Paint;
  const at = '2026-01-06T01:02:03.000Z';
  const line = { id: '1', at, level: 'info', message: 'Hi', data: null, sessionId: null, source: 'system' } as const;
  t.equal(formatLine(line, paint, new Date('2026-01-06T04:59:59Z')), '20:02:03 info  system: Hi');
  t.equal(formatLine(line, paint, new Date('2026-01-06T05:00:00Z')), '2026-01-05 20:02:03 info  system: Hi');
  t.end();
});

t.test('a log line shows all data, and the stack of an error on lines of its own', (t) => {
  const paint = new Proxy({}, { get: () => String }) as Paint;
  const at = new Date().toISOString();
  const format = (data: unknown): string =>
    formatLine(
      { id: '1', at, level: 'info', message: 'Hi', data, sessionId: null, source: 'x' },
      paint,
      new Date(at),
    ).slice('12:34:56 info  '.length);
  t.equal(
    format({ name: 'Error', stack: 'Error: Hi\n    at a' }),
    'x: Hi {"name":"Error"}\n    Error: Hi\n        at a',
  );
  t.equal(format({ stack: 'Error: Hi' }), 'x: Hi\n    Error: Hi');
  for (const data of [{ stack: ['react', 'vite'] }, { stack: null, depth: 3 }, { result: null }, [null], 0, false, ''])
    t.equal(format(data), `x: Hi ${JSON.stringify(data)}`);
  for (const none of [null, {}]) t.equal(format(none), 'x: Hi');
  t.end();
});

t.test('an upload reports its end once, with all bytes', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'index.ts'), 'x'.repeat(200_000));
  const files = [{ path: 'index.ts', at: join(folder, 'index.ts') }];
  for (const zip of [false, true]) {
    const fractions: number[] = [];
    const upload = async (_path: string, _type: string, open: () => ReadableStream<Uint8Array>) => {
      for await (const _chunk of open());
    };
    const { signal } = new AbortController();
    const checkedHash = await hashFiles(files, signal);
    const version = { pluginId: 'p', semVer: '1.0.0', files, checkedHash, zip, signal };
    await uploadVersion({ upload } as unknown as Rest, version, (fraction) => void fractions.push(fraction));
    t.equal(fractions.at(-1), 1);
    t.equal(fractions.filter((fraction) => fraction === 1).length, 1);
  }
});

t.test('text that is larger as JSON is uploaded as a zip', async (t) => {
  const folder = await temporaryFolder(t);
  const write = async (text: string) => {
    await writeFile(join(folder, 'a.txt'), text);
    return readTexts([{ path: 'a.txt', at: join(folder, 'a.txt') }]);
  };
  t.match(await write('x'.repeat(3 * MIB)), [{ path: 'a.txt' }]);
  t.equal(await write('\u0001'.repeat(MIB)), null, 'six bytes each');
});

t.test('the next version number depends on the changes', async (t) => {
  const tool = (properties: object, required: string[] = []) => ({
    ...NOTHING,
    tools: [{ name: 'a', description: '', parameters: { type: 'object', properties, required } }],
  });
  const offer = (discovered: Version['discovered'], capabilities: string[] = []) => ({ discovered, capabilities });
  const plain = offer(tool({ x: { type: 'string' } }));
  const at = (semVer: string): Version =>
    ({
      ...plain,
      semVer,
      status: 'published',
      id: semVer,
      sourceSha256: '',
      createdAt: '',
    }) as Version;
  const next = (semVer: string, to: typeof plain) => proposeVersion([at(semVer)], at(semVer), to).semVer;
  t.equal(proposeVersion([], null, plain).semVer, '1.0.0');
  t.equal(next('1.2.3', plain), '1.2.4');
  t.equal(next('1.2.3', offer(tool({ x: { type: 'string', description: 'words' } }))), '1.2.4');
  t.equal(next('1.2.3', offer(tool({ x: { type: 'string' }, y: {} }))), '1.3.0', 'an optional argument is added');
  t.equal(next('1.2.3', offer(tool({ x: { type: 'string' }, y: {} }, ['y']))), '2.0.0');
  t.equal(next('1.2.3', offer(tool({ x: { type: 'number' } }))), '2.0.0');
  t.equal(next('1.2.3', offer({ ...plain.discovered, tools: [] })), '2.0.0');
  t.equal(next('0.2.3', offer({ ...plain.discovered, tools: [] })), '0.3.0');
  t.equal(next('1.2.3', offer({ ...plain.discovered, middleware: ['middleware.systemPrompt'] })), '1.3.0');
  t.equal(next('1.2.3', offer(plain.discovered, ['host.llm'])), '1.3.0', 'users are asked');
  const version = (semVer: string, ...capabilities: string[]) => ({ ...at(semVer), capabilities });
  const [stable, candidate] = [version('1.0.0'), version('1.1.0-rc.1', 'tools.b')];
  t.same(listRequested([], version('1.0.0', 'tools.a')), [], 'no user has an earlier version');
  t.same(listRequested([stable], candidate), [], 'no user is offered a pre-release');
  t.same(listRequested([stable, candidate], version('1.1.0', 'tools.b')), ['tools.b'], 'users have the stable one');
  const request = (before: string[], after: string[]) =>
    proposeVersion([], { ...at('1.0.0'), capabilities: before }, offer(plain.discovered, after)).because;
  const handle = 'secrets.key:webhooks';
  t.equal(request([handle], ['secrets.key']), 'requests secrets.key', 'the plugin now reads the value');
  t.equal(request([], [handle]), `requests ${handle}`, 'a new secret');
  t.equal(request(['secrets.key'], [handle]), 'no change for users');
  t.equal(request(['host.llm', 'host.http:*.example.com'], ['host.http:api.example.com']), 'no change for users');
  const change = (before: object, after: object) => {
    const { semVer, because } = proposeVersion([], { ...at('1.2.3'), ...before }, { ...plain, ...after });
    return `${semVer} ${because}`;
  };
  const fields = (settings: string[], requiredFields: string[] = []) => ({ settings, requiredFields });
  t.equal(change(fields(['a']), fields(['a'])), '1.2.4 no change for users');
  t.equal(change(fields(['a']), fields(['a', 'b'])), '1.3.0 adds settings.b');
  t.equal(change(fields(['a']), fields(['a', 'b'], ['b'])), '1.3.0 requests settings.b');
  t.equal(change(fields(['a']), fields(['a'], ['a'])), '1.3.0 requests settings.a', 'it was optional');
  t.equal(change(fields(['a']), fields(['b'])), '2.0.0 removes settings.a; adds settings.b', 'it was renamed');
  t.equal(change({}, fields(['a'], ['a'])), '1.2.4 no change for users', 'an earlier service does not name them');
  t.equal(
    proposeVersion([at('1.0.0'), at('1.0.1')], at('1.0.0'), plain).semVer,
    '1.0.2',
    'a taken number is passed over',
  );
});

t.test('the next version number depends on the arguments that a tool takes', (t) => {
  const propose = (before: unknown, after: unknown) => {
    const offer = (schema: unknown) =>
      ({
        capabilities: [],
        discovered: {
          ...NOTHING,
          tools: [{ name: 'a', parameters: { type: 'object', properties: { x: schema } } }],
        },
      }) as unknown as Version;
    const { semVer, because } = proposeVersion([], { ...offer(before), semVer: '1.2.3' }, offer(after));
    return `${semVer} ${because.replaceAll('tools.a.parameters/properties/x', '')}`;
  };
  const same = '1.2.4 no change for users';
  const wider = (at: string) => `1.3.0 accepts more arguments: ${at}`;
  const narrower = (at: string) => `2.0.0 refuses arguments that were valid: ${at}`;
  const unclear = (at: string) => `2.0.0 may refuse arguments that were valid: ${at}`;
  const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
  const cases: readonly (readonly [before: unknown, after: unknown, proposal: string])[] = [
    [
      object({ a: { minimum: 1, type: 'integer' } }),
      { properties: { a: { type: 'integer', minimum: 1 } }, type: 'object' },
      same,
    ],
    [{ description: 'one' }, { description: 'two', title: 'Two', default: 1, format: 'uri', 'x-of-ours': 1 }, same],
    [{ enum: ['x', 'y'] }, { enum: ['y', 'x'] }, same],
    [{ const: 'x' }, { enum: ['x'] }, same],
    [{ type: 'string' }, { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'string' }, same],
    [true, {}, same],
    [
      { anyOf: [{ type: 'string', description: 'a' }, { type: 'null' }] },
      { anyOf: [{ type: 'null' }, { type: 'string' }] },
      same,
    ],
    [{ oneOf: [{ const: 1, title: 'One' }] }, { oneOf: [{ const: 1, title: 'one' }] }, same],
    [{ enum: ['x'] }, { enum: ['x', 'y'] }, wider('/enum')],
    [{ const: 'x' }, { enum: ['x', 'y'] }, wider('/enum')],
    [{ minimum: 5 }, { minimum: 1 }, wider('/minimum')],
    [{ maxLength: 5 }, {}, wider('/maxLength')],
    [{ type: 'string' }, { type: ['string', 'number'] }, wider('/type')],
    [{ type: 'integer' }, { type: 'number' }, wider('/type')],
    [object({ a: {} }, { required: ['a'] }), object({ a: {} }), wider('/required')],
    [object({}), object({ b: { type: 'string' } }), wider('/properties/b')],
    [
      object({}, { additionalProperties: {} }),
      object({ b: { type: 'string' } }, { additionalProperties: {} }),
      wider('/properties/b'),
    ],
    [{ additionalProperties: false }, {}, wider('/additionalProperties')],
    [{ items: { enum: ['x'] } }, { items: { enum: ['x', 'y'] } }, wider('/items/enum')],
    [{ pattern: 'a' }, {}, wider('/pattern')],
    [{ anyOf: [{ type: 'string' }] }, { anyOf: [{ type: 'null' }, { type: 'string' }] }, wider('/anyOf')],
    [{ enum: ['x', 'y'] }, { enum: ['x'] }, narrower('/enum')],
    [{}, { enum: ['x'] }, narrower('/enum')],
    [{ minimum: 1 }, { minimum: 5 }, narrower('/minimum')],
    [{}, { maxItems: 5 }, narrower('/maxItems')],
    [{ type: 'number' }, { type: 'integer' }, narrower('/type')],
    [object({ a: {} }), object({ a: {} }, { required: ['a'] }), narrower('/required')],
    [object({ a: {}, b: {} }), object({ a: {} }), unclear('/properties/b')],
    [
      object({ a: {}, b: {} }, { additionalProperties: false }),
      object({ a: {} }, { additionalProperties: false }),
      narrower('/properties/b'),
    ],
    [{}, { additionalProperties: false }, narrower('/additionalProperties')],
    [
      { additionalProperties: { type: 'string' } },
      { additionalProperties: { type: 'string' }, properties: { b: { type: 'number' } } },
      narrower('/properties/b/type'),
    ],
    [{ pattern: 'a' }, { pattern: 'b' }, unclear('/pattern')],
    [{ type: 'string' }, { anyOf: [{ type: 'string' }] }, `${unclear('/anyOf')}; accepts more arguments: /type`],
    [{ oneOf: [{ enum: [1] }, { enum: [2] }] }, { oneOf: [{ enum: [1, 2] }, { enum: [2] }] }, unclear('/oneOf')],
    [{ $defs: { b: { enum: [1] } } }, { $defs: { b: { enum: [1, 2] } } }, unclear('/$defs')],
    [{ not: { minimum: 1 } }, { not: { minimum: 0 } }, unclear('/not')],
    [{ const: { description: 'a' } }, { const: { description: 'b' } }, narrower('/enum')],
    [{ items: { type: 'string' }, unevaluatedItems: false }, { unevaluatedItems: false }, unclear('/items')],
    [
      { $ref: '#/$defs/x', unevaluatedItems: false, $defs: { x: { items: true } } },
      { $ref: '#/$defs/x', unevaluatedItems: false, $defs: { x: {} } },
      unclear('/$defs'),
    ],
    [
      { allOf: [{ additionalProperties: true }], unevaluatedProperties: false },
      { allOf: [{}], unevaluatedProperties: false },
      unclear('/allOf/0/additionalProperties'),
    ],
    [
      { items: { enum: ['x'] }, unevaluatedItems: false },
      { items: { enum: ['x', 'y'] }, unevaluatedItems: false },
      wider('/items/enum'),
    ],
  ];
  for (const [before, after, proposal] of cases)
    t.equal(propose(before, after), proposal, `${JSON.stringify(before)} → ${JSON.stringify(after)}`);
  t.end();
});

t.test('help lists every command and the exit codes', async (t) => {
  const { stdout, code } = await bulkhead(['--help']);
  t.equal(code, 0);
  for (const { name } of commands) {
    t.match(stdout, new RegExp(`^  ${name} `, 'm'));
    const own = await bulkhead([name, '--help']);
    t.match(own, { code: 0, stdout: /--json[\s\S]*|completion/ });
  }
  for (const value of Object.values(exitCodes)) t.match(stdout, new RegExp(`\\b${value} `));
  t.match(await bulkhead(['frobnicate']), { code: 2, stderr: /unknown command/ });
  t.match(await bulkhead(['check', '--frob']), { code: 2, stderr: /unknown option/ });
});

t.test('an option before the command is refused with where it belongs', async (t) => {
  const refused = async (...argv: string[]) => {
    const { code, stdout, stderr } = await bulkhead(argv);
    t.equal(code, 2);
    return stdout + stderr;
  };
  t.match(
    await refused('--url=http://localhost:4000', 'status'),
    /^unknown option '--url=\S+'\. Write --url after the command\.\nRun it with --help/,
  );
  t.match(JSON.parse(await refused('--json', 'status')), {
    error: { message: "unknown option '--json'. Write --json after the command." },
  });
  t.notMatch(await refused('--frob', 'status'), 'after the command');
  t.notMatch(await refused('status', '--frob'), 'after the command');
});

t.test('each command that asks can be given -y', (t) => {
  for (const { name, options = [] } of commands)
    for (const { flags } of options) if (flags.includes('--yes')) t.equal(flags, '-y, --yes', name);
  t.end();
});

t.test('help shows what each command prints and how it is piped', async (t) => {
  const help = async (name: string) => (await bulkhead([name, '--help'])).stdout;
  t.match(await help('login'), /\n {2}npm run -s token -- ann \| bulkhead login --url/);
  t.match(await help('logs'), /--json +print one JSON object a line/);
  t.match(await help('status'), /--json +print JSON$/m);
});

t.test('a hint follows a whole sentence, and does not say that waiting always helps', (t) => {
  const detail = 'its code does not load; its own log says why';
  const { message } = toFailure(new BulkheadError(503, { code: 'unavailable', detail }), 'http://localhost:4000');
  t.match(
    message,
    `${detail}. Try again in a few seconds; \`bulkhead status\` says whether a plugin must be fixed first.`,
  );
  t.end();
});

t.test('a refusal fails its command, whatever its code', async (t) => {
  for (const code of ['constructor', 'toString', '__proto__']) {
    t.equal(toFailure(new BulkheadError(400, { code, detail: 'No.' }), 'http://a').exit, 'failed', code);
    const { url } = await serve(t, ({ url: path }, response) => {
      if (path === '/api/sign-in') response.end('{"sessionApiUrl":null}');
      else response.writeHead(400).end(JSON.stringify({ code, detail: 'No.' }));
    });
    const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
    t.match(await bulkhead(['status'], { env }), { code: 1, stderr: 'error No.' }, code);
  }
});

t.test('the service’s own advice to repeat a request is the only one', (t) => {
  for (const [code, detail] of [
    ['rate_limited', 'Rate limit exceeded: 600 requests per minute. Retry after 12 s.'],
    ['unavailable', 'The database is unavailable. Retry shortly.'],
    ['unavailable', 'Webhook requests cannot be stored now. Send it again later.'],
  ] as const)
    t.equal(toFailure(new BulkheadError(503, { code, detail }), 'http://localhost:4000').message, detail);
  t.end();
});

t.test('with --json, a command that prints items prints a refusal as one line, too', async (t) => {
  const refused = await bulkhead(['logs', 'weather', '-n', '0', '--json']);
  t.match(refused.stdout, /^\{"error":\{"code":"usage".*\}\}\n$/);
});

t.test('a folder without a slug of its own, and one that no slug fits', async (t) => {
  const home = await temporaryFolder(t);
  const check = async (name: string, packageJson?: string) => {
    const folder = join(home, name);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'index.ts'), '');
    if (packageJson) await writeFile(join(folder, 'package.json'), packageJson);
    return bulkhead(['check'], { folder, localTools });
  };
  const refusal = /No slug can be made from the name “Größe Plugin”.*`--slug rain-forecast`, or set bulkhead\.slug/;
  t.match(await check('Größe Plugin'), { code: 2, stderr: refusal });
  t.match(await bulkhead(['init', 'Größe Œuvre'], { folder: home }), {
    code: 0,
    stdout:
      /\nThe slug is grosse-uvre\. To choose another, change bulkhead\.slug in package\.json before you publish\.\n/,
  });
  t.match(await check('Größe Plugin', '{ "bulkhead": { "slug": "size" } }'), { code: 3, stderr: /readme\.md/ });
  t.match(await check('a', '{ "bulkhead": { "slug": 5 } }'), {
    code: 2,
    stderr: /bulkhead\.slug in .*package\.json must be text, such as "my-plugin", not 5\./,
  });
});

t.test('a name that gives no slug gets none, so that the next such name does not get the same one', async (t) => {
  const home = await temporaryFolder(t);
  const reason = (name: string) =>
    `error No slug can be made from the name “${name}”: slugs have lower-case letters from a to z, digits and hyphens.`;
  for (const name of ['天気', '翻訳 v2', 'Погода', '!']) {
    const refused = await bulkhead(['init', name], { folder: home });
    t.same(refused, { code: 2, stdout: '', stderr: `${reason(name)} Pass one, such as \`--slug rain-forecast\`.\n` });
    await mkdir(join(home, 'skills', name, 'hello'), { recursive: true });
    await writeFile(join(home, 'skills', name, 'hello/SKILL.md'), '---\nname: hello\ndescription: x\n---\nHello.\n');
    t.same(await bulkhead(['import-skills', join('skills', name)], { folder: home }), {
      code: 2,
      stdout: '',
      stderr: `${reason(name)} Name the folder for the package: \`bulkhead import-skills <folder> rain-forecast\`.\n`,
    });
  }
  t.same(await readdir(home), ['skills'], 'nothing is written');
  t.equal((await bulkhead(['init', '天気', '--slug', 'weather'], { folder: home })).code, 0);
  t.match(await readFile(join(home, '天気/package.json'), 'utf8'), '"slug": "weather"');
});

t.test('a number that an option cannot take is refused with the name of the option', async (t) => {
  for (const lines of ['-5', '0', '', 'abc', '1.5']) {
    const { code, stderr } = await bulkhead(['logs', 'weather', '-n', lines]);
    t.equal(code, 2, stderr);
    t.match(stderr, `\`--lines\` must be a whole number from 1 to 1000000, not “${lines}”.`);
  }
  const port = await bulkhead(['dev', '--inspect', '--inspect-port', 'abc']);
  t.match(port, { code: 2, stderr: /`--inspect-port` must be a whole number from 0 to 65535, not “abc”/ });
});

t.test('a word that an option cannot take is refused with the name of the option and its choices', async (t) => {
  const levels = /'--level <level>' argument 'nope' is invalid\. Allowed choices are debug, info, warn, error\./;
  t.match(await bulkhead(['logs', 'weather', '--level', 'error', '--level', 'nope']), { code: 2, stderr: levels });
  const states = /'--state <state>' argument 'pendng' is invalid\. Allowed choices are pending, delivered, dead\./;
  t.match(await bulkhead(['deliveries', 'weather', '--state', 'pendng']), { code: 2, stderr: states });
});

t.test('with --json a refusal is JSON too, and without a terminal nothing is coloured', async (t) => {
  const folder = await temporaryFolder(t);
  const { code, stdout } = await bulkhead(['check', '--json'], { folder });
  t.equal(code, 2);
  t.match(JSON.parse(stdout), { error: { code: 'no_package', message: /bulkhead init/ } });
  const plain = await bulkhead(['check'], { folder });
  t.notOk(`${plain.stdout}${plain.stderr}`.includes('\u001b'));
});

t.test('an address without a scheme is plain HTTP on this machine only', async (t) => {
  const addresses = {
    'localhost:4000': 'http://localhost:4000',
    '127.0.0.1:4000/api': 'http://127.0.0.1:4000',
    '[::1]:4000': 'http://[::1]:4000',
    'bulkhead.example': 'https://bulkhead.example',
    '127.bulkhead.example/team/': 'https://127.bulkhead.example/team',
    '192.168.1.5:4000': 'https://192.168.1.5:4000',
    'HTTPS://bulkhead.example': 'https://bulkhead.example',
    'http://192.168.1.5:4000': 'http://192.168.1.5:4000',
  };
  for (const [address, url] of Object.entries(addresses)) t.equal(normalizeServiceUrl(address), url, address);
  t.throws(() => normalizeServiceUrl('not an address'), { code: 'usage', message: /is not an address/ });
  t.throws(() => normalizeServiceUrl('ftp://example.com'), { code: 'usage', message: /is not an address/ });
});

t.test('a token is not sent to an address that redirects to another one', async (t) => {
  const received: string[] = [];
  const startServer = async (answer: RequestListener): Promise<string> => {
    const { url } = await serve(t, (request, response) => {
      received.push(JSON.stringify(request.headers));
      answer(request, response);
    });
    return url;
  };
  for (const status of [200, 500]) {
    const elsewhere = await startServer((_request, response) =>
      response.writeHead(status).end('{"sessionApiUrl":null}'),
    );
    const moved = await startServer(({ url }, response) =>
      response.writeHead(301, { location: `${elsewhere}${url}` }).end(),
    );
    const env = { BULKHEAD_TOKEN: 'a.secret.token' };
    for (const args of [['status'], ['login']]) {
      const { code, stderr } = await bulkhead([...args, '--url', moved], { env });
      t.equal(code, 1);
      t.equal(stderr, `error ${moved} redirects to ${elsewhere}. Use that address.\n`);
    }
  }
  t.notMatch(received.join(), 'a.secret.token');
});

t.test('status of an account with many plugins opens few connections', async (t) => {
  const plugins = Array.from({ length: 100 }, (_, index) => ({ id: `p${index}`, slug: `plugin-${index}` }));
  let reads = 0;
  const { url, connections } = await serve(t, ({ url: path = '' }, response) => {
    const id = /^\/api\/plugins\/(\w+)$/.exec(path)?.[1];
    const items = path.startsWith('/api/plugins?') ? plugins : [];
    if (id === undefined) {
      response.end(JSON.stringify({ items, nextCursor: null, sessionApiUrl: null }));
      return;
    }
    reads += 1;
    response.end(
      JSON.stringify({ ...plugins.find((plugin) => plugin.id === id), visibility: 'private', versions: [] }),
    );
  });
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  const { code, stdout } = await bulkhead(['status'], { env });
  t.equal(code, 0);
  t.equal(reads, plugins.length);
  const slugs = [...stdout.matchAll(/plugin-\d+/g)].map(([slug]) => slug);
  t.same(
    slugs,
    plugins.map(({ slug }) => slug),
    'in the order of the list',
  );
  t.ok(connections() <= 20, `${connections()} connections`);
});

t.test('a token that cannot be sent is not printed', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end('{"sessionApiUrl":null}'));
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'a.secret.token\nand more' };
  const { code, stderr } = await bulkhead(['status'], { env });
  t.equal(code, 4);
  t.match(stderr, `The token in BULKHEAD_TOKEN is not valid for ${url}`);
  t.notMatch(stderr, 'secret');
});

t.test('publish --dry-run refuses a slug that another account has in the catalog', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'index.ts'), '');
  const { url } = await serve(t, ({ url: path }, response) => {
    const plugins = { items: [], nextCursor: null };
    response.end(
      JSON.stringify(path === '/api/marketplace/taken' ? { slug: 'taken' } : { ...plugins, sessionApiUrl: null }),
    );
  });
  const found = { name: 'Taken', description: '', sourceSha256: '', sizeBytes: 1, discovered: {}, warnings: [] };
  const checks = { ...found, capabilities: [], settings: [], requiredFields: [] };
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  const checking = { ...noTools, requireLayout: async () => undefined, check: async () => checks };
  const args = ['publish', '--slug', 'taken', '--dry-run'];
  t.same(await bulkhead(args, { folder, env, localTools: checking }), {
    code: 1,
    stdout: '',
    stderr: 'error The slug “taken” is in use by another account. Choose another and pass it with `--slug`.\n',
  });
});

t.test('a session API that is away is named with its own address, and where it comes from', async (t) => {
  const away = 'http://127.0.0.1:2';
  const { url } = await serve(t, (_request, response) => response.end(JSON.stringify({ sessionApiUrl: away })));
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  // At once: each waits 5 s for the service.
  const [published, own] = await Promise.all([
    bulkhead(['mcp'], { env }),
    bulkhead(['call', 'weather__now'], { env: { ...env, BULKHEAD_SESSION_URL: `${away}/` } }),
  ]);
  const start = `error No session API responds at ${away} \\(ECONNREFUSED\\), the address`;
  t.match(published, {
    code: 5,
    stderr: new RegExp(`^${start} that ${url} publishes\\. .*set BULKHEAD_SESSION_URL to`),
  });
  t.match(own, { code: 5, stderr: new RegExp(`^${start} in BULKHEAD_SESSION_URL\\. Correct it, or unset it`) });
});

t.test('mcp waits for a service that is away until it is there or the client closes its input', async (t) => {
  let isAway = true;
  const { url } = await serve(t, ({ method, url: path }, response) => {
    if (isAway) response.destroy();
    else if (path === '/api/sign-in') response.end(JSON.stringify({ sessionApiUrl: url }));
    else if (path === '/sessions/s' && method === 'DELETE') response.writeHead(204).end();
    else if (path === '/sessions' || path === '/sessions/s/mcp')
      response.end(JSON.stringify({ jsonrpc: '2.0', id: path === '/sessions' ? 's' : 1, result: {} }));
    else if (path === '/sessions/unknown') response.writeHead(404).end('{"code":"not_found","detail":"No session."}');
    else response.writeHead(401).end('{"code":"unauthenticated"}');
  });
  const start = async (args: readonly string[], onNote: (input: PassThrough) => void = () => undefined) => {
    const input = new PassThrough();
    input.write('{"jsonrpc":"2.0","id":1,"method":"initialize"}\n');
    const notes: string[] = [];
    const code = await runCommandLine(['mcp', '--url', url, ...args], {
      folder: '/',
      localTools: noTools,
      env: { HOME: '/nonexistent', BULKHEAD_TOKEN: 'x' },
      version: '0.0.0',
      signal: new AbortController().signal,
      stdin: input,
      // The answer to `initialize`.
      stdout: { write: () => input.end() },
      stderr: {
        write: (text) => {
          notes.push(text);
          onNote(input);
        },
      },
    });
    return { code, notes };
  };
  const away = `No service responds at ${url} \\(\\w+\\)\\. Start it .*`;
  const closing = start([], (input) => input.end());
  const served = await start(
    [],
    () =>
      void closing.then(() => {
        isAway = false;
      }),
  );
  t.match(served, { code: 0, notes: [new RegExp(`^${away} \`mcp\` waits for it\\.\n$`)] });
  t.equal(served.notes.length, 1);
  t.match(await closing, { code: 5, notes: [/waits for it/, new RegExp(`^error ${away}`)] });
  t.match(await start(['--session', 'unknown']), { code: 1, notes: ['error No session.\n'] });
  const refusal = `error The session API at ${url}, the address that ${url} publishes, refused the token in BULKHEAD_TOKEN. Replace`;
  t.match(await start(['--session', 'refused']), { code: 4, notes: [refusal] });
});

t.test('a command that ends does not wait for a service that no longer answers', async (t) => {
  const interrupted = new AbortController();
  const { url } = await serve(t, ({ method, url: path }, response) => {
    if (path === '/api/sign-in') response.end(JSON.stringify({ sessionApiUrl: url }));
    else if (path === '/sessions') response.end('{"id":"s"}');
    // Neither this request nor the one that deletes the session is answered.
    else if (method === 'GET') interrupted.abort();
  });
  const env = { BULKHEAD_TOKEN: 'x' };
  t.equal((await bulkhead(['call', 'a__b', '{}', '--url', url], { env, signal: interrupted.signal })).code, 130);
  t.equal((await bulkhead(['mcp', '--url', url], { env })).code, 0);
});

t.test('a refused token is reported for the interface that refused it, also after the other one did', async (t) => {
  const { url } = await serve(t, ({ url: path }, response) => {
    if (path === '/api/sign-in') response.end(JSON.stringify({ sessionApiUrl: url }));
    else response.writeHead(401).end('{"code":"unauthenticated"}');
  });
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  const streams = { stdout: new PassThrough(), stderr: new PassThrough() };
  const context = new Context({
    output: new Output({ ...streams, json: false, printsItems: false, env }),
    folder: '/',
    env,
    localTools: noTools,
    signal: new AbortController().signal,
    version: '0.0.0',
    url: undefined,
  });
  const [sessions, rest] = [await context.getSessions(), await context.getRest()];
  const ofSessionApi: unknown = await sessions
    .open('s')
    .look()
    .catch((error: unknown) => error);
  const ofRest: unknown = await rest.get('/me').catch((error: unknown) => error);
  t.match((await context.explainError(ofRest)).message, `The token in BULKHEAD_TOKEN is not valid for ${url} or has`);
  t.match((await context.explainError(ofSessionApi)).message, `The session API at ${url}, the address that ${url}`);
});

t.test('the wait for the first draft of a command that was interrupted before ends at once', async (t) => {
  const { url } = await serve(t, ({ url: path = '' }, response) => {
    const items = path.startsWith('/api/plugins') ? [{ id: 'p', slug: 'weather' }] : [];
    response.end(JSON.stringify({ sessionApiUrl: url, id: 'p', versions: [], items, nextCursor: null }));
  });
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'index.ts'), '');
  const env = { HOME: folder, BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  const streams = { stdout: new PassThrough(), stderr: new PassThrough() };
  const context = new Context({
    output: new Output({ ...streams, json: false, printsItems: true, env }),
    folder,
    env,
    localTools: noTools,
    signal: new AbortController().signal,
    version: '0.0.0',
    url: undefined,
  });
  const draft = await Draft.open(context, undefined, 'weather');
  const interruption = new Error('interrupted');
  await t.rejects(draft.waitForInstallation(AbortSignal.abort(interruption)), interruption);
});

t.test('the token and the session API of one service are not used for another one', async (t) => {
  const received: string[] = [];
  const startServer = async (sessionApiUrl: string | null): Promise<string> => {
    const { url } = await serve(t, ({ url = '', headers }, response) => {
      received.push(`${url} ${headers.authorization}`);
      response.end(JSON.stringify({ sessionApiUrl, name: 'ann', id: 's' }));
    });
    return url;
  };
  const sessions = await startServer(null);
  const [production, staging] = [await startServer(null), await startServer(sessions)];
  const HOME = await temporaryFolder(t);
  const env = {
    HOME,
    BULKHEAD_URL: production,
    BULKHEAD_TOKEN: 'of.production.only',
    BULKHEAD_SESSION_URL: `${production}/sessions`,
  };
  const unknown = await bulkhead(['whoami', '--url', staging], { env });
  t.equal(unknown.code, 4);
  t.equal(
    unknown.stderr,
    `error You are not signed in at ${staging}. BULKHEAD_TOKEN is for the service of BULKHEAD_URL. Run \`bulkhead login\`.\n`,
  );
  t.match(await bulkhead(['whoami', '--url', `${production}/`], { env }), { code: 0 }, 'the same address');
  t.match(received.splice(0).join(), 'Bearer of.production.only');
  await new Accounts(env).save(staging, { token: 'of.staging.only', name: 'ann' });
  t.match(await bulkhead(['whoami', '--url', staging], { env }), { code: 0 });
  await bulkhead(['call', 'weather__now', '--url', staging], { env });
  await bulkhead(['call', 'weather__now', '--url', staging], { env: { ...env, BULKHEAD_SESSION_URL: '' } });
  const tokens = received.splice(0).join();
  t.match(tokens, '/sessions Bearer of.staging.only');
  t.notMatch(tokens, 'of.production.only');
});

t.test(
  'a token is not sent unencrypted to the session API of a service with TLS',
  {
    skip: whyMissing('openssl'),
  },
  async (t) => {
    const certificate = await makeCertificate(t, 'ec');
    const trusted = tls.getCACertificates();
    tls.setDefaultCACertificates([...trusted, certificate.cert]);
    t.teardown(() => tls.setDefaultCACertificates(trusted));
    const asked: string[] = [];
    // A host name that no server answers to.
    const sessionApiUrl = 'http://agents.invalid';
    const service = await listenOn(
      t,
      createSecureServer(certificate, ({ url = '' }, response) => {
        asked.push(url);
        response.end(JSON.stringify({ sessionApiUrl }));
      }),
    );
    const url = service.url.replace('http:', 'https:');
    const env = { BULKHEAD_TOKEN: 'a.secret.token', BULKHEAD_URL: url };
    const refused = await bulkhead(['call', 'weather__now'], { env });
    t.equal(refused.code, 1);
    t.match(refused.stderr, `error ${url} publishes ${sessionApiUrl} as the address of its session API`);
    t.match(refused.stderr, `set BULKHEAD_SESSION_URL=${sessionApiUrl}.\n`);
    t.same(asked, ['/api/sign-in']);
    const local = await serve(t, (_request, response) => response.writeHead(418).end('{"detail":"reached"}'));
    const allowed = await bulkhead(['call', 'weather__now'], { env: { ...env, BULKHEAD_SESSION_URL: local.url } });
    t.match(allowed.stderr, 'reached', 'an address of your own is used as it is');
  },
);

t.test(
  'a certificate that is not trusted is named, and neither TLS nor a repetition is advised against it',
  { skip: whyMissing('openssl') },
  async (t) => {
    const certificate = await makeCertificate(t, 'ec');
    let asked = 0;
    const service = await listenOn(
      t,
      createSecureServer(certificate, (_request, response) => {
        asked += 1;
        response.end('{}');
      }),
    );
    const url = service.url.replace('http:', 'https:');
    const message = `The certificate of ${url} is not accepted (DEPTH_ZERO_SELF_SIGNED_CERT). If it comes from an authority of your own, set NODE_EXTRA_CA_CERTS to the file with the authority’s certificate.`;
    const refused = await bulkhead(['status', '--url', url], { env: { BULKHEAD_TOKEN: 'a.secret.token' } });
    t.same(refused, { code: 1, stdout: '', stderr: `error ${message}\n` });
    t.equal(service.connections(), 1);
    const client = connect({ url, token: 'x' });
    await t.rejects(client.start({ agentId: 'a' }), { name: 'AddressError', message });
    await t.rejects(client.list(), { name: 'AddressError', message });
    t.equal(service.connections(), 3);
    t.equal(asked, 0);
  },
);

t.test('the error of an address with TLS says how a service without it is addressed', (t) => {
  const advice = 'pass its address with `--url`, which begins with http:// if the service has no TLS.';
  t.match(createUnreachableError('https://192.168.1.5:4000', null).message, advice);
  t.notMatch(createUnreachableError('http://192.168.1.5:4000', null).message, 'TLS');
  t.end();
});

t.test('a token is revoked by its id, also if another token has that id as its name', async (t) => {
  const tokens = [
    { id: 't1', name: 'laptop' },
    { id: 't2', name: 't1' },
    { id: 't3', name: 'laptop' },
  ];
  const revoked: string[] = [];
  const { url } = await serve(t, ({ url: path = '', method }, response) => {
    if (method === 'DELETE') {
      revoked.push(path);
      response.writeHead(204).end();
    } else response.end(JSON.stringify({ items: tokens, nextCursor: null, sessionApiUrl: null }));
  });
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  t.match(await bulkhead(['tokens', '--revoke', 't1'], { env }), { code: 0, stdout: '“laptop” is revoked.' });
  t.same(revoked, ['/api/me/tokens/t1']);
  t.match(await bulkhead(['tokens', '--revoke', 'laptop'], { env }), { code: 1, stderr: 'pass an id' });
});

t.test('a channel is disconnected by its id, also if another channel has that id as its name', async (t) => {
  const channels = [
    { id: 'c1', name: 'Desk' },
    { id: 'c2', name: 'c1' },
    { id: 'c3', name: 'Desk' },
  ];
  const disconnected: string[] = [];
  const { url } = await serve(t, ({ url: path = '', method }, response) => {
    if (method === 'DELETE') {
      disconnected.push(path);
      response.writeHead(204).end();
    } else {
      const items = [{ id: 'i1', slug: 'inbox', channels }];
      response.end(JSON.stringify({ items, nextCursor: null, sessionApiUrl: null }));
    }
  });
  const env = { BULKHEAD_URL: url, BULKHEAD_TOKEN: 'x' };
  const disconnect = (channel: string) => bulkhead(['channels', 'inbox', 'disconnect', channel, '--yes'], { env });
  t.match(await disconnect('c1'), { code: 0, stdout: 'disconnected Desk' });
  t.same(disconnected, ['/api/installations/i1/channels/c1']);
  t.match(await disconnect('Desk'), { code: 1, stderr: 'inbox has several channels of this name; pass an id: Desk.' });
  t.match(await disconnect('Till'), { code: 1, stderr: 'inbox has no channel with this id or name: Till.' });
});

t.test('with --json an invalid command line is JSON too', async (t) => {
  const refusals = {
    'tokens --json --nope': /^unknown option '--nope'/,
    'logs --json': /^missing required argument 'slug'/,
    'deliveries weather --state pendng --json': /^option '--state <state>' argument 'pendng' is invalid/,
    'nope --json': /^unknown command 'nope'/,
    'call chat__read {"id":1234567890123456789} --json':
      /^The JSON object holds the number 1234567890123456789, which a double cannot hold\. Pass it as a string\.$/,
    '--json': /^unknown option '--json'/,
    'help --json': /^Help is printed as text only\. Run `bulkhead help` or `bulkhead <command> --help`\.$/,
  };
  for (const [line, message] of Object.entries(refusals)) {
    const { code, stdout, stderr } = await bulkhead(line.split(' '));
    t.equal(code, 2, line);
    t.match(JSON.parse(stdout), { error: { code: 'usage', message, errors: [] } }, line);
    t.equal(
      stdout.trim().split('\n').length === 1,
      line.startsWith('logs'),
      'one line from a command that prints items',
    );
    t.equal(stderr, '');
  }
  const other = await bulkhead(['conform-runtime', '--nope', '--', 'agent', '--json']);
  t.match(other, { code: 2, stdout: '', stderr: /^unknown option '--nope'/ });
});

t.test('completion scripts are scripts', async (t) => {
  const folder = await temporaryFolder(t);
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { stdout, code } = await bulkhead(['completion', shell]);
    t.equal(code, 0);
    for (const { name } of commands) t.match(stdout, name);
    await writeFile(join(folder, shell), stdout);
    const asJson = await bulkhead(['completion', shell, '--json']);
    t.same(JSON.parse(asJson.stdout), { shell, script: stdout });
  }
  // bash is everywhere; the others are read where they are installed.
  await promisify(execFile)('bash', ['-n', join(folder, 'bash')]);
  const script = `source ${join(folder, 'bash')}; COMP_WORDS=(bulkhead pub); COMP_CWORD=1; _bulkhead; echo "$COMPREPLY"`;
  t.equal((await promisify(execFile)('bash', ['-c', script])).stdout, 'publish\n');
});
