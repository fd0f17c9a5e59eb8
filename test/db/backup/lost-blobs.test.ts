/** A backup is not called good when it lacks a blob that its tables name, or has another content under the blob's name. */
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, symlinkSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { checkBlobs } from '../../../db/backup/blob-check.ts';
import { writeBackup } from '../../../db/backup/create.ts';
import { openBlobFolder } from '../../../db/files/blob-mark.ts';
import { openBlobs } from '../../../db/files/blobs.ts';
import { openKeyFiles } from '../../../db/files/key-files.ts';
import { openSecretKeys } from '../../../db/files/secrets.ts';
import { migrate } from '../../../db/postgres/migrate.ts';
import { operator } from '../../deploy/operator-command.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { emptyDatabase, type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { amount, isSoak, soakTest } from '../../runner/soak.ts';

/** A cluster with two blobs in use, as files, and one that nothing uses. */
async function createCluster(test: Teardown) {
  const { url, pool } = await testDatabase(test);
  const dataDir = await temporaryFolder(test);
  const blobs = await openBlobs(dataDir);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  await pool.query(
    `INSERT INTO cluster (id, release, blob_store, blobs_marked) VALUES ('one', '1.0.0', 'files', true)`,
  );
  await openBlobFolder(dataDir).writeMark('one');
  const put = (text: string) => blobs.put(Buffer.from(text));
  const [{ sha256: name }, other] = [await put('hello'), await put('world')];
  for (const [id, sha256] of [
    ['a', name],
    ['b', other.sha256],
  ])
    await pool.query(
      `INSERT INTO media (id, account_id, sha256, media_type, size_bytes) VALUES ($1, $2, $3, 'text/plain', 5)`,
      [id, accountId, sha256],
    );
  await put('unused');
  const entry = join('blobs', name.slice(0, 2), name.slice(2));
  const otherFile = join(dataDir, 'blobs', other.sha256.slice(0, 2), other.sha256.slice(2));
  return { env: { DATABASE_URL: url, DATA_DIR: dataDir }, pool, name, entry, file: join(dataDir, entry), otherFile };
}

/** Writes a file of an account's workspace. */
async function writeWorkspaceFile(dataDir: string, account: string, name: string): Promise<void> {
  await mkdir(join(dataDir, 'workspaces', account), { recursive: true });
  await writeFile(join(dataDir, 'workspaces', account, name), 'rye');
}

/** Restores a backup into an empty folder and database. */
async function restore(test: Teardown, path: string) {
  const env = { DATABASE_URL: (await emptyDatabase(test)).url, DATA_DIR: join(await temporaryFolder(test), 'data') };
  return operator(env, 'restore', path);
}

const missing = ['missing', (file: string) => rm(file)] as const;
const damaged = ['damaged', (file: string) => writeFile(file, 'hellO')] as const;
for (const [damage, inflict] of amount({ quick: [damaged], soak: [missing, damaged] })) {
  t.test(`a blob that is ${damage} is named by backup, check and restore`, async (t) => {
    const { env, name, entry, file } = await createCluster(t);
    await inflict(file);
    const path = join(await temporaryFolder(t), 'one.backup');
    const lost = `1 of 2 blobs are missing or damaged in the backup, as they were in DATA_DIR/blobs, such as ${name}: copy them to DATA_DIR/blobs from an older backup, which is a zip file (files/${entry})`;
    const backup = await operator(env, 'backup', path);
    t.match(backup, { code: 0, stdout: `Warning: ${lost}, and back up again.` }, backup.stderr);
    t.match(await operator(env, 'check-backup', path), { code: 1, stdout: '', stderr: `${lost}.\n` });
    if (isSoak())
      t.match(await operator(env, 'backup', `${path}-2`, '--check'), { code: 1, stdout: '', stderr: `${lost}.\n` });
    t.match(await restore(t, path), { code: 0, stdout: `are restored. ${lost}. Set BLOBS=files. What was revoked, ` });
  });
}

