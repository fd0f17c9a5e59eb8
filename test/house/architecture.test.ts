/** The rules of the house that a compiler does not know: who may import whom, and what a file may be called. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, matchesGlob } from 'node:path';
import t from 'tap';
import { SOURCES } from '../../console/sources.ts';
import { NAMED } from '../runner/schedule.ts';
import { describeImport, listFiles, parseSource, readSources, root } from './source-files.ts';

const LONG_FILE = 350;
const LONG_FUNCTION = 50;

const CHILD_BUILD = 'sandbox-child/build-child.ts';
/** The code that the supervisor shares with the child: the bundling of its program, both ends of its pipes, the longest text of an error, and the check of signatures. */
const OF_BOTH_SIDES = [
  CHILD_BUILD,
  'sandbox-child/frame.ts',
  'sandbox-child/message.ts',
  'sandbox-child/json-rpc.ts',
  'sandbox-child/kept-files.ts',
  'sandbox-child/text.ts',
  'sandbox-child/webhook-signatures.ts',
];
/** The reader of JSON, whose limits the child keeps before it sends. */
const JSON_READER = 'sdk/contract/untrusted-json.ts';
/** The code that the console shares: the reader of event streams, and the rules for the names of files and versions, for visible text and for hooks. */
const OF_CONSOLE_TOO = [
  'sdk/session/event-stream.ts',
  'sdk/contract/package-paths.ts',
  'sdk/contract/ending-checks.ts',
  'sdk/contract/limits.ts',
  'sdk/contract/version-numbers.ts',
  'sdk/contract/visible-text.ts',
];

interface Rule {
  /** Folders that it may import at run time. */
  readonly values: readonly string[];
  /** Folders from which it may also take types. */
  readonly types: readonly string[];
  /** Files that it may import besides. */
  readonly files?: readonly string[];
}
/** What each folder may import. README.md has the same rules in its table. */
const folders: Readonly<Record<string, Rule>> = {
  sdk: { values: ['sdk'], types: [] },
  db: { values: ['db', 'sdk'], types: [] },
  service: { values: ['service', 'db', 'sdk'], types: [] },
  api: { values: ['api', 'service', 'db', 'sdk'], types: [] },
  supervisor: { values: ['supervisor', 'service', 'db', 'sdk'], types: [], files: OF_BOTH_SIDES },
  'sandbox-child': { values: ['sandbox-child'], types: ['sdk'], files: [JSON_READER] },
  console: { values: ['console'], types: ['sdk', 'api'], files: OF_CONSOLE_TOO },
  // The builders of the two sites share how a folder is kept built. The generator prints deploy's dashboard.
  docs: { values: ['docs', 'sdk', 'console', 'db', 'service', 'api', 'supervisor', 'deploy'], types: [] },
  deploy: { values: ['deploy', 'service', 'db', 'sdk'], types: [] },
  examples: { values: ['examples', 'sdk'], types: ['sdk'] },
  // Sees a deployment from outside only.
  conform: { values: ['conform'], types: [] },
  // Builds what authors install: the SDK with the host's own checks and jail inside.
  pack: { values: ['pack', 'sdk', 'db', 'service', 'api', 'supervisor', 'sandbox-child', 'conform'], types: [] },
};
/** Where a process may be started, and which one. Plugin code runs in none of them but the first. */
const spawners: Readonly<Record<string, string>> = {
  'supervisor/jail/': 'the jail of a plugin',
  'db/postgres/': 'PostgreSQL',
  'deploy/': 'API and supervisor',
  'service/storage/cluster-key.ts': 'the operator’s program that prints the key',
  'docs/generate/sdk-declarations.ts': 'the TypeScript compiler',
  'docs/generate/console-types.ts': 'the generator of the console’s types',
  'examples/demo-service.ts': 'the token command',
  'conform/runtime/': 'the agent runtime under test',
};

const sources = await readSources();
const production = sources.filter(({ path }) => folderOf(path) in folders);
const imports = sources.flatMap((source) => source.imports);

function folderOf(path: string): string {
  return path.split('/')[0] ?? '';
}
const isOurs = (to: string): boolean => to.includes('/') && /\.tsx?$/.test(to);
const isMain = (path: string): boolean => basename(path) === 'main.ts';

t.test('the parser sees values, types and defaults, and no look-alikes', async (t) => {
  const text = [
    "import { a, type B } from './a.ts';",
    "import type { C } from '../db/c.ts';",
    "export type { D } from './d.ts';",
    "type E = import('./e.ts').E;",
    "export { f as default } from 'pg/lib';",
    "// import type { G } from './g.ts';",
    "const h = `import type { H } from './h.ts'`;",
    "const i = () => import('./i.ts');",
  ].join('\n');
  const parsed = parseSource('api/x.ts', text);
  const seen = parsed.imports.map(({ to, typeOnly }) => `${typeOnly ? 'type ' : ''}${to}`);
  t.same(seen, ['api/a.ts', 'pg', 'api/i.ts', 'type db/c.ts', 'type api/d.ts', 'type api/e.ts']);
  t.ok(parsed.hasDefaultExport);
});

