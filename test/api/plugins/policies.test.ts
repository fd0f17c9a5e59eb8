/** The pure rules: version numbers, Latest, and what an update may do without asking. */
import fc from 'fast-check';
import semver from 'semver';
import t from 'tap';
import { diffLines } from '../../../api/installations/line-diff.ts';
import { findClash, findWrapperFolder } from '../../../api/package/paths.ts';
import { resolveStatus } from '../../../db/installations/configuration.ts';
import { diffCapabilities, isCovered } from '../../../db/installations/consent-rule.ts';
import { manifest, resolveSettings } from '../../../sdk/contract/manifest.ts';
import { validatePath } from '../../../sdk/contract/package-paths.ts';
import {
  comparePrecedence,
  findLatestVersion,
  findPreviousVersion,
  raiseVersion,
  sortHighestFirst,
} from '../../../sdk/contract/version-numbers.ts';
import { seed } from '../../runner/soak.ts';

const versions = (...texts: string[]) =>
  texts.map((text) =>
    text.startsWith('!') ? { semVer: text.slice(1), status: 'yanked' } : { semVer: text, status: 'published' },
  );

t.test('a version far beyond 2^53 is the latest', async (t) => {
  t.equal(findLatestVersion(versions('9007199254740993.0.0', '9007199254740992.9.9'))?.semVer, '9007199254740993.0.0');
});

t.test('numbers are raised without rounding', async (t) => {
  const raised: [text: string, kind: 'major' | 'minor' | 'patch', next: string][] = [
    ['1.2.3', 'patch', '1.2.4'],
    ['1.2.3', 'minor', '1.3.0'],
    ['1.2.3', 'major', '2.0.0'],
    ['1.2.3-rc.1', 'patch', '1.2.3'],
    ['1.2.0-rc.1', 'minor', '1.2.0'],
    ['1.2.3-rc.1', 'minor', '1.3.0'],
    ['2.0.0-rc.1', 'major', '2.0.0'],
    ['2.1.0-rc.1', 'major', '3.0.0'],
    ['1.0.9007199254740992', 'patch', '1.0.9007199254740993'],
  ];
  for (const [text, kind, next] of raised) t.equal(raiseVersion(text, kind), next, `${kind} of ${text}`);
});

t.test('order and next numbers are those of the semver library, as far as it reads numbers exactly', async (t) => {
  const number = fc.nat({ max: 20 });
  const identifier = fc.constantFrom('0', '1', '9', '10', 'a', 'A', 'rc', 'rc-1', '-', '0a');
  const texts = fc
    .tuple(fc.tuple(number, number, number), fc.array(identifier, { maxLength: 3 }))
    .map(([core, pre]) => core.join('.') + (pre.length > 0 ? `-${pre.join('.')}` : ''));
  const kinds = fc.constantFrom<'major' | 'minor' | 'patch'>('major', 'minor', 'patch');
  const isSame = fc.property(
    texts,
    texts,
    kinds,
    (a, b, kind) =>
      Math.sign(comparePrecedence(a, b)) === semver.compare(a, b) && raiseVersion(a, kind) === semver.inc(a, kind),
  );
  t.doesNotThrow(() => fc.assert(isSame, { seed, numRuns: 2_000 }));
});

t.test('Latest is the highest that is published, pre-releases only among themselves', async (t) => {
  t.equal(findLatestVersion([]), null);
  t.equal(findLatestVersion(versions('1.0.0', '1.2.0', '1.1.0'))?.semVer, '1.2.0');
  t.equal(findLatestVersion(versions('1.0.0', '2.0.0-rc.1'))?.semVer, '1.0.0');
  t.equal(findLatestVersion(versions('2.0.0-rc.9', '2.0.0-rc.10'))?.semVer, '2.0.0-rc.10');
  t.equal(findLatestVersion(versions('1.0.0', '!2.0.0'))?.semVer, '1.0.0');
  t.equal(findLatestVersion(versions('!1.0.0')), null);
  t.equal(findLatestVersion([{ semVer: null, status: 'draft' }]), null);
  t.equal(findPreviousVersion(versions('1.0.0', '1.1.0', '2.0.0'), '1.5.0')?.semVer, '1.1.0');
  t.equal(findPreviousVersion(versions('1.0.0', '!1.1.0'), '1.5.0')?.semVer, '1.0.0');
  t.equal(findPreviousVersion(versions('2.0.0'), '1.0.0'), null);
  t.equal(findPreviousVersion(versions('1.0.0', '2.0.0-rc.1'), '2.0.0')?.semVer, '1.0.0');
  t.equal(findPreviousVersion(versions('1.0.0', '2.0.0-rc.1'), '2.0.0-rc.2')?.semVer, '2.0.0-rc.1');
  t.equal(findPreviousVersion(versions('2.0.0-rc.1'), '2.0.0')?.semVer, '2.0.0-rc.1');
});

