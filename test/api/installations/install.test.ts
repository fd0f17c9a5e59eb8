/** Installing, configuring and uninstalling. */
import t from 'tap';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { rotateKey } from '../../../db/files/key-rotation.ts';
import { saveSecret } from '../../../db/files/secrets.ts';
import { loadInstalledPlugin, loadUpdateTarget } from '../../../db/installations/account-plugins.ts';
import { STORED_MAX } from '../../../db/installations/configuration.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { beginRollback, beginUpdate, completeUpdate, failUpdate } from '../../../db/installations/updates.ts';
import { subscribeToInstallations } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { SLUG_MAX_CHARS } from '../../../sdk/contract/full-names.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, MINIMAL, readmeWith } from '../package/packages.ts';

const api = await startApiFixture(t, { readsInProcess: true, limits: { installationsPerAccount: 3 } });
const ann = await api.user('ann');
const ben = await api.user('ben');
let count = 0;

/** A plugin of ann's with one version. */
async function published(files: Parameters<typeof fileList>[0] = MINIMAL) {
  count += 1;
  const slug = `plugin-${count}`;
  const { body } = await ann.post('/plugins', { slug, displayName: `Plugin ${count}` });
  const version = await ann.post(`/plugins/${body.id}/versions`, { semVer: '1.0.0', files: fileList(files) });
  if (version.status !== 201) throw new Error(JSON.stringify(version.body));
  return { slug, id: body.id as string, versionId: version.body.id as string };
}
const events = async (installationId: string) =>
  (await api.pool.query('SELECT type, data FROM events WHERE installation_id = $1 ORDER BY id', [installationId])).rows;
const CONFIGURED = {
  'readme.md': readmeWith(
    'settings: { units: { label: Units, default: metric, enum: [metric, imperial] }, city: { required: true } }',
    'secrets: { apiKey: { label: API key, required: true }, other: {} }',
  ),
  'index.ts': INDEX,
};

t.test('an installation grants the version’s capabilities and notifies the plugin', async (t) => {
  const { slug, versionId } = await published();
  const made = await ann.post('/installations', { slug });
  t.equal(made.status, 201, JSON.stringify(made.body));
  t.match(made.body, {
    slug,
    versionPolicy: 'Latest',
    currentVersionId: versionId,
    currentSemVer: '1.0.0',
    status: 'ready',
    grantedCapabilities: ['middleware.systemPrompt'],
    pendingUpdate: null,
    secretNames: [],
    settings: {},
    runtime: { state: 'stopped', restarts: 0 },
  });
  t.same(await events(made.body.id), [{ type: 'pluginInstalled', data: { reason: 'install' } }]);
  t.match((await ann.get(`/installations/${made.body.id}`)).body, made.body);
  const again = await ann.post('/installations', { slug });
  t.equal(again.status, 409);
  t.equal(again.body.code, 'already_installed');
  const entry = await ann.get(`/marketplace/${slug}`);
  t.match(entry.body, { installed: true, installationId: made.body.id, installCount: 1, readme: '# House style\n' });
  t.match(entry.body.reach, [{ capability: 'middleware.systemPrompt', risk: 'medium' }]);
  t.equal((await ann.delete(`/installations/${made.body.id}`)).status, 204);
  const tooLong = await ann.post('/installations', { slug: 'a'.repeat(SLUG_MAX_CHARS + 1) });
  t.match(tooLong, { status: 400, body: { detail: /at most 64 characters/ } }, 'no plugin can have such a slug');
});

t.test('a change to the values that the installation already has sends no notification', async (t) => {
  const { slug, versionId } = await published();
  const { body: made } = await ann.post('/installations', { slug });
  const path = `/installations/${made.id}`;
  await ann.patch(path, { versionPolicy: 'Pinned', pinnedVersionId: versionId, hookOrder: 7, required: true });
  const { body: paused } = await ann.post(`${path}/pause`);
  await api.services.listener.catchUp();
  const notified: string[] = [];
  const { close } = await subscribeToInstallations(
    api.services.listener,
    ({ installationId }) => notified.push(installationId),
    () => undefined,
  );
  t.teardown(close);
  const { versionPolicy, pinnedVersionId, hookOrder, required } = paused;
  const same = await ann.patch(path, { versionPolicy, pinnedVersionId, hookOrder, required });
  t.match(same, { status: 200, body: { versionPolicy: 'Pinned', hookOrder: 7, updatedAt: paused.updatedAt } });
  t.equal((await ann.post(`${path}/pause`)).body.updatedAt, paused.updatedAt);
  await api.services.listener.catchUp();
  t.same(notified, []);
  t.equal((await ann.patch(path, { hookOrder: 8 })).body.hookOrder, 8);
  await api.services.listener.catchUp();
  t.same(notified, [made.id]);
  t.equal((await ann.delete(path)).status, 204);
});

