/** A publish or a yank moves all followers of a plugin, also those of a popular one, each as its own state requires. */
import { Client } from 'pg';
import t, { type Test } from 'tap';
import { resumeRollouts, rollOutLatestVersion } from '../../../api/installations/version-rollout.ts';
import { loadUpdateTarget } from '../../../db/installations/account-plugins.ts';
import { completeUpdate, failUpdate } from '../../../db/installations/updates.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, MINIMAL } from '../package/packages.ts';

/** Of the 405 that follow, each page of the rollout has 200. */
const FOLLOWERS = 450;
const PAGES = 3;
const PAGE = 200;

// Without a supervisor, the fixture would finish each of hundreds of updates, one by one, after every request.
const api = await startApiFixture(t, {
  readsInProcess: true,
  prepare: (services) => ({ ...services, finishUpdate: async () => undefined }),
});
const ann = await api.user('ann');

/** @returns how many statements this process has sent to PostgreSQL since that begin updates */
function spyOnUpdates(t: Test): () => number {
  const { query } = Client.prototype;
  let count = 0;
  const counting = function (this: Client, ...given: unknown[]) {
    if (String(given[0]).startsWith('UPDATE installations i SET target_version_id =')) count += 1;
    return Reflect.apply(query, this, given);
  };
  Object.assign(Client.prototype, { query: counting });
  t.teardown(() => Object.assign(Client.prototype, { query }));
  return () => count;
}

t.test('followers that need no consent are updated, the others are asked', async (t) => {
  const { id: pluginId } = (await ann.post('/plugins', { slug: 'popular', displayName: 'Popular' })).body;
  const publish = async (semVer: string, code: string): Promise<string> => {
    const files = fileList({ ...MINIMAL, 'index.ts': code });
    const { status, body } = await ann.post(`/plugins/${pluginId}/versions`, { semVer, files });
    t.equal(status, 201);
    return body.id;
  };
  const first = await publish('1.0.0', INDEX);
  await api.pool.query(
    `INSERT INTO accounts (id, issuer, subject, name) SELECT 'a' || n, 'i', 's' || n, 'n' || n FROM generate_series(1, $1) n`,
    [FOLLOWERS],
  );
  // Every third one has granted less than it runs with.
  await api.pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, pinned_version_id, current_version_id, granted_capabilities, status, hook_order)
     SELECT 'f' || n, 'a' || n, $1, CASE WHEN n % 10 = 0 THEN 'Pinned' ELSE 'Latest' END, CASE WHEN n % 10 = 0 THEN $2 END, $2,
            CASE WHEN n % 3 = 0 THEN '{}' ELSE v.capabilities END, 'ready', 1
       FROM generate_series(1, $3) n JOIN versions v ON v.id = $2`,
    [pluginId, first, FOLLOWERS],
  );
  const countUpdates = spyOnUpdates(t);
  const second = await publish('1.1.0', `${INDEX}// The same access.`);
  t.equal(countUpdates(), PAGES, 'the followers of a page share statements');
  const { rows } = await api.pool.query(
    `SELECT version_policy = 'Latest' AS follows, '{}' = granted_capabilities AS lacks, pending_version_id AS pending,
            current_version_id = $1 OR target_version_id IS NOT DISTINCT FROM $1 AS moved, count(*)::int AS count
       FROM installations GROUP BY 1, 2, 3, 4 ORDER BY 1, 2`,
    [second],
  );
  t.same(rows, [
    { follows: false, lacks: false, pending: null, moved: false, count: 30 },
    { follows: false, lacks: true, pending: null, moved: false, count: 15 },
    { follows: true, lacks: false, pending: null, moved: true, count: 270 },
    { follows: true, lacks: true, pending: second, moved: false, count: 135 },
  ]);
  const jobs = await api.pool.query(`SELECT count(DISTINCT data)::int AS count FROM pgboss.job WHERE name = 'updates'`);
  t.equal(jobs.rows[0].count, 270, 'a supervisor is to start each');
});

