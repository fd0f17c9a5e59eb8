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
/** Publishes packages that only the bundler must bear, without loading them. */
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
  'files that export types only': [
    `import { type A, B, C, D, e } from './all.ts';\nconst x: A | B | C | D | number = e;\nconsole.log(x);\n${INDEX}`,
    {
      'all.ts':
        "export { A, B } from './types.ts';\nimport { C } from './more.ts';\nexport { C };\nexport { D } from './d.ts';\nexport const e = 1;",
      'types.ts': 'export interface A {}\nexport declare const B: number;',
      'more.ts': 'export namespace C { export type E = string }',
      'd.ts': "const name = 'd';\nconsole.log(name);\nexport type D = typeof name;",
    },
  ],
  'JavaScript besides': [`import { n } from './a.js';\nglobalThis.n = n;\n${INDEX}`, { 'a.js': 'export const n = 1;' }],
};
for (const [name, [source, more]] of Object.entries(passes))
  t.test(`passes: ${name}`, async (t) => {
    const { status, body, ms } = await publish(source, more, bundling);
    t.equal(status, 201, JSON.stringify(body).slice(0, 500));
    t.ok(ms < PATIENCE_MS, `${Math.round(ms)} ms`);
  });

t.test('an import attribute for JSON changes nothing', async (t) => {
  const index = `import copy, { n } from './data.json' with { type: 'json' };
import data from './data.json';
import './vendor/late.js';
export { n as again } from './data' with { 'type': 'json' };
export { n as old } from './data.json' assert { type: 'json' };
if (copy !== data || n !== 1) throw new Error('another copy of the file');
export const read = () => import('./data.json', { with: { type: 'json' } });
export const readOld = () => import('./data.json', { assert: { type: 'json' } });
${INDEX}`;
  const more = {
    'data.json': '{"n":1}',
    'vendor/late.js':
      "const options = {};\nexport const late = () => [import('../data.json', options, ), import('./a.css', { with: { type: 'css' } }), import(import('../data.json', options), options)];",
  };
  const { status, body } = await publish(index, more);
  t.equal(status, 201, JSON.stringify(body));
});

/** Published libraries contain this. Each throws at load where it means something else than in Node. */
const library = (...lines: string[]): string =>
  ["const check = (is, what) => { if (!is) throw new Error('wrong: ' + what); };", ...lines, 'export {};'].join('\n');
/** Each in a file that a refusal would name. */
const libraryPath = (name: string): string => `vendor/${name.replaceAll(/\W+/g, '-')}.js`;
const libraries: Record<string, string> = {
  'import.meta': library(
    "check(import.meta.url === 'plugin:///vendor/import-meta.js' && import.meta.env?.DEV === undefined, 'import.meta');",
    "check(new URL('./data.wasm', import.meta.url).pathname === '/vendor/data.wasm', 'a path beside it');",
  ),
  'methods called import and eval': library(
    'const o = { import(a) { return a; }, eval (a) { return a; }, get import2() { return 1; }, async *eval3() {} };',
    'class C { #eval(a) { return a; } run(a) { return this.#eval (a); } static import(a) { return a; } $eval(a) { return a; } }',
    "check(o.import(1) + o.eval(2) === 3 && Object.keys(o)[0] === 'import' && o.eval.name === 'eval', 'an object');",
    "check(new C().run(1) + C.import(2) + new C().$eval(3) === 6 && C.import.name === 'import', 'a class');",
  ),
  'import( and eval( in texts, patterns and comments': library(
    "check('import(x) eval(y) <!-- -->'.length === 26 && `import(1) eval(`.length === 15, 'strings');",
    "check(/import\\(|eval\\(|-->/.exec('eval(')?.[0] === 'eval(' && /(?<!-->)<!--/.test('<!--'), 'patterns');",
    '/* import("x") */ let n = 1; // eval(',
    "check(((a) => n--> a)(0) && String.raw`import(\\x)`.length === 10, 'operators and raw text');",
  ),
  'eval of text': library(
    "check(eval('1 + 1') === 2 && typeof eval === 'function' && (0, eval)('typeof process') === 'undefined', 'eval');",
    "const local = 1; check(eval('typeof local') === 'undefined', 'its scope');",
  ),
  'functions made of text': library(
    "check(new Function('a', 'return a + 1')(1) === 2 && Function('return this')() === globalThis, 'new and without');",
    "class Callable extends Function { constructor() { super('return 3'); } name2() { return 4; } }",
    "const made = new Callable(); check(made() === 3 && made.name2() === 4 && made instanceof Function, 'extended');",
    "check((() => {}).constructor === Function && Reflect.construct(Function, ['return 5'])() === 5, 'the constructor');",
  ),
  'import() of what is not there': library(
    "const name = 'fs'; export const late = Promise.all([import('node:fs'), import(name)].map((one) => one.catch(String)));",
    "export const found = import('./none.js').then(() => check(false, 'a file that is not there'), () => 1);",
  ),
  'import() of its own file': library(
    "import('./more.js').then(({ m }) => { middleware.outboundMessage = () => m; });",
  ),
  'globals of other platforms': library(
    "if (typeof window !== 'undefined') window.x = 1;",
    "check(typeof process === 'undefined' && typeof Buffer === 'undefined' && typeof document === 'undefined', 'typeof');",
    'export const home = () => [process.env.HOME, Buffer.from(""), navigator.userAgent, __DEV__, require("fs")];',
    "if (process.env.NODE_ENV !== 'production') throw new Error('the slow build');",
  ),
  'a universal module': library(
    '(function (root, make) {',
    "  if (typeof define === 'function' && define.amd) define([], make);",
    "  else if (typeof exports === 'object' && typeof module !== 'undefined') module.exports = make();",
    '  else root.universal = make();',
    "})(globalThis, () => 'made');",
    "check(universal === 'made', 'a global that the code creates');",
  ),
};
t.test('passes in libraries', async (t) => {
  const files = Object.fromEntries(Object.entries(libraries).map(([name, code]) => [libraryPath(name), code]));
  const more = { 'vendor/more.js': "export const m = 'more';" };
  const imports = Object.keys(libraries).map((name) => `import './${libraryPath(name)}';\n`);
  const { status, body } = await publish(`${imports.join('')}${INDEX}`, { ...files, ...more });
  t.equal(status, 201, JSON.stringify(body).slice(0, 500));
});

