/** When a crash loop returns an installation to its previous version, and when its user's choice stays. */
import t from 'tap';
import { beginRollback, type RollbackStart } from '../../../db/installations/updates.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, MINIMAL, readmeWith } from '../package/packages.ts';

const api = await startApiFixture(t, { readsInProcess: true, limits: { installationsPerAccount: 100 } });
const ann = await api.user('ann');
const ben = await api.user('ben');
let count = 0;

const LESS = MINIMAL;
const MORE = { ...MINIMAL, 'index.ts': `${INDEX}events.pluginInstalled = () => {};` };
const HOOK = 'middleware.systemPrompt';
const HOOK_AND_EVENT = ['events.pluginInstalled', HOOK];

/** A listed plugin of ann's with these versions, which ben installs as he wants. */
async function installed(policy: (ids: Record<string, string>) => object, ...versions: [string, typeof LESS][]) {
  count += 1;
  const slug = `plugin-${count}`;
  const { id: pluginId } = (await ann.post('/plugins', { slug, displayName: slug })).body;
  const ids: Record<string, string> = {};
  const publish = async (semVer: string, files: typeof LESS): Promise<string> => {
    const { status, body } = await ann.post(`/plugins/${pluginId}/versions`, { semVer, files: fileList(files) });
    if (status !== 201) throw new Error(JSON.stringify(body));
    ids[semVer] = body.id;
    return body.id;
  };
  for (const [semVer, files] of versions) await publish(semVer, files);
  await ann.post(`/plugins/${pluginId}/listing`);
  const made = await ben.post('/installations', { slug, ...policy(ids) });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  const path = `/installations/${made.body.id}`;
  const start = (semVer: string): Promise<RollbackStart> => {
    const update = { installationId: made.body.id, versionId: ids[semVer] ?? '' };
    return beginRollback(api.pool, api.services.queues, update, { reason: 'it ends', cause: 'crashed' });
  };
  const begin = async (semVer: string): Promise<boolean> => (await start(semVer)).kind === 'begun';
  return {
    id: made.body.id as string,
    path,
    ids,
    publish,
    yank: (semVer: string) => ann.post(`/plugins/${pluginId}/versions/${ids[semVer]}/yank`),
    get: async () => (await ben.get(path)).body,
    change: async (change: object) => (await ben.patch(path, change)).body,
    accept: async (semVer: string) => (await ben.post(`${path}/accept-update`, { versionId: ids[semVer] })).body,
    /** As a supervisor does when the version ends again and again. @returns whether a rollback began */
    crashLoop: async (semVer: string): Promise<boolean> => {
      const began = await begin(semVer);
      await api.services.finishUpdate(made.body.id);
      return began;
    },
    /** The same, before the previous version has started. */
    begin,
    start,
  };
}
const latest = () => ({});
const pinned = (semVer: string) => (ids: Record<string, string>) => ({
  versionPolicy: 'Pinned',
  pinnedVersionId: ids[semVer],
});

t.test('an upgrade that needs less is rolled back to the access that the previous version had', async (t) => {
  const one = await installed(latest, ['1.0.0', MORE]);
  await one.publish('2.0.0', LESS);
  t.match(await one.get(), { currentSemVer: '2.0.0', grantedCapabilities: [HOOK] });
  t.equal(await one.crashLoop('2.0.0'), true);
  t.match(await one.get(), {
    currentSemVer: '1.0.0',
    grantedCapabilities: HOOK_AND_EVENT,
    failedUpdate: { semVer: '2.0.0', rolledBack: true },
  });
});

const declaring = (secrets: string, ...capabilities: string[]) => ({
  ...MINIMAL,
  'readme.md': readmeWith(`capabilities: ${JSON.stringify(capabilities)}\n${secrets}`),
});

