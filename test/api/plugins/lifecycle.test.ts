/** Versions, listings and installations over time: who moves, who is asked, and what cannot be undone. */
import t from 'tap';
import { readNewestVersions } from '../../../api/plugins/newest-versions.ts';
import { releaseYankedVersions } from '../../../db/catalog/versions.ts';
import { failUpdate } from '../../../db/installations/updates.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, MINIMAL } from '../package/packages.ts';
import { copyVersion, enlargeOffers } from './copied-versions.ts';

const api = await startApiFixture(t, { readsInProcess: true });
const ann = await api.user('ann');
const ben = await api.user('ben');
let count = 0;

const MORE = { ...MINIMAL, 'index.ts': `${INDEX}events.pluginInstalled = () => {};` };
const OTHER = { ...MINIMAL, 'index.ts': `${INDEX}events.pluginUpdated = () => {};` };
/** A listed plugin of ann's with these versions. */
async function listed(...versions: [semVer: string, files?: Parameters<typeof fileList>[0]][]) {
  count += 1;
  const slug = `plugin-${count}`;
  const { id } = (await ann.post('/plugins', { slug, displayName: slug })).body;
  const ids: Record<string, string> = {};
  const publish = async (semVer: string, files: Parameters<typeof fileList>[0] = MINIMAL) => {
    const made = await ann.post(`/plugins/${id}/versions`, { semVer, files: fileList(files) });
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    ids[semVer] = made.body.id;
  };
  for (const [semVer, files] of versions) await publish(semVer, files);
  if (versions.length > 0) t.equal((await ann.post(`/plugins/${id}/listing`)).status, 200);
  const yank = (semVer: string) => ann.post(`/plugins/${id}/versions/${ids[semVer]}/yank`);
  return { slug, id: id as string, ids, publish, yank };
}
const installs = async (who: Client, slug: string, policy: object = {}) => {
  const made = await who.post('/installations', { slug, ...policy });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  const path = `/installations/${made.body.id}`;
  return { id: made.body.id as string, path, get: async () => (await who.get(path)).body };
};
const eventsOf = async (id: string) =>
  (await api.pool.query('SELECT type, data FROM events WHERE installation_id = $1 ORDER BY id', [id])).rows;