t.test('an update that drops a hook of a required plugin waits for consent', async (t) => {
  const style = 'middleware.systemPrompt = (ctx) => ctx.prompt;';
  const guard = { ...MINIMAL, 'index.ts': `${style} middleware.inboundMessage = (ctx) => ctx.cancel("no");` };
  /** Installs the guard and publishes a version of it that guards nothing. */
  const update = async (required: boolean) => {
    const { slug, id } = await published(guard);
    const { body: made } = await ann.post('/installations', { slug, required });
    const next = { semVer: '1.1.0', files: fileList({ ...guard, 'index.ts': style }) };
    const { body: version } = await ann.post(`/plugins/${id}/versions`, next);
    return { path: `/installations/${made.id}`, versionId: version.id };
  };
  const optional = await update(false);
  t.match((await ann.get(optional.path)).body, { currentSemVer: '1.1.0', pendingUpdate: null });
  const { path, versionId } = await update(true);
  t.match((await ann.get(path)).body, {
    currentSemVer: '1.0.0',
    pendingUpdate: { versionId, added: [], removed: ['middleware.inboundMessage'] },
  });
  const accepted = await ann.post(`${path}/accept-update`, { versionId });
  t.match(accepted.body, { currentSemVer: '1.1.0', grantedCapabilities: ['middleware.systemPrompt'] });
  for (const installed of [optional.path, path]) await ann.delete(installed);
});

const STYLE = 'middleware.systemPrompt = (ctx) => ctx.prompt;';
const GUARD = `${STYLE} middleware.inboundMessage = (ctx) => ctx.cancel("no");`;

/** Publishes a plugin and installs its version for good. */
async function installPinned(files: Parameters<typeof published>[0]) {
  const { slug, id, versionId: pinnedVersionId } = await published(files);
  const pinned = { versionPolicy: 'Pinned', pinnedVersionId };
  const { body: made } = await ann.post('/installations', { slug, ...pinned });
  return { id, pinned, made, path: `/installations/${made.id}` };
}

/** Begins an update as a supervisor would find it. */
async function begin(installationId: string, versionId: string) {
  const { accountId = '' } = (await loadInstalledPlugin(api.pool, installationId)) ?? {};
  const { queues } = api.services;
  await inTransaction(api.pool, (tx) => beginUpdate(tx, queues, { id: installationId, accountId }, versionId));
}

await soakTest(t, 'a plugin that becomes required keeps its hooks, whatever is under way', async (t) => {
  const guard = { ...MINIMAL, 'index.ts': GUARD };
  const { id, pinned, made, path } = await installPinned(guard);
  const publish = async (semVer: string, index: string) =>
    (await ann.post(`/plugins/${id}/versions`, { semVer, files: fileList({ ...guard, 'index.ts': index }) })).body.id;
  const versionId = await publish('1.1.0', STYLE);
  const kept = { required: true, currentSemVer: '1.0.0', updateUnderWay: null, pendingUpdate: { versionId } };
  t.match((await ann.patch(path, { required: true, versionPolicy: 'Latest' })).body, kept, 'in the same request');
  await ann.patch(path, { required: false, ...pinned });
  await begin(made.id, versionId);
  t.match((await ann.patch(path, { required: true })).body, kept, 'an update was starting');
  t.match((await ann.post(`${path}/accept-update`, { versionId })).body, { currentSemVer: '1.1.0' });
  const next = await publish('1.2.0', guard['index.ts']);
  await ann.patch(path, { versionPolicy: 'Latest' });
  t.match((await ann.post(`${path}/accept-update`, { versionId: next })).body, { currentSemVer: '1.2.0' });
  const rollBack = async (): Promise<boolean> => {
    const update = { installationId: made.id, versionId: next };
    const start = await beginRollback(api.pool, api.services.queues, update, { reason: 'it ends', cause: 'crashed' });
    return start.kind === 'begun';
  };
  t.equal(await rollBack(), false, 'a message that makes it crash does not switch it off');
  await ann.patch(path, { required: false });
  t.equal(await rollBack(), true);
  t.equal(await failUpdate(api.pool, { installationId: made.id, versionId }, 'it was too slow'), true);
  const { rows } = await api.pool.query('SELECT failed_reason, failed_at FROM installations WHERE id = $1', [made.id]);
  t.same(rows, [{ failed_reason: null, failed_at: null }], 'a rollback that failed is no failed update');
  t.equal(await rollBack(), true, 'the next end begins another one');
  t.match((await ann.patch(path, { required: true })).body, { currentSemVer: '1.2.0', updateUnderWay: null });
  t.equal((await ann.delete(path)).status, 204);
});

