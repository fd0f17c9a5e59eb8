/** The first process of a database makes its cluster, and those that start beside it belong to it. */
import t from 'tap';
import { recordMember, requireCluster } from '../../../db/cluster/cluster-record.ts';
import { inTransaction, openPool, takeNamedLock } from '../../../db/postgres/pool.ts';
import { findValue } from '../../../db/postgres/rows.ts';
import { parseSettings, sharedSettings } from '../../../service/settings/settings.ts';
import { describeMember } from '../../../service/storage/membership.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';

t.test('a process that finds no cluster waits for one that is just made, and belongs to it', async (t) => {
  const { url, pool } = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const member = await describeMember(pool, parseSettings(sharedSettings, { DATA_DIR, DATABASE_URL: url }));
  // Made once, to have its row and its mark. Then the row is gone until the second process has looked for it.
  await recordMember(pool, member);
  const { rows } = await pool.query('DELETE FROM cluster RETURNING *');
  const [{ id, release, blob_store: store }] = rows;
  const isWaiting = `SELECT true FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`;

  const second = openPool(url, { name: 'second', connections: 2, onError: () => undefined });
  t.teardown(() => second.close());
  const { starting } = await inTransaction(pool, async (tx) => {
    await takeNamedLock(tx, 'cluster');
    const starting = requireCluster(second.pool, member);
    await Promise.race([starting, eventually(() => findValue(pool, isWaiting))]);
    await tx.query('INSERT INTO cluster (id, release, blob_store) VALUES ($1, $2, $3)', [id, release, store]);
    return { starting };
  });
  await starting;
  t.equal(await member.blobs.readMark(), id);
});
