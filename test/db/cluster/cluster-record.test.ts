/** The first process of a database makes its cluster, and those that start beside it belong to it. */
import t from 'tap';
import { recordMember, requireCluster, setBlobPlace } from '../../../db/cluster/cluster-record.ts';
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

t.test('blobs have another place only together with the end of their rows', async (t) => {
  const { url, pool } = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const settings = parseSettings(sharedSettings, { DATA_DIR, DATABASE_URL: url });
  const member = await describeMember(pool, { ...settings, BLOBS: 'database' });
  await recordMember(pool, member);
  await pool.query(`INSERT INTO stored_blobs (sha256, size_bytes, content, state) VALUES ('ab', 1, 'x', 'stored')`);
  const { blobs: files } = await describeMember(pool, settings);
  const stop = await pool.connect();
  await stop.query('BEGIN; LOCK TABLE stored_blobs IN ACCESS EXCLUSIVE MODE');
  const moving = setBlobPlace(pool, files, [], async () => undefined);
  await eventually(() =>
    findValue(
      pool,
      `SELECT true FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    ),
  );
  t.equal(await findValue(pool, 'SELECT blob_store FROM cluster'), 'database', 'a kill now leaves both as they are');
  await stop.query('ROLLBACK');
  stop.release();
  await moving;
  t.equal(await findValue(pool, 'SELECT blob_store FROM cluster'), 'files');
  t.equal(await findValue(pool, 'SELECT count(*)::int FROM stored_blobs'), 0);
  t.equal(
    await findValue(pool, 'SELECT subject FROM operator_actions'),
    'files',
    'no kill separates it from its record',
  );
});