await soakTest(
  t,
  'a retried update waits for consent if the plugin has become required and the version drops a hook',
  async (t) => {
    const { id, made, path } = await installPinned({ ...MINIMAL, 'index.ts': GUARD });
    const files = fileList({ ...MINIMAL, 'index.ts': STYLE });
    const { body: version } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files });
    const update = { installationId: made.id, versionId: version.id };
    await begin(made.id, version.id);
    t.equal(await failUpdate(api.pool, update, 'it did not start'), true);
    t.match((await ann.patch(path, { required: true })).body, { failedUpdate: { versionId: version.id } });
    t.match((await ann.post(`${path}/retry-update`)).body, {
      currentSemVer: '1.0.0',
      updateUnderWay: null,
      pendingUpdate: { versionId: version.id, removed: ['middleware.inboundMessage'] },
    });
    t.match((await ann.post(`${path}/accept-update`, { versionId: version.id })).body, { currentSemVer: '1.1.0' });
    await ann.delete(path);
  },
);

t.test('an update does not end while what its version requires is missing', async (t) => {
  const { id, made, path } = await installPinned(CONFIGURED);
  const secrets = { apiKey: 'k' };
  t.match((await ann.post(`${path}/configure`, { settings: { city: 'Bern' }, secrets })).body, { status: 'ready' });
  const { body: version } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files: fileList(CONFIGURED) });
  const update = { installationId: made.id, versionId: version.id };
  await begin(made.id, version.id);
  const removed = await ann.post(`${path}/configure`, { secrets: { apiKey: null } });
  t.match(removed.body, { status: 'needs_configuration', currentSemVer: '1.0.0' });
  t.equal(await completeUpdate(api.pool, api.services.queues, update), null, 'it had started before');
  t.match((await ann.get(path)).body, { status: 'needs_configuration', currentSemVer: '1.0.0' });
  t.match((await ann.post(`${path}/configure`, { secrets })).body, { status: 'ready', currentSemVer: '1.1.0' });
  await ann.delete(path);
});

t.test('an installation is required from the start or by a later change, and supervisors load it so', async (t) => {
  const guard = await published({ ...MINIMAL, 'index.ts': 'middleware.inboundMessage = (ctx) => ctx.cancel("no");' });
  const { body: entry } = await ann.get(`/marketplace/${guard.slug}`);
  t.match(entry.reach, [{ capability: 'middleware.inboundMessage', cancels: true }]);
  const { body: made } = await ann.post('/installations', { slug: guard.slug, required: true });
  const path = `/installations/${made.id}`;
  t.equal(made.required, true);
  t.equal((await ann.get(path)).body.required, true);
  t.match(await loadInstalledPlugin(api.pool, made.id), { required: true, displayName: entry.displayName });
  const other = await ann.patch(path, { hookOrder: 3 });
  t.match(other.body, { required: true, hookOrder: 3 }, 'another change leaves it as it is');
  t.match((await ann.patch(path, { required: false })).body, { required: false, hookOrder: 3 });
  t.match((await ann.patch(path, { required: true })).body, { required: true });
  t.equal((await ann.patch(path, { required: 'yes' })).status, 400);
  t.equal((await ben.patch(path, { required: false })).status, 404);
  t.equal((await ann.delete(path)).status, 204);
  const plain = await published();
  const { body: notAsked } = await ann.post('/installations', { slug: plain.slug });
  t.equal(notAsked.required, false, 'default');
  t.match(notAsked.reach, [{ capability: 'middleware.systemPrompt', cancels: false }]);
  t.equal((await ann.delete(`/installations/${notAsked.id}`)).status, 204);
});

t.test('another account neither sees nor installs a private plugin', async (t) => {
  const { slug, id } = await published();
  t.equal((await ben.post('/installations', { slug })).status, 404);
  t.equal((await ben.get(`/marketplace/${slug}`)).status, 404);
  t.equal((await ben.get(`/plugins/${id}`)).status, 404);
  t.equal((await ben.post(`/plugins/${id}/versions`, { semVer: '9.0.0', files: fileList(MINIMAL) })).status, 404);
  const seen = (await ben.get('/marketplace')).body.items.map((entry: { slug: string }) => entry.slug);
  t.notOk(seen.includes(slug));
  t.ok((await ann.get('/marketplace')).body.items.some((entry: { slug: string }) => entry.slug === slug));
  const { body } = await ann.post('/installations', { slug });
  t.equal((await ben.get(`/installations/${body.id}`)).status, 404);
  t.equal((await ben.delete(`/installations/${body.id}`)).status, 404);
  t.equal((await ben.post(`/installations/${body.id}/configure`, { settings: {} })).status, 404);
  t.equal((await ben.get(`/plugin-logs?installationId=${body.id}`)).status, 404);
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 204);
});

