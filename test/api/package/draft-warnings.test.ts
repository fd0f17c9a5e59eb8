/** Warnings of drafts and versions: mistakes that are allowed. */
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, readmeWith, upload, zipOf } from './packages.ts';

const api = await startApiFixture(t, { readsInProcess: true });
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

t.test('a host that only fetch asks', async (t) => {
  const head = ['capabilities: ["host.http:example.com"]'];
  const idle = 'host.http:example.com is declared but never used. Remove it, so that users need not grant it.';
  const uses = [
    "await fetch('https://example.com/');",
    "await globalThis . fetch('https://example.com/');",
    "await self?.fetch('https://example.com/');",
    "const { fetch: send } = globalThis; await send('https://example.com/');",
  ];
  for (const use of uses) t.same(await warnings(head, hook(use)), [], use);
  const others = [
    "await ctx.fetch('https://example.com/');",
    'const isFetched = true, $fetch = 1, fetch1 = $fetch; console.log(isFetched, fetch1);',
  ];
  for (const use of others) t.same(await warnings(head, hook(use)), [idle], use);
  const vendored = { 'vendor/send.js': 'export const canSend = () => typeof fetch === "function";' };
  const index = `import { canSend } from './vendor/send.js';\n${hook('console.log(canSend());')}`;
  t.same(await warnings([], index, vendored), [], 'a library that asks whether there is one');
});

t.test('settings and secrets that are read by undeclared names', async (t) => {
  const head = ['settings: { city: { label: City }, ct: { label: C } }', 'secrets: { tok: { label: Token } }'];
  const code = `interface Forecast { city: string }
const draw = ({ settings }: { settings: Record<string, string> }) => settings['citty'] ?? settings.width;
middleware.systemPrompt = async (ctx) => {
  const unit = ctx.settings.unitOfTheDay ?? ctx.settings.hasOwnProperty('x');
  return unit + (await host.secrets.get('tokn')) + ctx.settings.citi + ctx.settings.citi + draw(ctx);
};
commands.known = { description: 'x', handler: (ctx) => ctx.settings.ct };
commands.computed = { description: 'x', handler: () => host.secrets.get(\`\${Date.now()}x\`) };
`;
  const undefinedSetting = 'is not declared, so it is undefined.';
  const nullSecret = 'The secret “tokn” is not declared, so host.secrets.get returns null. Did you mean “tok”?';
  t.same(await warnings(head, code), [
    `index.ts:2:79: The setting “citty” ${undefinedSetting} Did you mean “city”?`,
    `index.ts:4:29: The setting “unitOfTheDay” ${undefinedSetting} Declare it in the frontmatter of readme.md.`,
    `index.ts:5:65: The setting “citi” ${undefinedSetting} Did you mean “city”?`,
    `index.ts:5:41: ${nullSecret}`,
  ]);
  const plain = hook("if (ctx.settings.citi) return ctx.settings['ct']; await host.secrets.get('tokn');");
  t.same(await warnings(head, plain), [
    `index.ts:1:61: The setting “citi” ${undefinedSetting} Did you mean “city”?`,
    'The setting “city” is declared but never read.',
    `index.ts:1:117: ${nullSecret}`,
    'The secret “tok” is declared but never read.',
  ]);
  const [long = ''] = await warnings([], hook(`ctx.settings.${'a'.repeat(100_000)};`));
  t.match(long, /^index\.ts:1:57: The setting “a+…” is not declared/);
  t.ok(long.length < 500, 'a long name is cut');
  t.same(await warnings([], hook("await host.secrets.get('tokn');")), [
    'index.ts:1:67: The secret “tokn” is not declared, so host.secrets.get returns null. Declare it in the frontmatter of readme.md.',
  ]);
});

t.test('calls that the declared form does not allow', async (t) => {
  const head = [
    'capabilities: ["host.workspace:read", "host.http:a.example.com", "host.http:*.example.org", "host.llm", "host.llm"]',
  ];
  const index = hook(
    "await host.workspace.read('a'); await host.workspace.write('a', 'b'); await host.http.fetch('https://A.example.com/x');" +
      "await fetch('https://wrong.example.com'); await fetch('https://b.example.org:8443/'); const id = ctx.agentId;" +
      `await fetch(\`https://api-\${id}.example.com/\`); await fetch(\`https://other.example.com/\${id}\`);` +
      "await fetch('http://192.168.1.5:8080/x'); await fetch('http://localhost/x');",
  );
  t.same(await warnings(head, index), [
    'host.llm is declared but never used. Remove it, so that users need not grant it.',
    'host.workspace.write is used, but only host.workspace:read is declared, so it will be undefined. Declare host.workspace.',
    'index.ts:1:169: The code sends a request to a host that is not declared, so it will be refused. Declare host.http:wrong.example.com.',
    'index.ts:1:325: The code sends a request to a host that is not declared, so it will be refused. Declare host.http:other.example.com.',
    'index.ts:1:372: The code sends a request to “192.168.1.5”, which will be refused: an IP address cannot be declared, only the name of a host.',
    'index.ts:1:414: The code sends a request to “localhost”, which will be refused: the name needs two parts with a dot between them; hosts of the own network cannot be reached.',
  ]);
});

