/** Code that is hard on a bundler: what honest authors write passes, and what would cost too much is refused with the reason. */
import t from 'tap';
import { type ApiOptions, startApiFixture } from '../api-fixture.ts';
import { type Files, fileList, INDEX, introspectsMinimal, README } from './packages.ts';

let patch = 0;
async function author(options: ApiOptions) {
  const ann = await (await startApiFixture(t, options)).user('ann');
  return { ann, id: (await ann.post('/plugins', { slug: 'hard', displayName: 'Hard' })).body.id as string };
}
const loading = await author({});
/** What only the bundler has to bear need not be loaded too. */
const bundling = await author({ introspect: introspectsMinimal });
async function publish(source: string, more: Files = {}, { ann, id } = loading) {
  const files = fileList({ 'readme.md': README, 'index.ts': source, ...more });
  const started = performance.now();
  const answer = await ann.post(`/plugins/${id}/versions`, { semVer: `0.0.${patch++}`, files });
  return { ...answer, ms: performance.now() - started };
}
/** Far longer than any of these takes, and far shorter than one that never ends. Milliseconds. */
const PATIENCE_MS = 30_000;
const range = (length: number): number[] => Array.from({ length }, (_, index) => index);

const chain = (length: number): Files =>
  Object.fromEntries(
    range(length).map((at) => [
      `lib/m${at}.ts`,
      at === length - 1 ? 'export const v = 1;' : `import { v as w } from './m${at + 1}.ts';\nexport const v = w;`,
    ]),
  );
const passes: Record<string, [source: string, more?: Files]> = {
  'a graph of 1,000 files': [
    `${range(1_000)
      .map((at) => `import { v as v${at} } from './lib/f${at}.ts';`)
      .join('\n')}\n${INDEX}globalThis.sum = v0 + v999;`,
    Object.fromEntries(range(1_000).map((at) => [`lib/f${at}.ts`, `export const v = ${at};`])),
  ],
  'a chain of 300 files': [`import { v } from './lib/m0.ts';\nglobalThis.v = v;\n${INDEX}`, chain(300)],
  'circular imports': [
    `import { a } from './a.ts';\na();\n${INDEX}`,
    {
      'a.ts': "import { b } from './b.ts';\nexport const a = () => b;\nexport const c = 1;",
      'b.ts': "import { c } from './a.ts';\nexport const b = () => c;",
    },
  ],
  'a file that imports itself': [`import './a.ts';\n${INDEX}`, { 'a.ts': "import './a.ts';\nexport {};" }],
  'five thousand exports': [
    `import * as all from './all.ts';\nglobalThis.n = Object.keys(all).length;\n${INDEX}`,
    {
      'all.ts': range(5_000)
        .map((at) => `export const e${at} = ${at};`)
        .join('\n'),
    },
  ],
  'a long template': [`globalThis.x = \`${'line\n'.repeat(100_000)}\`;\n${INDEX}`],
  'a long regular expression': [`globalThis.x = /${'a'.repeat(20_000)}/;\n${INDEX}`],
  'a number of 20,000 digits': [`globalThis.x = ${'9'.repeat(20_000)}n > 1n;\n${INDEX}`],
  'const enum': [
    `const enum Big { ${range(1_000)
      .map((at) => `E${at} = ${at}`)
      .join(', ')} }\nglobalThis.x = ${range(1_000)
      .map((at) => `Big.E${at}`)
      .join('+')};\n${INDEX}`,
  ],
  'enums and namespaces': [`enum A { x = 1 } namespace N { export const y = A.x }\nglobalThis.y = N.y;\n${INDEX}`],
  'declare global': [`declare global { var mine: number }\nglobalThis.mine = 1;\nexport {};\n${INDEX}`],
  '@ts-ignore and wrong types': [`// @ts-ignore\nconst a: number = 'text';\nconst b: string = 5;\n${INDEX}`],
  'a byte order mark': [`\uFEFF${INDEX}`],
  'Windows line ends': [INDEX.replaceAll('\n', '\r\n')],
  'CommonJS exports, which are ignored': [`exports.a = 1;\n${INDEX}`],
  'JSON by import': [`import data from './data.json';\nglobalThis.n = data.n;\n${INDEX}`, { 'data.json': '{"n":1}' }],
  'JavaScript besides': [`import { n } from './a.js';\nglobalThis.n = n;\n${INDEX}`, { 'a.js': 'export const n = 1;' }],
};
for (const [name, [source, more]] of Object.entries(passes))
  t.test(`passes: ${name}`, async (t) => {
    const { status, body, ms } = await publish(source, more, bundling);
    t.equal(status, 201, JSON.stringify(body).slice(0, 500));
    t.ok(ms < PATIENCE_MS, `${Math.round(ms)} ms`);
  });