t.test('configuration is required, validated and stored; secrets are never returned', async (t) => {
  const { slug } = await published(CONFIGURED);
  const { body } = await ann.post('/installations', { slug });
  t.equal(body.status, 'needs_configuration');
  t.equal(body.statusReason, 'Set city, API key (apiKey) before it can run.');
  const path = `/installations/${body.id}/configure`;
  const half = await ann.post(path, { settings: { city: 'Bern' } });
  t.match(half.body, { status: 'needs_configuration', settings: { city: 'Bern' } });
  const canary = 'canary-7f3a';
  const whole = await ann.post(path, { settings: { units: 'imperial' }, secrets: { apiKey: canary, other: canary } });
  t.match(whole.body, {
    status: 'ready',
    settings: { city: 'Bern', units: 'imperial' },
    secretNames: ['apiKey', 'other'],
  });
  t.notMatch(JSON.stringify(whole.body), canary);
  const forgotten = await ann.post(path, { secrets: { other: null } });
  t.same(forgotten.body.secretNames, ['apiKey']);
  const stored = await api.pool.query('SELECT * FROM installation_secrets WHERE installation_id = $1', [body.id]);
  t.notOk(stored.rows[0].sealed.includes(canary));
  for (const [input, field] of [
    [{ settings: { nope: 'x' } }, 'settings.nope'],
    [{ settings: { units: 'stones' } }, 'settings.units'],
    [{ settings: { city: 3 } }, 'settings.city'],
    [{ settings: 'x' }, 'settings'],
    [{ secrets: { nope: 'x' } }, 'secrets.nope'],
    [{ secrets: { apiKey: '' } }, 'secrets.apiKey'],
    [{ secrets: { apiKey: `${canary}\0` } }, 'secrets.apiKey'],
  ] as const) {
    const refused = await ann.post(path, input);
    t.equal(refused.status, 400, field);
    t.equal(refused.body.errors[0].field, field);
    t.notMatch(JSON.stringify(refused.body), canary);
  }
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 204);
});

t.test('null deletes a value, and an update requires the values it needs', async (t) => {
  const { slug, id } = await published(CONFIGURED);
  const { body } = await ann.post('/installations', { slug });
  const path = `/installations/${body.id}`;
  const configure = (input: object) => ann.post(`${path}/configure`, input);
  await configure({ settings: { city: 'Bern', units: 'imperial' }, secrets: { apiKey: 'k', other: 'o' } });
  const reset = await configure({ settings: { units: null } });
  t.same(reset.body.settings, { city: 'Bern' });
  t.equal(reset.body.status, 'ready', 'the default serves');
  t.equal((await configure({ settings: { city: null } })).body.status, 'needs_configuration');
  await configure({ settings: { city: 'Bern', units: 'imperial' } });
  const picky = readmeWith('settings: { city: { required: true, enum: [Rome] } }');
  const files = fileList({ 'readme.md': picky, 'index.ts': INDEX });
  t.equal((await ann.post(`/plugins/${id}/versions`, { semVer: '2.0.0', files })).status, 201);
  const listed = (await ann.get(path)).body;
  t.match(listed, { currentSemVer: '1.0.0', status: 'ready', pendingUpdate: { semVer: '2.0.0', missing: ['city'] } });
  const { fields } = (await ann.get(`${path}/update-changes`)).body;
  t.match(fields, { settings: [{ name: 'city', enum: ['Rome'] }], secrets: [] }, 'what it asks for can be filled in');
  t.equal(fields.settings.length, 1);
  const accepted = await ann.post(`${path}/accept-update`, { versionId: listed.pendingUpdate.versionId });
  t.match(accepted.body, {
    currentSemVer: '1.0.0',
    status: 'ready',
    statusReason: 'Set city, so that 2.0.0 can start.',
    updateUnderWay: { semVer: '2.0.0', waitsFor: 'Set city, so that 2.0.0 can start.' },
  });
  t.same(accepted.body.configuration.settings.map(({ name }: { name: string }) => name).sort(), ['city', 'units']);
  const target = await loadUpdateTarget(api.pool, body.id);
  t.same(target?.plugin.settings, {}, 'a value that the version rules out does not reach the plugin');
  const stale = await configure({ settings: { city: 'Rome', units: null }, secrets: { apiKey: null, other: null } });
  t.match(
    stale.body,
    { currentSemVer: '2.0.0', status: 'ready', settings: { city: 'Rome' } },
    'what only the old version knew is forgotten',
  );
  t.same(stale.body.secretNames, []);
  t.equal((await configure({ settings: { units: null } })).status, 400, 'and is then unknown');
  t.equal((await ann.delete(path)).status, 204);
});

