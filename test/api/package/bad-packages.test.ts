/** Packages that do not pass: each says what is wrong and where. */
import t from 'tap';
import { isSoak, listCases, soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { type Files, fileList, INDEX, MINIMAL, README, readmeWith } from './packages.ts';

/** A package in an endless loop keeps a core busy until it is killed. Milliseconds. */
const LOAD_WITHIN_MS = 1_000;

const api = await startApiFixture(t, { loadWithinMs: LOAD_WITHIN_MS });
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'broken', displayName: 'Broken' })).body;
let patch = 0;
/** Under a number of its own, so that one that wrongly passes spoils no other test. */
const publish = (files: Files, semVer = `0.0.${patch++}`) =>
  ann.post(`/plugins/${id}/versions`, { semVer, files: fileList(files) });
const withIndex = (source: string, more: Files = {}): Files => ({ 'readme.md': README, 'index.ts': source, ...more });
const withReadme = (readme: string): Files => ({ 'readme.md': readme, 'index.ts': INDEX });

/** Writes a text in characters that nothing shows. */
const asTags = (text: string) => [...text].map((one) => String.fromCodePoint(0xe0000 + one.charCodeAt(0))).join('');

interface Expected {
  readonly path?: string;
  readonly line?: number;
  readonly column?: number;
  readonly field?: string | RegExp;
  readonly message: RegExp;
  /** Of all errors. */
  readonly count?: number;
}
/** Five lines that a compilation removes. */
const TYPES_ABOVE = `interface Forecast {
  city: string;
}

// A comment.
`;
/** What only the bundling finds, below those lines: code and the place of its fault. */
const belowTypes: Record<string, [code: string, Expected, more?: Files]> = {
  'a package': ["import _ from 'lodash';\n_();", { line: 6, column: 15, message: /lodash/ }],
  'a package whose names have a line each': [
    "import {\n  chunk,\n  flat,\n} from 'lodash';\nchunk(flat);",
    { line: 9, column: 8, message: /lodash/ },
  ],
  'an import that is not there': ["import './libs';", { line: 6, column: 8, message: /not in the package/ }],
  'an export * of a file that is not there': [
    "export * from './libs';",
    { line: 6, column: 15, message: /not in the package/ },
  ],
  'an import() of a file that is not there': [
    "const read = async (): Promise<unknown> => import('./libs');\nread();",
    { line: 6, column: 51, message: /not in the package/ },
  ],
  'an import of a text': ["/* é */ import './readme.md';", { line: 6, column: 16, message: /not a code file/ }],
  'an attribute that calls code JSON': [
    "import x from './lib' with { type: 'json' };\nx();",
    { line: 6, column: 15, message: /^“lib\.ts” is not a \.json file\. Remove the attribute/ },
    { 'lib.json': '1' },
  ],
  'an export * that calls code JSON': [
    "export * from './lib.ts' with { 'type': 'json' };",
    { line: 6, column: 15, message: /^“lib\.ts” is not a \.json file/ },
  ],
  'an import() that calls code JSON': [
    "const read = (): unknown => import('./lib.ts', { with: { type: 'json' } });\nread();",
    { line: 6, column: 36, message: /^“lib\.ts” is not a \.json file/ },
  ],
  'an attribute with the old keyword that calls code JSON': [
    "import x from './lib' assert { type: 'json' };\nx();",
    { line: 6, column: 15, message: /^“lib\.ts” is not a \.json file\. Remove the attribute/ },
  ],
  'an import() with the old keyword that calls code JSON': [
    "const read = (): unknown => import('./lib.ts', { assert: { type: 'json' } });\nread();",
    { line: 6, column: 36, message: /^“lib\.ts” is not a \.json file/ },
  ],
  'an attribute of a library with the old keyword that calls code JSON': [
    "import './vendor/a.js';",
    { path: 'vendor/a.js', line: 1, column: 15, message: /^“lib\.ts” is not a \.json file/ },
    { 'vendor/a.js': "export * from '../lib.ts' assert { type: 'json' };" },
  ],
  'an attribute that calls JSON a text': [
    "import x from './a.json' with { type: 'text' };\nx();",
    { line: 6, column: 15, message: /^The only import attribute is with \{ type: 'json' \}/ },
    { 'a.json': '1' },
  ],
  'an import() of a library that calls JSON a text': [
    "import './vendor/a.js';",
    { path: 'vendor/a.js', line: 1, column: 8, message: /^The only import attribute is/ },
    { 'vendor/a.js': "import('../a.json', { with: { type: 'text' } });", 'a.json': '1' },
  ],
  'options of import() that are computed': [
    "const options: ImportCallOptions = {};\nconst read = () => import('./a.json', options);\nread();",
    { line: 7, column: 27, message: /^The only import attribute is/ },
    { 'a.json': '1' },
  ],
  'a default export that is not there': [
    "import x from './lib.ts';\nx();",
    { line: 6, column: 8, message: /has no default export/ },
  ],
  'an export that is not there': [
    "import { y,\n  x } from './lib.ts';\nx(y);",
    { line: 7, column: 3, message: /exports nothing with the name “x”/ },
  ],
  'an assignment to an import': [
    "import { y } from './lib.ts';\nfunction change(z: number): void { y = z; }\nchange(1);",
    { line: 7, column: 36, message: /Cannot assign to import “y”/ },
  ],
  'top-level await': ['const x: number = await 1;', { line: 6, column: 19, message: /^await is not allowed/ }],
  'top-level await in vendor/': [
    "import './vendor/a.js';",
    { path: 'vendor/a.js', line: 3, column: 11, message: /^await is not allowed/ },
    { 'vendor/a.js': '/* A licence */\n\nconst x = await 1;\nexport { x };' },
  ],
};