t.test('folders import only what is below them', async (t) => {
  const wrong = imports.filter(({ from, to, typeOnly }) => {
    const rule = folders[folderOf(from)];
    if (rule === undefined || !isOurs(to)) return false;
    if (rule.files?.includes(to)) return false;
    return !rule.values.includes(folderOf(to)) && !(typeOnly && rule.types.includes(folderOf(to)));
  });
  t.same(
    wrong.map(describeImport),
    [],
    'the table in README.md says who may import whom: move the shared part to a folder that both may import, as service/',
  );
});

t.test('the table of README.md names what a folder may import', async (t) => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const named: Record<string, string[]> = {};
  for (const [, folder = '', cell = ''] of readme.matchAll(/^\| \[([\w-]+)\/\]\(\1\) \|.*\|([^|]*)\|$/gm))
    named[folder] = [...new Set((cell.match(/[\w-]+/g) ?? []).filter((word) => word in folders))].sort();
  // The table has no rule for these.
  const { docs: _docs, examples: _examples, ...listed } = folders;
  const allowed = Object.entries(listed).map(([folder, { values, types, files = [] }]) => {
    const others = new Set([...values, ...types, ...files.map(folderOf)]);
    others.delete(folder);
    return [folder, [...others].sort()];
  });
  t.same(named, Object.fromEntries(allowed), 'change the table in README.md and `folders` in this file together');
});

t.test('the contract and the jail depend on next to nothing', async (t) => {
  const packages = (folder: string): string[] =>
    imports
      .filter(({ from, to, typeOnly }) => folderOf(from) === folder && !typeOnly && !to.endsWith('.ts'))
      .filter(({ from }) => !/^sdk\/(cli|generate|adapters)\b/.test(from) && from !== CHILD_BUILD)
      .map(({ to }) => to)
      .filter((to) => !to.startsWith('node:'));
  t.same([...new Set(packages('sdk'))], ['zod'], 'sdk/ imports no other package');
  t.same(
    [...new Set(packages('sandbox-child'))].sort(),
    ['ajv', 'ses', 'vscode-jsonrpc'],
    'sandbox-child/ imports no other package',
  );
});

t.test('routes never reach into the database driver', async (t) => {
  const wrong = imports.filter(
    ({ from, to }) => /^api\/.*-routes\.ts$/.test(from) && (to === 'pg' || to === 'pg-boss'),
  );
  t.same(wrong.map(describeImport), [], 'move the SQL into a function of db/');
});

t.test('processes are started in named places only', async (t) => {
  const starts = production
    .flatMap((source) => source.imports)
    .filter(({ to, typeOnly }) => !typeOnly && (to === 'node:child_process' || to === 'node:cluster'));
  const allowed = (from: string): boolean => Object.keys(spawners).some((place) => from.startsWith(place));
  t.same(
    starts.filter(({ from }) => !allowed(from)).map(describeImport),
    [],
    'start it in one of the places of `spawners` in this file, or add a place and its process there',
  );
});

t.test('the supervisor loads the MCP library on demand only', async (t) => {
  const atStart = reached('supervisor/main.ts');
  t.ok(atStart.has('supervisor/mcp/route.ts') && atStart.has('fastify'), 'what it starts with is seen');
  t.same(
    [...atStart].filter((name) => name.startsWith('@modelcontextprotocol/')),
    [],
  );
});

t.test(
  'measurements load tap, whose hooks see every promise, only where the leak guard leaves these out',
  async (t) => {
    const benches = sources.map(({ path }) => path).filter((path) => folderOf(path) === 'bench');
    t.ok(reached('bench/turn.ts').has('test/runner/leak-guard.ts'), 'what they load is seen');
    t.same(
      benches.filter((path) => reached(path).has('tap')),
      [],
      'what they share with tests gets the outermost test by getRootTest',
    );
  },
);

t.test('API and supervisor load node:http without undici', async (t) => {
  const direct = imports.filter(({ from, to, typeOnly }) => {
    return /^(api|supervisor|service|db)\//.test(from) && to === 'node:http' && !typeOnly;
  });
  t.same(direct.map(describeImport), [], 'they import service/http/node-http.ts');
});

t.test('no file imports a main file', async (t) => {
  t.same(imports.filter(({ to }) => isMain(to)).map(describeImport), [], 'move what is imported to a file of its own');
});

