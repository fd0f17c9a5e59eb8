/**
 * No file outside the package reaches a bundle. Each case refers to a file of the host in another way; its content must not
 * appear in the response, the bundle or the source map.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../../runner/harness.ts';
import { listCases } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { type Files, fileList, INDEX, introspectsMinimal, README } from './packages.ts';

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'outside', displayName: 'Outside' })).body;

const CANARY = 'canary-0f9d1c';
const folder = await temporaryFolder(t);
const host = join(folder, 'host.ts');
await writeFile(host, `export const found = '${CANARY}';\nexport default found;\n`);
await writeFile(join(folder, 'host.json'), JSON.stringify({ found: CANARY, compilerOptions: { jsxFactory: CANARY } }));
const map = {
  version: 3,
  sources: [host],
  sourcesContent: [`${CANARY} of its own`],
  names: [CANARY],
  mappings: 'AAAA',
};
await writeFile(join(folder, 'host.map'), JSON.stringify(map));
await mkdir(join(folder, 'node_modules', 'canary'), { recursive: true });
await writeFile(join(folder, 'node_modules', 'canary', 'index.js'), `export const found = '${CANARY}';`);

let patch = 0;
async function publish(files: Files) {
  const semVer = `0.0.${patch++}`;
  const answer = await ann.post(`/plugins/${id}/versions`, { semVer, files: fileList(files) });
  const { rows } = await api.pool.query('SELECT bundle_sha256, source_map_sha256 FROM versions WHERE id = $1', [
    answer.body.id ?? '',
  ]);
  const names = rows.flatMap((row) => [row.bundle_sha256, row.source_map_sha256]);
  const kept = await Promise.all(names.map(async (name) => (await api.services.blobs.read(name)).toString()));
  return { ...answer, text: [JSON.stringify(answer.body), ...kept].join('\n') };
}

const up = '../'.repeat(30);
const using = (source: string, more: Files = {}): Files => ({
  'readme.md': README,
  'index.ts': `${source}\n${INDEX}`,
  ...more,
});
const importing = (specifier: string): Files => using(`import { found } from '${specifier}';\nconsole.log(found);`);

const refused: Record<string, Files> = {
  'an absolute path': importing(host),
  'an absolute path without its ending': importing(host.replace(/\.ts$/, '')),
  'a path with ..': importing(`./${up}${host.slice(1)}`),
  'a path with .. below a folder of the package': using("import './lib/a.ts';", {
    'lib/a.ts': `import { found } from '${up}${host.slice(1)}';\nconsole.log(found);`,
  }),
  'a file URL': importing(`file://${host}`),
  'a data URL': importing(`data:text/javascript,export const found = 1`),
  'an http URL': importing('http://127.0.0.1:9/host.js'),
  'a glob': importing(`${folder}/*.ts`),
  'a relative glob': importing(`./${up}${folder.slice(1)}/*.ts`),
  'a glob in import()': using(`const name = 'host';\nimport(\`${folder}/\${name}.ts\`);`),
  'a glob in require()': using(`const name = 'host';\nrequire('${folder}/' + name + '.ts');`),
  'a package': importing('canary'),
  'a # import': using("import { found } from '#host';\nconsole.log(found);", {
    'package.json': JSON.stringify({ imports: { '#host': host } }),
  }),
  'an export from outside': using(`export * from '${host}';`),
  'an import with attributes': using(
    `import found from '${folder}/host.json' with { type: 'json' };\nconsole.log(found);`,
  ),
  'a query': importing(`${host}?raw`),
  'an import() of an absolute path': using(`import('${host}').then(console.log);`),
  'an import() of a path with ..': using(`import('./${up}${host.slice(1)}').then(console.log);`),
  'an absolute path by a backslash': importing(host.replaceAll('/', '\\\\')),
  'a type import that is kept': using(`import found = require('${host}');\nconsole.log(found);`),
};
const QUICK_REFUSED = [
  'an absolute path',
  'a path with .. below a folder of the package',
  'a file URL',
  'a glob in import()',
];
QUICK_REFUSED.push('a package', 'a # import', 'an import with attributes', 'an import() of a path with ..');
for (const [name, files] of listCases(refused, ...QUICK_REFUSED)) {
  t.test(`refused: ${name}`, async (t) => {
    const { status, body, text } = await publish(files);
    t.equal(status, 422, text);
    t.equal(body.code, 'invalid_package');
    t.notMatch(text, CANARY);
  });
}

const ignored: Record<string, Files> = {
  'a source map comment with a path': using(`//# sourceMappingURL=${host.replace('.ts', '.map')}`),
  'a source map comment with a URL': using(`//# sourceMappingURL=file://${host.replace('.ts', '.map')}`),
  'a source map of the package that names the host': using("import './lib.js';", {
    'lib.js': 'console.log(1);\n//# sourceMappingURL=lib.js.map',
    'lib.js.map': JSON.stringify({ ...map, sourcesContent: [null] }),
  }),
  'an inline source map that names the host': using(
    `//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify({ ...map, names: [], sourcesContent: [null] })).toString('base64')}`,
  ),
  'a tsconfig that extends the host’s': using('console.log(1);', {
    'tsconfig.json': JSON.stringify({
      extends: join(folder, 'host.json'),
      compilerOptions: { paths: { '*': [host] } },
    }),
  }),
  'a package.json that names the host': using('console.log(1);', {
    'package.json': JSON.stringify({ main: host, browser: { './lib.ts': host }, sideEffects: [host] }),
  }),
  'a reference comment': using(`/// <reference path="${host}" />`),
  'a JSX pragma': using(`/** @jsxImportSource ${folder} */`),
  'a type that is erased': using(`import type { found } from '${host}';\nexport type Found = typeof found;`),
  'an import that only a type uses': using(`import { found } from '${host}';\nexport type Found = typeof found;`),
  'an import that nothing uses': using(`import { found } from '${host}';`),
};
const QUICK_IGNORED = ['a source map comment with a path', 'an inline source map that names the host'];
QUICK_IGNORED.push('a tsconfig that extends the host’s', 'a package.json that names the host', 'a JSX pragma');
for (const [name, files] of listCases(ignored, ...QUICK_IGNORED)) {
  t.test(`without effect: ${name}`, async (t) => {
    const { status, text } = await publish(files);
    t.equal(status, 201, text.slice(0, 1_000));
    t.notMatch(text, CANARY);
    t.notMatch(text, basename(folder), 'nor its path');
  });
}

t.test('code of a library that would import from the host is built, and imports nothing', async (t) => {
  const reaching = [
    `export const a = (name) => import(\`${folder}/\${name}.ts\`);`,
    `export const b = (name) => import('./${up}${folder.slice(1)}/' + name + '.ts');`,
    `export const c = () => import('${host}');`,
    `export const d = () => import('./${up}${host.slice(1)}');`,
    `export const e = (name) => [require('${folder}/' + name + '.ts'), require('${host}'), require.resolve('${host}')];`,
    `export const f = new URL('${host}', import.meta.url);`,
    'console.log(a, b, c, d, e, f);',
  ];
  const { status, text } = await publish(
    using("import './vendor/reaching.js';", { 'vendor/reaching.js': reaching.join('\n') }),
  );
  t.equal(status, 201, text.slice(0, 1_000));
  t.notMatch(text, CANARY);
});

t.test('paths that a tsconfig maps are not followed', async (t) => {
  const { status, text } = await publish(
    using("import { found } from 'mapped';\nconsole.log(found);", {
      'tsconfig.json': JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { mapped: [host] } } }),
    }),
  );
  t.equal(status, 422);
  t.notMatch(text, CANARY);
});

t.test('a package that kills the bundler is refused, and the next author’s publish passes', async (t) => {
  const hostile = using(`globalThis.x = ${'['.repeat(200_000)}${']'.repeat(200_000)};`);
  const [killer, ...others] = await Promise.all([
    publish(hostile),
    publish(using('')),
    publish(using('')),
    publish(using('')),
  ]);
  t.equal(killer.status, 422);
  t.match(killer.body.detail, /nested/);
  for (const other of others) t.equal(other.status, 201, other.text.slice(0, 500));
  t.equal((await publish(using(''))).status, 201);
});