const wrong: Record<string, [source: string, message: RegExp, more?: Files]> = {
  JSX: [`const a = <b>text</b>;\n${INDEX}`, /index\.ts:1/],
  'a file of JSX': [`import './view.tsx';\n${INDEX}`, /view\.tsx|\.ts.*\.js/, { 'view.tsx': 'export {};' }],
  CommonJS: [`module.exports = { a: 1 };`, /module|registers nothing/],
  'a builtin by its bare name': [`import { readFileSync } from 'fs';\nreadFileSync('/');`, /fs.*relative path/],
  'a builtin by require of an import': [`import m = require('module');\nm.x();`, /./],
  'a WebAssembly import': [`import x from './a.wasm';\nx();`, /a\.wasm/, { 'a.wasm': 'x' }],
  'an unterminated template': ['const a = `text', /index\.ts:2:26: Syntax error: .* has no end/],
  'a regular expression that is none': ['const a = /(/;', /index\.ts/],
  'a million exports': [
    `import * as all from './all.ts';\nglobalThis.n = all;\n${INDEX}`,
    /larger|too large|too long|MB|bytes/,
    {
      'all.ts': range(300_000)
        .map((at) => `export const export_number_${at} = ${at};`)
        .join('\n'),
    },
  ],
  'a regular expression literal that nests without end': [
    `globalThis.x = /${'('.repeat(50_000)}${')'.repeat(50_000)}/;`,
    /./,
  ],
  'operators without end': [
    `globalThis.x = ${'-'.repeat(1)}${'(1+'.repeat(100_000)}1${')'.repeat(100_000)};`,
    /nested/,
  ],
  'a getter that throws at registration': [
    'tools.x = { get description() { throw new Error("boom") }, parameters: {}, handler: () => "" };',
    /boom|description/,
  ],
  'a proxy as a tool': [
    'tools.x = new Proxy({}, { get() { throw new Error("trap") }, ownKeys() { throw new Error("trap") } });',
    /./,
  ],
  'a schema with getters that lie': [
    'let n = 0; tools.x = { description: "d", handler: () => "", parameters: { get type() { n += 1; return n > 1 ? "objekt" : "objekt"; } } };',
    /./,
  ],
  'registering only later': ['setTimeout(() => { middleware.systemPrompt = () => "x"; }, 0);', /registers nothing/],
};
for (const [name, [source, message, more]] of Object.entries(wrong))
  t.test(`refused: ${name}`, async (t) => {
    const { status, body, ms } = await publish(source, more);
    t.equal(status, 422, JSON.stringify(body).slice(0, 500));
    t.match(body.detail ?? '', message);
    t.ok(ms < PATIENCE_MS, `${Math.round(ms)} ms`);
    t.notMatch(JSON.stringify(body), /file:\/\/|node_modules|\/tmp\//, 'no path of this machine');
  });

t.test('decorators are built or rejected with a message', async (t) => {
  const { status, body } = await publish(
    `const d = (v: unknown) => v;\n@d class A {}\nglobalThis.a = new A();\n${INDEX}`,
  );
  t.ok(status === 201 || /index\.ts:2/.test(body.detail), JSON.stringify(body).slice(0, 300));
  t.equal((await publish(INDEX)).status, 201);
});