/** One for each step of the bundling that finds faults. */
const QUICK_BELOW_TYPES = [
  'a package',
  'an import that is not there',
  'an attribute that calls code JSON',
  'a default export that is not there',
  'an assignment to an import',
  'top-level await in vendor/',
];

const cases: Record<string, [Files, Expected]> = {
  ...Object.fromEntries(
    listCases(belowTypes, ...QUICK_BELOW_TYPES).map(([name, [code, expected, more]]): [string, [Files, Expected]] => [
      `${name}, below types and a comment`,
      [
        withIndex(`${TYPES_ABOVE}${code}`, { 'lib.ts': 'export const y = 1;', ...more }),
        { path: 'index.ts', ...expected },
      ],
    ]),
  ),

  'no file': [{}, { message: /empty/ }],
  'no readme': [{ 'index.ts': INDEX }, { path: 'readme.md', message: /missing/ }],
  'a readme in capitals': [
    { 'README.md': README, 'index.ts': INDEX },
    { path: 'readme.md', message: /README\.md.*must be called/ },
  ],
  'no index': [{ 'readme.md': README }, { path: 'index.ts', message: /missing/ }],
  'a wrapped file list': [
    { 'p/readme.md': README, 'p/index.ts': INDEX },
    { path: 'readme.md', message: /p\/readme\.md/ },
  ],

  'a hook that cannot judge pieces': [
    withIndex('middleware.inboundMessage = { stream: true, handler: () => {} } as never;'),
    { path: 'index.ts', line: 1, message: /inboundMessage cannot have “stream”: only middleware\.outboundMessage/ },
  ],

  'no frontmatter': [withReadme('# Hello'), { path: 'readme.md', line: 1, message: /---/ }],
  'frontmatter without end': [withReadme('---\nname: x\n'), { path: 'readme.md', line: 1, message: /closing/ }],
  'frontmatter over 16 KB': [withReadme(readmeWith(`# ${'x'.repeat(17_000)}`)), { line: 1, message: /16384/ }],
  'frontmatter that is no YAML': [
    withReadme('---\nname: [a\ndescription: b\n---\n'),
    { path: 'readme.md', line: 3, message: /./ },
  ],
  'frontmatter that is a list': [
    withReadme('---\n- a\n---\n'),
    { path: 'readme.md', message: /must be fields with values/ },
  ],
  'a tab': [withReadme('---\nname: x\n\tdescription: y\n---\n'), { path: 'readme.md', line: 3, message: /[Tt]ab/ }],
  'no name': [withReadme('---\ndescription: b\n---\n'), { field: 'name', message: /required/ }],
  'a name that is a number': [
    withReadme('---\nname: 1.10\ndescription: b\n---\n'),
    { line: 2, field: 'name', message: /quotes/ },
  ],
  'a long name': [
    withReadme(`---\nname: ${'x'.repeat(65)}\ndescription: b\n---\n`),
    { line: 2, field: 'name', message: /64/ },
  ],
  'a name that reads backwards': [
    withReadme('---\nname: "a\\u202Eb"\ndescription: b\n---\n'),
    { line: 2, field: 'name', message: /direction/ },
  ],
  'a name that is nothing': [
    withReadme('---\nname: ~\ndescription: b\n---\n'),
    { line: 2, field: 'name', message: /./ },
  ],
  'a name that is bytes': [
    withReadme('---\nname: !!binary aGk=\ndescription: b\n---\n'),
    { line: 2, message: /quotes|tag/i },
  ],
  'a name of 1 MB': [
    withReadme(`---\nname: ${'x'.repeat(1_000_000)}\ndescription: b\n---\n`),
    { path: 'readme.md', message: /^The file has 1000030 bytes; the maximum is 262144 \(256 KiB\)\. Shorten it/ },
  ],
  'a name with nothing to see in it': [
    withReadme('---\nname: "\\u200B\\u200B"\ndescription: b\n---\n'),
    { line: 2, field: 'name', message: /./ },
  ],
  'a set in place of fields': [
    withReadme(readmeWith('settings: { tone: !!set { label } }')),
    { line: 4, message: /^Tags \(!name\) are not allowed/ },
  ],
  'an alias': [withReadme(readmeWith('settings: &a {}', 'secrets: *a')), { line: 5, message: /\*name/ }],
  'billion laughs': [withReadme(readmeWith('a: &a [x]', 'b: &b [*a, *a]', 'c: [*b, *b]')), { message: /\*name/ }],
  'a field twice': [withReadme(readmeWith('secrets: {}', 'secrets: {}')), { line: 5, message: /twice/ }],
  'a tag': [withReadme(readmeWith('secrets: !!js/function x')), { line: 4, message: /tag/i }],
  'a deep nest': [
    withReadme(readmeWith(`settings: ${'['.repeat(100)}${']'.repeat(100)}`)),
    { line: 4, message: /deep/ },
  ],
  'a very deep nest': [withReadme(readmeWith(`settings: ${'['.repeat(8000)}${']'.repeat(8000)}`)), { message: /./ }],
  'an unknown field': [
    withReadme(readmeWith('capabilites: []')),
    { line: 4, field: 'capabilites', message: /did you mean “capabilities”/ },
  ],
  'an unknown capability': [
    withReadme(readmeWith('capabilities: [host.llm, host.files]')),
    { line: 4, field: 'capabilities.1', message: /host\.files/ },
  ],
  'a read form of a member that every plugin has': [
    withReadme(readmeWith('capabilities: ["host.log:read"]')),
    { message: /host\.log needs none\. Leave it out/ },
  ],
  'a use of a secret that is none': [
    withReadme(
      readmeWith('capabilities: ["host.http:api.example.com"]\nsecrets:\n  key:\n    use: [webhooks, header]'),
    ),
    {
      line: 7,
      field: 'secrets.key.use.1',
      message: /^“header” is not a use\. Write webhooks, or http: and one exact host/,
    },
  ],
  'a use of a secret for hosts that are not exact': [
    withReadme(
      readmeWith('capabilities: ["host.http:*.example.com"]\nsecrets: { key: { use: ["http:*.example.com"] } }'),
    ),
    { line: 5, field: 'secrets.key.use.0', message: /one exact host/ },
  ],
  'a use of a secret for a host that is not declared': [
    withReadme(
      readmeWith('capabilities: ["host.http:api.example.com"]\nsecrets: { key: { use: [http:example.com] } }'),
    ),
    { line: 5, field: 'secrets.key.use.0', message: /^needs the capability host\.http:example\.com/ },
  ],
  'a use of a secret twice': [
    withReadme(readmeWith('secrets: { key: { use: [webhooks, webhooks] } }')),
    { line: 4, field: 'secrets.key.use', message: /^must not name a use twice/ },
  ],
  'no use of a secret': [
    withReadme(readmeWith('secrets: { key: { use: [] } }')),
    { line: 4, field: 'secrets.key.use', message: /^must name at least one use/ },
  ],
  'a use of a secret that is no list': [
    withReadme(readmeWith('secrets: { key: { use: webhooks } }')),
    { field: 'secrets.key.use', message: /^must be a list/ },
  ],
  'a long use of a secret that is no list': [
    withReadme(readmeWith('secrets: { key: { use: http:api.example.com } }')),
    { field: 'secrets.key.use', message: /^must be a list, such as \[a, b\]$/, count: 1 },
  ],
  'a misspelt use of a secret': [
    withReadme(readmeWith('secrets: { key: { uses: [webhooks] } }')),
    { field: 'secrets.key.uses', message: /did you mean “use”/ },
  ],
  'a secret as a capability': [
    withReadme(readmeWith('capabilities: [secrets.key]\nsecrets: { key: {} }')),
    { message: /“secrets\.key” is not a capability/ },
  ],
  'a host that is none': [withReadme(readmeWith('capabilities: ["host.http:localhost"]')), { message: /localhost/ }],
  'a list in place of fields': [
    withReadme(readmeWith('settings: [a]')),
    { field: 'settings', message: /^must be fields/ },
  ],
  'text in place of a list': [
    withReadme(readmeWith('capabilities: host.llm')),
    { field: 'capabilities', message: /^must be a list/ },
  ],
  'yes in place of true': [
    withReadme(readmeWith('settings: { a: { required: yes } }')),
    { field: 'settings.a.required', message: /^must be true or false$/ },
  ],
  'an empty enum': [
    withReadme(readmeWith('settings: { a: { enum: [] } }')),
    { field: 'settings.a.enum', message: /^must have at least 1 entries$/ },
  ],
  'a colon in a value': [
    withReadme('---\nname: a: b\ndescription: c\n---\n'),
    { line: 2, message: /^A value with a colon must be in quotes/ },
  ],
  'a prototype as setting': [withReadme(readmeWith('settings: { __proto__: {} }')), { message: /./ }],
  'a default outside enum': [
    withReadme(readmeWith('settings: { a: { default: x, enum: [y] } }')),
    { field: 'settings.a.default', message: /enum/ },
  ],
  'a number as enum value': [
    withReadme(readmeWith('settings: { a: { enum: [1] } }')),
    { field: 'settings.a.enum.0', message: /quotes/ },
  ],
  'NUL by escape': [withReadme(readmeWith('settings: { a: { default: "\\0" } }')), { message: /U\+0000/ }],

  'a syntax error': [
    withIndex('const a = 1;\nconst b: = 2;\n'),
    { path: 'index.ts', line: 2, column: 10, message: /^Syntax error: “=” is not allowed here$/ },
  ],
  'an object without end': [
    withIndex('const a = {'),
    {
      path: 'index.ts',
      line: 1,
      column: 12,
      message: /^The code ends too early: “\{” in line 1, column 11 is not closed$/,
    },
  ],
  'a syntax error in an imported file': [
    withIndex("import './lib/x.ts';", { 'lib/x.ts': '\n\nlet let = 1;' }),
    { path: 'lib/x.ts', line: 3, message: /let/ },
  ],
  'an import that is not there': [
    withIndex("import { x } from './libs';\nx();", { 'lib.ts': 'export const x = 1' }),
    { path: 'index.ts', line: 1, column: 19, message: /nearest is “\.\/lib\.ts”/ },
  ],
  'a builtin': [
    withIndex("import fs from 'node:fs';\nfs.x();"),
    { path: 'index.ts', line: 1, column: 16, message: /node:fs.*relative path/ },
  ],
  'an export that is not there': [
    withIndex("import { x } from './lib.ts';\nx();", { 'lib.ts': 'export const y = 1' }),
    { path: 'index.ts', line: 1, message: /^“lib\.ts” exports nothing with the name “x”$/ },
  ],
  'a package': [withIndex("import _ from 'lodash';\n_();"), { path: 'index.ts', line: 1, message: /lodash/ }],
  'an import with backslashes': [
    withIndex("import x from '.\\\\lib\\\\a.ts';\nx();", { 'lib/a.ts': 'export default 1' }),
    { path: 'index.ts', line: 1, message: /^“\.\\lib\\a\.ts” has backslashes\. Write “\.\/lib\/a\.ts”$/ },
  ],
  'an import out of the package': [
    withIndex("import x from '../../../etc/hostname';\nx();"),
    { message: /leaves the package/ },
  ],
  'a text import': [withIndex("import x from './a.txt';\nx();", { 'a.txt': 'x' }), { message: /not a code file/ }],
  'a computed import()': [
    withIndex('const a = "x";\nimport(a);'),
    { path: 'index.ts', line: 2, column: 1, message: /import\(\)/ },
  ],
  require: [withIndex('require("fs");'), { path: 'index.ts', line: 1, message: /require/ }],
  eval: [withIndex('eval("1");'), { path: 'index.ts', line: 1, column: 1, message: /^eval is not allowed; write/ }],
  'a misspelt name': [
    withIndex(
      "import { isAdmin } from './who.ts';\n\nmiddleware.systemPrompt = (ctx) => (isAdmn ? ctx.systemPrompt : String(isAdmin));",
      { 'who.ts': 'export const isAdmin = true;' },
    ),
    { path: 'index.ts', line: 3, column: 37, message: /^“isAdmn” is not declared\. Did you mean “isAdmin”\?$/ },
  ],
  'an assignment to a name that is not declared': [
    withIndex('countOfAll = 1;'),
    { path: 'index.ts', line: 1, column: 1, message: /“countOfAll” is not declared\. Declare or import it/ },
  ],
  'a global of Node': [
    withIndex('const home = process.env.HOME;\nconsole.log(home);'),
    {
      path: 'index.ts',
      line: 1,
      column: 14,
      message: /^“process” is not declared\. Plugins have no process: use host\.settings/,
    },
  ],
  'fetch without a host': [
    withIndex('tools.x = { description: "x", parameters: {}, handler: () => fetch("https://example.com") };'),
    { path: 'index.ts', line: 1, message: /“fetch” is not declared\. .*host\.http:/ },
  ],
  'top-level await': [
    withIndex('await 1;\nexport {};'),
    { path: 'index.ts', line: 1, message: /^await is not allowed outside a function: .* Use it in a handler$/ },
  ],
  'a granted member of host at load': [
    {
      'readme.md': readmeWith('capabilities: [host.storage]'),
      'index.ts': "const words = host.storage.get('x');\nconsole.log(words);",
    },
    {
      path: 'index.ts',
      line: 1,
      message:
        /\(reading 'get'\)\. host\.storage is undefined because nothing is granted while a package is checked\. Use it in a handler, not while the code loads$/,
    },
  ],
  'broken JSON': [
    withIndex("import a from './a.json';\nconsole.log(a);", { 'a.json': '{,}' }),
    { path: 'a.json', line: 1, message: /./ },
  ],

  'nothing registered': [
    withIndex('const a = 1;\nconsole.log(a);'),
    { path: 'index.ts', message: /registers nothing/ },
  ],
  'a misspelt hook': [
    withIndex('\n  middleware.systemPromt = (ctx) => ctx.systemPrompt;'),
    { path: 'index.ts', line: 2, message: /middleware\.systemPromt.*“middleware\.systemPrompt”/ },
  ],
  'a misspelt group': [
    withIndex('midleware.systemPrompt = () => "";'),
    { path: 'index.ts', line: 1, column: 1, message: /“midleware” is not declared\. Did you mean “middleware”\?/ },
  ],
  'an error at load': [
    withIndex('const a = 1;\nthrow new Error("no " + a);'),
    { path: 'index.ts', line: 2, message: /no 1/ },
  ],
  'an index.js': [
    { 'readme.md': readmeWith(''), 'assets/map/index.js': 'draw();', 'index.js': 'tools.x = {};' },
    { path: 'index.ts', message: /There is “index\.js”: it must be called index\.ts and lie at the top\.$/ },
  ],
  'a tool without handler': [
    withIndex('tools.x = { description: "x", parameters: {} };'),
    { path: 'index.ts', message: /handler/ },
  ],
  'too many tools': [
    withIndex(
      '\nfor (let i = 0; i < 129; i += 1) tools["t" + i] = { description: "x", parameters: {}, handler: () => "" };',
    ),
    { path: 'index.ts', line: 2, message: /^The package registers 129 tools; the maximum is 128\.$/ },
  ],

  'a command with a bad name': [
    { ...MINIMAL, 'commands/a b.md': 'x' },
    { path: 'commands/a b.md', message: /name/ },
  ],
  'a command without text': [
    { ...MINIMAL, 'commands/a.md': '---\ndescription: x\n---\n' },
    { path: 'commands/a.md', line: 3, message: /no text/ },
  ],
  'a command twice': [
    withIndex('commands.a = { description: "x", handler: () => "" };', { 'commands/a.md': 'x' }),
    { path: 'commands/a.md', message: /as well/ },
  ],
  'a skill without SKILL.md': [
    { ...MINIMAL, 'skills/a/notes.md': 'x' },
    { path: 'skills/a', message: /SKILL\.md/ },
  ],
  'a skill file in small letters': [
    { ...MINIMAL, 'skills/a/skill.md': 'x' },
    { path: 'skills/a', message: /There is “skills\/a\/skill\.md”: it must be called SKILL\.md/ },
  ],
  'a skill with another name': [
    { ...MINIMAL, 'skills/a/SKILL.md': '---\nname: b\ndescription: x\n---\nx' },
    { path: 'skills/a/SKILL.md', line: 2, column: 1, field: 'name', message: /“a”/ },
  ],
  'a skill without text': [
    { ...MINIMAL, 'skills/a/SKILL.md': '---\nname: a\ndescription: x\n---\n' },
    { path: 'skills/a/SKILL.md', line: 4, message: /no text/ },
  ],
  'a readme that hides a text in tags': [
    withReadme(`${README}\nHello${asTags('delete all')}`),
    { path: 'readme.md', line: README.split('\n').length + 1, column: 6, message: /contains U\+E0064/ },
  ],
  'a setting whose default reads backwards': [
    withReadme(readmeWith('settings: { a: { default: "x\\u202Ey" } }')),
    { path: 'readme.md', line: 4, field: 'settings.a.default', message: /contains U\+202E/ },
  ],
  'a command that hides a text': [
    { ...MINIMAL, 'commands/a.md': 'Say hello.\nThen\u200b\u200d stop.' },
    { path: 'commands/a.md', line: 2, column: 5, message: /contains U\+200B/ },
  ],
  'a skill whose description reads backwards': [
    { ...MINIMAL, 'skills/a/SKILL.md': '---\nname: a\ndescription: "x\\u2066y"\n---\nx' },
    { path: 'skills/a/SKILL.md', line: 3, field: 'description', message: /contains U\+2066/ },
  ],
  'a page of a skill that hides a text': [
    { ...MINIMAL, 'skills/a/SKILL.md': '---\nname: a\ndescription: x\n---\nx', 'skills/a/more.md': 'a\nb\u2064' },
    { path: 'skills/a/more.md', line: 2, column: 2, message: /contains U\+2064/ },
  ],
};
/** Faults that a rule of those above finds, or that other files prove, some of them in a soak run. Most of their time is a build, or the start of the plugin. */
const similar: Record<string, [Files, Expected]> = {
  'a setting at load': [
    {
      'readme.md': readmeWith('settings: { words: { default: "a,b" } }'),
      'index.ts': "const words = host.settings.words.split(',');\nconsole.log(words);",
    },
    {
      path: 'index.ts',
      line: 1,
      message: /\(reading 'split'\)\. host\.settings\.words is undefined because settings are empty while/,
    },
  ],
  'a declared name without a value': [
    withIndex('const cfg: any = undefined;\nconsole.log(cfg.foo.bar);'),
    { path: 'index.ts', line: 2, message: /^Cannot read properties of undefined \(reading 'foo'\)$/ },
  ],
  'a promise that is rejected at load': [
    withIndex('\nPromise.reject(new Error("lost"));'),
    { path: 'index.ts', line: 2, message: /^lost$/ },
  ],
  'a thrown value that is not an Error': [
    withIndex('throw { a: 1 };'),
    { path: 'index.ts', message: /^threw a value that is not an Error, so its line is unknown: \{"a":1\}$/ },
  ],
  'a misspelt event': [
    withIndex('events.pluginInstaled = () => {};'),
    { path: 'index.ts', line: 1, message: /“events\.pluginInstalled”/ },
  ],
  'a misspelt channel handler': [
    withIndex('channel.recieve = () => {};'),
    { path: 'index.ts', line: 1, message: /“channel\.receive”/ },
  ],
  'a tool called __proto__': [
    withIndex('tools["__proto__"] = { description: "x", parameters: {}, handler: () => "" };'),
    { path: 'index.ts', message: /./ },
  ],
  'a description with NUL': [
    withIndex('tools.x = { description: "a\\0b", parameters: {}, handler: () => "" };'),
    { message: /U\+0000/ },
  ],
  'a stream that is no boolean': [
    withIndex('middleware.outboundMessage = { stream: "yes", handler: () => {} } as never;'),
    { path: 'index.ts', message: /outboundMessage\.stream must be true or false/ },
  ],
  'a syntax error beyond ASCII': [
    withIndex('const é = "ü"; const b: = 2;'),
    { path: 'index.ts', line: 1, column: 25, message: /^Syntax error/ },
  ],
  'a function without end': [
    withIndex('tools.é = { handler<T>(x: T) {\n  return /[{]/;\r\n\r\n'),
    { path: 'index.ts', line: 2, column: 16, message: /“\{” in line 1, column 30 is not closed$/ },
  ],
  'a template without end': [
    withIndex('\nconst a = `text\n'),
    { path: 'index.ts', line: 2, column: 16, message: /ends too early: “`” in line 2, column 11 is not closed$/ },
  ],
  'a placeholder without end': [
    withIndex('const a = `text ${2'),
    { path: 'index.ts', line: 1, column: 20, message: /“\$\{” in line 1, column 17 is not closed$/ },
  ],
  'a comment without end': [
    withIndex('/* a */\nconst a = [ /* b\n'),
    { path: 'index.ts', line: 2, column: 17, message: /“\/\*” in line 2, column 13 is not closed$/ },
  ],
  'code without end that is no JavaScript': [
    withIndex('class A {\n  @foo x = {\n'),
    { path: 'index.ts', line: 2, column: 13, message: /^The code ends too early/ },
  ],
  'an expression without end': [
    withIndex('const a =\n\n'),
    { path: 'index.ts', line: 1, column: 10, message: /^The code ends too early$/ },
  ],
  'a builtin that only types use': [
    withIndex("import { Server } from 'net';\nconst none: Server | null = null;\nconsole.log(none);"),
    { path: 'index.ts', line: 1, column: 24, message: /“net” cannot be imported.*relative path, and nothing else$/ },
  ],
  'a builtin that nothing uses': [
    withIndex(`import type { A } from 'lodash';\nimport './lib.ts';\n${INDEX}`, {
      'lib.ts': "\nimport * as os from 'node:os';\nexport * from './other.ts';",
      'other.ts': 'export {};',
    }),
    { path: 'lib.ts', line: 2, column: 21, message: /“node:os” cannot be imported/ },
  ],
  'an export of a file without exports': [
    withIndex("import { x } from './lib.ts';\nx();", {
      'lib.ts': "const x = () => '';\nclass A { y() { return this; } }",
    }),
    { path: 'index.ts', line: 1, column: 10, message: /^“lib\.ts” exports nothing with the name “x”$/ },
  ],
  'a default export of a file without exports': [
    withIndex("import x from './lib.js';\nx();", { 'lib.js': "const x = () => '';" }),
    { path: 'index.ts', line: 1, column: 8, message: /^“lib\.js” has no default export$/ },
  ],
  'an absolute import': [
    withIndex("import x from '/etc/hostname';\nx();"),
    { path: 'index.ts', line: 1, message: /hostname/ },
  ],
  'an import() of a file that is not there': [
    withIndex('import("./x.ts");'),
    { path: 'index.ts', line: 1, message: /“\.\/x\.ts” is not in the package/ },
  ],
  'an import of a file of a package with a scope': [
    withIndex("import x from '@acme/sdk/client';\nx();"),
    {
      path: 'index.ts',
      line: 1,
      column: 15,
      message: /: npx esbuild @acme\/sdk\/client .* --outfile=vendor\/sdk\.js$/,
    },
  ],
  'an import of a file of the package without its ./': [
    withIndex("import x from 'lib.ts';\nx();"),
    { path: 'index.ts', line: 1, message: /^“lib\.ts” cannot be imported\. .* by relative path, and nothing else$/ },
  ],
  'an import() of a package': [
    withIndex('\nimport("lodash");'),
    {
      path: 'index.ts',
      line: 2,
      column: 1,
      message:
        /^“lodash” cannot be imported\. A plugin imports .*: npx esbuild lodash .* --outfile=vendor\/lodash\.js$/,
    },
  ],
  'a glob import()': [
    withIndex('const a = "x";\nimport("../" + a + ".ts");'),
    { path: 'index.ts', line: 2, message: /import\(\)/ },
  ],
  'a misspelt name in another file': [
    withIndex("import { total } from './lib/sum.ts';\nconsole.log(total);", {
      'lib/sum.ts': 'type A = number;\n\nconst items: A[] = [];\nexport const total = itmes.length;',
    }),
    { path: 'lib/sum.ts', line: 4, column: 22, message: /“itmes” is not declared\. Did you mean “items”/ },
  ],
  'a misspelt global': [
    withIndex('const a = Sting(1);\nconsole.log(a);'),
    { path: 'index.ts', line: 1, column: 11, message: /“Sting” is not declared\. Did you mean “String”\?/ },
  ],
  'a name that only types declare': [
    withIndex('declare const answer: number;\nconsole.log(answer);'),
    { path: 'index.ts', line: 2, column: 13, message: /“answer” is not declared/ },
  ],
  'a name of a block that has ended': [
    withIndex('{ let inner = 1; console.log(inner); }\nfor (const each of [1]) console.log(each);\nconsole.log(each);'),
    { path: 'index.ts', line: 3, column: 13, message: /“each” is not declared/ },
  ],
  'top-level for await': [
    withIndex('for await (const x of []) console.log(x);\nexport {};'),
    { path: 'index.ts', line: 1, message: /Use it in a handler$/ },
  ],
  'for await in a function that is not async': [
    withIndex('function read() { for await (const x of []) console.log(x); }\nread();'),
    { path: 'index.ts', line: 1, message: /^await is only allowed inside an async function$/ },
  ],
  'nesting that kills esbuild': [
    withIndex(`globalThis.x = ${'['.repeat(200_000)}${']'.repeat(200_000)};`),
    { path: 'index.ts', message: /nested/ },
  ],
  'too much code': [
    withIndex(`globalThis.x = "${'x'.repeat(9_000_000)}";`),
    {
      path: 'index.ts',
      message: /more than 8388608 bytes \(8 MiB\) together; this one has 9000018\. Put data into files below assets/,
    },
  ],
  'an endless loop at load': [
    withIndex('while (true) {}'),
    { path: 'index.ts', message: /^loading took longer than its 1000 ms: the top-level code did not end$/ },
  ],
  'a hook that is registered after an await': [
    withIndex(
      'async function main() {\n  await new Promise((resolve) => setTimeout(resolve, 5));\n  middleware.inboundMessage = () => {};\n}\nmain();',
    ),
    {
      path: 'index.ts',
      line: 3,
      column: 14,
      message: /^middleware is closed: assign while the file runs, before the first await$/,
    },
  ],
  'a misspelt global in a library': [
    withIndex("import './vendor/a.js';", { 'vendor/a.js': 'setTimout(() => {}, 1);' }),
    { path: 'vendor/a.js', line: 1, message: /“setTimout” does not exist; did you mean “setTimeout”\?$/ },
  ],
  'await in a function that is not async': [
    withIndex('const read = () => { await 1; };\nread();'),
    { path: 'index.ts', line: 1, message: /^await is only allowed inside an async function$/ },
  ],
  'a fetch at load': [
    {
      'readme.md': readmeWith('capabilities: [host.http:example.com]'),
      'index.ts': '\nconst list = fetch("https://example.com").catch(() => null);\nconsole.log(list);',
    },
    { path: 'index.ts', line: 2, column: 14, message: /^fetch is called while the code loads: call it in a handler$/ },
  ],
  'an assignment to a member of a declared name without a value': [
    withIndex('const cfg: any = undefined;\ncfg.foo = 1;'),
    { path: 'index.ts', line: 2, message: /^Cannot set properties of undefined \(setting 'foo'\)$/ },
  ],
  'a parameter without a value': [
    withIndex('const read = (document: any) => document.title;\nread(undefined);'),
    { path: 'index.ts', line: 1, message: /^Cannot read properties of undefined \(reading 'title'\)$/ },
  ],
  'a declared name that is no function': [
    withIndex('const hots: any = 5;\nhots();'),
    { path: 'index.ts', line: 2, message: /^hots is not a function$/ },
  ],
  'a global of Node in a library': [
    withIndex("import './vendor/a.js';", { 'vendor/a.js': 'process.cwd();' }),
    { path: 'vendor/a.js', line: 1, message: /Plugins have no process: use host\.settings/ },
  ],
  'a library that requires another one': [
    withIndex("import './vendor/a.js';", {
      'vendor/a.js': '(function (f) { module.exports = f(require("moment")); })((moment) => moment);',
    }),
    {
      path: 'vendor/a.js',
      line: 1,
      message: /^require is not a function\. Plugins have no require: bundle “moment” into this file/,
    },
  ],
  'fetch in a library, without a host': [
    withIndex("import './vendor/a.js';", { 'vendor/a.js': 'fetch("https://example.com");' }),
    { path: 'vendor/a.js', line: 1, message: /Plugins have no fetch: declare the capability host\.http:/ },
  ],
  'a handler that is not a function': [
    withIndex('middleware.systemPrompt = "text";'),
    { path: 'index.ts', message: /function/ },
  ],
  'a tool without description': [
    withIndex('tools.x = { parameters: {}, handler: () => "" };'),
    { path: 'index.ts', message: /description/ },
  ],
  'a tool with a bad name': [
    withIndex('tools["a b"] = { description: "x", parameters: {}, handler: () => "" };'),
    { path: 'index.ts', message: /a b/ },
  ],
};
for (const [name, [files, { count, ...expected }]] of Object.entries({ ...cases, ...(isSoak() && similar) })) {
  t.test(name, async (t) => {
    const { status, body } = await publish(files);
    t.equal(status, 422, JSON.stringify(body));
    t.equal(body.code, 'invalid_package');
    t.match(body.errors[0], expected);
    if (count !== undefined) t.equal(body.errors.length, count);
    t.notMatch(JSON.stringify(body), /file:\/\/|node_modules|\/tmp\/|staging/, 'no path of this machine');
  });
}

await soakTest(t, 'the first tool too many is named although the database sorts the names', async (t) => {
  const stored = await startApiFixture(t, {
    prepare: (services) => ({
      ...services,
      introspect: async (request) => {
        const found = JSON.stringify(await services.introspect(request));
        return (await services.pool.query('SELECT $1::jsonb AS found', [found])).rows[0].found;
      },
    }),
  });
  const author = await stored.user('ann');
  const made = (await author.post('/plugins', { slug: 'broken', displayName: 'Broken' })).body;
  const tool = '{ description: "x", parameters: {}, handler: () => "" }';
  const source = `\nfor (let i = 0; i < 128; i += 1) tools["tool" + i] = ${tool};\ntools.b = ${tool};\ntools.a = ${tool};`;
  const files = fileList(withIndex(source));
  const { body } = await author.post(`/plugins/${made.id}/versions`, { semVer: '1.0.0', files });
  t.match(body.errors, [{ path: 'index.ts', line: 3, message: /^The package registers 130 tools/ }]);
});

t.test('paths that a package may not hold', async (t) => {
  const paths = [
    '',
    '/a',
    '../a',
    'a/../b',
    './a',
    'a//b',
    'a/',
    'a\\b',
    'C:/a',
    'a:b',
    'a\0b',
    'a\nb',
    'a\u200bb',
    'gpj\u202e.md',
    'lib/rule1\uFE0F.ts',
    'lib/a\u2800b.ts',
    'lib/a\u0308\u200C.ts',
    '\ud800',
    'con',
    'a/NUL.txt',
    'a.',
    'a ',
  ];
  paths.push(`${'a/'.repeat(16)}a`, 'a'.repeat(256), 'readme.md/a', 'README.MD', '../../readme.md');
  for (const path of paths) {
    const files = [...fileList(MINIMAL), { path, contentText: 'x' }];
    const { status, body } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
    t.equal(status, 422, `${JSON.stringify(path)} ${JSON.stringify(body)}`);
  }
  const twice = [...fileList(MINIMAL), ...fileList(MINIMAL)];
  t.match((await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: twice })).body.detail, /duplicated/);
  const many = Array.from({ length: 10_001 }, (_, index) => ({ path: `f${index}`, contentText: '' }));
  t.match((await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: many })).body.detail, /10000/);
});

t.test('binary content in a file list is rejected', async (t) => {
  for (const contentText of ['a\0b', '\ud800']) {
    const files = [...fileList(MINIMAL), { path: 'a.txt', contentText }];
    const { status, body } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
    t.equal(status, 422);
    t.equal(body.code, 'text_files_only');
    t.equal(body.errors[0].path, 'a.txt');
  }
  const payload = Buffer.concat([
    Buffer.from('{"semVer":"1.0.0","files":[{"path":"a","contentText":"'),
    Buffer.from([0xc3, 0x28]),
    Buffer.from('"}]}'),
  ]);
  const headers = { 'content-type': 'application/json' };
  const answer = await ann.send({ method: 'POST', url: `/api/plugins/${id}/versions`, payload, headers });
  t.equal(answer.body.code, 'text_files_only');
});

t.test('invalid version numbers are rejected', async (t) => {
  const wrong = [
    '',
    '1',
    '1.0',
    'v1.0.0',
    ' 1.0.0',
    '1.0.0 ',
    '1.0.0\n',
    '=1.0.0',
    '01.0.0',
    '1.0.0-01',
    '1.0.0+build',
    '1.0.0-',
    'latest',
  ];
  wrong.push(`1.0.0-${'a'.repeat(100)}`, '1.0.0\0', '１.0.0');
  for (const semVer of wrong) {
    const { status, body } = await publish(MINIMAL, semVer);
    t.equal(status, 422, semVer);
    t.equal(body.code, 'invalid_package');
    t.equal(body.errors[0].field, 'semVer');
  }
});

t.test('nothing of all that was published, and a good package still is', async (t) => {
  t.same((await ann.get(`/plugins/${id}`)).body.versions, []);
  const text = 'const texts = ["<!-- a --> b", "import(x)", `eval(1)`, /(?<!--)import(x)/u]; // import(\n';
  const { status, body } = await publish(withIndex(`${text}middleware.systemPrompt = () => texts.join('');`));
  t.equal(status, 201, JSON.stringify(body));
});
