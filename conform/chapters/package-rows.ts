/** Contract: package. */
import { ensure, expect, holding } from '../expect.ts';
import { fileList, type Package, packageOf, readme, type ZipEntry, zipEntries, zipPackage } from '../packages.ts';
import { type Chapter, type Row, row } from '../row.ts';
import type { Run } from '../run.ts';

const GOOD: readonly ZipEntry[] = Object.entries(packageOf()).map(([name, content]) => ({ name, content }));
const SYMLINK = 0o120777;
const DEVICE = 0o020666;

/** A plugin of which every version is refused. */
const refusals = (run: Run) => run.once('refusals', () => run.createPlugin('refusals'));
const refuseZip = async (run: Run, zip: Uint8Array) => {
  const { id } = await refusals(run);
  return run.own.publishZip(id, run.unusedSemVer(), zip);
};
const refuseFiles = async (run: Run, content: Package) => {
  const { id } = await refusals(run);
  return run.own.publishFiles(id, run.unusedSemVer(), fileList(content));
};
const refusedEntry = (what: string, added: ZipEntry | readonly ZipEntry[], detail?: RegExp): Row =>
  row(`Zip: refuse ${what}.`, async (run) => {
    const entries = [added].flat().map((entry) => ({ content: 'x', ...entry }));
    const answer = await refuseZip(run, zipEntries([...GOOD, ...entries]));
    expect(answer, { status: 422, body: { code: 'invalid_package', ...(detail ? { detail } : {}) } });
  });
const refusedReadme = (what: string, text: string): Row =>
  row(what, async (run) => {
    const answer = await refuseFiles(run, { ...packageOf(), 'readme.md': text });
    expect(answer, { status: 422, body: { code: 'invalid_package', errors: [{ path: 'readme.md' }] } });
  });
const refusedCode = (what: string, code: string, detail: RegExp = /./): Row =>
  row(what, async (run) =>
    expect(await refuseFiles(run, packageOf(code)), { status: 422, body: { code: 'invalid_package', detail } }),
  );
const refusedImport = (what: string, specifier: string, result = 'x', detail?: RegExp): Row =>
  refusedCode(
    `Code may import nothing else: ${what}.`,
    `import x from '${specifier}';\nmiddleware.systemPrompt = () => ${result};`,
    detail,
  );

