/** A restore that is interrupted at any step can be repeated, and nothing else can be restored over what it has written. */
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { openArchive } from '../../../db/backup/archive-reader.ts';
import { writeBackup } from '../../../db/backup/create.ts';
import type { Progress } from '../../../db/backup/format.ts';
import { restoreBackup } from '../../../db/backup/restore.ts';
import { isUnfinished } from '../../../db/backup/stored-files.ts';
import { WORKSPACE_STAGING } from '../../../db/files/data-dir.ts';
import { MIGRATIONS, migrate } from '../../../db/postgres/migrate.ts';
import { requireDataDir } from '../../../service/lifecycle/start-faults.ts';
import {
  emptyDatabase,
  type Teardown,
  type TestDatabase,
  temporaryFolder,
  testDatabase,
} from '../../runner/harness.ts';
import { isSoak, listCases, soakTest } from '../../runner/soak.ts';

const ignore = () => undefined;
const ALL = (await readdir(MIGRATIONS)).length;

/** A backup of the release before this one, with an account and a file. */
async function writeOldBackup(test: Teardown): Promise<string> {
  const source = await emptyDatabase(test);
  await migrate(source.url, { count: ALL - 1 });
  return writeBackupOf(test, source);
}

async function writeBackupOf(test: Teardown, { pool, url }: TestDatabase): Promise<string> {
  await findOrCreateAccount(pool, 'local');
  const dataDir = await temporaryFolder(test);
  await mkdir(join(dataDir, 'workspaces'));
  await writeFile(join(dataDir, 'workspaces', 'notes.txt'), 'rye');
  const path = join(await temporaryFolder(test), 'old.backup');
  await writeBackup(url, dataDir, path, ignore);
  return path;
}

async function restore(url: string, dataDir: string, path: string, onProgress: Progress) {
  await using archive = await openArchive(path, ignore);
  return await restoreBackup(archive, url, dataDir, onProgress);
}

/** Two backups of the release before this one. No test changes them. */
const [path, anotherPath] = [await writeOldBackup(t), await writeOldBackup(t)];

/** Ends a restore at a line of its progress, as a kill at that moment would. */
const endAt = (end: RegExp) => (line: string) => {
  if (end.test(line)) throw new Error('killed');
};

const KILLED: Record<string, RegExp> = {
  'before its rows are committed': /files restored$/,
  'after its rows are committed': /rows (were )?restored/,
};
for (const [name, end] of listCases(KILLED, 'after its rows are committed')) {
  t.test(`a restore that is killed ${name} is repeated`, async (t) => {
    const { pool, url } = await emptyDatabase(t);
    const dataDir = await temporaryFolder(t);
    await t.rejects(restore(url, dataDir, path, endAt(end)), /killed/);
    if (isSoak()) await t.rejects(restore(url, dataDir, path, endAt(end)), /killed/, 'twice');
    t.equal(await isUnfinished(dataDir), true);
    const interrupted = new RegExp(
      `^A restore into ${dataDir} was interrupted\\. Run npm run -s operator -- restore <file> again`,
    );
    await t.rejects(
      requireDataDir(dataDir),
      { name: 'SettingsError', message: interrupted },
      'nor does a process start',
    );
    const { files, rows, migrated } = await restore(url, dataDir, path, ignore);
    t.same({ files, migrated: migrated.length }, { files: 1, migrated: 1 });
    t.ok(rows > 0);
    t.equal(await isUnfinished(dataDir), false);
    await requireDataDir(dataDir);
    t.equal(await readFile(join(dataDir, 'workspaces', 'notes.txt'), 'utf8'), 'rye');
    t.equal((await pool.query('SELECT FROM accounts')).rowCount, 1);
    await t.rejects(restore(url, dataDir, path, ignore), /not empty/, 'once it is complete');
  });
}