t.test('a library’s undeclared names are a warning, and in code that a bundler marked, too', async (t) => {
  const bundled = [
    '// node_modules/left-pad/index.js',
    'export const home = () => process.env.HOME;',
    '// index.ts',
    "middleware.systemPrompt = (ctx) => ctx.systemPrompt + (typeof Deno === 'undefined' ? 'a' : Deno.cwd());",
  ];
  const files = { 'vendor/a.js': '\nexport const a = () => [Buffer.from(""), process.cwd(), Buffer.alloc(1)];' };
  const { status, body } = await loading.ann.post(`/plugins/${loading.id}/draft`, {
    files: fileList({
      'readme.md': README,
      'index.ts': ["import { a } from './vendor/a.js';", 'console.log(a);', ...bundled].join('\n'),
      ...files,
    }),
  });
  t.equal(status, 200, JSON.stringify(body));
  t.same(body.warnings, [
    'index.ts uses names that plugins do not have: process (line 4). Code that reaches them throws a ReferenceError.',
    'vendor/a.js uses names that plugins do not have: Buffer (line 2), process (line 2). Code that reaches them throws a ReferenceError.',
  ]);
});

t.test('an author’s own JavaScript is held to the names that exist, published JavaScript is not', async (t) => {
  const using = (code: string) => publish(`import './lib/a.js';\n${INDEX}`, { 'lib/a.js': code });
  const own = await using('export const isAdmin = true;\nexport const may = () => isAdmn;');
  t.equal(own.status, 422);
  const [error] = own.body.errors as { path: string; line: number; message: string }[];
  t.match(error, {
    path: 'lib/a.js',
    line: 2,
    message: /^“isAdmn” is not declared\. Did you mean “isAdmin”\?.*vendor\//,
  });
  const published: Record<string, string> = {
    'a licence': '/*! left-pad, MIT */\nexport const home = () => process.cwd();',
    'minified code': `export const home=()=>process.cwd();export const a=[${'1,'.repeat(1_000)}];`,
    'marks of a bundler': '// node_modules/a/index.js\nexport const home = () => process.cwd();\n// a.js\nhome;',
  };
  for (const [name, code] of Object.entries(published)) t.equal((await using(code)).status, 201, name);
});

t.test('an error has the author’s column beside texts that are respelt', async (t) => {
  const failing = (text: string) => publish(`const none: any = undefined;\nconsole.log("${text}", none.value, none);`);
  const [respelt, same] = [await failing('import(1) eval(2) <!-- -->'), await failing('Import(1) Eval(2) <!__ __>')];
  t.match(same.body.errors, [{ path: 'index.ts', line: 2 }]);
  t.same(respelt.body.errors, same.body.errors);
});

