/** The routes for operators, which refuse all other accounts, and the metrics of an installation. */
import t from 'tap';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { createEmptyHistogram } from '../../../db/records/duration-histogram.ts';
import { addCallSums, addUsageSums } from '../../../db/records/rollups.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, MINIMAL } from '../package/packages.ts';

const registrations = registerParts({ hooks: ['middleware.systemPrompt'], events: ['pluginInstalled'] });
const api = await startApiFixture(t, { introspect: async () => ({ ok: true, registrations, places: {} }) });
await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
const [ann, ben, olga] = [await api.user('ann'), await api.user('ben'), await api.user('olga')];
const pluginId = (await ann.post('/plugins', { slug: 'kind', displayName: 'Kind' })).body.id as string;
await ann.post(`/plugins/${pluginId}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
await ann.post(`/plugins/${pluginId}/listing`);
const installationId = (await ann.post('/installations', { slug: 'kind' })).body.id as string;

const minute = new Date(Math.floor(Date.now() / 60_000 - 2) * 60_000).toISOString();
const buckets = createEmptyHistogram().with(1, 90).with(4, 10);
await addCallSums(api.pool, [
  {
    installationId,
    minute,
    kind: 'hook',
    name: 'middleware.systemPrompt',
    calls: 100,
    errors: 5,
    timeouts: 1,
    cancels: 2,
    durationMs: 400,
    buckets,
    lastAt: minute,
  },
]);
await addUsageSums(api.pool, [
  {
    installationId,
    minute,
    hostCalls: 7,
    denials: 2,
    logLines: 30,
    droppedLines: 1,
    restarts: 1,
    processorMs: 120,
    memoryMax: 60_000_000,
  },
]);

t.test('an installation’s figures, for its owner and operators only', async (t) => {
  const path = `/installations/${installationId}/metrics`;
  for (const client of [ann, olga]) {
    const { status, body } = await client.get(path);
    t.equal(status, 200);
    t.equal(body.stepSeconds, 60);
    t.ok(body.points.length >= 60, 'every minute of the hour, also those without calls');
    const busy = body.points.filter(({ calls }: { calls: number }) => calls > 0);
    t.match(busy, [
      { at: minute, calls: 100, errors: 5, timeouts: 1, hostCalls: 7, denials: 2, logLines: 30, restarts: 1 },
    ]);
    t.equal(busy[0].memoryMaxBytes, 60_000_000);
    t.ok(busy[0].p50Ms > 1 && busy[0].p50Ms <= 2, 'half took one to two milliseconds');
    t.ok(busy[0].p95Ms > 10 && busy[0].p95Ms <= 20);
    t.match(body.handlers, [
      { kind: 'hook', name: 'middleware.systemPrompt', calls: 100, cancels: 2, lastAt: minute },
      { kind: 'event', name: 'pluginInstalled', calls: 0, p95Ms: null, lastAt: null },
    ]);
  }
  t.equal((await ben.get(path)).status, 404);
});

t.test('ranges exclude earlier calls, and invalid ranges are rejected', async (t) => {
  const path = `/installations/${installationId}/metrics`;
  const week = new Date(Date.now() - 7 * 86_400_000).toISOString();
  const wide = (await ann.get(`${path}?from=${week}&step=3600`)).body;
  t.equal(
    wide.points.reduce((sum: number, { calls }: { calls: number }) => sum + calls, 0),
    100,
  );
  const before = (await ann.get(`${path}?from=${week}&to=${minute}&step=3600`)).body.handlers[0];
  t.match(before, { lastAt: minute }, 'the time of the last call does not depend on the range');
  for (const bad of ['step=61', 'step=0', 'from=yesterday', `from=${minute}&to=${week}`, `from=${week}&step=60`]) {
    const { status, body } = await ann.get(`${path}?${bad}`);
    t.match({ status, code: body.code }, { status: 400, code: 'bad_request' }, bad);
  }
});

t.test('operators’ routes are for operators', async (t) => {
  const routes = Object.entries(api.document.paths)
    .filter(([path]) => path.startsWith('/operator/'))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })));
  t.equal(routes.length, 15);
  for (const { path, method } of routes) {
    const url = `/api${path.replace('{slug}', 'kind').replace('{name}', 'ann').replace('{id}', 'x')}`;
    const { status, body } = await ann.send({ method: method as 'GET', url });
    t.match({ status, code: body.code }, { status: 403, code: 'operators_only' }, `${method} ${path}`);
  }
});

t.test('operators see processes, costs and queues', async (t) => {
  await api.pool.query(
    `INSERT INTO installation_runtime (installation_id, state, restarts, rss_bytes, started_at, last_exit)
     VALUES ($1, 'running', 3, 50000000, now(), '{"at": "x", "reason": "it was killed"}')`,
    [installationId],
  );
  const fleet = await olga.get('/operator/fleet');
  t.match(fleet.body.children, [
    { slug: 'kind', account: 'ann', semVer: '1.0.0', restarts: 3, rssBytes: 50_000_000, lastExit: 'it was killed' },
  ]);
  t.equal(fleet.body.children[0].failedUpdate, null);
  await api.pool.query(
    `UPDATE installations SET failed_version_id = current_version_id, failed_reason = 'it throws', failed_at = now()
      WHERE id = $1`,
    [installationId],
  );
  await api.pool.query("UPDATE installation_runtime SET state = 'stopped'");
  const { children } = (await olga.get('/operator/fleet')).body;
  t.match(children, [{ slug: 'kind', failedUpdate: '1.0.0 did not start: it throws.' }], 'also without a process');
  const { plugins } = (await olga.get('/operator/plugins')).body;
  t.match(plugins, [{ slug: 'kind', author: 'ann', calls: 100, failures: 6, restarts: 1, processorMs: 120 }]);
  await ben.post('/plugins', { slug: 'quiet', displayName: 'Called by nobody' });
  const slugsOf = async (search: string) =>
    (await olga.get(`/operator/plugins?search=${search}`)).body.plugins.map(({ slug }: { slug: string }) => slug);
  t.same(await slugsOf(''), ['kind', 'quiet'], 'also one that nobody called');
  for (const search of ['QUIET', 'by%20nobody', 'ben']) t.same(await slugsOf(search), ['quiet'], search);
  t.same(await slugsOf('%25'), [], 'not a pattern');
  await api.pool.query("UPDATE events SET state = 'dead', attempts = 8, last_error = 'no'");
  const { queues, deadLetters } = (await olga.get('/operator/queues')).body;
  t.match(
    queues.find(({ name }: { name: string }) => name === 'events'),
    { waiting: 0, dead: 1 },
  );
  t.match(deadLetters, [{ kind: 'event', slug: 'kind', attempts: 8, lastError: 'no' }]);
});

t.test('an operator blocks and unblocks, verifies and unverifies, and the record names the operator', async (t) => {
  t.equal((await olga.post('/operator/plugins/kind/block', { reason: ' ' })).status, 400);
  const blocked = await olga.post('/operator/plugins/kind/block', { reason: 'It is not kind.' });
  t.match(blocked.body, { slug: 'kind', blockedReason: 'It is not kind.', installations: 1 });
  t.equal((await ben.get('/marketplace/kind')).status, 404);
  t.match((await olga.post('/operator/plugins/kind/unblock')).body, { blockedReason: null });
  t.equal((await ben.get('/marketplace/kind')).status, 200);
  t.same((await olga.post('/operator/accounts/ann/verify')).body, { name: 'ann', verified: true });
  t.equal((await ben.get('/marketplace/kind')).body.tier, 'verified');
  t.same((await olga.post('/operator/accounts/ann/unverify')).body, { name: 'ann', verified: false });
  t.equal((await olga.post('/operator/plugins/none/block', { reason: 'x' })).status, 404);
  t.equal((await olga.post('/operator/accounts/nobody/verify')).status, 404);
  const { rows } = await api.pool.query('SELECT by, action, subject FROM operator_actions ORDER BY id');
  t.same(
    rows.map(({ by, action, subject }) => `${by}: ${action} ${subject}`),
    ['block kind', 'unblock kind', 'verify ann', 'unverify ann'].map((done) => `olga (REST): ${done}`),
  );
});