/** Does the work while a rotation of the key waits for this secret of the installation. */
const duringRotation = <Result>(installationId: string, name: string, work: () => Promise<Result>) =>
  during(
    api.pool,
    (tx) =>
      tx.query('SELECT 1 FROM installation_secrets WHERE installation_id = $1 AND name = $2 FOR UPDATE', [
        installationId,
        name,
      ]),
    () => rotateKey(api.pool, api.services.keys, () => undefined),
    work,
  );

await soakTest(t, 'several secrets are replaced during a rotation of the key', async (t) => {
  const { slug } = await published(CONFIGURED);
  const { body } = await ann.post('/installations', { slug });
  const path = `/installations/${body.id}`;
  await ann.post(`${path}/configure`, { secrets: { apiKey: 'k', other: 'o' } });
  const [rotated, configured] = await duringRotation(body.id, 'apiKey', () =>
    ann.post(`${path}/configure`, { secrets: { other: 'p', apiKey: 'l' } }),
  );
  t.match(rotated, { keyId: api.services.keys.newest });
  t.match(configured, { status: 200 });
  t.equal((await ann.delete(path)).status, 204);
});

await soakTest(
  t,
  'one secret is replaced, and those that no version declares are deleted, during a rotation of the key',
  async (t) => {
    const { slug } = await published(CONFIGURED);
    const { body } = await ann.post('/installations', { slug });
    const path = `/installations/${body.id}`;
    await ann.post(`${path}/configure`, { secrets: { apiKey: 'k', other: 'o' } });
    const undeclared = ['a', ...Array.from({ length: STORED_MAX }, (_, index) => `z${index}`)];
    await inTransaction(api.pool, async (tx) => {
      for (const name of undeclared) await saveSecret(tx, api.services.keys, body.id, name, 'x');
    });
    const [rotated, configured] = await duringRotation(body.id, 'a', () =>
      ann.post(`${path}/configure`, { secrets: { other: 'p' } }),
    );
    t.match(rotated, { keyId: api.services.keys.newest });
    t.match(configured, { status: 200, body: { secretNames: ['apiKey', 'other'] } });
    t.equal((await ann.delete(path)).status, 204);
  },
);

t.test('an update ends during a rotation of the key', async (t) => {
  const { id, made, path } = await installPinned(CONFIGURED);
  // Stored in another order than that of their names.
  const secrets = { other: 'o', apiKey: 'k' };
  t.match((await ann.post(`${path}/configure`, { settings: { city: 'Bern' }, secrets })).body, { status: 'ready' });
  const { body: version } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files: fileList(CONFIGURED) });
  await begin(made.id, version.id);
  const [rotated, updated] = await duringRotation(made.id, 'apiKey', () =>
    completeUpdate(api.pool, api.services.queues, { installationId: made.id, versionId: version.id }),
  );
  t.match(rotated, { keyId: api.services.keys.newest });
  t.match(updated, { installationId: made.id });
  t.equal((await ann.delete(path)).status, 204);
});

await soakTest(t, 'an installation is removed during a rotation of the key', async (t) => {
  const { slug } = await published(CONFIGURED);
  const { body } = await ann.post('/installations', { slug });
  // Stored in another order than that of their names.
  await ann.post(`/installations/${body.id}/configure`, { secrets: { other: 'o', apiKey: 'k' } });
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 204);
  const [rotated] = await duringRotation(body.id, 'apiKey', () =>
    removeInstallation(api.pool, api.services.queues, body.id),
  );
  t.match(rotated, { keyId: api.services.keys.newest });
  t.same((await api.pool.query('SELECT 1 FROM installations WHERE id = $1', [body.id])).rows, []);
});