t.test('each answer about one plugin shows its draft, and lists leave it out', async (t) => {
  const made = await ann.post('/plugins', { slug: 'drafted', displayName: 'drafted' });
  t.equal(made.body.draft, null);
  const path = `/plugins/${made.body.id}`;
  t.equal((await ann.patch(path, { displayName: 'Drafted' })).body.draft, null);
  await ann.post(`${path}/draft`, { files: fileList(MORE) });
  const { draft } = (await ann.get(path)).body;
  t.match(draft, { sourceSha256: /^[0-9a-f]{64}$/, savedAt: String, discovered: { lifecycle: ['pluginInstalled'] } });
  t.same((await ann.patch(path, { displayName: 'Named' })).body.draft, draft);
  await ann.post(`${path}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  t.same((await ann.post(`${path}/listing`)).body.draft, draft);
  t.same((await ann.delete(`${path}/listing`)).body.draft, draft);
  const { items } = (await ann.get('/plugins')).body;
  t.notOk('draft' in items.find(({ id }: { id: string }) => id === made.body.id));
});

t.test('settings and secrets are listed in the order of the frontmatter', async (t) => {
  const declaring = (fields: string) => ({
    'readme.md': `---\nname: A\ndescription: B\n${fields}\n---\n`,
    'index.ts': INDEX,
  });
  const plugin = await listed([
    '1.0.0',
    declaring(
      'settings: { tone: {}, city: { required: true }, b: { required: true } }\nsecrets: { apiKey: { required: true }, spare: {} }',
    ),
  ]);
  const list = ({ settings, secrets }: Record<string, readonly { name: string }[]>) =>
    [settings, secrets].map((fields) => fields?.map(({ name }) => name));
  const order = [
    ['tone', 'city', 'b'],
    ['apiKey', 'spare'],
  ];
  const { body: entry } = await ben.get(`/marketplace/${plugin.slug}`);
  t.same([list(entry.configuration), list(entry.versions[0].configuration)], [order, order]);
  const installation = await installs(ben, plugin.slug);
  const { configuration, condition } = await installation.get();
  t.same(list(configuration), order);
  t.match(condition.cause, /city.*b.*apiKey/, 'so is what is missing');
  await plugin.publish('1.1.0', declaring('settings: { zone: { required: true }, at: { required: true } }'));
  const { body: changes } = await ben.get(`${installation.path}/update-changes`);
  t.same(list(changes.fields), [['zone', 'at'], []]);
});

t.test('listing needs a version, delisting keeps installations', async (t) => {
  const bare = await listed();
  const early = await ann.post(`/plugins/${bare.id}/listing`);
  t.equal(early.status, 409);
  t.equal(early.body.code, 'no_published_version');
  const plugin = await listed(['1.0.0']);
  t.equal((await ben.post(`/plugins/${plugin.id}/listing`)).body.code, 'not_owner');
  const installation = await installs(ben, plugin.slug);
  const gone = await ann.delete(`/plugins/${plugin.id}/listing`, { deprecationMessage: 'Use the other one' });
  t.match(gone.body, { visibility: 'delisted', deprecationMessage: 'Use the other one' });
  t.match(await installation.get(), { status: 'ready', deprecationMessage: 'Use the other one' });
  t.equal((await ben.get(`/marketplace/${plugin.slug}`)).body.installed, true, 'who has it still sees it');
  const cleo = await api.user('cleo');
  t.equal((await cleo.get(`/marketplace/${plugin.slug}`)).status, 404);
  t.equal((await cleo.post('/installations', { slug: plugin.slug })).status, 404);
  t.equal((await ann.post(`/plugins/${plugin.id}/listing`)).body.deprecationMessage, null);
  const silently = await ann.delete(`/plugins/${plugin.id}/listing`, { deprecationMessage: null });
  t.match(silently, { status: 200, body: { visibility: 'delisted', deprecationMessage: null } });
  await ann.post(`/plugins/${plugin.id}/listing`);
  t.equal(
    (await ann.send({ method: 'DELETE', url: `/api/plugins/${plugin.id}/listing` })).status,
    200,
    'without a body',
  );
});

t.test('covered installations move to a new Latest and are notified', async (t) => {
  const plugin = await listed(['1.0.0', MORE]);
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.1.0', MORE);
  t.match(await installation.get(), { currentSemVer: '1.1.0', pendingUpdate: null });
  t.match((await eventsOf(installation.id)).at(-1), {
    type: 'pluginUpdated',
    data: { fromSemVer: '1.0.0', toSemVer: '1.1.0' },
  });
  await plugin.publish('1.0.5', MORE);
  t.match(await installation.get(), { currentSemVer: '1.1.0' }, 'a lower number is no Latest');
  await plugin.publish('2.0.0-rc.1', MORE);
  t.match(await installation.get(), { currentSemVer: '1.1.0' }, 'nor is a pre-release');
  await plugin.publish('1.2.0');
  t.match(await installation.get(), { currentSemVer: '1.2.0', grantedCapabilities: ['middleware.systemPrompt'] });
  await plugin.publish('1.3.0', MORE);
  const installed = await installation.get();
  t.match(
    installed,
    { currentSemVer: '1.2.0', pendingUpdate: { semVer: '1.3.0', added: ['events.pluginInstalled'], removed: [] } },
    'what was revoked is asked for again',
  );
});

t.test('consent applies only to the version that was shown', async (t) => {
  const plugin = await listed(['1.0.0']);
  const installation = await installs(ben, plugin.slug);
  const accept = (versionId: string | undefined) => ben.post(`${installation.path}/accept-update`, { versionId });
  t.equal((await accept(plugin.ids['1.0.0'])).body.code, 'not_pending');
  await plugin.publish('1.1.0', MORE);
  await plugin.publish('1.2.0', OTHER);
  t.match((await installation.get()).pendingUpdate, { semVer: '1.2.0', added: ['events.pluginUpdated'] });
  const late = await accept(plugin.ids['1.1.0']);
  t.equal(late.status, 409);
  t.match(late.body.detail, /1\.2\.0/);
  t.equal((await accept('nonsense')).body.code, 'not_pending');
  t.equal((await ann.post(`${installation.path}/accept-update`, { versionId: plugin.ids['1.2.0'] })).status, 404);
  t.match((await accept(plugin.ids['1.2.0'])).body, { currentSemVer: '1.2.0', pendingUpdate: null });
  t.equal((await accept(plugin.ids['1.2.0'])).body.code, 'not_pending');
});

t.test('a yanked version takes no more than its row once no installation uses it', async (t) => {
  const tool = "tools.add = { description: 'd'.repeat(4_000), parameters: {}, handler: () => 1 };";
  const hosts = Array.from({ length: 60 }, (_, index) => `host.http:a${index}.${'h'.repeat(60)}.example.com`);
  const large = {
    'readme.md': `---\nname: A\ndescription: B\ncapabilities: [${hosts}]\nsettings:\n  a:\n    description: ${'s'.repeat(900)}\n---\n${'r'.repeat(20_000)}`,
    'index.ts': `${INDEX}${tool}`,
  };
  const plugin = await listed(['1.0.0'], ['1.1.0', large]);
  const pinned = await installs(ben, plugin.slug, { versionPolicy: 'Pinned', pinnedVersionId: plugin.ids['1.1.0'] });
  const readBytes = async (): Promise<number> => {
    const { rows } = await api.pool.query('SELECT octet_length(v::text) AS bytes FROM versions v WHERE id = $1', [
      plugin.ids['1.1.0'],
    ]);
    return rows[0].bytes;
  };
  const before = await readBytes();
  t.ok(before > 20_000 + 2 * 4_000 + 900, 'the readme, the tool as offered and as registered, and the setting');
  await plugin.yank('1.1.0');
  t.ok((await readBytes()) >= before, 'the installation that pinned it reads all of it');
  t.equal((await ben.patch(pinned.path, { pinnedVersionId: plugin.ids['1.0.0'] })).status, 200);
  await releaseYankedVersions(api.pool, null);
  t.ok((await readBytes()) < 1_500, `${await readBytes()} bytes are left`);
  const { versions } = (await ann.get(`/plugins/${plugin.id}`)).body;
  t.match(versions[0], {
    semVer: '1.1.0',
    status: 'yanked',
    capabilities: ['middleware.systemPrompt'],
    discovered: { tools: [], channel: null },
  });
  t.same(versions[0].addedCapabilities, []);
  t.equal((await ann.get(`/plugins/${plugin.id}/versions/${plugin.ids['1.1.0']}/files`)).status, 410);
  await plugin.publish('1.2.0', large);
});

await soakTest(t, 'a yanked version that followers only ran before gives up its files at once', async (t) => {
  const plugin = await listed(['1.0.0']);
  const follower = await installs(ben, plugin.slug);
  await plugin.publish('1.1.0');
  t.match(await follower.get(), { currentSemVer: '1.1.0' });
  await plugin.yank('1.0.0');
  t.equal((await ann.get(`/plugins/${plugin.id}/versions/${plugin.ids['1.0.0']}/files`)).status, 410);
  const { rows } = await api.pool.query('SELECT stored_bytes FROM versions WHERE id = $1', [plugin.ids['1.0.0']]);
  t.same(rows, [{ stored_bytes: '0' }], 'it counts for no quota');
  t.match(await follower.get(), { currentSemVer: '1.1.0', status: 'ready', statusReason: null });
});

t.test('a yank between the look and the click does not drop the hook of a required plugin', async (t) => {
  const plugin = await listed(
    [
      '1.0.0',
      { ...MINIMAL, 'index.ts': '', 'skills/bread/SKILL.md': '---\nname: bread\ndescription: Bakes\n---\nBake.' },
    ],
    ['1.1.0'],
  );
  await plugin.yank('1.1.0');
  const late = await ben.post('/installations', { slug: plugin.slug, versionId: plugin.ids['1.1.0'], required: true });
  t.match(late, { status: 409, body: { code: 'not_pending', detail: /^1\.0\.0 lacks hooks of 1\.1\.0/ } });
});

await soakTest(t, 'the path of a file counts for the quota, as often as the database holds it', async (t) => {
  const folder = `assets/${'p'.repeat(250)}`;
  const plugin = await listed(
    ['1.0.0', { ...MINIMAL, 'assets/a': '' }],
    ['1.1.0', { ...MINIMAL, [`${folder}/${'q'.repeat(250)}/a`]: '' }],
  );
  const countBytes = async (semVer: string): Promise<number> => {
    const { rows } = await api.pool.query('SELECT stored_bytes FROM versions WHERE id = $1', [plugin.ids[semVer]]);
    return Number(rows[0].stored_bytes);
  };
  t.equal(
    (await countBytes('1.1.0')) - (await countBytes('1.0.0')),
    2 * (`${folder}/${'q'.repeat(250)}/a`.length - 'assets/a'.length),
  );
});

t.test('a yank moves followers back, drops questions, and spares the pinned', async (t) => {
  const plugin = await listed(['1.0.0'], ['1.1.0']);
  const follower = await installs(ben, plugin.slug);
  const pinned = await installs(ann, plugin.slug, { versionPolicy: 'Pinned', pinnedVersionId: plugin.ids['1.1.0'] });
  const yanked = await plugin.yank('1.1.0');
  t.match(yanked.body, { status: 'yanked', yankedAt: String });
  t.match(await follower.get(), { currentSemVer: '1.0.0' });
  t.match(await pinned.get(), { currentSemVer: '1.1.0', status: 'ready', statusReason: /yanked/ });
  t.equal((await plugin.yank('1.1.0')).status, 200, 'again changes nothing');
  const last = await plugin.yank('1.0.0');
  t.equal(last.status, 409);
  t.equal(last.body.code, 'last_version');
  t.equal((await ann.post(`/plugins/${plugin.id}/versions/nope/yank`)).status, 404);
  t.equal(
    (await ann.post(`/plugins/${plugin.id}/versions`, { semVer: '1.1.0', files: fileList(MINIMAL) })).status,
    409,
    'a number is never free again',
  );
  await plugin.publish('1.2.0', MORE);
  t.equal((await follower.get()).pendingUpdate.semVer, '1.2.0');
  await plugin.yank('1.2.0');
  t.equal((await follower.get()).pendingUpdate, null);
  const repinned = await ann.patch(pinned.path, { pinnedVersionId: plugin.ids['1.2.0'] });
  t.equal(repinned.body.code, 'invalid_pin');
});

t.test('an update that waits is withdrawn with its version, and the new Latest is offered instead', async (t) => {
  const plugin = await listed(['1.0.0']);
  const follower = await installs(ben, plugin.slug);
  const pinned = await installs(ann, plugin.slug, { versionPolicy: 'Pinned', pinnedVersionId: plugin.ids['1.0.0'] });
  await ben.post(`${follower.path}/pause`);
  await plugin.publish('2.0.0');
  await plugin.publish('3.0.0', MORE);
  await ann.post(`${pinned.path}/pause`);
  await ann.patch(pinned.path, { pinnedVersionId: plugin.ids['2.0.0'] });
  const waiting = { currentSemVer: '1.0.0', updateUnderWay: { semVer: '2.0.0' } };
  t.match(await follower.get(), { ...waiting, pendingUpdate: { semVer: '3.0.0' } });
  await plugin.yank('2.0.0');
  t.match(await follower.get(), { updateUnderWay: null, pendingUpdate: { semVer: '3.0.0' } }, 'Latest is the same');
  t.match(await pinned.get(), waiting, 'the user named the version');
  const resumed = (await ben.post(`${follower.path}/resume`)).body;
  t.match(resumed, { status: 'ready', currentSemVer: '1.0.0', pendingUpdate: { semVer: '3.0.0' } });
  t.match((await ann.post(`${pinned.path}/resume`)).body, { currentSemVer: '2.0.0', statusReason: /yanked/ });
});

await soakTest(t, 'a pin whose version is yanked before it ran says so, and does not keep its files', async (t) => {
  const plugin = await listed(['1.0.0'], ['2.0.0', MORE]);
  const pinned = await installs(ben, plugin.slug, {
    versionPolicy: 'Pinned',
    pinnedVersionId: plugin.ids['1.0.0'],
  });
  const asked = await ben.patch(pinned.path, { pinnedVersionId: plugin.ids['2.0.0'] });
  t.match(asked.body, { pendingUpdate: { semVer: '2.0.0' }, statusReason: null });
  await plugin.yank('2.0.0');
  const notice =
    'The version that you pinned was withdrawn by its author before it ran here. 1.0.0 keeps running; pin another version, or follow Latest.';
  t.match(await pinned.get(), {
    versionPolicy: 'Pinned',
    pinnedVersionId: plugin.ids['2.0.0'],
    currentSemVer: '1.0.0',
    pendingUpdate: null,
    statusReason: notice,
    condition: { state: 'ready', cause: notice },
  });
  t.equal((await ann.get(`/plugins/${plugin.id}/versions/${plugin.ids['2.0.0']}/files`)).status, 410);
  t.match((await ben.patch(pinned.path, { versionPolicy: 'Latest' })).body, {
    currentSemVer: '1.0.0',
    statusReason: null,
  });
});

await soakTest(t, 'a version that did not start and is yanked then is not offered for another try', async (t) => {
  const plugin = await listed(['1.0.0'], ['2.0.0']);
  const pinned = await installs(ben, plugin.slug, {
    versionPolicy: 'Pinned',
    pinnedVersionId: plugin.ids['1.0.0'],
  });
  await ben.post(`${pinned.path}/pause`);
  await ben.patch(pinned.path, { pinnedVersionId: plugin.ids['2.0.0'] });
  // Not with `resume`, after which the fixture starts the version.
  await api.pool.query(`UPDATE installations SET status = 'ready' WHERE id = $1`, [pinned.id]);
  const update = { installationId: pinned.id, versionId: plugin.ids['2.0.0'] ?? '' };
  t.equal(await failUpdate(api.pool, update, 'it was too slow'), true);
  t.match(await pinned.get(), { failedUpdate: { semVer: '2.0.0' }, condition: { action: 'retry_update' } });
  await plugin.yank('2.0.0');
  t.match(await pinned.get(), {
    failedUpdate: null,
    statusReason:
      /^The version that you pinned was withdrawn by its author before it ran here\. 1\.0\.0 keeps running;/,
    condition: { state: 'ready', action: null },
  });
  t.equal((await ben.get(`${pinned.path}/update-changes`)).body.code, 'not_pending', 'its files are gone');
});

await soakTest(t, 'an update that waits is withdrawn if the new Latest needs consent', async (t) => {
  const plugin = await listed(['1.0.0']);
  const installation = await installs(ben, plugin.slug);
  await ben.post(`${installation.path}/pause`);
  await plugin.publish('2.0.0');
  await plugin.publish('1.1.0', MORE);
  t.match(await installation.get(), { updateUnderWay: { semVer: '2.0.0' }, pendingUpdate: null });
  await plugin.yank('2.0.0');
  t.match(await installation.get(), { updateUnderWay: null, pendingUpdate: { semVer: '1.1.0' } });
  t.match((await ben.post(`${installation.path}/resume`)).body, { status: 'ready', currentSemVer: '1.0.0' });
});

await soakTest(t, 'an update that waits moves to a new Latest that needs no consent', async (t) => {
  const plugin = await listed(['1.0.0']);
  const installation = await installs(ben, plugin.slug);
  await ben.post(`${installation.path}/pause`);
  await plugin.publish('2.0.0');
  await plugin.publish('1.1.0');
  await plugin.yank('2.0.0');
  t.match(await installation.get(), { updateUnderWay: { semVer: '1.1.0' }, pendingUpdate: null });
  t.match((await ben.post(`${installation.path}/resume`)).body, { currentSemVer: '1.1.0' });
});

t.test('policies are changed, and more access still needs consent', async (t) => {
  const plugin = await listed(['1.0.0'], ['2.0.0', MORE]);
  const installation = await installs(ben, plugin.slug, {
    versionPolicy: 'Pinned',
    pinnedVersionId: plugin.ids['1.0.0'],
  });
  const patch = (change: object) => ben.patch(installation.path, change);
  t.match((await patch({ versionPolicy: 'Latest' })).body, {
    versionPolicy: 'Latest',
    pinnedVersionId: null,
    currentSemVer: '1.0.0',
    pendingUpdate: { semVer: '2.0.0' },
  });
  t.match((await patch({ versionPolicy: 'Pinned', pinnedVersionId: plugin.ids['1.0.0'] })).body, {
    pendingUpdate: null,
  });
  t.match((await patch({ pinnedVersionId: plugin.ids['2.0.0'] })).body, {
    currentSemVer: '1.0.0',
    pendingUpdate: { semVer: '2.0.0' },
  });
  t.match((await ben.post(`${installation.path}/accept-update`, { versionId: plugin.ids['2.0.0'] })).body, {
    currentSemVer: '2.0.0',
  });
  t.equal((await patch({ versionPolicy: 'Draft' })).body.code, 'draft_owner_only');
  t.equal((await patch({ versionPolicy: 'Latest', pinnedVersionId: plugin.ids['1.0.0'] })).body.code, 'invalid_pin');
  t.match((await patch({ hookOrder: -5 })).body, { hookOrder: -5, versionPolicy: 'Pinned' });
  for (const wrong of [{ hookOrder: 1.5 }, { hookOrder: 'first' }, { versionPolicy: 'newest' }, []])
    t.equal((await patch(wrong as object)).status, 400);
});

t.test('pause holds, resume lets go', async (t) => {
  const plugin = await listed(['1.0.0']);
  const installation = await installs(ben, plugin.slug);
  t.equal((await ben.post(`${installation.path}/pause`)).body.status, 'paused');
  await plugin.publish('1.1.0');
  t.match(
    await installation.get(),
    {
      status: 'paused',
      currentSemVer: '1.0.0',
      updateUnderWay: { semVer: '1.1.0', waitsFor: 'Resume it, so that 1.1.0 can start.' },
    },
    'an update does not start meanwhile',
  );
  t.match((await ben.post(`${installation.path}/resume`)).body, {
    status: 'ready',
    currentSemVer: '1.1.0',
    updateUnderWay: null,
  });
  t.equal((await ben.post(`${installation.path}/resume`)).body.status, 'ready');
});

t.test('a draft that was saved elsewhere meanwhile is not replaced without a word', async (t) => {
  const plugin = await listed();
  const save = (readme: string, replaces?: string | null) =>
    ann.post(`/plugins/${plugin.id}/draft`, {
      files: fileList({ ...MINIMAL, 'notes.md': readme }),
      ...(replaces === undefined ? {} : { replaces }),
    });
  const first = await save('one', null);
  t.equal(first.status, 200, 'there was none');
  const { sourceSha256 } = first.body;
  t.match(await save('two', null), { status: 409, body: { code: 'draft_changed', detail: /saved elsewhere at 20/ } });
  const second = await save('two', sourceSha256);
  t.equal(second.status, 200);
  t.equal((await save('two', sourceSha256)).status, 200, 'the same save again, whose answer was lost');
  t.equal((await save('three', sourceSha256)).body.code, 'draft_changed');
  t.equal((await ann.get(`/plugins/${plugin.id}`)).body.draft.sourceSha256, second.body.sourceSha256);
  t.equal((await save('three')).status, 200, 'without a hash it replaces any');
});

t.test('a draft is followed by its owner’s installations at every save', async (t) => {
  const plugin = await listed(['1.0.0']);
  const draft = (files: Parameters<typeof fileList>[0]) =>
    ann.post(`/plugins/${plugin.id}/draft`, { files: fileList(files) });
  const first = await draft(MINIMAL);
  t.equal(first.status, 200, JSON.stringify(first.body));
  t.match(first.body, {
    sourceSha256: String,
    savedAt: String,
    warnings: [],
    discovered: { middleware: ['middleware.systemPrompt'] },
  });
  const installation = await installs(ann, plugin.slug, { versionPolicy: 'Draft' });
  const before = await installation.get();
  t.match(before, { versionPolicy: 'Draft', currentSemVer: null, status: 'ready' });
  await draft(MORE);
  const after = await installation.get();
  t.not(after.currentVersionId, before.currentVersionId);
  t.same(after.grantedCapabilities, ['events.pluginInstalled', 'middleware.systemPrompt']);
  t.equal((await ann.get(`/plugins/${plugin.id}`)).body.versions.length, 1, 'a draft is no version');
  t.match((await ann.get(`/plugins/${plugin.id}`)).body.draft, { sourceSha256: String });
  const { body: saved } = await ann.get(`/plugins/${plugin.id}/versions/draft/files`);
  const shown = saved.items.map((file: { path: string; contentText: string }) => [file.path, file.contentText]);
  t.same(Object.fromEntries(shown), MORE, 'its files are those that were saved');
  t.equal((await ben.get(`/plugins/${plugin.id}/versions/draft/files`)).status, 403, 'other accounts cannot read them');
  t.equal((await draft({ 'readme.md': 'x' })).status, 422);
  t.same((await installation.get()).currentVersionId, after.currentVersionId, 'a bad save changes nothing');
  t.equal(
    (await ben.post('/installations', { slug: plugin.slug, versionPolicy: 'Draft' })).body.code,
    'draft_owner_only',
  );
  t.equal((await ben.post(`/plugins/${plugin.id}/draft`, { files: fileList(MINIMAL) })).status, 403);
  const left = await ann.patch(installation.path, { versionPolicy: 'Latest' });
  t.match(left.body, { currentSemVer: '1.0.0', pendingUpdate: null });
});

t.test('only an unpublished plugin can be deleted', async (t) => {
  const published = await listed(['1.0.0']);
  const refused = await ann.delete(`/plugins/${published.id}`);
  t.equal(refused.status, 409);
  t.equal(refused.body.code, 'published_version_exists');
  const bare = await listed();
  t.equal((await ben.delete(`/plugins/${bare.id}`)).status, 404);
  t.equal((await ann.delete(`/plugins/${bare.id}`)).status, 204);
  t.equal((await ann.get(`/plugins/${bare.id}`)).status, 404);
  t.equal((await ann.post('/plugins', { slug: bare.slug, displayName: 'Again' })).status, 201, 'its slug is free');
  const drafted = await listed();
  await ann.post(`/plugins/${drafted.id}/draft`, { files: fileList(MINIMAL) });
  const installation = await installs(ann, drafted.slug, { versionPolicy: 'Draft' });
  t.equal((await ann.delete(`/plugins/${drafted.id}`)).status, 204);
  t.equal((await ann.get(installation.path)).status, 404);
  t.match((await eventsOf(installation.id)).at(-1), { type: 'pluginUninstalled', data: { by: 'owner' } });
  t.notOk((await ann.get('/plugins?limit=1000')).body.items.some(({ id }: { id: string }) => id === drafted.id));
  t.notOk(
    (await ann.get('/marketplace?limit=1000')).body.items.some(({ slug }: { slug: string }) => slug.includes('~')),
  );
});

t.test('files of a version are its owner’s to read', async (t) => {
  const plugin = await listed(['1.0.0']);
  const path = `/plugins/${plugin.id}/versions/${plugin.ids['1.0.0']}/files`;
  const { items } = (await ann.get(path)).body;
  t.match(items, [{ path: 'index.ts', contentText: INDEX, sizeBytes: INDEX.length }, { path: 'readme.md' }]);
  t.equal((await ben.get(path)).status, 403);
  t.equal((await ann.get(`/plugins/${plugin.id}/versions/nope/files`)).status, 404);
});

await soakTest(t, 'a plugin has a bounded number of versions, and shows as many as fit into an answer', async (t) => {
  const plugin = await listed(['1.0.0'], ['1.1.0']);
  const newest = await readNewestVersions(api.pool, plugin.id, 'ann', 1);
  t.match(newest, { versions: { length: 1, 0: { semVer: '1.1.0' } }, leftOutVersions: { length: 1 } });
  await enlargeOffers(api.pool, plugin.id, MIB);
  const large = (await ann.get(`/plugins/${plugin.id}`)).body;
  t.match(large, { versions: { length: 1, 0: { semVer: '1.1.0' } }, versionsLeftOut: 1 });
  const oldest = { id: plugin.ids['1.0.0'], semVer: '1.0.0', status: 'published' };
  t.same(large.leftOutVersions, [oldest]);
  await enlargeOffers(api.pool, plugin.id, 0);
  await copyVersion(api.pool, plugin.ids['1.0.0'] ?? '', 1_998);
  const { body } = await ann.get(`/plugins/${plugin.id}`);
  t.match(body, {
    versions: { length: 2_000, 0: { semVer: '1.1.0' }, 1: { semVer: '1.0.0' } },
    versionsLeftOut: 0,
    leftOutVersions: [],
  });
  const refused = await ann.post(`/plugins/${plugin.id}/versions`, { semVer: '1.2.0', files: fileList(MINIMAL) });
  t.match(refused, { status: 409, body: { code: 'too_many' } });
});

/** Both packages, and each of the three things a user does. */
const ROUNDS = amount({ quick: 4, soak: 8 });

t.test('publish, yank, install and accept at once keep every invariant', async (t) => {
  const plugin = await listed(['1.0.0'], ['1.0.1']);
  const users = await Promise.all(Array.from({ length: 6 }, (_, index) => api.user(`racer-${index}`)));
  for (let round = 0; round < ROUNDS; round += 1) {
    const semVer = `1.${round + 1}.0`;
    await Promise.all([
      ann.post(`/plugins/${plugin.id}/versions`, { semVer, files: fileList(round % 2 ? MORE : MINIMAL) }),
      ann
        .get(`/plugins/${plugin.id}`)
        .then(({ body }) =>
          Promise.all(
            body.versions
              .slice(0, 2)
              .map(({ id }: { id: string }) => ann.post(`/plugins/${plugin.id}/versions/${id}/yank`)),
          ),
        ),
      ...users.map(async (user) => {
        const [mine] = (await user.get('/installations')).body.items;
        if (!mine) return user.post('/installations', { slug: plugin.slug });
        if (mine.pendingUpdate)
          return user.post(`/installations/${mine.id}/accept-update`, { versionId: mine.pendingUpdate.versionId });
        return round % 3
          ? user.patch(`/installations/${mine.id}`, { versionPolicy: 'Latest' })
          : user.delete(`/installations/${mine.id}`);
      }),
    ]);
  }
  const broken = await api.pool.query(
    `SELECT i.id, i.granted_capabilities, c.capabilities, c.status, p.latest_version_id, i.current_version_id, i.pending_version_id
       FROM installations i JOIN plugins p ON p.id = i.plugin_id JOIN versions c ON c.id = i.current_version_id
       JOIN versions l ON l.id = p.latest_version_id
      WHERE p.id = $1 AND i.status <> 'uninstalling' AND (
        NOT (c.capabilities <@ i.granted_capabilities) OR l.status <> 'published'
        OR (i.version_policy = 'Latest' AND i.current_version_id <> l.id AND i.pending_version_id IS DISTINCT FROM l.id)
        OR (i.current_version_id = l.id AND i.pending_version_id IS NOT NULL))`,
    [plugin.id],
  );
  t.same(broken.rows, []);
  const published = await api.pool.query(`SELECT 1 FROM versions WHERE plugin_id = $1 AND status = 'published'`, [
    plugin.id,
  ]);
  t.ok(published.rows.length > 0);
});
