/** Updates that wait for their user do not stop the recovery of the others. */
import t from 'tap';
import { postponeUpdate, queueUpdate, recordWaitingUpdate, requeueUpdates } from '../../../db/installations/updates.ts';
import { JOB_PRIORITY, startQueues } from '../../../db/jobs/queues.ts';
import type { OwnedWork } from '../../../supervisor/cluster/ownership.ts';
import { updateInstallation } from '../../../supervisor/delivery/update-worker.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

/** As many as one sweep queues. */
const WAITING = 1_000;
/** Of these. The others are recorded as the tried ones were. */
const TRIED = amount({ quick: 20, soak: WAITING });

const { pool } = await testDatabase(t);
const queues = await startQueues({ pool, role: 'producer', onError: t.error });
t.teardown(() => queues.stop());
await pool.query(`INSERT INTO accounts (id, name) SELECT 'a' || n, 'a' || n FROM generate_series(0, $1::int) n`, [
  WAITING,
]);
await pool.query(`INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ('p', 'a0', 'p', 'p')`);
const settings = { city: { label: 'City', required: true } };
for (const [id, wanted] of [
  ['current', {}],
  ['wants-city', settings],
  ['wants-nothing', {}],
] as const)
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations)
     VALUES ($1, 'p', $2, 'published', 'a', 'b', 1, $3, '', '{}', '{}', '{}', $4)`,
    [id, `1.0.0-${id}`, { settings: wanted, secrets: {} }, registerHooks()],
  );
await pool.query(
  `INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order,
     current_version_id, target_version_id, target_since)
   SELECT 'i' || n, 'a' || n, 'p', 'Latest', '{}', 'ready', 1, 'current',
          CASE n WHEN $1 THEN 'wants-nothing' ELSE 'wants-city' END, now() - interval '1 hour' + n * interval '1 second'
     FROM generate_series(0, $1::int) n`,
  [WAITING],
);

/** Queues what a sweep finds, and removes the jobs. @returns their installations */
async function sweep(): Promise<string[]> {
  await requeueUpdates(pool, queues, new Set());
  const { rows } = await pool.query(`DELETE FROM pgboss.job WHERE name = 'updates' RETURNING data`);
  return rows.map(({ data }) => data.installationId);
}
const deps = {
  pool,
  queues,
  fleet: { update: () => t.fail('it must not start') },
  updating: new Map<string, boolean>(),
} as unknown as Parameters<typeof updateInstallation>[0];
const work = { fence: { shard: 0, epoch: 1 } } as OwnedWork;
const touch = () => pool.query(`UPDATE installations SET updated_at = clock_timestamp() WHERE id = 'i0'`);

t.test('a thousand updates that lack configuration are tried once, and then the newer ones', async (t) => {
  const first = await sweep();
  t.equal(first.length, WAITING);
  for (const installationId of first.slice(0, TRIED)) await updateInstallation(deps, installationId, work);
  const { rows } = await pool.query(
    'SELECT id FROM installations WHERE waiting_target_since = target_since ORDER BY id',
  );
  t.same(
    rows.map(({ id }) => id),
    first.slice(0, TRIED).toSorted(),
    'each is recorded as waiting',
  );
  await pool.query('UPDATE installations SET waiting_target_since = target_since WHERE id = ANY ($1)', [
    first.slice(TRIED),
  ]);
  t.same(await sweep(), [`i${WAITING}`]);
});

t.test('an update continues when its user saves, and another version is another update', async (t) => {
  await queueUpdate(pool, queues, { id: 'i0', accountId: 'a0' });
  await pool.query(`DELETE FROM pgboss.job WHERE name = 'updates'`);
  t.same((await sweep()).sort(), ['i0', `i${WAITING}`], 'also if its job was lost');
  await pool.query(`UPDATE installations SET target_since = clock_timestamp() WHERE id = 'i1'`);
  t.same((await sweep()).sort(), ['i0', 'i1', `i${WAITING}`]);
});

t.test('an update whose user saves while a worker reads does not wait', async (t) => {
  const { rows } = await pool.query(`SELECT updated_at FROM installations WHERE id = 'i0'`);
  await touch();
  const update = { installationId: 'i0', versionId: 'wants-city' };
  t.equal(await recordWaitingUpdate(pool, update, rows[0].updated_at), 0);
  t.ok((await sweep()).includes('i0'));
  await updateInstallation(deps, 'i0', work);
  t.notOk((await sweep()).includes('i0'));
});

t.test('a postponed update comes back before a rollout only if a user waits for it', async (t) => {
  await pool.query(`UPDATE installations SET version_policy = 'Draft' WHERE id = 'i1'`);
  await pool.query(`UPDATE installations SET rollback_reason = 'It crashes.' WHERE id = 'i2'`);
  for (const installationId of ['i0', 'i1', 'i2']) await postponeUpdate(pool, queues, installationId, 5);
  const { rows } = await pool.query(
    `DELETE FROM pgboss.job WHERE name = 'updates'
     RETURNING data ->> 'installationId' AS id, priority, start_after > now() AS later`,
  );
  t.strictSame(
    rows.toSorted((one, other) => one.id.localeCompare(other.id)),
    [
      { id: 'i0', priority: JOB_PRIORITY.ROLLOUT, later: true },
      { id: 'i1', priority: JOB_PRIORITY.ASKED_FOR, later: true },
      { id: 'i2', priority: JOB_PRIORITY.ASKED_FOR, later: true },
    ],
  );
});