t.test('of two restores, the second one is refused, and one whose lock is lost restores no row', async (t) => {
  const { pool, url } = await emptyDatabase(t);
  await using archive = await openArchive(path, ignore);
  const restoreWith = async (dataDir: string, beforeRead: () => Promise<void>) => {
    const read = async (entry: string) => {
      await beforeRead();
      return archive.read(entry);
    };
    return restoreBackup({ ...archive, read }, url, dataDir, ignore);
  };
  const endLock = async () =>
    void (await pool.query(
      `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory'`,
    ));
  const first = await temporaryFolder(t);
  await t.rejects(restoreWith(first, endLock), {
    name: 'BackupError',
    message:
      /^The connection that kept other restores out of the database of DATABASE_URL was lost \(.*\. No row was restored: /,
  });
  t.equal((await pool.query('SELECT FROM accounts')).rowCount, 0);
  const second = await temporaryFolder(t);
  let tried: Promise<void> | undefined;
  const trySecond = async () => {
    await t.rejects(restore(url, second, path, ignore), {
      name: 'BackupError',
      message: /^Another restore into the database of DATABASE_URL is under way\. Wait until it ends, or/,
    });
    t.same(await readdir(second), [], 'it changes nothing');
  };
  await restoreWith(first, () => {
    tried ??= trySecond();
    return tried;
  });
  t.ok(tried);
  t.equal((await pool.query('SELECT FROM accounts')).rowCount, 1);
});

await soakTest(
  t,
  'tables without rows are filled if they are those of the backup, and left alone if not',
  async (t) => {
    const dataDir = await temporaryFolder(t);
    const migrated = await testDatabase(t);
    await t.rejects(restore(migrated.url, dataDir, path, ignore), {
      name: 'BackupError',
      message: /the tables of another release than the backup\. Restore into a database without tables: /,
    });
    t.same(await readdir(dataDir), [], 'before a file is restored');
    await restore(migrated.url, dataDir, await writeBackupOf(t, await testDatabase(t)), ignore);
    t.equal((await migrated.pool.query('SELECT FROM accounts')).rowCount, 1);
  },
);

await soakTest(
  t,
  'the migrations of the last upgrade stay one upgrade, so that the release before it can start',
  async (t) => {
    const readRuns = ({ pool }: TestDatabase) =>
      pool.query('SELECT count(*)::int AS migrations FROM migrations GROUP BY run_on ORDER BY run_on');
    const source = await emptyDatabase(t);
    await migrate(source.url, { count: ALL - 3 });
    await migrate(source.url, { count: 1 });
    await migrate(source.url);
    const target = await emptyDatabase(t);
    await restore(target.url, await temporaryFolder(t), await writeBackupOf(t, source), ignore);
    t.same((await readRuns(target)).rows, [{ migrations: ALL - 2 }, { migrations: 2 }]);
    const again = await emptyDatabase(t);
    // As a restore that was killed between the two runs leaves it.
    await migrate(again.url, { count: ALL - 2 });
    await restore(again.url, await temporaryFolder(t), await writeBackupOf(t, target), ignore);
    t.same((await readRuns(again)).rows, [{ migrations: ALL - 2 }, { migrations: 2 }]);
  },
);

t.test('a backup of a newer release is refused before anything is changed', async (t) => {
  const newer = await testDatabase(t);
  await newer.pool.query(`INSERT INTO migrations (name, run_on) VALUES ('9000_next', now())`);
  const path = await writeBackupOf(t, newer);
  const dataDir = await temporaryFolder(t);
  const { pool, url } = await emptyDatabase(t);
  const refused = { name: 'BackupError', message: /^The backup was written by a newer release of Bulkhead/ };
  await t.rejects(restore(url, dataDir, path, ignore), refused);
  t.same(await readdir(dataDir), []);
  t.equal((await pool.query(`SELECT FROM pg_tables WHERE schemaname = 'public'`)).rowCount, 0);
});

await soakTest(t, 'a backup with another migration than this release is not called newer', async (t) => {
  const other = await testDatabase(t);
  const [last = ''] = (await readdir(MIGRATIONS)).sort().slice(-1);
  const name = last.replace('.sql', '');
  await other.pool.query(`UPDATE migrations SET name = '0000_renamed' WHERE name = $1`, [name]);
  const { url } = await emptyDatabase(t);
  await t.rejects(restore(url, await temporaryFolder(t), await writeBackupOf(t, other), ignore), {
    name: 'BackupError',
    message: `The backup has the migration 0000_renamed where this release has ${name}, so this release cannot restore it. Use the release that wrote it.`,
  });
});

await soakTest(
  t,
  'workspaces that are elsewhere, with their staging folder only, stay there in a restore that is repeated',
  async (t) => {
    const { url } = await emptyDatabase(t);
    const [dataDir, shared] = [await temporaryFolder(t), await temporaryFolder(t)];
    // As a mount point: what removes the folder itself does not reach what is in it.
    await symlink(shared, join(dataDir, 'workspaces'));
    await mkdir(join(dataDir, WORKSPACE_STAGING));
    await t.rejects(restore(url, dataDir, path, endAt(/files restored$/)), /killed/);
    await writeFile(join(shared, 'half'), '');
    await restore(url, dataDir, path, ignore);
    t.same((await readdir(shared)).sort(), ['.staging', 'notes.txt']);
  },
);

await soakTest(t, 'rows of a release that ran after a killed restore are kept', async (t) => {
  const { pool, url } = await emptyDatabase(t);
  const dataDir = await temporaryFolder(t);
  await t.rejects(restore(url, dataDir, path, endAt(/files restored$/)), /killed/);
  await migrate(url);
  await findOrCreateAccount(pool, 'since');
  await t.rejects(requireDataDir(dataDir), /If it says that the database is not empty, see docs\/operating\.md/);
  const mark = join(dataDir, 'restore.unfinished');
  const acceptance = `If an earlier release has run with ${dataDir} since a restore was interrupted, the rows are those of its users: keep them, and delete ${mark} as docs/operating.md, “Backup and restore”, says.`;
  await t.rejects(restore(url, dataDir, path, ignore), {
    name: 'BackupError',
    message: new RegExp(`^The database of DATABASE_URL is not empty: table \\w+ has rows\\. .*\\. ${acceptance}$`),
  });
  await rm(mark);
  await requireDataDir(dataDir);
  t.equal((await pool.query('SELECT FROM accounts')).rowCount, 1);
  await t.rejects(restore(url, dataDir, path, ignore), { message: /Restore into an empty database\.$/ });
});

t.test('after a killed restore, another backup or another folder is refused', async (t) => {
  const { url } = await emptyDatabase(t);
  const dataDir = await temporaryFolder(t);
  await t.rejects(restore(url, dataDir, path, endAt(/rows restored$/)), /killed/);
  const refused = { name: 'BackupError', message: /database of DATABASE_URL is not empty/ };
  await t.rejects(restore(url, dataDir, anotherPath, ignore), refused);
  const other = await temporaryFolder(t);
  await t.rejects(restore(url, other, path, endAt(/files restored$/)), refused);
  await t.rejects(restore((await emptyDatabase(t)).url, other, path, endAt(/files restored$/)), /killed/);
  await t.rejects(restore(url, other, path, ignore), refused, 'whose files are of a restore into another database');
  await restore(url, dataDir, path, ignore);
});

await soakTest(
  t,
  'files that were written since an interrupted restore are not removed by the restore of another backup',
  async (t) => {
    const dataDir = await temporaryFolder(t);
    await t.rejects(restore((await emptyDatabase(t)).url, dataDir, path, endAt(/rows restored$/)), /killed/);
    const written = join(dataDir, 'workspaces', 'written-since.txt');
    await writeFile(written, 'oats');
    const { url } = await emptyDatabase(t);
    await t.rejects(restore(url, dataDir, anotherPath, ignore), {
      name: 'BackupError',
      message: `${join(dataDir, 'workspaces')} is not empty, and the restore that ${join(dataDir, 'restore.unfinished')} marks as interrupted is that of another backup. Restore that backup again, or restore into a new DATA_DIR.`,
    });
    t.equal(await readFile(written, 'utf8'), 'oats');
    await restore(url, dataDir, path, ignore);
    t.same(await readdir(join(dataDir, 'workspaces')), ['notes.txt'], 'the same backup is restored again');
  },
);
