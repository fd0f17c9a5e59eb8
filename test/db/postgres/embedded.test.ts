import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, copyFile, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from 'pg';
import t from 'tap';
import { DataDirInUseError, lockDataDir, makeDataDir, tryLock } from '../../../db/files/data-dir.ts';
import { findEmbedded, hasEmbedded, startEmbedded } from '../../../db/postgres/embedded.ts';
import { operator } from '../../deploy/operator-command.ts';
import { mountSmallDisk, NO_DISK } from '../../fixtures/small-disk.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { amount, isSoak, soakTest } from '../../runner/soak.ts';

const run = promisify(execFile);
const HOLDER = fileURLToPath(new URL('./embedded-holder.ts', import.meta.url));
/** PostgreSQL dies of its parent's death within this time, milliseconds; by then a loaded machine has come round too. */
const DEATH_MS = 20_000;
/** Half of a new cluster. */
const SMALL_MEGABYTES = 20;
const HOUR_MS = 3_600_000;

async function query(url: string, sql: string): Promise<unknown[][]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: 'array' })).rows;
  } finally {
    await client.end();
  }
}

/** A process of its own that holds the embedded PostgreSQL until it is killed. */
async function hold(t: Teardown, dataDir: string): Promise<{ holder: ChildProcess; url: string; pid: number }> {
  const holder = spawn(process.execPath, [HOLDER, dataDir], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => holder.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: holder.stdout }), 'line');
  return { holder, ...JSON.parse(String(line)) };
}

/** Returns null while another process has the port. */
async function listenAt(port: number): Promise<Server | null> {
  const server = createServer().listen(port, '127.0.0.1');
  return once(server, 'listening').then(
    () => server,
    () => null,
  );
}

async function alive(pid: number): Promise<boolean> {
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return state !== '' && !/\) Z /.test(state);
}

async function gone(pid: number): Promise<boolean> {
  for (let waited = 0; waited < DEATH_MS && (await alive(pid)); waited += 50) await sleep(50);
  return !(await alive(pid));
}

/** Made by the first test; the next ones find what the ones before them wrote. */
const dataDir = join(await temporaryFolder(t), 'data');