t.test('finding and sorting read each of many numbers a few times only', async (t) => {
  let reads = 0;
  const many = Array.from({ length: 500 }, (_, index) => ({
    status: 'published',
    get semVer() {
      reads += 1;
      return `0.0.0-${(index * 7) % 500}`;
    },
  }));
  const highest = [sortHighestFirst(many)[0], findLatestVersion(many), findPreviousVersion(many, '0.0.0')];
  // Each reads a number once to select it, and once to parse it.
  t.ok(reads <= 2 * highest.length * many.length, `${reads} reads`);
  t.same(
    highest.map((version) => version?.semVer),
    ['0.0.0-499', '0.0.0-499', '0.0.0-499'],
  );
});

t.test('grants cover themselves, their :read form and subdomains', async (t) => {
  const covers = (
    granted: readonly string[],
    wanted: readonly string[],
    secrets: Readonly<Record<string, readonly string[]>> = {},
  ) => {
    const [secretNames, secretsAllow] = [Object.keys(secrets), Object.values(secrets).flat()];
    return isCovered({ grantedCapabilities: granted, secretNames, secretsAllow }, wanted);
  };
  t.ok(covers(['host.workspace', 'host.http:*.example.com'], ['host.workspace:read', 'host.http:a.example.com']));
  t.notOk(covers(['host.workspace:read'], ['host.workspace']));
  t.notOk(covers(['host.http:*.example.com'], ['host.http:example.com']));
  t.notOk(covers(['host.http:a.example.com'], ['host.http:*.example.com']));
  t.notOk(covers(['host.http:*.example.com'], ['host.http:evilexample.com']));
  t.notOk(covers(['tools.a'], ['tools.a', 'tools.b']));
  t.ok(covers([], ['secrets.a']), 'the user gives its value');
  t.notOk(covers(['secrets.a:webhooks'], ['secrets.a']), 'the user saw that it has a handle');
  t.ok(covers(['secrets.a'], ['secrets.a:webhooks']));
  t.ok(covers([], ['secrets.a'], { a: ['secrets.a'] }), 'the value was given to be read');
  t.ok(covers([], ['secrets.a:webhooks'], { a: ['secrets.a'] }));
  t.notOk(covers(['secrets.a'], ['secrets.a'], { a: ['secrets.a:webhooks'] }), 'the value was given to be used');
  t.notOk(covers(['secrets.a'], ['secrets.a'], { a: [] }));
  t.notOk(covers(['secrets.a'], ['secrets.ab:webhooks'], { a: ['secrets.a'], ab: [] }));
  const grants = { grantedCapabilities: ['a', 'b'], secretNames: [], secretsAllow: [], currentManifest: null };
  t.same(diffCapabilities(grants, ['b', 'c']), { added: ['c'], removed: ['a'], narrowed: [] });
  const wide = { ...grants, grantedCapabilities: ['host.workspace', 'host.http:*.example.com', 'secrets.a'] };
  const narrow = ['host.workspace:read', 'host.http:api.example.com', 'secrets.a:webhooks'];
  t.same(
    diffCapabilities({ ...wide, secretNames: [], secretsAllow: [] }, [...narrow, 'host.llm', 'secrets.b']),
    { added: ['host.llm'], removed: wide.grantedCapabilities, narrowed: narrow },
    'what it keeps of wider access',
  );
  const both = ['host.workspace', 'host.workspace:read'];
  t.same(diffCapabilities({ ...grants, grantedCapabilities: ['host.workspace'] }, both).narrowed, []);
  const declared = manifest.parse({
    name: 'One',
    description: 'Has one secret',
    secrets: { kept: { label: 'Kept', use: ['webhooks'] } },
  });
  const remembering = {
    ...grants,
    grantedCapabilities: ['a', 'secrets.kept:webhooks', 'secrets.dropped:webhooks'],
    currentManifest: declared,
  };
  const removed = ['a', 'secrets.kept:webhooks'];
  t.same(diffCapabilities(remembering, []), { added: [], removed, narrowed: [] }, 'not what an earlier version had');
  t.same(diffCapabilities(remembering, ['secrets.dropped']).added, ['secrets.dropped'], 'which is still asked for');
});

