/** Packages with as much code and text as is allowed leave the loop of the API to other requests while they are checked and compared. */
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { compareFiles, compareTexts, type ModelText } from '../../../api/installations/update-changes.ts';
import { BUNDLE_MAX_BYTES } from '../../../api/package/bundle.ts';
import { SOURCE_MAX_BYTES } from '../../../api/package/bundle-modules.ts';
import { checkSurfaces, OFFER_MAX_BYTES } from '../../../api/package/discovery.ts';
import type { PackageFile } from '../../../api/package/package-files.ts';
import { findSchemaWarnings } from '../../../api/package/schema-warnings.ts';
import { findUnusedFiles } from '../../../api/package/unused-files.ts';
import { findWarnings, WARNINGS_MAX } from '../../../api/package/warnings.ts';
import { limits, MIB } from '../../../sdk/contract/limits.ts';
import { manifest } from '../../../sdk/contract/manifest.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { measureLongestPiece, SHARE_MAX } from './longest-piece.ts';

/** A quarter of what is allowed takes long enough. */
const PART = 1 / 4;

const folder = await temporaryFolder(t);

async function stage(path: string, content: string): Promise<PackageFile> {
  const stagedAt = join(folder, path);
  await writeFile(stagedAt, content);
  return { path, stagedAt, sha256: '', sizeBytes: (await stat(stagedAt)).size };
}
/** Reading it fails. */
const unreadable = (path: string): PackageFile => ({
  path,
  stagedAt: join(folder, 'none'),
  sha256: '',
  sizeBytes: 1024 * MIB,
});

const listUnused = (...files: PackageFile[]) => findUnusedFiles({ files, sourceSha256: '', sizeBytes: 0 }, 'ann');

t.test('code that names a file in every word', async (t) => {
  const name = '"./a"';
  const index = await stage('index.ts', name.repeat((PART * SOURCE_MAX_BYTES) / name.length));
  const share = await measureLongestPiece(async () => t.same(await listUnused(index), []));
  t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
});

t.test('files that no import loads are not read, however large they are', async (t) => {
  const index = await stage('index.ts', `const names = ['./data.json', './code.js', './late.ts'];`);
  const late = await stage('late.ts', `import './last.ts';`);
  const last = await stage('last.ts', '');
  t.same(await listUnused(index, unreadable('data.json'), unreadable('code.js'), late, last), []);
});

t.test('fields that a bundle never reads', async (t) => {
  // It reads others all the time.
  const code = 'settings.k1; secrets.get("k2"); '.repeat((PART * BUNDLE_MAX_BYTES) / 32);
  const fields = Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`ab${at}`, {}]));
  const declared = manifest.parse({ name: 'Large', description: 'Large', settings: fields, secrets: fields });
  const warned = { manifest: declared, code, sourceMap: '', commands: [], bundling: [], unusedFiles: [] };
  const share = await measureLongestPiece(async () => {
    const warnings = await findWarnings(warned, 'ann');
    t.equal(warnings.length, WARNINGS_MAX);
    t.equal(warnings[0], 'The setting “ab0” is declared but never read.');
  });
  t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
});

t.test('a schema of unknown keywords is read until there are enough warnings', (t) => {
  const keyword = (at: number) => `k${at.toString(36)}`;
  const count = OFFER_MAX_BYTES / '"k1234":1,'.length;
  const parameters = Object.fromEntries(Array.from({ length: count }, (_, at) => [keyword(at), 1]));
  const read: string[] = [];
  const placeOf = (name: string) => {
    read.push(name);
    return { path: 'index.ts', line: 1, column: 1 };
  };
  const tools = { first: { description: '', parameters }, second: { description: '', parameters } };
  const registrations = { hooks: [], events: [], tools, commands: {}, providers: {} };
  const warnings = findSchemaWarnings({ registrations, placeOf, schemaFaults: [] } as never);
  t.equal(warnings.length, WARNINGS_MAX);
  t.match(warnings[0], /^index\.ts:1:1: tools\.first\.parameters\/k0: is not a keyword/);
  t.equal(read.length, WARNINGS_MAX, 'each warning is located once');
  t.end();
});

