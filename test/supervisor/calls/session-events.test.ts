/** The cost of an event of a session does not grow with the plugins that listen to it. */
import t from 'tap';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { recordSessionEvent } from '../../../supervisor/calls/session-events.ts';
import { testDatabase } from '../../runner/harness.ts';

const PLUGINS = 100;
/** Reads the subscribers, writes the events, and writes their jobs with a notification. */
const STATEMENTS_MAX = 3;

t.test('an event for many plugins takes a few statements', async (t) => {
  const { pool } = await testDatabase(t);
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  t.teardown(() => queues.stop());
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  const numbers = 'FROM generate_series(1, $1::int) n';
  await pool.query(
    `INSERT INTO plugins (id, owner_id, slug, display_name) SELECT 'p' || n, 'a', 'p' || n, 'P' ${numbers}`,
    [PLUGINS],
  );
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme, capabilities,
       added_capabilities, discovered, registrations)
     SELECT 'v' || n, 'p' || n, '1.0.0', 'published', '', '', 0, '{}', '', '{}', '{}', '{}', '{"events": ["sessionStarted"]}' ${numbers}`,
    [PLUGINS],
  );
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order, current_version_id)
     SELECT 'i' || n, 'a', 'p' || n, 'Latest', '{}', 'ready', n, 'v' || n ${numbers}`,
    [PLUGINS],
  );
  const statements: string[] = [];
  const data = { sessionId: 's', agentId: 'g', channelId: null };
  await inTransaction(pool, async (tx) => {
    const query = tx.query.bind(tx) as (text: string, values?: unknown[]) => Promise<never>;
    const counted = Object.assign(Object.create(tx), {
      query: (text: string, values?: unknown[]) => {
        statements.push(text);
        return query(text, values);
      },
    });
    await recordSessionEvent(counted, queues, 'a', 'sessionStarted', data);
  });
  t.ok(statements.length <= STATEMENTS_MAX, `${statements.length} statements`);
  const { rows } = await pool.query(
    `SELECT e.installation_id AS id, e.plugin_id AS plugin, e.version_id AS version, e.type, e.data, j.group_id AS "group", j.group_tier AS account
       FROM events e JOIN pgboss.job j ON j.name = 'events' AND j.data ->> 'eventId' = e.id ORDER BY e.id`,
  );
  const expected = Array.from({ length: PLUGINS }, (_, index) => {
    const n = index + 1;
    return {
      id: `i${n}`,
      plugin: `p${n}`,
      version: `v${n}`,
      type: 'sessionStarted',
      data,
      group: `i${n}`,
      account: 'a',
    };
  });
  t.same(rows, expected);
});