t.test('the status depends on missing configuration, and a pause remains', async (t) => {
  const parsed = manifest.parse({
    name: 'n',
    description: 'd',
    settings: { a: { required: true }, b: { required: true, default: 'x' } },
    secrets: { s: { required: true } },
  });
  const nothing = { settings: {}, secretNames: [] };
  const all = { settings: { a: '1' }, secretNames: ['s'] };
  t.match(resolveStatus('ready', parsed, nothing), { status: 'needs_configuration', statusReason: /a, s/ });
  t.same(resolveStatus('needs_configuration', parsed, all), { status: 'ready', statusReason: null });
  t.equal(resolveStatus('failed', parsed, all).status, 'ready');
  t.equal(resolveStatus('paused', parsed, nothing).status, 'paused');
  const inherited = manifest.parse({ ...parsed, settings: { constructor: { required: true } }, secrets: {} });
  t.match(resolveStatus('ready', inherited, nothing), { status: 'needs_configuration', statusReason: /constructor/ });
  t.equal(resolveStatus('ready', inherited, { ...nothing, settings: { constructor: '1' } }).status, 'ready');
  const picky = manifest.parse({ name: 'n', description: 'd', settings: { a: { enum: ['x', 'y'], default: 'x' } } });
  t.same(
    resolveSettings(picky, { a: 'gone', other: '1' }),
    { a: 'x' },
    'a value the version rules out is not handed on',
  );
  t.same(resolveSettings(picky, { a: 'y' }), { a: 'y' });
});

t.test('a comparison of lines is right, short, and bounded', async (t) => {
  const word = fc.constantFrom('a', 'b', 'c');
  const text = fc.array(word, { maxLength: 9 });
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before.join('\n'), after.join('\n')).filter(({ kind }) => kind !== 'gap');
      const side = (left: string) => lines.filter(({ kind }) => kind !== left).map((line) => line.text);
      const hidden = before.length - side('added').length;
      return hidden === after.length - side('removed').length && (hidden > 0 || side('added').join() === before.join());
    }),
    { seed, numRuns: 500 },
  );
  t.same(
    diffLines('1\n2\n3\n4\n5\n6', '1\n2\n3\n4\nfive\n6').map(({ kind, text }) => `${kind} ${text}`),
    ['gap 1 unchanged', 'same 2', 'same 3', 'same 4', 'removed 5', 'added five', 'same 6'],
  );
  t.same(diffLines('', 'a\n'), [{ kind: 'added', text: 'a' }]);
  const long = (word: string) => Array.from({ length: 20_000 }, (_, line) => word + line).join('\n');
  t.equal(diffLines(long('x'), long('y')).length, 40_000, 'one text in place of the other');
});

t.test('paths', async (t) => {
  for (const good of ['a', 'a/b.ts', 'ä/😀.md', '.hidden', 'a..b', 'console.ts', 'commands/x y.md'])
    t.equal(validatePath(good), null, good);
  t.equal(findWrapperFolder(['p/a', 'p/b/c', 'p/']), 'p/');
  t.equal(findWrapperFolder(['p/a', 'q/b']), '');
  t.equal(findWrapperFolder(['a']), '');
  t.equal(validatePath('../'.repeat(20)), 'holds “..”, which leaves the package', 'before the depth');
  t.equal(validatePath('é'.repeat(513)), 'is longer than 1024 bytes');
  t.equal(validatePath('a:'.repeat(513)), 'is longer than 1024 bytes', 'before anything reads it');
});

t.test('paths that are one path on some file system', async (t) => {
  const clash = (...paths: string[]) =>
    findClash(
      paths.map((path) => ({ path: path.replace(/\/$/, ''), isFolder: path.endsWith('/') })),
      'ann',
    );
  const good = [['a', 'b/a', 'c'], ['b/', 'b/a'], ['b/a', 'b/'], ['b/c/', 'b/', 'b/a', 'b/c/d'], ['ı', 'j'], []];
  for (const paths of good) t.equal(await clash(...paths), null, paths.join());
  const letterCase = /the same as “.+” where letter case does not count/;
  const wrong: [paths: string[], says: RegExp][] = [
    [['a/b', 'A'], letterCase],
    [['straße', 'STRASSE'], letterCase],
    [['ὈΔΥΣΣΕΎΣ', 'ὀδυσσεύς'], letterCase],
    [['ὀδυσσεύς', 'ὀδυσσεύσ'], letterCase],
    [['ﬁle', 'FILE'], letterCase],
    [['lib/a', 'Lib/b'], /holds a folder that is the same as “lib” where/],
    [['lib/', 'LIB/'], letterCase],
    [['\u00e9', 'e\u0301'], /same as “é” in another Unicode normalization/],
    [['a', 'a'], /duplicated/],
    [['a/', 'a/'], /duplicated/],
    [['a', 'a/'], /both a file and a folder/],
    [['a/', 'a'], /both a file and a folder/],
    [['a', 'a/b'], /below “a”, which is a file/],
    [['a/b', 'a'], /both a file and a folder/],
  ];
  for (const [paths, says] of wrong) t.match((await clash(...paths))?.fault, says, paths.join());
});