t.test('tools without a fault are not located', (t) => {
  const tools = { forecast: { description: 'Forecasts', parameters: { type: 'object' } } };
  const placeOf = () => t.fail('a place parses the source map');
  checkSurfaces('weather', {
    registrations: { tools, commands: {}, providers: {} },
    schemaFaults: [],
    placeOf,
  } as never);
  t.end();
});

t.test('the many plain texts of a schema are not searched for hidden characters one by one', (t) => {
  const { matchAll } = String.prototype;
  let searches = 0;
  String.prototype.matchAll = function countSearch(...given) {
    searches += 1;
    return matchAll.apply(this, given);
  };
  t.teardown(() => {
    String.prototype.matchAll = matchAll;
  });
  const tools = { forecast: { description: 'One\n\ttwo', parameters: { examples: Array(1_000).fill('x') } } };
  checkSurfaces('weather', { registrations: { tools, commands: {}, providers: {} }, schemaFaults: [] } as never);
  t.equal(searches, 0);
  t.end();
});

t.test('the texts of two versions that have no line in common', async (t) => {
  const listTexts = (version: string): ModelText[] =>
    Array.from({ length: limits.tools }, (_, tool) => ({
      kind: 'tool',
      name: `tool${tool}`,
      description: Array.from({ length: 200 }, (_, line) => `${version} ${tool} ${line}`).join('\n'),
    }));
  const share = await measureLongestPiece(async () => {
    const texts = await compareTexts(
      listTexts('1'),
      listTexts('2'),
      { lines: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY, bytes: 0 },
      'ann',
    );
    t.equal(texts.length, limits.tools);
  });
  t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
});

t.test(
  'a text that is too long or has too many lines is listed, and a deeply nested schema is not even written',
  async (t) => {
    const nest = (value: unknown, levels: number): unknown => (levels === 0 ? value : [nest(value, levels - 1)]);
    const listTexts = (value: number): ModelText[] => [
      { kind: 'tool', name: 'deep', description: '', parameters: { default: nest(Array(24_000).fill(value), 95) } },
      { kind: 'tool', name: 'flat', description: '', parameters: { default: nest([value], 95) } },
      { kind: 'tool', name: 'long', description: '', parameters: { enum: Array(24_000).fill(value) } },
      { kind: 'command', name: 'tall', description: `${value}${'\n'.repeat(24_000)}` },
    ];
    const written = t.capture(JSON, 'stringify', JSON.stringify);
    const [before, after] = [listTexts(0), listTexts(1)];
    const budget = { lines: 100_000, chars: Number.POSITIVE_INFINITY, bytes: 0 };
    const texts = await compareTexts(before, after, budget, 'ann');
    t.match(texts, [
      { name: 'tall', lines: null },
      { name: 'deep', lines: null },
      { name: 'flat', lines: Array },
      { name: 'long', lines: null },
    ]);
    const lengths = written().map((one) => ('returned' in one ? one.returned.length : 0));
    t.ok(Math.max(...lengths) < MIB, `the longest text has ${Math.max(...lengths)} characters`);
  },
);

t.test('files of two versions are read up to a number of bytes, also binary ones', async (t) => {
  const read: string[] = [];
  const blobs = {
    read: async (sha256: string) => {
      read.push(sha256);
      return Buffer.from([0]);
    },
  };
  const budget = { lines: 100, chars: 0, bytes: 10 * MIB };
  const file = (sha256: string, sizeBytes: number) => ({ path: 'picture.png', sha256, sizeBytes });
  const compare = (before: number, after: number) =>
    compareFiles({ blobs } as never, { before: file('old', before), after: file('new', after) }, budget, 'ann');
  t.equal(await compare(1, MIB), null);
  t.same(read, [], 'a file that is too long is not read, and neither is the other side');
  for (let count = 0; count < 20; count += 1) t.equal(await compare(MIB / 2, MIB / 2), null);
  t.equal(read.length, 20);
});