export const packages: Chapter = {
  title: 'Contract: package',
  rows: [
    row('Code may import other .ts, .js and .json files of the package by relative path.', async (run) => {
      const { id } = await run.createPlugin('imports');
      const code = `import { a } from './a.ts';\nimport { b } from './lib/b.js';\nimport data from './data.json';
middleware.systemPrompt = () => a + b + data.c;`;
      const more = {
        'a.ts': 'export const a: string = "a";',
        'lib/b.js': 'export const b = "b";',
        'data.json': '{"c":"c"}',
      };
      expect((await run.own.publishFiles(id, '1.0.0', fileList(packageOf(code, {}, more)))).status, 201);
    }),
    refusedImport('a built-in', 'node:fs', 'String(x)'),
    refusedImport('an unused built-in', 'node:fs', "'x'"),
    refusedImport('a package', 'left-pad', 'x', /left-pad/),
    refusedImport('a file outside', '../outside.ts'),
    refusedImport('an address', 'https://example.com/x.js'),
    row('commands/*.md are prompt commands.', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/commands`);
      expect(body.items, holding({ name: `${slug}__greet`, description: 'Greets somebody', kind: 'prompt' }));
    }),
    row('skills/<name>/SKILL.md are skills.', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/skills`);
      expect(body.items, holding({ name: `${slug}__baking`, description: 'How to bake' }));
    }),
    row('assets/** may be any bytes, in a zip.', async (run) => {
      const { id } = await run.createPlugin('bytes');
      const answer = await run.own.publishZip(
        id,
        '1.0.0',
        zipPackage({ ...packageOf(), 'assets/a/b': new Uint8Array([0xff, 0xfe, 0]) }),
      );
      expect(answer.status, 201);
    }),
    refusedReadme('readme.md: frontmatter is at most 16 KB.', readme({ more: `# ${'x'.repeat(17_000)}` })),
    refusedReadme('name: 1-64 characters.', readme({ name: 'x'.repeat(65) })),
    refusedReadme('name: required.', '---\ndescription: x\n---\n'),
    refusedReadme('description: 1-280 characters.', readme({ description: 'x'.repeat(281) })),
    refusedReadme('description: required.', '---\nname: x\n---\n'),
    refusedReadme(
      'An unknown capability is an error, never ignored.',
      readme({ more: 'capabilities: [host.everything]' }),
    ),
    refusedReadme('host.http names a host.', readme({ more: 'capabilities: ["host.http:*"]' })),
    refusedReadme('An unknown field of the frontmatter is an error.', readme({ more: 'licence: MIT' })),
    refusedReadme(
      'A setting’s default is one of its enum.',
      readme({ more: 'settings: { a: { enum: [b], default: c } }' }),
    ),
    row('Capabilities: host.<member> or host.<member>:read, and host.http:<host or *.host>.', async (run) => {
      const { id } = await run.createPlugin('capabilities');
      const members = ['session', 'agents', 'models', 'workspace', 'media', 'llm', 'storage', 'ssh'];
      const all = [
        ...members.map((member) => `host.${member}:read`),
        'host.llm',
        '"host.http:*.example.com"',
        'host.storage',
      ];
      const answer = await run.own.publishFiles(
        id,
        '1.0.0',
        fileList(packageOf(undefined, { more: `capabilities: [${all.join(', ')}]` })),
      );
      expect(answer, { status: 201, body: { capabilities: holding('host.http:*.example.com') } });
    }),
    row('settings and secrets declare label, default, enum and required.', async (run) => {
      const { installationId } = await run.kit();
      const { body } = await run.own.get(`/installations/${installationId}`);
      const text = JSON.stringify(body.configuration);
      for (const word of ['units', 'imperial', 'metric', 'apiKey', 'Units'])
        ensure(text.includes(word), `configuration lacks ${word}: ${text}`);
    }),
    row('A setting outside its enum is refused.', async (run) => {
      const { installationId } = await run.kit();
      const answer = await run.own.post(`/installations/${installationId}/configure`, {
        settings: { units: 'furlongs' },
      });
      expect(answer, { status: 400, body: { code: 'bad_request' } });
    }),
    row('A setting that the manifest does not declare is refused.', async (run) => {
      const { installationId } = await run.kit();
      const answer = await run.own.post(`/installations/${installationId}/configure`, { settings: { colour: 'red' } });
      expect(answer, { status: 400, body: { code: 'bad_request' } });
    }),
    row('Hooks, tools, commands, events, providers and channel are capabilities by being registered.', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.own.get(`/marketplace/${slug}`);
      const names = [
        'middleware.sshCommand',
        'tools.host',
        'commands.echo',
        'commands.greet',
        'events.sessionStarted',
        'providers.conform',
        'channel',
      ];
      for (const name of names) expect(body.capabilities, holding(name), 'capabilities');
    }),
    refusedEntry('an absolute path', { name: '/etc/passwd' }, /etc\/passwd/),
    refusedEntry('..', { name: '../outside.txt' }, /outside/),
    refusedEntry('a backslash', { name: 'a\\b.txt' }),
    refusedEntry('a drive', { name: 'C:/a.txt' }),
    refusedEntry('NUL in a path', { name: 'a\0b.txt' }),
    refusedEntry('a control character in a path', { name: 'a\u0007b.txt' }),
    refusedEntry('an invisible character in a path', { name: 'a\u200bb.txt' }),
    refusedEntry('a bidirectional character in a path', { name: 'a\u202etxt.exe' }),
    refusedEntry('a symlink', { name: 'link', content: 'readme.md', mode: SYMLINK }, /link/),
    refusedEntry('a device', { name: 'device', mode: DEVICE }),
    refusedEntry('an encrypted entry', { name: 'locked.txt', flags: 1 }),
    refusedEntry('an exact duplicate', { name: 'index.ts' }, /index\.ts/),
    refusedEntry('a case-folded duplicate', { name: 'README.md' }),
    refusedEntry('a duplicate by full case folding', [
      { name: 'straße.txt', content: '1' },
      { name: 'STRASSE.txt', content: '2' },
    ]),
    refusedEntry('NFC-equal duplicates', [
      { name: 'caf\u00e9.txt', content: '1' },
      { name: 'cafe\u0301.txt', content: '2' },
    ]),
    refusedEntry('an entry whose real size differs', { name: 'long.txt', size: 9_999 }),
    refusedEntry('an entry whose CRC differs', { name: 'crc.txt', crc: 1 }, /crc/i),
    refusedEntry('overlapping entries', { name: 'twice.txt', offset: 0 }),
    refusedEntry(
      'more than 10,000 entries',
      Array.from({ length: 10_001 }, (_, index) => ({ name: `assets/${index}`, content: '' })),
    ),
    row('Zip: refuse what is no zip.', async (run) =>
      expect(await refuseZip(run, Buffer.from('no zip')), { status: 422, body: { code: 'invalid_package' } }),
    ),
    row('Zip: the whole upload is the archive; bytes before or after it are refused.', async (run) => {
      const zip = zipEntries(GOOD);
      for (const bytes of [Buffer.concat([Buffer.from('MZ'), zip]), Buffer.concat([zip, Buffer.from('tail')])])
        expect(await refuseZip(run, bytes), { status: 422, body: { code: 'invalid_package' } });
    }),
    row('Zip: one wrapper folder is stripped if every entry shares it.', async (run) => {
      const zip = zipEntries([
        ...GOOD.map((entry) => ({ ...entry, name: `package/${entry.name}` })),
        { name: 'beside.txt', content: 'x' },
      ]);
      expect(await refuseZip(run, zip), { status: 422, body: { code: 'invalid_package', detail: /readme\.md/ } });
    }),
    row('Zip: __MACOSX/, .DS_Store and Thumbs.db are ignored.', async (run) => {
      const { id } = await run.createPlugin('macos');
      const zip = zipEntries([
        ...GOOD.map((entry) => ({ ...entry, name: `p/${entry.name}` })),
        ...['__MACOSX/p/._x', 'p/.DS_Store', 'p/Thumbs.db'].map((name) => ({ name, content: '\0' })),
      ]);
      const made = await run.own.publishZip(id, '1.0.0', zip);
      expect(made.status, 201);
      const { body } = await run.own.get(`/plugins/${id}?includeFiles=true`);
      expect(body.files.map(({ path }: { path: string }) => path).sort(), ['index.ts', 'readme.md']);
    }),
    refusedCode(
      'An unknown name fails the publish with the nearest known one.',
      'middleware.systemPromt = () => "x";',
      /middleware\.systemPrompt/,
    ),
    refusedCode('A package that registers nothing and has no command or skill fails.', 'const a = 1;'),
    row('A package with only a command may register nothing.', async (run) => {
      const { id } = await run.createPlugin('command-only');
      const more = { 'commands/only.md': '---\ndescription: Only\n---\nOnly this.\n' };
      expect((await run.own.publishFiles(id, '1.0.0', fileList(packageOf('// nothing', {}, more)))).status, 201);
    }),
    refusedCode(
      'Registration is done before the first turn ends.',
      'setTimeout(() => { middleware.systemPrompt = () => "x"; }, 0);',
    ),
    refusedCode('A hook must be a function.', 'middleware.systemPrompt = "x" as any;', /function/),
    refusedCode(
      'A tool’s parameters are a JSON Schema 2020-12.',
      "tools.bad = { description: 'x', parameters: { type: 'nonsense' }, handler: () => 'x' } as any;",
    ),
    refusedCode(
      'An undeclared name is an error at publish.',
      'undeclaredName();\nmiddleware.systemPrompt = () => "x";',
      /undeclaredName/,
    ),
    refusedCode('No import().', "middleware.systemPrompt = async () => String(await import('./readme.md'));"),
    refusedCode(
      'Code that throws while it loads fails the publish, with the place.',
      'throw new Error("at load");',
      /at load/,
    ),
  ],
};