await soakTest(t, 'a rollback to more access ends when its user gives a value to the running version', async (t) => {
  const one = await installed(latest, ['1.0.0', declaring('secrets: { key: {}, old: {} }', 'host.llm')]);
  await one.publish('2.0.0', declaring('secrets: { key: { use: [webhooks] } }'));
  t.match(await one.get(), { currentSemVer: '2.0.0' });
  t.equal(await one.begin('2.0.0'), true);
  await ben.post(`${one.path}/pause`);
  const give = async (secrets: object) => (await ben.post(`${one.path}/configure`, { secrets })).body;
  t.match(await give({ old: 'k' }), { updateUnderWay: { semVer: '1.0.0' } }, 'that of the version before');
  t.match(await give({ key: 'k' }), { currentSemVer: '2.0.0', updateUnderWay: null });
  const { rows } = await api.pool.query('SELECT name, capabilities FROM installation_secrets ORDER BY name');
  t.same(rows, [
    { name: 'key', capabilities: ['secrets.key:webhooks'] },
    { name: 'old', capabilities: ['secrets.old'] },
  ]);
  await ben.post(`${one.path}/resume`);
  t.equal(await one.begin('2.0.0'), false, 'nor does it begin again');
  t.match(await one.get(), { currentSemVer: '2.0.0', updateUnderWay: null });
});

await soakTest(t, 'a value is not given to another version than the one that its user was shown', async (t) => {
  const one = await installed(latest, ['1.0.0', declaring('secrets: { key: {} }')]);
  await one.publish('2.0.0', declaring('secrets: { key: { use: [webhooks] } }'));
  const shown = (await one.get()).currentVersionId;
  t.equal(await one.crashLoop('2.0.0'), true);
  const give = (versionId: string, secrets: object) => ben.post(`${one.path}/configure`, { versionId, secrets });
  t.match(await give(shown, { key: 'k' }), {
    status: 400,
    body: { code: 'bad_request', detail: /^Nothing was saved: 1\.0\.0 runs now, and not the version/ },
  });
  t.match(await one.get(), { currentSemVer: '1.0.0', secretNames: [] });
  t.match(await give(shown, { key: null }), { status: 200 }, 'nothing is given');
  t.match(await give((await one.get()).currentVersionId, { key: 'k' }), {
    status: 200,
    body: { secretNames: ['key'] },
  });

  await one.publish('3.0.0', declaring('secrets: { key: { required: true }, next: { required: true } }'));
  const accepted = await one.accept('3.0.0');
  t.match(accepted, { currentSemVer: '1.0.0', updateUnderWay: { semVer: '3.0.0' } });
  t.match(await give(accepted.updateUnderWay.versionId, { next: 'k' }), { body: { currentSemVer: '3.0.0' } });
});

t.test('a rollback does not forget the handle of a secret', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('1.0.1', declaring('secrets: { key: { use: [webhooks] } }'));
  t.match(await one.get(), { currentSemVer: '1.0.1' });
  // As if 1.0.1 had become current under a release that wrote down the grants of its predecessor only.
  await api.pool.query('UPDATE installations SET previous_grants = $2 WHERE id = $1', [one.id, [HOOK]]);
  t.equal(await one.crashLoop('1.0.1'), true);
  await one.publish('1.0.2', declaring('secrets: { key: {} }'));
  t.match(await one.get(), { currentSemVer: '1.0.0', pendingUpdate: { semVer: '1.0.2', added: ['secrets.key'] } });
});

t.test('an update that its user accepted is rolled back', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', MORE);
  t.match(await one.accept('2.0.0'), { currentSemVer: '2.0.0', grantedCapabilities: HOOK_AND_EVENT });
  t.equal(await one.crashLoop('2.0.0'), true);
  t.match(await one.get(), { currentSemVer: '1.0.0', grantedCapabilities: [HOOK] });
});

await soakTest(t, 'a pinned version that took access away is not rolled back to more access', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', MORE);
  await one.accept('2.0.0');
  const kept = { currentSemVer: '1.0.0', grantedCapabilities: [HOOK], updateUnderWay: null };
  t.match(await one.change(pinned('1.0.0')(one.ids)), { ...kept, versionPolicy: 'Pinned' });
  t.equal(await one.crashLoop('1.0.0'), false);
  t.match(await one.get(), kept);
  const asked = await one.change({ versionPolicy: 'Latest' });
  t.match(asked, { ...kept, pendingUpdate: { semVer: '2.0.0', added: ['events.pluginInstalled'] } });
  t.equal(await one.crashLoop('1.0.0'), false, 'whatever the policy is now: the update asks for consent');
  t.match(await one.get(), kept);
});