await soakTest(
  t,
  'of many stored values, those that no version in use declares are deleted; what is kept counts',
  async (t) => {
    const NAMES = 60;
    /** Values of so many drafts are kept: 384 are. */
    const KEPT_DRAFTS = 6;
    const DRAFTS = KEPT_DRAFTS + 2;
    const { slug, id } = await published();
    const listNames = (kind: string, draft: number) =>
      Array.from({ length: NAMES }, (_, index) => `${kind}${draft}n${index}`);
    const declare = (names: readonly string[]) => names.map((name) => `${name}: {}`).join(', ');
    const fill = (names: readonly string[], value: string) => Object.fromEntries(names.map((name) => [name, value]));
    const saveDraft = async (draft: number) => {
      const fields = ['setting', 'secret'].map((kind) => `${kind}s: { ${declare(listNames(kind, draft))} }`);
      const files = fileList({ 'readme.md': readmeWith(...fields), 'index.ts': INDEX });
      t.equal((await ann.post(`/plugins/${id}/draft`, { files })).status, 200);
    };
    const readUsed = async (): Promise<number> => {
      const { rows } = await api.pool.query(
        `SELECT usage_bytes(i.account_id, 'storage')::int AS used, (SELECT coalesce(sum(stored_bytes), 0)::int FROM stored_rows s
         WHERE s.account_id = i.account_id AND s.kind = 'storage') AS stored FROM installations i WHERE i.id = $1`,
        [made.id],
      );
      t.equal(rows[0].used, rows[0].stored, 'as the rows are');
      const { items } = (await ann.get('/me/usage')).body;
      t.equal(items.find(({ kind }: { kind: string }) => kind === 'storage').usedBytes, rows[0].used);
      return rows[0].used;
    };
    await saveDraft(0);
    const { body: made } = await ann.post('/installations', { slug, versionPolicy: 'Draft' });
    const path = `/installations/${made.id}`;
    const before = await readUsed();
    for (let draft = 0; draft < DRAFTS; draft += 1) {
      if (draft > 0) await saveDraft(draft);
      const [settings, secrets] = [listNames('setting', draft), listNames('secret', draft)];
      const saved = await ann.post(`${path}/configure`, { secrets: fill(secrets, 's'.repeat(1_000)) });
      const kept = draft < KEPT_DRAFTS ? draft + 1 : draft - KEPT_DRAFTS + 1;
      t.equal(saved.body.secretNames.length, kept * NAMES);
      t.same(new Set([...saved.body.secretNames, ...secrets]).size, kept * NAMES, 'with those of the draft');
      const set = await ann.post(`${path}/configure`, { settings: fill(settings, 'v'.repeat(1_000)) });
      t.equal(Object.keys(set.body.settings).length, kept * NAMES);
      t.equal((await loadInstalledPlugin(api.pool, made.id))?.settings[settings[0] ?? ''], 'v'.repeat(1_000));
      const used = (await readUsed()) - before;
      t.ok(used > kept * 2 * NAMES * 1_000 && used < kept * 3 * NAMES * 1_000, `${used} bytes`);
    }
    const all = Object.fromEntries(listNames('secret', DRAFTS - 1).map((name) => [name, null]));
    await ann.post(`${path}/configure`, { secrets: all });
    t.ok((await readUsed()) - before < 4 * NAMES * 1_000, 'what is deleted does not count');
    await ann.delete(path);
  },
);

t.test('a full quota refuses a longer secret, and accepts its deletion', async (t) => {
  const { slug } = await published({ 'readme.md': readmeWith('secrets: { key: {} }'), 'index.ts': INDEX });
  const { body: made } = await ann.post('/installations', { slug });
  const path = `/installations/${made.id}`;
  const give = (key: string | null) => ann.post(`${path}/configure`, { secrets: { key } });
  t.equal((await give('short')).status, 200);
  await saveUsageLimits(api.pool, { storage: 1 });
  t.teardown(() => saveUsageLimits(api.pool, {}));
  t.match(await give('longer than before'), {
    status: 413,
    body: { code: 'quota_exceeded', errors: [{ field: 'storage' }] },
  });
  t.match((await give(null)).body, { secretNames: [] });
  await ann.delete(path);
});

await soakTest(t, 'a secret of an old version is kept for a yank that moves the installation back to it', async (t) => {
  const asking = (secret: string) => ({ 'readme.md': readmeWith(`secrets: { ${secret} }`), 'index.ts': INDEX });
  const { slug, id, versionId: first } = await published(asking('key: { required: true }'));
  const { body: made } = await ann.post('/installations', { slug });
  const path = `/installations/${made.id}`;
  const give = (name: string) => ann.post(`${path}/configure`, { secrets: { [name]: 'x' } });
  t.match((await give('key')).body, { status: 'ready' });
  const files = fileList(asking('token: {}'));
  const { body: second } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files });
  t.match((await give('token')).body, { currentVersionId: second.id, secretNames: ['key', 'token'] });
  const { rows } = await api.pool.query('SELECT previous_version_id FROM installations WHERE id = $1', [made.id]);
  t.same(rows, [{ previous_version_id: null }]);
  t.equal((await ann.post(`/plugins/${id}/versions/${second.id}/yank`)).status, 200);
  t.match((await ann.get(path)).body, { currentVersionId: first, status: 'ready', secretNames: ['key', 'token'] });
  await ann.delete(path);
});

