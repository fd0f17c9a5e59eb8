/** Operator commands that list and replay dead letters, show waiting queues, and remove old rows and unused blobs. */
import { randomUUID } from 'node:crypto';
import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from 'pg';
import t, { type Test } from 'tap';
import { recordMember } from '../../db/cluster/cluster-record.ts';
import { openBlobs } from '../../db/files/blobs.ts';
import { parseSettings, sharedSettings } from '../../service/settings/settings.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { insertBareInstallation } from '../fixtures/bare-installation.ts';
import { untilLockIsAwaited } from '../fixtures/lock-waits.ts';
import { claimAccount } from '../fixtures/shard-owner.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { operator } from './operator-command.ts';

async function prepareQueues(t: Test) {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a1', 'ann')`);
  await insertBareInstallation(pool, { accountId: 'a1', pluginId: 'p1', slug: 'inbox', installationId: 'i1' });
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c1', 'i1', 'a1', 'In', 'r1')`,
  );
  const insertDelivery = (id: string, state: string, daysAgo: number, channel = 'c1') =>
    pool.query(
      `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers,
                               body, state, attempts, last_error, finished_at)
       VALUES ($1, $4, 'i1', 'a1', 'r1', now(), 'POST', '', '[]', 'x', $2, 6, 'it said no' || chr(27) || '[31m',
               now() - make_interval(days => $3))`,
      [id, state, daysAgo, channel],
    );
  const insertEvent = (id: string, state: string, daysAgo: number) =>
    pool.query(
      `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, state, attempts, finished_at)
       VALUES ($1, 'i1', 'a1', 'p1', 'sessionStarted', '{}', $2, 8, now() - make_interval(days => $3))`,
      [id, state, daysAgo],
    );
  const idsOf = async (table: string, state: string) => {
    const found = await pool.query<{ id: string }>(`SELECT id FROM ${table} WHERE state = $1 ORDER BY id`, [state]);
    return found.rows.map(({ id }) => id);
  };
  const runOperator = async (...words: string[]) => JSON.parse((await operator(env, ...words, '--json')).stdout);
  return { env, pool, insertDelivery, insertEvent, idsOf, runOperator };
}

t.test('dead letters', async (t) => {
  const { env, pool, insertDelivery, insertEvent, idsOf, runOperator } = await prepareQueues(t);
  t.match(await operator(env, 'dead-letters'), { stdout: 'There are no dead letters.\n' });
  for (const id of ['d1', 'd2', 'd3']) await insertDelivery(id, 'dead', 1);
  await insertDelivery('gone', 'dead', 1, 'no-such-channel');
  await insertDelivery('fine', 'delivered', 1);
  for (const id of ['e1', 'e2']) await insertEvent(id, 'dead', 1);
  const { items } = await runOperator('dead-letters');
  t.same(items.map(({ id }: { id: string }) => id).sort(), ['d1', 'd2', 'd3', 'e1', 'e2', 'gone']);
  const shown = (await operator(env, 'dead-letters', '--limit', '2')).stdout;
  t.equal(shown.trimEnd().split('\n').length, 4, 'a heading, two lines, and that there are others');
  t.match(shown, /\nMore exist: set --limit, at most 10000\.\n$/);
  t.match(await runOperator('dead-letters', '--limit', '2'), { more: true });
  t.match(await runOperator('dead-letters', '--limit', '6'), { more: false });
  t.notMatch(shown, '\u001b', 'no error text steers the terminal');
  t.match(await runOperator('replay', 'd1', 'e1', 'fine'), { deliveries: 2, events: 1 });
  t.same(await idsOf('deliveries', 'pending'), ['d1', 'fine']);
  t.match(await runOperator('replay', 'd2', 'd4', 'e3'), { deliveries: 1, events: 0, unknown: ['d4', 'e3'] });
  t.match(await operator(env, 'replay', 'fine', 'e2', 'd4'), {
    code: 0,
    stdout: '0 deliveries and 1 events will be delivered again. No finished delivery or event has the id fine, d4.\n',
  });
  t.match(await runOperator('replay', '--all'), { deliveries: 1, events: 0, unknown: [] });
  const { actions } = await runOperator('actions', '--limit', '3');
  t.match(actions, [
    { action: 'replay', subject: '1 deliveries', reason: '--all' },
    { action: 'replay', subject: '1 events', reason: 'fine, e2, d4' },
    { action: 'replay', subject: '1 deliveries', reason: 'd2, d4, e3' },
  ]);
  t.same(await idsOf('deliveries', 'dead'), ['gone'], 'whose channel is gone');
  t.same(await idsOf('events', 'pending'), ['e1', 'e2']);
  const jobs = await pool.query(`SELECT data->>'eventId' AS id FROM pgboss.job WHERE name = 'events' ORDER BY 1`);
  t.same(jobs.rows, [{ id: 'e1' }, { id: 'e2' }], 'each has a job again');
});