await soakTest(t, 'Latest below a pinned pre-release is not rolled back to more access', async (t) => {
  const one = await installed(pinned('2.0.0-rc.1'), ['1.0.0', LESS], ['2.0.0-rc.1', MORE]);
  const kept = { currentSemVer: '1.0.0', grantedCapabilities: [HOOK], updateUnderWay: null };
  t.match(await one.change({ versionPolicy: 'Latest' }), kept);
  t.same(await one.start('1.0.0'), { kind: 'refused', why: 'that one has more access, which was taken away' });
  t.equal(await one.crashLoop('1.0.0'), false);
  t.match(await one.get(), kept);
});

t.test('access that a pin took away does not come back after the pin', async (t) => {
  const one = await installed(latest, ['1.0.0', MORE], ['2.0.0-rc.1', LESS]);
  t.match(await one.change(pinned('2.0.0-rc.1')(one.ids)), {
    currentSemVer: '2.0.0-rc.1',
    grantedCapabilities: [HOOK],
  });
  const pendingUpdate = { semVer: '1.0.0', added: ['events.pluginInstalled'] };
  t.match(await one.change({ versionPolicy: 'Latest' }), { pendingUpdate });
  t.equal(await one.crashLoop('2.0.0-rc.1'), false);
  t.match(
    await one.get(),
    { currentSemVer: '2.0.0-rc.1', grantedCapabilities: [HOOK], pendingUpdate },
    'it is asked for',
  );

  const late = await installed(latest, ['1.0.0', MORE]);
  await late.publish('2.0.0', LESS);
  await late.change(pinned('2.0.0')(late.ids));
  t.match(await late.change({ versionPolicy: 'Latest' }), { currentSemVer: '2.0.0', pendingUpdate: null });
  t.equal(await late.crashLoop('2.0.0'), false, 'pinned after it became current');
});

await soakTest(t, 'a pin leaves the return to a version whose access the current one covers', async (t) => {
  const narrow = declaring('', 'host.workspace:read', 'host.http:api.example.com');
  const one = await installed(latest, ['1.0.0', narrow]);
  await one.publish('2.0.0', declaring('', 'host.workspace', 'host.http:*.example.com'));
  t.match(await one.accept('2.0.0'), { currentSemVer: '2.0.0' });
  await one.change(pinned('2.0.0')(one.ids));
  t.match(await one.change({ versionPolicy: 'Latest' }), { currentSemVer: '2.0.0' });
  t.equal(await one.crashLoop('2.0.0'), true);
  t.match(await one.get(), { currentSemVer: '1.0.0' });

  const old = await installed(latest, ['1.0.0', MORE]);
  await old.publish('2.0.0', LESS);
  // As if 2.0.0 had become current under a release that did not write down the grants of its predecessor.
  await api.pool.query('UPDATE installations SET previous_grants = NULL WHERE id = $1', [old.id]);
  await old.change(pinned('2.0.0')(old.ids));
  await old.change({ versionPolicy: 'Latest' });
  t.equal(await old.crashLoop('2.0.0'), false, 'the version itself has more access');
});

t.test('an upgrade is not rolled back to access that its user is asked for', async (t) => {
  const one = await installed(latest, ['1.0.0', MORE]);
  await one.publish('2.0.0', LESS);
  await one.publish('3.0.0', MORE);
  const asked = { currentSemVer: '2.0.0', grantedCapabilities: [HOOK], pendingUpdate: { semVer: '3.0.0' } };
  t.match(await one.get(), asked);
  t.same(await one.start('2.0.0'), { kind: 'refused', why: 'that one has access that an update asks for' });
  t.equal(await one.crashLoop('2.0.0'), false);
  t.match(await one.get(), asked);
});

await soakTest(t, 'a rollback ends when its user is asked for the access before it completes', async (t) => {
  const one = await installed(latest, ['1.0.0', MORE]);
  await one.publish('2.0.0', LESS);
  t.equal(await one.begin('2.0.0'), true);
  await ben.post(`${one.path}/pause`);
  await one.publish('3.0.0', MORE);
  const pendingUpdate = { semVer: '3.0.0', added: ['events.pluginInstalled'] };
  t.match(await one.get(), { updateUnderWay: { semVer: '1.0.0' }, pendingUpdate });
  await ben.post(`${one.path}/resume`);
  const kept = { currentSemVer: '2.0.0', grantedCapabilities: [HOOK], updateUnderWay: null, pendingUpdate };
  t.match(await one.get(), kept);
  t.equal(await one.crashLoop('2.0.0'), false);

  const chosen = await installed(latest, ['1.0.0', MORE]);
  await chosen.publish('2.0.0', LESS);
  await chosen.begin('2.0.0');
  await ben.post(`${chosen.path}/pause`);
  await chosen.publish('3.0.0', MORE);
  await chosen.change(pinned('1.0.0')(chosen.ids));
  await ben.post(`${chosen.path}/resume`);
  t.match(await chosen.get(), { currentSemVer: '1.0.0', grantedCapabilities: HOOK_AND_EVENT }, 'its user pinned it');
});

