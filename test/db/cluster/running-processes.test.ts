/** A command that needs the database to itself. */
import t from 'tap';
import { excludeProcesses } from '../../../db/cluster/running-processes.ts';
import { emptyDatabase } from '../../runner/harness.ts';

t.test('a command whose question fails gives its connection back, so that it can end', async (t) => {
  const { pool } = await emptyDatabase(t);
  await t.rejects(excludeProcesses(pool), /relation "supervisors" does not exist/);
  t.equal(pool.totalCount, 0);
});