t.test('a move copies what is intact, names what is lost, and ends without it if that is asked for', async (t) => {
  const { env, pool, name, entry, file, otherFile } = await createCluster(t);
  const readStore = async () => (await pool.query('SELECT blob_store FROM cluster')).rows[0].blob_store;
  await rm(file);
  const lost = `1 of 2 blobs are missing or damaged in DATA_DIR/blobs, such as ${name}: copy them to DATA_DIR/blobs from an older backup, which is a zip file (files/${entry})`;
  const refused = await operator(env, 'move-blobs', 'database');
  t.match(refused, { code: 1, stderr: `${lost}. All others are copied, but BLOBS stays files. Get them back and ` });
  t.equal((await pool.query('SELECT FROM stored_blobs')).rowCount, 1);
  t.equal(await readStore(), 'files');
  const moved = await operator(env, 'move-blobs', 'database', '--without-lost', '--json');
  t.match(moved, { code: 0 }, moved.stderr);
  t.match(JSON.parse(moved.stdout), { store: 'database', blobs: 1, lostBlobs: 1 });
  t.equal(await readStore(), 'database');
  await t.test('and replaces files that an earlier move left, and that were damaged since', async (t) => {
    await writeFile(otherFile, 'worlD');
    const back = await operator({ ...env, BLOBS: 'database' }, 'move-blobs', 'files', '--without-lost');
    t.match(back, { code: 0, stdout: /^1 blobs are in files now/ }, back.stderr);
    t.equal(await readFile(otherFile, 'utf8'), 'world');
  });
});

