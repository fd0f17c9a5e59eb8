/** Which draft or version the editor loads, and which number it proposes. */
import t from 'tap';
import { proposeNumber } from '../../console/authoring/proposed-number.ts';
import { omitStored } from '../../console/editor/kept-files.ts';
import {
  chooseSource,
  describeDraft,
  describeVersion,
  findNewer,
  listLeftOut,
  listSources,
} from '../../console/editor/source.ts';

const version = (semVer: string, createdAt: string, status = 'published') => ({
  id: `id of ${semVer}`,
  semVer,
  status,
  createdAt,
  sourceSha256: `hash of ${semVer}`,
});
const BETA = version('2.0.0-beta.1', '2026-11-02');
const STABLE = version('1.0.0', '2026-11-01');
const YANKED = version('3.0.0', '2026-11-03', 'yanked');
const DRAFT = { savedAt: '2026-11-03', sourceSha256: 'hash of the draft' };

t.test('the editor loads the draft, or the version that the proposed number follows', async (t) => {
  const versions = [YANKED, BETA, STABLE];
  t.equal(chooseSource({ versions, draft: null })?.semVer, '1.0.0');
  t.equal(proposeNumber(versions), '1.0.1');
  t.equal(chooseSource({ versions: [YANKED, BETA], draft: null })?.semVer, '2.0.0-beta.1');
  t.equal(chooseSource({ versions, draft: DRAFT })?.id, 'draft');
  t.equal(chooseSource({ versions: [], draft: null }), null);
  t.same(
    listSources({ versions, draft: DRAFT }).map(({ semVer }) => semVer),
    [null, '2.0.0-beta.1', '1.0.0'],
  );
});

t.test('files of a pre-release beside a stable version get the number of the next pre-release', async (t) => {
  const versions = [BETA, STABLE];
  t.equal(proposeNumber(versions, '2.0.0-beta.1'), '2.0.0-beta.2');
  t.equal(proposeNumber([version('2.0.0-beta.2', ''), ...versions], '2.0.0-beta.1'), '2.0.0-beta.3');
  t.equal(proposeNumber([version('2.0.0-rc', ''), STABLE], '2.0.0-rc'), '2.0.0-rc.1');
  t.equal(proposeNumber([version('2.0.0-9', ''), STABLE], '2.0.0-9'), '2.0.0-10');
  t.equal(proposeNumber(versions, '1.0.0'), '1.0.1');
  t.equal(proposeNumber([BETA], '2.0.0-beta.1'), '2.0.0', 'without a stable version, all run the pre-release');
});

t.test('files are older than Latest if it was published after them, with other files', async (t) => {
  const newer = version('1.0.1', '2026-11-04');
  const versions = [BETA, newer, STABLE];
  const find = (source: Parameters<typeof findNewer>[1], all = versions) =>
    findNewer({ versions: all, draft: DRAFT }, source)?.semVer;
  t.equal(find(describeDraft(DRAFT)), '1.0.1');
  t.equal(find(describeVersion(STABLE)), '1.0.1');
  t.equal(find(null), '1.0.1', 'a template that was kept while the plugin had no version');
  t.equal(find(null, []), undefined);
  t.equal(find(describeVersion(newer)), undefined);
  t.equal(find(describeDraft({ ...DRAFT, sourceSha256: newer.sourceSha256 })), undefined, 'the same files');
  t.equal(find(describeDraft({ ...DRAFT, savedAt: '2026-11-05' })), undefined);
  t.equal(find(describeVersion(STABLE), [BETA, STABLE]), undefined, 'a pre-release is not Latest');
});

t.test('files that are not text are left out, also those of Latest that a draft cannot have', async (t) => {
  const [picture, index] = [
    { path: 'assets/logo.png', contentText: null },
    { path: 'index.ts', contentText: '' },
  ];
  t.same(listLeftOut([picture, index]), ['assets/logo.png']);
  t.same(listLeftOut([index], [picture, index]), ['assets/logo.png']);
  t.same(listLeftOut([index, { ...picture, contentText: 'A text now.' }], [picture]), []);
});

t.test('files that this browser kept are not unsaved where a save has stored them since', async (t) => {
  const files = [{ path: 'index.ts', contentText: 'new' }];
  const copy = { key: 'one', kept: { keptAt: 1, files, draftSha256: 'hash before the save', source: null } };
  t.same(omitStored(copy, [{ path: 'index.ts', contentText: 'new' }]), { key: 'one', kept: null });
  t.same(omitStored(copy, [{ path: 'index.ts', contentText: 'old' }]), copy);
  t.same(omitStored({ key: 'one', kept: null }, files), { key: 'one', kept: null });
});