t.test('fields and keywords that check nothing', async (t) => {
  const index = `tools.a = {
  description: 'x', paramaters: {}, handler: () => '',
  parameters: { text: { type: 'string' }, content: { type: 'string' }, 'x-of-ours': 1 },
};
tools['b'] = {
  description: 'x', handler: () => '',
  parameters: { type: 'object', propertis: {}, properties: { one: { enmu: [1], format: 'uri' }, enmu: {} }, $defs: { c: { oneOf: [{ tpye: 'x' }] } } },
} as never;
{
  const tools: Record<string, unknown> = {};
  tools.c = { other: 1 };
}
`;
  const keyword = 'is not a keyword of JSON Schema, so it checks nothing.';
  t.same(await warnings([], index), [
    'index.ts:2:21: A tool has no field “paramaters”, so it is ignored. Did you mean “parameters”?',
    `index.ts:1:7: tools.a.parameters/text: ${keyword} Write the parameter as properties: { text: … }.`,
    `index.ts:1:7: tools.a.parameters/content: ${keyword} Write the parameter as properties: { content: … }.`,
    `index.ts:5:10: tools.b.parameters/propertis: ${keyword} Did you mean “properties”?`,
    `index.ts:5:10: tools.b.parameters/properties/one/enmu: ${keyword} Did you mean “enum”?`,
    `index.ts:5:10: tools.b.parameters/$defs/c/oneOf/0/tpye: ${keyword} Did you mean “type”?`,
  ]);
});

t.test('handlers of a channel that no inbox can be connected to', async (t) => {
  const why =
    'is never called, because only a plugin with channel.receive can be connected to an inbox. Assign channel.receive, too.';
  t.same(await warnings([], 'channel.send = () => {};\nchannel.handshake = () => {};'), [
    `index.ts:1:9: channel.send: ${why}`,
    `index.ts:2:9: channel.handshake: ${why}`,
  ]);
  const whole = 'channel.receive = () => {}; channel.send = () => {}; channel.handshake = () => {};';
  t.same(await warnings([], whole), []);
});

t.test('files that nothing uses', async (t) => {
  const index =
    "import type { A } from './lib/types';\nimport './lib/used.js';\nmiddleware.systemPrompt = () => 'x' as A;";
  const files = {
    'lib/used.ts': "import data from './data.json';\nconsole.log(data);",
    'lib/data.json': '1',
    'lib/types.ts': "export type A = import('./more.ts').B;",
    'lib/more.ts': 'export type B = string;',
    'skills/tidy/SKILL.md': '---\nname: tidy\ndescription: Tidies\n---\nTidy.',
    'skills/tidy/reference/a.md': 'More',
    'assets/a.bin': 'x',
    LICENSE: 'MIT',
    'package.json': '{}',
    'globals.d.ts': '',
    'lib/used.test.ts': '',
    '._index.ts': 'dropped, as in a zip',
  };
  t.same(await warnings([], index, files), [], 'what is used, and what is usual beside it');
  const unused = {
    'command/review.md': 'x',
    'Skill/tidy/SKILL.md': 'x',
    'commands/deep/review.md': 'x',
    'commands/review.txt': 'x',
    'skills/tidy.md': 'x',
    'lib/old.ts': 'x',
    'notes.txt': 'x',
    '.git/HEAD': 'x',
    '.git/config': 'x',
    '.git/index': 'x',
    '.git/objects/0': 'x',
    'node_modules/a/package.json': '{}',
  };
  const expected = [
    '.git/HEAD, .git/config, .git/index and 2 more: each belongs to your tools. Leave it out of the package.',
    'Skill/tidy/SKILL.md is used by nothing. Did you mean the folder skills/?',
    'command/review.md is used by nothing. Did you mean the folder commands/?',
    'commands/deep/review.md, commands/review.txt: each is not a command: commands are files commands/<name>.md, without folders.',
    'lib/old.ts is imported by nothing. Import it, or leave it out of the package.',
    'notes.txt is used by nothing. Put it below assets/, or leave it out of the package.',
    'skills/tidy.md is not a skill: a skill is a folder skills/<name>/ with a SKILL.md.',
  ];
  t.same(await warnings([], index, { ...files, ...unused }), expected, 'in a draft');
  const all = { 'readme.md': readmeWith(), 'index.ts': index, ...files, ...unused };
  const listed = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(all) });
  t.same(listed.body.warnings, expected, 'in a version of files');
  const url = `/api/plugins/${id}/versions/zip`;
  const zipped = await ann.send({ method: 'POST', url, ...upload(await zipOf(all), '1.0.1') });
  t.same(zipped.body.warnings, expected, 'in a version of a zip');
  t.equal(zipped.body.sourceSha256, listed.body.sourceSha256);
});