t.test('a dead letter that cannot be replayed does not stop the batches after its own', async (t) => {
  const { pool, insertDelivery, idsOf, runOperator } = await prepareQueues(t);
  await insertDelivery('a-gone', 'dead', 1, 'no-such-channel');
  await insertDelivery('b', 'dead', 1);
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers,
                             body, state, finished_at)
     SELECT 'c' || n, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers, body,
            state, finished_at
       FROM deliveries CROSS JOIN generate_series(1, 1000) n WHERE id = 'b'`,
  );
  t.match(await runOperator('replay', '--all'), { deliveries: 1_001 });
  t.same(await idsOf('deliveries', 'dead'), ['a-gone']);
});

t.test('replays of all leave out requests to an address that was replaced before', async (t) => {
  const { pool, insertDelivery, idsOf, runOperator } = await prepareQueues(t);
  await insertDelivery('in-time', 'dead', 0);
  await pool.query(
    `INSERT INTO channel_addresses (routing_id, channel_id, installation_id, retired_at)
     VALUES ('old', 'c1', 'i1', now() - interval '1 hour')`,
  );
  await insertDelivery('late', 'dead', 0);
  await pool.query(`UPDATE deliveries SET routing_id = 'old' WHERE id = 'late'`);
  await insertDelivery('reply', 'dead', 0);
  await pool.query(`UPDATE deliveries SET routing_id = 'old', direction = 'out' WHERE id = 'reply'`);
  t.match(await runOperator('replay', '--installation', 'i1'), { deliveries: 2 });
  t.match(await runOperator('replay', '--all'), { deliveries: 0 });
  t.same(await idsOf('deliveries', 'dead'), ['late']);
  t.match(await runOperator('replay', 'late'), { deliveries: 1 });
});

t.test('waiting names what holds each queue', async (t) => {
  const { env, pool, runOperator } = await prepareQueues(t);
  t.match(await operator(env, 'waiting'), { stdout: 'Nothing waits.\n' });
  const misspelt = await operator(env, 'waiting', '--installation', 'i2');
  t.match(misspelt, { code: 1, stdout: '', stderr: 'No installation has the id “i2”.\n' });
  const { epoch } = await claimAccount(pool, 'a1');
  await pool.query(`INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES
    ('c2', 'i1', 'a1', 'Busy', 'r2'), ('c3', 'i1', 'a1', 'Later', 'r3'), ('c4', 'i1', 'a1', 'Paused', 'r4'),
    ('c5', 'i1', 'a1', 'Aside', 'r5')`);
  const wait = (id: string, channel: string, next: string, claim: number | null, setAside = false) =>
    pool.query(
      `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers,
         body, next_attempt_at, claimed_by, attempts, last_error, set_aside)
       VALUES ($1, $2, 'i1', 'a1', 'r', now() - interval '1 hour', 'POST', '', '[]', 'x', $3, $4, 2, 'it said no', $5)`,
      [id, channel, next, claim, setAside],
    );
  await wait('free', 'c1', 'now', null);
  await wait('gone', 'c1', 'now', epoch - 1);
  await wait('busy', 'c2', 'now', epoch);
  await wait('behind', 'c2', 'now', null);
  await wait('later', 'c3', '2100-01-01T00:00:00Z', null);
  await wait('paused', 'c4', 'infinity', null);
  await wait('aside-late', 'c5', '2100-01-01T02:00:00Z', null, true);
  await wait('aside-soon', 'c5', '2100-01-01T01:00:00Z', null, true);
  const { queues } = await runOperator('waiting');
  const byChannel = Object.fromEntries(queues.map((queue: { channel: string }) => [queue.channel, queue]));
  t.match(byChannel, {
    In: {
      queue: 'webhooks',
      waiting: 2,
      headId: 'free',
      heldBy: 'owner',
      holder: /^supervisor \d+ at /,
      slug: 'inbox',
      account: 'ann',
    },
    Busy: {
      waiting: 2,
      headId: 'busy',
      heldBy: 'supervisor',
      holder: /^supervisor \d+ at http:\/\/192\.0\.2\.1:4012$/,
    },
    Later: { waiting: 1, heldBy: 'retry', holder: '2100-01-01T00:00:00Z', attempts: 2, lastError: 'it said no' },
    Paused: { waiting: 1, heldBy: 'installation', holder: 'it said no' },
    Aside: {
      queue: 'webhooks',
      setAside: true,
      waiting: 2,
      headId: 'aside-soon',
      heldBy: 'retry',
      holder: '2100-01-01T01:00:00Z',
    },
  });
  const { stdout } = await operator(env, 'waiting', '--installation', 'i1');
  t.match(stdout, /Busy .* running on supervisor \d+ at http:\/\/192\.0\.2\.1/);
  t.match(stdout, /Later .* next attempt 2100-01-01T00:00:00Z/);
  t.match(stdout, /webhooks, set aside .*Aside .* next attempt 2100-01-01T01:00:00Z/);
  const readHeld = async () => (await operator(env, 'waiting', '--installation', 'i1')).stdout;
  await pool.query("UPDATE supervisors SET expires_at = now() - interval '1 s'");
  t.match(await readHeld(), / In .* no supervisor runs /);
  await pool.query("UPDATE supervisors SET expires_at = now() + interval '1 h'");
  await pool.query('UPDATE shards SET owner = NULL');
  t.match(await readHeld(), / In .* its account moves to another supervisor /);
  await pool.query("UPDATE installations SET status = 'paused', status_reason = 'too loud' WHERE id = 'i1'");
  t.match(await readHeld(), / Later .* its installation: paused: too loud /);
  await pool.query("UPDATE accounts SET suspended_reason = 'unpaid' WHERE id = 'a1'");
  t.match(await readHeld(), / Later .* its account is suspended: unpaid /);
  await pool.query("UPDATE plugins SET blocked_reason = 'spam'");
  t.match(await readHeld(), / Later .* the operator blocked this plugin: spam /);
});

/** As the first start of a service does. */
const recordCluster = async (pool: Pool, env: Readonly<Record<string, string>>) =>
  recordMember(pool, await describeMember(pool, parseSettings(sharedSettings, env)));

/** Stores a blob that no row names, and that is a day old. */
async function putUnusedBlob(dataDir: string) {
  const blobs = await openBlobs(dataDir);
  const { sha256 } = await blobs.put(Buffer.from(randomUUID()));
  const dayAgo = Date.now() / 1000 - 86_400;
  utimesSync(join(dataDir, 'blobs', sha256.slice(0, 2), sha256.slice(2)), dayAgo, dayAgo);
  return { has: () => blobs.has(sha256) };
}

t.test('prune', async (t) => {
  const { env, pool, insertDelivery, insertEvent, idsOf, runOperator } = await prepareQueues(t);
  await recordCluster(pool, env);
  await insertDelivery('old', 'delivered', 31);
  await insertDelivery('new', 'delivered', 29);
  await insertDelivery('dead', 'dead', 31);
  await insertEvent('old', 'delivered', 31);
  await insertEvent('skipped', 'skipped', 31);
  await insertEvent('new', 'delivered', 1);
  const blob = await putUnusedBlob(env.DATA_DIR);
  t.match(await runOperator('prune', '--dry-run'), { dryRun: true, deliveries: 1, events: 2, blobs: 1 });
  t.ok(await blob.has());
  t.same(await idsOf('deliveries', 'delivered'), ['new', 'old']);
  t.match(await runOperator('prune'), { dryRun: false, days: 30, deliveries: 1, events: 2, blobs: 1 });
  t.notOk(await blob.has());
  t.same(await idsOf('deliveries', 'delivered'), ['new']);
  t.same(await idsOf('deliveries', 'dead'), ['dead'], 'dead letters stay');
  t.match(await runOperator('prune', '--dead', '--days', '7'), { deliveries: 2, events: 0, blobs: 0 });
  t.same(await idsOf('events', 'delivered'), ['new']);
});

t.test('prune removes nothing where DATA_DIR is not that of the database', async (t) => {
  const production = await prepareQueues(t);
  await recordCluster(production.pool, production.env);
  const blob = await putUnusedBlob(production.env.DATA_DIR);
  const trial = await prepareQueues(t);
  await trial.insertDelivery('old', 'delivered', 31);
  const { DATA_DIR } = production.env;
  const mixed = { ...trial.env, DATA_DIR };
  const refuse = async (sentence: RegExp) => {
    for (const words of [['prune'], ['prune', '--dry-run']])
      t.match(await operator(mixed, ...words), { code: 1, stdout: '', stderr: sentence }, words.join(' '));
  };
  await refuse(
    /^DATA_DIR \S+ holds packages, but this database is empty: set DATABASE_URL .* Nothing was removed\.\n$/,
  );
  await recordCluster(trial.pool, trial.env);
  await refuse(/^DATA_DIR \S+ holds the packages of another cluster .* of one cluster\. Nothing was removed\.\n$/);
  t.ok(await blob.has());
  t.same(await trial.idsOf('deliveries', 'delivered'), ['old']);
});

t.test('prune spares a dead letter that is replayed at the same moment', async (t) => {
  const { pool, insertDelivery, idsOf, runOperator } = await prepareQueues(t);
  await insertDelivery('replayed', 'dead', 31);
  await insertDelivery('old', 'dead', 31);
  const replaying = await pool.connect();
  await replaying.query(`BEGIN; UPDATE deliveries SET state = 'pending', finished_at = NULL WHERE id = 'replayed'`);
  const pruning = runOperator('prune', '--dead');
  await untilLockIsAwaited(pool);
  await replaying.query('COMMIT');
  replaying.release();
  t.match(await pruning, { deliveries: 1 });
  t.same(await idsOf('deliveries', 'pending'), ['replayed']);
});
