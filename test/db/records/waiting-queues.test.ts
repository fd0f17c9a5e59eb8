/** Lists what waits without reading what is finished. */
import t from 'tap';
import { listWaitingQueues } from '../../../db/records/operator-overview.ts';
import { insertBareChannel, insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const FINISHED = amount({ quick: 5_000, soak: 20_000 });
const ROWS_MAX = 100;

t.test('deliveries set aside, among many that are finished', async (t) => {
  const { pool } = await testDatabase(t);
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  await insertBareInstallation(pool, { accountId: 'a' });
  await insertBareChannel(pool);
  const add = (state: string, setAside: boolean, count: number) =>
    pool.query(
      `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body,
         received_at, finished_at, next_attempt_at, state, set_aside)
       SELECT $1 || n, 'c', 'i', 'a', 'r', 'POST', '', '[]', '', now(), now(), now() + make_interval(hours => n), $1, $2
         FROM generate_series(1, $3::int) n`,
      [state, setAside, count],
    );
  await add('delivered', true, FINISHED);
  await add('pending', true, 5);
  await pool.query('VACUUM ANALYZE deliveries');
  for (const installationId of [null, 'i']) {
    const explained = explainPool(pool);
    const queues = await listWaitingQueues(explained.pool, installationId, 10);
    t.match(queues, [{ queue: 'webhooks', setAside: true, waiting: 5, headId: 'pending1', heldBy: 'retry' }]);
    for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
  }
});