t.test('starts durable, private and with trigrams, stops without a trace, keeps its data', async (t) => {
  // The shell of somebody who also works with other servers.
  process.env.PGSSLMODE = 'require';
  t.teardown(() => delete process.env.PGSSLMODE);
  const first = await startEmbedded({ dataDir, connections: 828 });
  t.same(await query(first.url, 'SHOW fsync'), [['on']]);
  t.same(await query(first.url, 'SHOW max_connections'), [['828']]);
  t.match(
    await readFile(`/proc/${first.pid}/maps`, 'latin1'),
    '/plpgsql.so',
    'the library of the triggers is loaded once',
  );
  t.same(await query(first.url, 'SHOW listen_addresses'), [['127.0.0.1']]);
  await query(first.url, 'CREATE EXTENSION pg_trgm');
  t.same(await query(first.url, "SELECT similarity('weather', 'wether') > 0.4"), [[true]]);
  t.same(await query(first.url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user'), [[false]]);
  await query(first.url, 'CREATE TABLE kept AS SELECT 7 AS seven');
  t.equal(await findEmbedded(dataDir), first.url);
  for (const name of ['postgres.json', 'postgres.secret.json', 'postgres.log', 'owner.json']) {
    t.equal((await stat(join(dataDir, name))).mode & 0o077, 0, `${name} is private`);
  }
  await t.rejects(query(first.url.replace(/:[^:@]+@/, ':wrong@'), 'SELECT 1'), { code: '28P01' });
  await first.stop();
  t.notOk(await alive(first.pid));
  t.equal(await findEmbedded(dataDir), null);
  const second = await startEmbedded({ dataDir });
  t.same(await query(second.url, 'SELECT seven FROM kept ORDER BY seven'), [[7]]);
  t.same(await query(second.url, 'SHOW max_connections'), [['100']], 'no fewer than by default');
  await second.stop();
});

t.test('a second start on one DATA_DIR is refused in one sentence; a command waits for a command', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await lockDataDir(dataDir, 'service');
  const refused = await lockDataDir(dataDir, 'service').catch((error: unknown) => error);
  t.type(refused, DataDirInUseError);
  t.equal(
    String(refused),
    `DataDirInUseError: DATA_DIR ${dataDir} is in use by process ${process.pid}; stop it or set another DATA_DIR.`,
  );
  first.release();
  first.release();
  const borrowed = await lockDataDir(dataDir, 'command');
  setTimeout(() => borrowed.release(), 1_000);
  const after = await lockDataDir(dataDir, 'service');
  after.release();
});

t.test('a lock that cannot be opened is named, with what to do', async (t) => {
  const dataDir = await temporaryFolder(t);
  await mkdir(join(dataDir, 'lock'));
  await t.rejects(lockDataDir(dataDir, 'service'), {
    message: `The file ${dataDir}/lock cannot be locked (unable to open database file): it must be a file, on a file system that has locks.`,
  });
});

t.test('a lock on a read-only file system is refused, with what to do', async (t) => {
  const disk = await mountSmallDisk(t, 1);
  if (disk === null) {
    t.ok(true, 'a read-only disk', { skip: NO_DISK });
    return;
  }
  const { folder, makeReadOnly } = disk;
  const lock = join(folder, 'lock');
  const refuse = (place: string) =>
    t.throws(() => tryLock(lock), {
      message: `The file ${lock} cannot be locked, because ${place} cannot be written (EROFS): the file system is read-only. Mount it for writing, or use another folder.`,
    });
  await makeReadOnly();
  refuse(folder);
  await run('mount', ['-o', 'remount,rw', folder]);
  tryLock(lock)?.release();
  await makeReadOnly();
  refuse(lock);
  await t.rejects(makeDataDir(folder), {
    message: /cannot be written \(EROFS\): the file system is read-only\. Mount it/,
  });
});

t.test('a lock that is immutable is refused, with what to do', async (t) => {
  const lock = join(await temporaryFolder(t), 'lock');
  tryLock(lock)?.release();
  const isImmutable = await run('chattr', ['+i', lock]).then(
    () => true,
    () => false,
  );
  if (!isImmutable) {
    t.ok(true, 'an immutable file', { skip: 'this user may not make a file immutable' });
    return;
  }
  t.teardown(() => run('chattr', ['-i', lock]));
  t.throws(() => tryLock(lock), {
    message: `The file ${lock} cannot be locked, because ${lock} cannot be written (EPERM): it is immutable or append-only, or a security policy protects it. Run chattr -i -a on it as root, or change the policy, or use another folder.`,
  });
});

t.test('a command is waited for although the clock steps ahead', async (t) => {
  const dataDir = await temporaryFolder(t);
  const borrowed = await lockDataDir(dataDir, 'command');
  const { now } = Date;
  const monotonicNow = performance.now.bind(performance);
  t.teardown(() => {
    Date.now = now;
    performance.now = monotonicNow;
  });
  let steps = 0;
  let readings = 0;
  Date.now = () => {
    steps += 1;
    return now() + steps * HOUR_MS;
  };
  performance.now = () => {
    readings += 1;
    // The first one is the beginning, and the second one follows a look at the lock.
    if (readings === 2) borrowed.release();
    return monotonicNow();
  };
  (await lockDataDir(dataDir, 'service')).release();
});

t.test('PostgreSQL stops when its parent is killed, and committed data stays', async (t) => {
  const { holder, url, pid } = await hold(t, dataDir);
  await query(url, 'INSERT INTO kept VALUES (8)');
  await t.rejects(startEmbedded({ dataDir }), { message: new RegExp(`in use by process ${holder.pid};`) });
  holder.kill('SIGKILL');
  t.ok(await gone(pid), 'no orphan');
  const next = await startEmbedded({ dataDir });
  t.same(await query(next.url, 'SELECT seven FROM kept ORDER BY seven'), [[7], [8]]);
  await next.stop();
});

await soakTest(t, 'an orphan that would not die is stopped by the next start', async (t) => {
  const { holder, pid } = await hold(t, dataDir);
  // Stopped, it does not act on the signal of its parent's death.
  process.kill(pid, 'SIGSTOP');
  holder.kill('SIGKILL');
  setTimeout(() => process.kill(pid, 'SIGCONT'), 1_000);
  const next = await startEmbedded({ dataDir });
  t.ok(await gone(pid));
  t.same(await query(next.url, 'SELECT seven FROM kept ORDER BY seven'), [[7], [8]]);
  await next.stop();
});

await soakTest(t, 'a server that does not answer is named, not taken for one that has ended', async (t) => {
  const { pid } = await hold(t, dataDir);
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => process.kill(pid, 'SIGKILL'));
  const message = new RegExp(`^The embedded PostgreSQL of DATA_DIR ${dataDir} did not answer within 5 s\\. See `);
  t.match(await operator({ DATA_DIR: dataDir }, 'fleet'), { code: 1, stderr: message });
});

t.test('a port of an ended server that another program has is not that of a server', async (t) => {
  const dataDir = await temporaryFolder(t);
  // Accepts connections and answers nothing.
  const server = createServer((socket) => t.teardown(() => socket.destroy())).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `postgres://bulkhead:x@127.0.0.1:${port}/bulkhead?sslmode=disable`;
  await writeFile(join(dataDir, 'postgres.json'), JSON.stringify({ url }));
  t.equal(await findEmbedded(dataDir), null);
});