t.test('users change their installations while a publish waits for one of them', async (t) => {
  const { id: pluginId } = (await ann.post('/plugins', { slug: 'waiting', displayName: 'Waiting' })).body;
  const publish = (semVer: string) => ann.post(`/plugins/${pluginId}/versions`, { semVer, files: fileList(MINIMAL) });
  t.equal((await publish('1.0.0')).status, 201);
  const bob = await api.user('bob');
  await bob.get('/me');
  await api.pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities, status, hook_order)
     SELECT CASE WHEN a.name = 'bob' THEN '0bob' ELSE 'w' || a.id END, a.id, $1, 'Latest', p.latest_version_id, v.capabilities, 'ready', 1
       FROM accounts a, plugins p JOIN versions v ON v.id = p.latest_version_id WHERE p.id = $1`,
    [pluginId],
  );
  const countMoved = async (): Promise<number> =>
    (
      await api.pool.query(
        `SELECT 1 FROM installations i JOIN plugins p ON p.id = plugin_id
          WHERE p.id = $1 AND latest_version_id IN (current_version_id, target_version_id)`,
        [pluginId],
      )
    ).rowCount ?? 0;
  const all = await countMoved();
  const holder = await api.pool.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT 1 FROM installations WHERE plugin_id = $1 ORDER BY id DESC LIMIT 1 FOR UPDATE', [
    pluginId,
  ]);
  const published = publish('1.1.0');
  await eventually(async () => (await countMoved()) === PAGE);
  t.match(await bob.post('/installations/0bob/pause'), { status: 200, body: { status: 'paused' } });
  await holder.query('ROLLBACK');
  holder.release();
  t.equal((await published).status, 201);
  // On a busy machine the publish gives up waiting for the lock, and the rollout goes on later.
  await rollOutLatestVersion(api.services, pluginId);
  t.equal(await countMoved(), all);
});

t.test('a rollout that was cut off is continued', async (t) => {
  const { id: pluginId } = (await ann.post('/plugins', { slug: 'cut-off', displayName: 'Cut off' })).body;
  const files = fileList(MINIMAL);
  for (const semVer of ['1.0.0', '1.1.0'])
    t.equal((await ann.post(`/plugins/${pluginId}/versions`, { semVer, files })).status, 201);
  // As after a kill between two pages.
  await api.pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities, status, hook_order)
     SELECT 'c' || n, 'a' || n, $1, 'Latest', v.id, v.capabilities, 'ready', 1
       FROM generate_series(1, 3) n JOIN versions v ON v.plugin_id = $1 AND v.semver = '1.0.0'`,
    [pluginId],
  );
  await api.pool.query(
    `UPDATE installations i SET current_version_id = p.latest_version_id, target_version_id = i.current_version_id, rollback_reason = 'crashed'
       FROM plugins p WHERE p.id = i.plugin_id AND i.id = 'c3'`,
  );
  await api.pool.query(`INSERT INTO version_rollouts (plugin_id, after_id) VALUES ($1, 'c1')`, [pluginId]);
  const stop = resumeRollouts(api.services, (error) => t.fail(error.message));
  t.teardown(stop);
  await eventually(async () => (await api.pool.query('SELECT 1 FROM version_rollouts')).rowCount === 0);
  const { rows } = await api.pool.query(
    `SELECT i.id, v.semver AS target FROM installations i LEFT JOIN versions v ON v.id = target_version_id
      WHERE i.plugin_id = $1 ORDER BY i.id`,
    [pluginId],
  );
  t.same(rows, [
    { id: 'c1', target: null },
    { id: 'c2', target: '1.1.0' },
    { id: 'c3', target: '1.0.0' },
  ]);
});