await soakTest(
  t,
  'a value of the version before is there after a rollback, and one of the failed version for another try',
  async (t) => {
    const declaring = (name: string) => ({
      'readme.md': readmeWith(`settings: { ${name}: {}, both: {} }`),
      'index.ts': INDEX,
    });
    const { slug, id, versionId: first } = await published(declaring('old'));
    const { body: made } = await ann.post('/installations', { slug });
    const path = `/installations/${made.id}`;
    const set = async (settings: object) => (await ann.post(`${path}/configure`, { settings })).body.settings;
    await set({ old: '1', both: '1' });
    const files = fileList(declaring('new'));
    const { body: second } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.1.0', files });
    t.match((await ann.get(path)).body, { currentVersionId: second.id });
    t.same(await set({ new: '2' }), { old: '1', both: '1', new: '2' });
    t.same((await loadInstalledPlugin(api.pool, made.id))?.settings, { both: '1', new: '2' });
    const failed = { installationId: made.id, versionId: second.id };
    t.same(await beginRollback(api.pool, api.services.queues, failed, { reason: 'It crashed.', cause: 'crashed' }), {
      kind: 'begun',
    });
    t.ok(await completeUpdate(api.pool, api.services.queues, { installationId: made.id, versionId: first }));
    t.same((await loadInstalledPlugin(api.pool, made.id))?.settings, { old: '1', both: '1' });
    t.same(await set({ both: '3' }), { old: '1', both: '3', new: '2' });
    await ann.delete(path);
  },
);

t.test('an uninstalled one is gone for its user at once, and its removal is queued', async (t) => {
  const { slug } = await published();
  const { body } = await ann.post('/installations', { slug });
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 204);
  t.equal((await ann.get(`/installations/${body.id}`)).status, 404);
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 404);
  t.same((await events(body.id)).at(-1), { type: 'pluginUninstalled', data: { by: 'user' } });
  const jobs = await api.pool.query(
    `SELECT data FROM pgboss.job WHERE name = 'uninstall' AND data ->> 'installationId' = $1`,
    [body.id],
  );
  t.equal(jobs.rows.length, 1);
  const again = await ann.post('/installations', { slug });
  t.equal(again.status, 201, 'the plugin can be installed anew while the old one is being removed');
  t.equal((await ann.delete(`/installations/${again.body.id}`)).status, 204);
});

t.test('pins name a published version of the plugin', async (t) => {
  const one = await published();
  const other = await published();
  const pin = (pinnedVersionId?: string | null) =>
    ann.post('/installations', { slug: one.slug, versionPolicy: 'Pinned', pinnedVersionId });
  for (const wrong of [undefined, null, other.versionId, 'nonsense']) {
    const refused = await pin(wrong);
    t.equal(refused.status, 422);
    t.equal(refused.body.code, 'invalid_pin');
  }
  for (const versionPolicy of [undefined, 'Latest', 'Draft']) {
    const body = { slug: one.slug, versionPolicy, pinnedVersionId: one.versionId };
    t.match(await ann.post('/installations', body), {
      status: 422,
      body: { code: 'invalid_pin', errors: [{ field: 'pinnedVersionId' }] },
    });
  }
  const made = await pin(one.versionId);
  t.match(made.body, { versionPolicy: 'Pinned', pinnedVersionId: one.versionId });
  t.equal((await ann.post('/installations', { slug: other.slug, versionPolicy: 'Draft' })).body.code, 'no_draft');
  t.equal((await ann.delete(`/installations/${made.body.id}`)).status, 204);
});

await soakTest(
  t,
  'a replaced draft cannot be pinned, and one that was pinned before does not fail later saves',
  async (t) => {
    const { slug, id } = await published();
    const save = () => ann.post(`/plugins/${id}/draft`, { files: fileList(MINIMAL) });
    t.equal((await save()).status, 200);
    const { body } = await ann.post('/installations', { slug, versionPolicy: 'Draft' });
    const path = `/installations/${body.id}`;
    t.equal((await ann.post(`${path}/pause`)).status, 200);
    t.equal((await save()).status, 200);
    const refused = await ann.patch(path, { versionPolicy: 'Pinned', pinnedVersionId: body.currentVersionId });
    t.match(refused, { status: 422, body: { code: 'invalid_pin', detail: /^A draft cannot be pinned/ } });
    await api.pool.query('UPDATE installations SET pinned_version_id = $2, pending_version_id = $2 WHERE id = $1', [
      body.id,
      body.currentVersionId,
    ]);
    t.equal((await ann.post(`${path}/resume`)).status, 200);
    for (let round = 0; round < 3; round += 1) t.equal((await save()).status, 200);
    t.equal((await ann.delete(path)).status, 204);
  },
);