t.test('a running server', async (t) => {
  const postgres = await startEmbedded({ dataDir });
  t.teardown(() => postgres.stop());

  await t.test('is not found through a copy of its DATA_DIR', async (t) => {
    const copy = await temporaryFolder(t);
    for (const name of ['lock', 'owner.json', 'postgres.json']) await copyFile(join(dataDir, name), join(copy, name));
    t.equal(await findEmbedded(copy), null);
    await rm(join(copy, 'lock'));
    t.equal(await findEmbedded(copy), null);
    t.notOk(hasEmbedded(copy), 'the search creates no lock');
    if (!isSoak()) return;
    const command = await startEmbedded({ dataDir: copy, purpose: 'command', throwAway: true });
    t.teardown(() => command.stop());
    t.equal(await findEmbedded(copy), null, 'nor while a command holds the lock of the copy');
    t.equal(await findEmbedded(dataDir), postgres.url);
  });

  await t.test('has refused logins in its log, which refused statements do not fill', async (t) => {
    const measure = async () => (await stat(join(dataDir, 'postgres.log'))).size;
    const client = new Client({ connectionString: postgres.url });
    await client.connect();
    t.teardown(() => client.end());
    const before = await measure();
    // As the trigger of a full quota does for each append to a transcript.
    const refused = `DO $$ BEGIN RAISE EXCEPTION 'The quota of transcripts is exceeded.' USING ERRCODE = 'BH413'; END $$`;
    const times = amount({ quick: 50, soak: 1_000 });
    for (let count = 0; count < times; count += 1) await client.query(refused).catch(() => undefined);
    t.equal(await measure(), before);
    await t.rejects(client.query(refused), { code: 'BH413', message: 'The quota of transcripts is exceeded.' });
    await t.rejects(query(postgres.url.replace(/:[^:@]+@/, ':wrong@'), 'SELECT 1'), { code: '28P01' });
    t.match(await readFile(join(dataDir, 'postgres.log'), 'utf8'), /FATAL: {2}password authentication failed/);
  });

  await t.test('that is killed restarts at the same address with its data', async (t) => {
    const { url, pid } = postgres;
    await query(url, 'INSERT INTO kept VALUES (10)');
    process.kill(pid, 'SIGKILL');
    await postgres.ended();
    await postgres.restart();
    t.equal(postgres.url, url);
    t.not(postgres.pid, pid);
    t.same(await query(url, 'SELECT seven FROM kept ORDER BY seven'), [[7], [8], [10]]);
  });
});

await soakTest(t, 'a killed server waits for its port, which its clients know', async (t) => {
  const postgres = await startEmbedded({ dataDir });
  t.teardown(() => postgres.stop());
  const { url, pid } = postgres;
  process.kill(pid, 'SIGKILL');
  await postgres.ended();
  // The reason of a failure is looked for behind what the log held before, such as names of files.
  await appendFile(join(dataDir, 'postgres.log'), 'é'.repeat(5_000));
  // Another process may have the port for a moment: one that PostgreSQL forked before its death, or one that connects from it.
  const other = await eventually(() => listenAt(Number(new URL(url).port)));
  await t.rejects(postgres.restart(), {
    message: `PostgreSQL did not start: another program uses its port ${new URL(url).port}. Stop that program.`,
  });
  await new Promise((resolve) => other.close(resolve));
  await postgres.restart();
  t.equal(postgres.url, url);
  t.same(await query(url, 'SELECT count(*)::int > 0 FROM kept'), [[true]]);
});

await soakTest(t, 'a full disk is the reason that is named when no cluster can be created', async (t) => {
  const disk = await mountSmallDisk(t, SMALL_MEGABYTES);
  if (disk === null) {
    t.ok(true, 'a full disk', { skip: NO_DISK });
    return;
  }
  await t.rejects(startEmbedded({ dataDir: join(disk.folder, 'data') }), {
    message:
      /^PostgreSQL could not create its data directory in \S+: \w+: .*(No space left on device|Check free disk space)/,
  });
});

t.test('a cluster of another major version is refused in one sentence', async (t) => {
  await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '9\n');
  await t.rejects(startEmbedded({ dataDir }), {
    message: /was created by PostgreSQL 9 and this release runs PostgreSQL \d+/,
  });
  await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '18\n');
});

t.test('a stale pid file whose number is now another program does not hinder', async () => {
  await writeFile(join(dataDir, 'postgres', 'postmaster.pid'), `${process.pid}\n${join(dataDir, 'postgres')}\n`);
  await (await startEmbedded({ dataDir, throwAway: true })).stop();
});

await soakTest(t, 'a half-made cluster does not hinder', async () => {
  await rm(join(dataDir, 'postgres', 'PG_VERSION'));
  await rename(join(dataDir, 'postgres'), join(dataDir, 'postgres.new'));
  await (await startEmbedded({ dataDir, throwAway: true })).stop();
});