t.test('a downgrade is rolled back if the previous version needs no more', async (t) => {
  const one = await installed(pinned('2.0.0-rc.1'), ['1.0.0', LESS], ['2.0.0-rc.1', LESS]);
  t.match(await one.change({ versionPolicy: 'Latest' }), { currentSemVer: '1.0.0' });
  t.equal(await one.crashLoop('1.0.0'), true);
  t.match(await one.get(), { currentSemVer: '2.0.0-rc.1', grantedCapabilities: [HOOK] });
});

t.test('a version that its user pinned stays', async (t) => {
  const one = await installed(pinned('1.0.0'), ['1.0.0', LESS], ['2.0.0', LESS]);
  t.match(await one.change(pinned('2.0.0')(one.ids)), { currentSemVer: '2.0.0' });
  t.same(await one.start('2.0.0'), { kind: 'refused', why: 'it is pinned' });
  t.equal(await one.crashLoop('2.0.0'), false);
  t.match(await one.get(), { currentSemVer: '2.0.0', updateUnderWay: null });
});

await soakTest(t, 'a version that follows Latest and is pinned after it became current stays', async (t) => {
  const one = await installed(latest, ['1.0.0', MORE]);
  await one.publish('2.0.0', LESS);
  t.match(await one.change(pinned('2.0.0')(one.ids)), { currentSemVer: '2.0.0', versionPolicy: 'Pinned' });
  t.equal(await one.crashLoop('2.0.0'), false);
  t.match(await one.get(), { currentSemVer: '2.0.0', grantedCapabilities: [HOOK] });
});

t.test('a yanked version is not returned to', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', LESS);
  await one.yank('1.0.0');
  t.same(await one.start('2.0.0'), { kind: 'refused', why: 'that one was yanked' });
  t.equal(await one.crashLoop('2.0.0'), false);
  t.match(await one.get(), { currentSemVer: '2.0.0', updateUnderWay: null });
});

await soakTest(t, 'a rollback to a version that is yanked meanwhile ends', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', LESS);
  t.equal(await one.begin('2.0.0'), true);
  await one.yank('1.0.0');
  t.match(await one.get(), { currentSemVer: '2.0.0', updateUnderWay: null, failedUpdate: null });
});

t.test('a rollback waits for a yank that has begun', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', LESS);
  const yank = await api.pool.connect();
  t.teardown(() => yank.release());
  await yank.query('BEGIN');
  await yank.query(`SELECT 1 FROM plugins p JOIN versions v ON v.plugin_id = p.id WHERE v.id = $1 FOR UPDATE OF p`, [
    one.ids['1.0.0'],
  ]);
  await yank.query(`UPDATE versions SET status = 'yanked', yanked_at = now() WHERE id = $1`, [one.ids['1.0.0']]);
  const began = one.begin('2.0.0');
  await untilLockIsAwaited(api.pool);
  await yank.query('COMMIT');
  t.equal(await began, false);
});

await soakTest(t, 'a retry of the version that was rolled back leaves a newer one pending', async (t) => {
  const one = await installed(latest, ['1.0.0', LESS]);
  await one.publish('2.0.0', LESS);
  t.equal(await one.crashLoop('2.0.0'), true);
  await one.publish('3.0.0', MORE);
  const pendingUpdate = { semVer: '3.0.0', added: ['events.pluginInstalled'] };
  t.match(await one.get(), { currentSemVer: '1.0.0', failedUpdate: { semVer: '2.0.0' }, pendingUpdate });
  t.equal((await ben.post(`${one.path}/retry-update`)).status, 200);
  t.match(await one.get(), { currentSemVer: '2.0.0', failedUpdate: null, pendingUpdate });
});