await soakTest(t, 'a pin of null, as GET returns it, is no pin', async (t) => {
  const { slug, versionId } = await published();
  const made = await ann.post('/installations', { slug, versionPolicy: 'Latest', pinnedVersionId: null });
  t.match(made, { status: 201, body: { versionPolicy: 'Latest', pinnedVersionId: null } });
  const change = (body: object) => ann.patch(`/installations/${made.body.id}`, body);
  const { versionPolicy, pinnedVersionId } = made.body;
  t.match(await change({ versionPolicy, pinnedVersionId }), { status: 200, body: { pinnedVersionId: null } });
  t.equal((await change({ versionPolicy: 'Pinned', pinnedVersionId: versionId })).status, 200);
  const kept = { status: 200, body: { versionPolicy: 'Pinned', pinnedVersionId: versionId, hookOrder: 3 } };
  t.match(await change({ pinnedVersionId: null, hookOrder: 3 }), kept);
  const follows = { status: 200, body: { versionPolicy: 'Latest', pinnedVersionId: null } };
  t.match(await change({ versionPolicy: 'Latest', pinnedVersionId: null }), follows);
  t.equal((await ann.delete(`/installations/${made.body.id}`)).status, 204);
});

t.test('rerun-setup sends pluginInstalled again', async (t) => {
  const { slug } = await published();
  const { body } = await ann.post('/installations', { slug });
  const answer = await ann.post(`/installations/${body.id}/rerun-setup`);
  t.equal(answer.status, 202);
  t.ok(answer.body.eventId);
  t.same((await events(body.id)).at(-1), { type: 'pluginInstalled', data: { reason: 'rerun-setup' } });
  t.equal((await ann.delete(`/installations/${body.id}`)).status, 204);
});

t.test('an account has so many installations at most, however they race', async (t) => {
  const plugins = await Promise.all(Array.from({ length: 5 }, () => published()));
  const answers = await Promise.all(plugins.map(({ slug }) => ann.post('/installations', { slug })));
  t.same(answers.map(({ status }) => status).sort(), [201, 201, 201, 409, 409]);
  const orders = answers.flatMap(({ status, body }) => (status === 201 ? [body.hookOrder] : []));
  t.equal(new Set(orders).size, 3, 'hook orders differ');
});

t.test('log lines are paged, filtered and kept to their account', async (t) => {
  const { items } = (await ann.get('/installations')).body;
  const id = items[0].id;
  const { insertLogs, maintainLogs } = await import('../../../db/records/logs.ts');
  await maintainLogs(api.pool);
  const line = (index: number) => ({
    id: `00${index}`,
    at: new Date().toISOString(),
    level: index % 2 ? 'warn' : ('info' as const),
    message: `m${index}`,
    data: null,
    installationId: id,
    sessionId: index === 4 ? 's' : null,
    source: 'system',
    invocationId: null,
    versionId: null,
    semVer: null,
    truncated: false,
  });
  await insertLogs(api.pool, [1, 2, 3, 4].map(line) as Parameters<typeof insertLogs>[1]);
  const get = (query: string) => ann.get(`/plugin-logs?installationId=${id}${query}`);
  const first = (await get('&limit=3')).body;
  t.same(
    first.items.map((one: { message: string }) => one.message),
    ['m4', 'm3', 'm2'],
  );
  t.same((await get(`&limit=3&cursor=${first.nextCursor}`)).body.items.length, 1);
  t.same((await get('&levels=warn')).body.items.length, 2);
  t.same((await get('&levels=warn&levels=info')).body.items.length, 4);
  t.same((await get('&sessionId=s')).body.items.length, 1);
  for (const wrong of ['&levels=fatal', '&limit=0', '&limit=x', '&limit=1001', '&cursor=%20', '&limit=1&limit=2']) {
    const refused = await get(wrong);
    t.equal(refused.status, 400, wrong);
    t.equal(refused.body.code, 'bad_request');
  }
  t.equal((await ann.get('/plugin-logs')).status, 400);
  t.equal((await ann.get('/plugin-logs?installationId=nope')).status, 404);
});
