/** A check of a backup leaves no copy of the database and no keys, however it ends. */
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { writeBackup } from '../../db/backup/create.ts';
import { withConnection } from '../../db/postgres/dedicated-connection.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { amount, isSoak } from '../runner/soak.ts';
import { operatorProcess, startOperator } from './operator-command.ts';

const DAY_MS = 86_400_000;
const { pool, url } = await testDatabase(t);
await findOrCreateAccount(pool, 'ann');
const dataDir = await temporaryFolder(t);
const file = join(await temporaryFolder(t), 'x.backup');
await writeBackup(url, dataDir, file, () => undefined);

/** Other tests check backups on this server, too. */
const listDatabases = async (): Promise<string[]> => {
  const { rows } = await pool.query(
    `SELECT datname::text AS name FROM pg_database WHERE datname LIKE 'bulkhead_check_%'`,
  );
  return rows.map(({ name }) => name);
};
const listFolders = async (folder: string): Promise<string[]> =>
  // Others keep compiled modules in it.
  (await readdir(folder)).filter((name) => name.startsWith('bulkhead-')).sort();
const exists = async (database: string): Promise<boolean> => (await listDatabases()).includes(database);
/** PostgreSQL notices some time after the end of a process that its connection is gone. */
const isLocked = async (database: string): Promise<boolean> => {
  const { rows } = await pool.query(
    `SELECT 1 FROM pg_locks WHERE locktype = 'advisory'
        AND hashtextextended($1, 0) = ((classid::bigint << 32) | objid::bigint)`,
    [database],
  );
  return rows.length > 0;
};

/** A check that ignores its signal ends well each time. */
const ATTEMPTS_MAX = 10;

/** Interrupts a check when its database and folder exist. One that ends before it gets the signal, as on a busy machine, is repeated. */
async function interruptCheck(TMPDIR: string, signal: NodeJS.Signals) {
  for (let attempt = 1; ; attempt += 1) {
    const before = await listDatabases();
    const child = startOperator({ DATA_DIR: dataDir, DATABASE_URL: url, TMPDIR }, 'check-backup', file);
    const stderr = text(child.stderr);
    const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
    const database = await eventually(async () => {
      // Only this test's checks are connected to its database.
      const { rows } = await pool.query(
        `SELECT d.datname::text AS name FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_database d
             ON hashtextextended(d.datname::text, 0) = ((l.classid::bigint << 32) | l.objid::bigint)
          WHERE l.locktype = 'advisory' AND a.datname = current_database() AND NOT d.datname = ANY ($1)`,
        [before],
      );
      return (rows[0] as { name: string } | undefined)?.name ?? (child.exitCode !== null && 'it has ended');
    });
    const folders = await listFolders(TMPDIR);
    // npm sends it a second time.
    for (const each of [signal, signal]) child.kill(each);
    const code = await exited;
    if (code === 0 && attempt < ATTEMPTS_MAX) continue;
    t.equal(folders.length, 1);
    return { code, stderr: await stderr, database };
  }
}

t.test('what a killed check left is removed by the next one', async (t) => {
  const TMPDIR = await temporaryFolder(t);
  const { database } = await interruptCheck(TMPDIR, 'SIGKILL');
  await eventually(async () => !(await isLocked(database)));
  t.equal(await exists(database), true);
  t.equal((await listFolders(TMPDIR)).length, 1);
  await t.test('which spares databases and folders of others', (t) => checkBesideOthers(t, TMPDIR, database));
});

for (const signal of amount({ quick: ['SIGTERM'], soak: ['SIGINT', 'SIGTERM'] } as const))
  t.test(`a check that gets ${signal} leaves nothing`, async (t) => {
    const TMPDIR = await temporaryFolder(t);
    const { code, stderr, database } = await interruptCheck(TMPDIR, signal);
    t.equal(code, 1);
    t.match(stderr, `Interrupted by ${signal}. The check did not finish.`);
    t.equal(await exists(database), false);
    t.same(await listFolders(TMPDIR), []);
  });

/** @param killed the database that a killed check left */
async function checkBesideOthers(t: Test, TMPDIR: string, killed: string): Promise<void> {
  const other = await testDatabase(t);
  const name = `bulkhead_check_${'0123456789abcdef'.repeat(2)}`;
  const similar = `bulkhead_check_of_${process.pid}`;
  for (const database of [name, similar]) {
    await pool.query(`CREATE DATABASE ${database} TEMPLATE template0`);
    t.teardown(() => pool.query(`DROP DATABASE IF EXISTS ${database}`));
  }
  for (const folder of ['bulkhead-check-young1', 'bulkhead-check-old123', 'bulkhead-check-not-ours'])
    await mkdir(join(TMPDIR, folder));
  await writeFile(join(TMPDIR, 'bulkhead-check-old123', 'key'), '');
  const twoDaysAgo = (Date.now() - 2 * DAY_MS) / 1_000;
  for (const folder of ['bulkhead-check-old123', 'bulkhead-check-not-ours'])
    await utimes(join(TMPDIR, folder), twoDaysAgo, twoDaysAgo);
  const check = () => operatorProcess({ DATA_DIR: dataDir, DATABASE_URL: url, TMPDIR }, 'check-backup', file);
  // Connected to another database of the server.
  await withConnection(other.url, {}, async (client) => {
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
    t.match(await check(), { code: 0, stderr: new RegExp(`the temporary database ${killed} .* is dropped`) });
    t.equal(await exists(killed), false);
    t.equal(await exists(name), true);
  });
  t.equal(await exists(similar), true);
  t.same(await listFolders(TMPDIR), ['bulkhead-check-not-ours', 'bulkhead-check-young1']);
  if (!isSoak()) return;
  t.match(await check(), { code: 0 });
  t.equal(await exists(name), false);
  t.equal(await exists(similar), true);
}