const scopes: Record<string, string> = {
  hoisting: 'early(); function early() { return late; } var late = 1; export {};',
  'names of functions and classes': '(function me() { return me; })(); (class You { static you = You; });',
  patterns:
    'const { a, b: [c = a, ...d], ["e"]: e = c, ...f } = { b: [], e: 1 }; ({ a, ...f }); [c, d, e]; for (const [g] of [[1]]) g;',
  'parameters and arguments':
    'const sum = ({ x } = { x: 1 }, [y] = [x], ...z) => [x, y, z]; sum(); (function () { return arguments; })();',
  'catch, labels and switch':
    'a: for (const n of [1]) { try { if (n) break a; } catch { } try { n; } catch ({ message }) { message; } } switch (1) { case 1: let s = 1; s; }',
  'classes with private names':
    'class A { #p = 1; static #q; static { var v = 1; v; let w = A.#q; w; } has(o) { return #p in o; } get [String(1)]() { return this.#p; } } new A();',
  'enums and namespaces':
    'enum E { a = 1, b = a } namespace N { export const x = E.b; export const y = x; } console.log(N.y);',
  'a feature test':
    "const node = typeof process !== 'undefined' && process.versions ? process : null; console.log(node);",
  'a global of its own': 'declare global { var counted: number } globalThis.counted = 1; counted += 1; export {};',
  'import() of a file': "import('./late.ts').then(({ value }) => value);",
  'a generator and async iteration': 'async function* g() { for await (const x of g()) yield x; } g;',
};
for (const [name, source] of Object.entries(scopes))
  t.test(`finds the declarations of: ${name}`, async (t) => {
    const { status, body } = await publish(`${source}\n${INDEX}`, { 'late.ts': 'export const value = 1;' }, bundling);
    t.equal(status, 201, JSON.stringify(body).slice(0, 500));
  });

const wrong: Record<string, [source: string, message: RegExp, more?: Files]> = {
  JSX: [`const a = <b>text</b>;\n${INDEX}`, /index\.ts:1/],
  'a file of JSX': [`import './view.tsx';\n${INDEX}`, /view\.tsx|\.ts.*\.js/, { 'view.tsx': 'export {};' }],
  CommonJS: [`module.exports = { a: 1 };`, /module|registers nothing/],
  'a builtin by its bare name': [`import { readFileSync } from 'fs';\nreadFileSync('/');`, /fs.*relative path/],
  'a builtin by require of an import': [`import m = require('module');\nm.x();`, /./],
  'a WebAssembly import': [`import x from './a.wasm';\nx();`, /a\.wasm/, { 'a.wasm': 'x' }],
  'an unterminated template': ['const a = `text', /index\.ts:1:16: .*“`” in line 1, column 11 is not closed/],
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
  'a schema with getters that return false values': [
    'let n = 0; tools.x = { description: "d", handler: () => "", parameters: { get type() { n += 1; return n > 1 ? "objekt" : "objekt"; } } };',
    /./,
  ],
  'registering only later': ['setTimeout(() => { middleware.systemPrompt = () => "x"; }, 0);', /middleware is closed/],
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

/** Nested `infer … extends`: esbuild reads each level twice. */
const ENDLESS = range(30).reduce((inner) => `(infer A extends ${inner} ? 0 : 0)`, '0');

t.test('code that keeps the bundler busy does not keep other authors waiting', async (t) => {
  const limits = { threads: 1, quickMs: 1_500, slowMs: 3_000 };
  const api = await startApiFixture(t, { introspect: introspectsMinimal, bundler: limits });
  const startAuthor = async (name: string) => {
    const user = await api.user(name);
    const { id } = (await user.post('/plugins', { slug: name, displayName: name })).body;
    return (source: string) =>
      user.post(`/plugins/${id}/draft`, { files: fileList({ 'readme.md': README, 'index.ts': source }) });
  };
  const [save, saveOfBen] = [await startAuthor('ann'), await startAuthor('ben')];
  let isAnswered = false;
  const endless = save(`type X = ${ENDLESS};\n${INDEX}`).finally(() => {
    isAnswered = true;
  });
  t.equal((await saveOfBen(INDEX)).status, 200);
  t.equal((await saveOfBen(`${INDEX}// again`)).status, 200);
  t.notOk(isAnswered);
  const { body } = await endless;
  // On a busy machine, the build waits for a processor until its time is over.
  t.match(body.detail, /takes longer than 20 s|machine is too busy to build the package/);
});