/** A plugin with two versions, and followers of which each runs the first one. @param state of follower `n`, with the second version as `v` */
async function addFollowers(t: Test, slug: string, count: number, state: string) {
  const { id: pluginId } = (await ann.post('/plugins', { slug, displayName: slug })).body;
  const ids: string[] = [];
  for (const semVer of ['1.0.0', '1.1.0']) {
    const { status, body } = await ann.post(`/plugins/${pluginId}/versions`, { semVer, files: fileList(MINIMAL) });
    t.equal(status, 201);
    ids.push(body.id);
  }
  await api.pool.query(
    `INSERT INTO accounts (id, issuer, subject, name) SELECT 'a' || n, 'i', 's' || n, 'n' || n FROM generate_series(1, $1) n
     ON CONFLICT DO NOTHING`,
    [count],
  );
  await api.pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, current_version_id, granted_capabilities, status, hook_order,
       version_policy, pinned_version_id, target_version_id, target_since, rollback_reason, pending_version_id)
     SELECT $4::text || n, 'a' || n, $1, $2, v.capabilities, 'ready', 1, s.*
       FROM generate_series(1, $5) n JOIN versions v ON v.id = $3 CROSS JOIN LATERAL (${state}) s`,
    [pluginId, ids[0], ids[1], `${slug}-`, count],
  );
  return { pluginId: pluginId as string, first: ids[0] as string, second: ids[1] as string };
}

await soakTest(t, 'a yank withdraws a version from many followers in transactions of a batch', async (t) => {
  const { pluginId, second } = await addFollowers(
    t,
    'withdrawn',
    2 * SWEEP_BATCH + 100,
    `SELECT 'Latest', NULL::text, CASE n % 2 WHEN 0 THEN v.id END, CASE n % 2 WHEN 0 THEN now() END, NULL::text,
            CASE n % 2 WHEN 1 THEN v.id END`,
  );
  await api.pool.query(`CREATE TABLE withdrawn (transaction xid8);
    CREATE FUNCTION note_withdrawn() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO withdrawn VALUES (pg_current_xact_id()); RETURN NULL; END';
    CREATE TRIGGER noted AFTER UPDATE ON installations FOR EACH ROW EXECUTE FUNCTION note_withdrawn()`);
  t.teardown(() => api.pool.query('DROP TRIGGER noted ON installations'));
  t.match(await ann.post(`/plugins/${pluginId}/versions/${second}/yank`), { status: 200, body: { status: 'yanked' } });
  const most = await api.pool.query(
    'SELECT count(*)::int AS rows FROM withdrawn GROUP BY transaction ORDER BY 1 DESC LIMIT 1',
  );
  t.equal(most.rows[0].rows, SWEEP_BATCH);
  const left = 'SELECT 1 FROM installations WHERE $1 IN (target_version_id, pending_version_id)';
  t.equal((await api.pool.query(left, [second])).rowCount, 0);
  t.equal((await api.pool.query('SELECT 1 FROM version_withdrawals')).rowCount, 0);
  const { rows } = await api.pool.query('SELECT stored_bytes AS bytes FROM versions WHERE id = $1', [second]);
  t.equal(Number(rows[0].bytes), 0, 'its content was given up');
});

await soakTest(
  t,
  'a yank waits for no row that refers to a follower, and accepting its version is refused',
  async (t) => {
    const { pluginId, second } = await addFollowers(
      t,
      'metered',
      2,
      `SELECT 'Latest', NULL::text, NULL::text, NULL::timestamptz, NULL::text, v.id`,
    );
    const id = 'metered-2';
    await inTransaction(api.pool, async (tx) => {
      // As the metrics of many installations do, in the order of their ids.
      await tx.query('SELECT 1 FROM installations WHERE id = $1 FOR KEY SHARE', [id]);
      t.equal((await ann.post(`/plugins/${pluginId}/versions/${second}/yank`)).status, 200);
    });
    // As between two batches of a yank.
    const asked = `UPDATE installations SET pending_version_id = $2, account_id = (SELECT owner_id FROM plugins WHERE id = plugin_id) WHERE id = $1`;
    await api.pool.query(asked, [id, second]);
    const accepted = await ann.post(`/installations/${id}/accept-update`, { versionId: second });
    t.match(accepted, { status: 409, body: { code: 'not_pending', detail: /author has withdrawn 1\.1\.0/ } });
  },
);

t.test('a yank that was cut off is continued, and its version does not start meanwhile', async (t) => {
  const { pluginId, first, second } = await addFollowers(
    t,
    'cut-yank',
    4,
    `SELECT CASE n WHEN 1 THEN 'Pinned' ELSE 'Latest' END, CASE n WHEN 1 THEN v.id END, CASE WHEN n < 4 THEN v.id END,
            CASE WHEN n < 4 THEN now() END, CASE n WHEN 3 THEN 'crashed' END, CASE n WHEN 4 THEN v.id END`,
  );
  // As after a kill between two batches.
  await api.pool.query(`UPDATE versions SET status = 'yanked', yanked_at = now() WHERE id = $1`, [second]);
  await api.pool.query('UPDATE plugins SET latest_version_id = $2 WHERE id = $1', [pluginId, first]);
  await api.pool.query('INSERT INTO version_withdrawals VALUES ($1)', [second]);
  const { pool, queues } = api.services;
  t.equal((await loadUpdateTarget(pool, 'cut-yank-1'))?.plugin.versionId, second, 'its user pinned it');
  for (const installationId of ['cut-yank-2', 'cut-yank-3']) {
    const update = { installationId, versionId: second };
    t.equal(await loadUpdateTarget(pool, installationId), null);
    t.equal(await completeUpdate(pool, queues, update), null, 'it had been started before');
    t.equal(await failUpdate(pool, update, 'did not start'), false);
  }
  const list = async () =>
    (
      await pool.query(
        `SELECT id, current_version_id = $2 AS "isFirst", target_version_id AS target, pending_version_id AS pending
           FROM installations WHERE plugin_id = $1 ORDER BY id`,
        [pluginId, first],
      )
    ).rows;
  t.match(await list(), [{ isFirst: true }, { isFirst: true }, { isFirst: true }, { isFirst: true }]);
  const stop = resumeRollouts(api.services, (error) => t.fail(error.message));
  t.teardown(stop);
  const isOver = async () =>
    (await pool.query('SELECT plugin_id FROM version_rollouts UNION SELECT version_id FROM version_withdrawals'))
      .rowCount === 0;
  await eventually(isOver);
  t.same(await list(), [
    { id: 'cut-yank-1', isFirst: true, target: second, pending: null },
    ...[2, 3, 4].map((n) => ({ id: `cut-yank-${n}`, isFirst: true, target: null, pending: null })),
  ]);
});

await soakTest(t, 'a repeated yank continues one that was cut off before it is answered', async (t) => {
  const { pluginId, first, second } = await addFollowers(
    t,
    'repeated-yank',
    2,
    `SELECT 'Latest', NULL::text, v.id, now(), NULL::text, NULL::text`,
  );
  await api.pool.query(`UPDATE versions SET status = 'yanked', yanked_at = now() WHERE id = $1`, [second]);
  await api.pool.query('UPDATE plugins SET latest_version_id = $2 WHERE id = $1', [pluginId, first]);
  await api.pool.query('INSERT INTO version_withdrawals VALUES ($1)', [second]);
  t.equal((await ann.post(`/plugins/${pluginId}/versions/${second}/yank`)).status, 200);
  const left = 'SELECT 1 FROM installations WHERE target_version_id = $1';
  t.equal((await api.pool.query(left, [second])).rowCount, 0);
});