t.test('imports form no circle, type imports included', async (t) => {
  const below = new Map<string, string[]>();
  for (const { from, to } of imports) below.set(from, [...(below.get(from) ?? []), to]);
  t.same(findCircle(below), [], 'move what both ends need to a file that imports neither');
});

t.test('no file has a meaningless name', async (t) => {
  const vague = sources.filter(({ path }) => /(^|\/)(utils?|helpers?|common|misc|index)(\.tsx?|\/)/.test(path));
  t.same(
    vague.filter(({ path }) => !path.startsWith('examples/')).map(({ path }) => path),
    [],
    'name the file after what it holds',
  );
});

t.test('a folder and its main file are one thing: no x.ts beside x/', async (t) => {
  const folderNames = new Set(sources.map(({ path }) => dirname(path)));
  const doubled = sources.filter(({ path }) => folderNames.has(path.replace(/\.tsx?$/, '')));
  t.same(
    doubled.map(({ path }) => path),
    [],
    'move the file into the folder',
  );
});

t.test('no file name is used for three things', async (t) => {
  const ours = production.filter(({ path }) => !path.startsWith('examples/'));
  const named = Map.groupBy(ours, ({ path }) => basename(path));
  const shared = [...named].filter(([name, files]) => files.length > 2 && name !== 'main.ts');
  t.same(
    shared.map(([name, files]) => `${name}: ${files.map(({ path }) => path).join(', ')}`),
    [],
    'give the new file a more precise name',
  );
});

// Long files and functions are a sign of parts that want to be cut, not a fault: they are named, and nothing fails.
t.test('long files and functions are named', async (t) => {
  for (const { path, lines } of sources) if (lines > LONG_FILE) t.comment(`${path} has ${lines} lines`);
  for (const { path, functions } of production)
    for (const { line, lines } of functions) if (lines > LONG_FUNCTION) t.comment(`${path}:${line} has ${lines} lines`);
});

t.test('nothing is exported as default', async (t) => {
  t.same(
    sources.filter(({ hasDefaultExport }) => hasDefaultExport).map(({ path }) => path),
    [],
    'export it by its name',
  );
});

t.test('nothing names the machine or the registry it was built on', async (t) => {
  const texts = listFiles('*.ts', '*.tsx', '*.json', '*.md', '*.sh', '*.yaml', '.npmrc', '.ci/*', '.env.example');
  // Put together here, so that this file does not name what it looks for.
  const ownPlace = new RegExp(`(^|[\\s"'(=])/(${['work', 'root'].join('|')})/`, 'm');
  const registry = /"resolved": "https?:\/\/(?!registry\.npmjs\.org\/)/;
  const wrong = texts.filter((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    return ownPlace.test(text) || registry.test(text);
  });
  t.same(wrong, [], 'remove the paths of your machine, and from lock files other registries than registry.npmjs.org');
});

t.test('the console is built again when a file changes that it bundles', async (t) => {
  const bundled = new Set(sources.map(({ path }) => path).filter((path) => folderOf(path) === 'console'));
  for (const path of bundled)
    for (const { from, to, typeOnly } of imports)
      if (from === path && !typeOnly && /\.\w+(\?raw)?$/.test(to)) bundled.add(to.replace(/\?raw$/, ''));
  const outside = [...bundled].filter((path) => existsSync(join(root, path)) && folderOf(path) !== 'console');
  t.ok(outside.includes('sdk/contract/package-paths.ts') && outside.includes('sdk/globals.d.ts'), 'they are seen');
  const forgotten = outside.filter((path) => !SOURCES.some((glob) => matchesGlob(`../${path}`, glob)));
  t.same(forgotten, [], 'console/sources.ts names them');
});

/** Files and packages that are loaded with a file, before anything of it runs. */
function reached(entry: string): Set<string> {
  const found = new Set([entry]);
  for (const path of found)
    for (const { from, to, typeOnly, isLazy } of imports) if (from === path && !typeOnly && !isLazy) found.add(to);
  return found;
}

/** One circle of imports as the files along it, or none. */
function findCircle(below: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    if (done.has(path)) return [];
    for (const next of below.get(path) ?? []) {
      const circle = visit(next, [...trail, path]);
      if (circle.length > 0) return circle;
    }
    done.add(path);
    return [];
  };
  for (const path of below.keys()) {
    const circle = visit(path, []);
    if (circle.length > 0) return circle;
  }
  return [];
}

t.test('the schedule of the tests names files that exist', async (t) => {
  t.same(
    NAMED.filter((path) => !existsSync(join(root, path))),
    [],
    'change test/runner/schedule.ts when you move or delete a file that it names',
  );
});
