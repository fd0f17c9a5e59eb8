/** The database of a measurement commits as that of the service does. */
import { Client } from 'pg';
import t from 'tap';
import { startBenchServer } from '../../bench/fixtures/postgres.ts';

t.test('commits are flushed to a disk, and statistics are kept', async (t) => {
  const { url, dataDir } = await startBenchServer(t);
  t.notMatch(dataDir, /^\/dev\/shm\//);
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commits,
            current_setting('full_page_writes') AS pages, current_setting('autovacuum') AS autovacuum`,
  );
  await client.end();
  t.same(rows, [{ fsync: 'on', commits: 'on', pages: 'on', autovacuum: 'on' }]);
});