t.test('a move changes nothing if the connection was lost that kept the service from starting', async (t) => {
  const { env, pool } = await createCluster(t);
  const readStore = async () => (await pool.query('SELECT blob_store FROM cluster')).rows[0].blob_store;
  const holder = await pool.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT 1 FROM cluster FOR UPDATE');
  const moving = operator(env, 'move-blobs', 'database');
  // All blobs are copied, and the last statements of the move wait for the row.
  await untilLockIsAwaited(pool);
  const ended = await pool.query(
    `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
      WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.mode = 'ExclusiveLock'`,
  );
  t.equal(ended.rowCount, 1);
  await holder.query('ROLLBACK');
  holder.release();
  t.match(await moving, { code: 1, stderr: /The connection that kept API and supervisor from starting was lost \(/ });
  t.equal(await readStore(), 'files');
  t.match(await operator(env, 'move-blobs', 'database'), { code: 0 }, 'it can be repeated');
  t.equal(await readStore(), 'database');
});

await soakTest(t, 'a move writes no copies, and reads and keeps those of the service', async (t) => {
  const { env, pool, name } = await createCluster(t);
  const cache = join(env.DATA_DIR, 'blob-cache');
  t.match(await operator(env, 'move-blobs', 'database'), { code: 0 });
  t.same(await readdir(cache), []);
  const copy = join(cache, name.slice(0, 2), name.slice(2));
  await mkdir(dirname(copy));
  await writeFile(copy, 'hello');
  await pool.query('DELETE FROM stored_blobs WHERE sha256 = $1', [name]);
  const back = await operator({ ...env, BLOBS: 'database' }, 'move-blobs', 'files');
  t.match(back, { code: 0, stdout: /^2 blobs are in files now/ }, back.stderr);
  t.ok(existsSync(copy));
});

t.test('a restore that cannot read the bucket says so, and that all else is restored', async (t) => {
  const { env, pool } = await createCluster(t);
  await pool.query("UPDATE cluster SET blob_store = 's3://bucket/one'");
  const path = join(await temporaryFolder(t), 'one.backup');
  const backup = await operator(env, 'backup', path);
  t.match(backup, { code: 0 }, backup.stderr);
  const unset = 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set for s3://bucket/one';
  const restored = await restore(t, path);
  t.match(restored, {
    code: 0,
    stdout: `are restored. The blobs could not be checked: ${unset}. Run check-backup when this is solved. What was revoked, `,
  });
});

t.test('a blob that cannot be read because a connection was lost does not count as lost', async (t) => {
  const { env, pool } = await createCluster(t);
  await pool.query("UPDATE cluster SET blob_store = 'database'");
  const read = async (): Promise<Buffer> => {
    await pool.query('SELECT pg_terminate_backend(pg_backend_pid())');
    return Buffer.alloc(0);
  };
  const options = { files: [], folder: env.DATA_DIR, openBlobs: async () => ({ read }), onProgress: () => undefined };
  await t.rejects(checkBlobs({ pool, ...options }), { code: '57P01' });
});

t.test('a complete backup is good, and says how many blobs it has', async (t) => {
  const { env } = await createCluster(t);
  const path = join(await temporaryFolder(t), 'one.backup');
  const backup = await operator(env, 'backup', path, '--check');
  t.match(backup, { code: 0, stdout: /decrypted 0 secrets, and 2 blobs were read\.\n$/ }, backup.stderr);
  t.notMatch(backup.stdout, 'Warning');
  t.match(await restore(t, path), {
    code: 0,
    stdout: /are restored\. All 2 blobs are in files: set BLOBS=files\. What was revoked, /,
  });
});

await soakTest(t, 'a backup says how many workspaces it has, and whether it has keys', async (t) => {
  const { env } = await createCluster(t);
  const folder = await temporaryFolder(t);
  const bare = await operator(env, 'backup', join(folder, 'bare'));
  t.match(bare, { code: 0, stdout: /, with no workspaces and no keys\.\n$/ }, bare.stderr);
  for (const [account, name] of [
    ['a', 'one'],
    ['a', 'two'],
    ['b', 'one'],
  ] as const)
    await writeWorkspaceFile(env.DATA_DIR, account, name);
  await openSecretKeys(env.DATA_DIR, openKeyFiles(env.DATA_DIR));
  const whole = await operator(env, 'backup', join(folder, 'whole'));
  t.match(whole, { code: 0, stdout: /, with 2 workspaces and the keys to its secrets\.\n$/ }, whole.stderr);
});

t.test('a backup that would lack the keys or all blobs of its database is not written', async (t) => {
  const { env, pool } = await createCluster(t);
  const folder = await temporaryFolder(t);
  const refuse = async (DATA_DIR: string, stderr: RegExp) =>
    t.match(await operator({ ...env, DATA_DIR }, 'backup', join(folder, 'one')), { code: 1, stdout: '', stderr });
  await refuse(
    await temporaryFolder(t),
    /^DATA_DIR \S+ has no packages, but this database had such a place: set DATA_DIR .* Nothing was written\.\n$/,
  );
  const { env: other } = await createCluster(t);
  await openBlobFolder(other.DATA_DIR).writeMark('two');
  await refuse(other.DATA_DIR, /^DATA_DIR \S+ holds the packages of another cluster \(two, not one\): /);
  await pool.query(`INSERT INTO recorded_keys (id, purpose, fingerprint) VALUES ('k1', 'secrets', 'f1')`);
  await refuse(
    env.DATA_DIR,
    /^DATA_DIR \S+ lacks keys that this database uses \(k1\): set DATA_DIR .* Nothing was written\.\n$/,
  );
  t.same(await readdir(folder), []);
  await t.test('but needs no cluster key where the keys are rows', async (t) => {
    await pool.query(`UPDATE cluster SET key_fingerprint = 'abc'`);
    const backup = await operator(env, 'backup', join(folder, 'one'));
    t.match(backup, { code: 0, stdout: / and the keys to its secrets, sealed under the key / }, backup.stderr);
  });
});

t.test('a blob that PostgreSQL cannot export is named before anything is written', async (t) => {
  const { url, pool } = await testDatabase(t);
  const folder = await temporaryFolder(t);
  await pool.query(
    `INSERT INTO stored_blobs (sha256, size_bytes, content, state) VALUES ($1, 600 * 1024 * 1024, 'x', 'stored')`,
    ['a'.repeat(64)],
  );
  await t.rejects(
    writeBackup(url, folder, join(folder, 'backup.zip'), () => undefined),
    /^The blob a{64} has 629 MB, and PostgreSQL cannot export .* move-blobs/,
  );
  t.notOk(existsSync(join(folder, 'backup.zip')));
});

await soakTest(t, 'a backup holds a blob in use that a killed sweep left aside', async (t) => {
  const { env, name, file } = await createCluster(t);
  await rename(file, join(env.DATA_DIR, 'condemned', name));
  const backup = await operator(env, 'backup', join(await temporaryFolder(t), 'one.backup'), '--check');
  t.match(backup, { code: 0, stdout: /and 2 blobs were read\.\n$/ }, backup.stderr);
});

await soakTest(t, 'a database of a release that had no table of its blobs is backed up whole', async (t) => {
  const { pool, url } = await emptyDatabase(t);
  await migrate(url, { count: 1 });
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'ann')`);
  const path = join(await temporaryFolder(t), 'old.backup');
  const { lostBlobs, rows } = await writeBackup(url, await temporaryFolder(t), path, () => undefined);
  t.same({ lostBlobs, rows }, { lostBlobs: null, rows: 1 });
});

/** Backs up, and calls `during` when a table is copied, and again when a file is. */
async function backUpWith(env: { DATABASE_URL: string; DATA_DIR: string }, path: string, during: () => void) {
  const note = join(env.DATA_DIR, 'workspaces', 'a', 'note');
  await writeWorkspaceFile(env.DATA_DIR, 'a', 'note');
  return writeBackup(env.DATABASE_URL, env.DATA_DIR, path, (line) => {
    // The file that an agent replaces is reported when its turn comes.
    if (line.startsWith('media: ')) {
      during();
      rmSync(note);
      symlinkSync('/', note);
    }
    if (line.includes('cannot be read')) during();
  });
}

t.test('a backup keeps no snapshot open while it copies the files', async (t) => {
  const { env, name } = await createCluster(t);
  await rm(join(env.DATA_DIR, 'blobs', name.slice(0, 2), name.slice(2)));
  const open: string[] = [];
  const done = await backUpWith(env, join(await temporaryFolder(t), 'a'), () =>
    // Not `xact_start`: an idle connection starts a transaction of its own when it reads which catalog rows others changed.
    open.push(selectFromBackups(env.DATABASE_URL, "count(*) FILTER (WHERE state <> 'idle')")),
  );
  t.same(open, ['1', '0']);
  t.match(done.lostBlobs, { blobs: 2, lost: [name] }, 'those of the snapshot are checked');
});

await soakTest(t, 'a backup that loses the lock against sweeps while it copies the files leaves no file', async (t) => {
  const { env } = await createCluster(t);
  const folder = await temporaryFolder(t);
  let calls = 0;
  const backup = backUpWith(env, join(folder, 'one.backup'), () => {
    calls += 1;
    if (calls === 2) t.equal(selectFromBackups(env.DATABASE_URL, 'pg_terminate_backend(pid)'), 'true');
  });
  await t.rejects(backup, {
    name: 'BackupError',
    message:
      /^The connection to the database was lost while files were copied \(.+ Nothing was kept: run the backup again\.$/,
  });
  t.equal(calls, 2);
  t.same(await readdir(folder), []);
});

/** Evaluates an expression over the connections of backups, while this process waits: a backup in it goes on afterwards. */
function selectFromBackups(url: string, expression: string): string {
  const script = `import pg from 'pg'; const client = new pg.Client(process.env.URL); await client.connect();
    const { rows } = await client.query("SELECT ${expression} AS value FROM pg_stat_activity"
      + " WHERE datname = current_database() AND application_name = 'bulkhead-backup'");
    console.log(String(rows[0].value)); await client.end();`;
  const args = ['--input-type=module', '--eval', script];
  return spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, URL: url } }).stdout.trim();
}
