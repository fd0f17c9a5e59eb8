/**
 * The database refuses this service in each way that passes by itself: another password, a read-only server, a missing
 * database, a full disk. Callers are told to retry, webhooks are accepted and delivered afterwards, and nothing is restarted.
 * Then SIGTERM: what is under way ends well, what was accepted is delivered by the next start, and the parts go in order.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, constants, existsSync, openSync, writeSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import t from 'tap';
import { withConnection } from '../../db/postgres/dedicated-connection.ts';
import { startEmbedded } from '../../db/postgres/embedded.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { fileList } from '../api/package/packages.ts';
import { mountSmallDisk, NO_DISK } from '../fixtures/small-disk.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';
import { startProcess } from '../supervisor/supervisor-process.ts';
import { operator } from './operator-command.ts';
import { type Answer, startOnly, startServiceFixture } from './service-fixture.ts';

/** PostgreSQL's own files take 60 MB of it. */
const DISK_MEGABYTES = 200;

const README = `---
name: Inbox
description: Writes down what it receives
capabilities: [host.storage]
---
`;
const INDEX = `
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
middleware.inboundMessage = async (ctx) => {
  await host.storage.set('begun', true);
  await pause(2500);
  return { message: { text: ctx.message.text + ', taken' } };
};
channel.receive = async (request) => {
  await host.storage.set('got ' + request.bodyText, request.attempt);
  await pause(100);
};
tools.got = {
  description: 'Lists the received requests',
  parameters: { type: 'object' },
  handler: async () => JSON.stringify(await host.storage.list()),
};
`;

/** Sent right before the stop. */
const WEBHOOKS = 20;

const disk = isSoak() ? await mountSmallDisk(t, DISK_MEGABYTES) : null;
const dataDir = disk === null ? await temporaryFolder(t) : join(disk.folder, 'database');
/** For backups. */
const small = await mountSmallDisk(t, 1);
const postgres = await startEmbedded({ dataDir, throwAway: true });
t.teardown(() => postgres.stop());
const { superuser } = JSON.parse(await readFile(join(dataDir, 'postgres.secret.json'), 'utf8'));

/** Runs statements as PostgreSQL's administrator, in the database of that name. */
async function administer(database: string, ...statements: string[]): Promise<void> {
  const url = new URL(postgres.url);
  Object.assign(url, { username: 'postgres', password: superuser, pathname: `/${database}` });
  const client = new Client({ connectionString: url.href });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
const RENAME = 'ALTER DATABASE bulkhead RENAME TO restoring';
const CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bulkhead'";
const password = decodeURIComponent(new URL(postgres.url).password);

interface Fault {
  readonly name: string;
  readonly skip?: string | false;
  /** The service learns of it as of another one: it cannot connect, or every write fails. */
  readonly isVariation?: true;
  begin(): Promise<void>;
  end(): Promise<void>;
  readonly readyz: RegExp;
  /** The responses to callers: OK or unavailable, never 500. */
  readonly answers: { readonly read: readonly number[]; readonly write: readonly number[] };
}
const faults: readonly Fault[] = [
  {
    name: 'the password was changed',
    readyz: /(the|to the) database is (unavailable|lost)/,
    answers: { read: [503], write: [503] },
    begin: () => administer('postgres', "ALTER ROLE bulkhead PASSWORD 'another'", CUT),
    end: () => administer('postgres', `ALTER ROLE bulkhead PASSWORD '${password}'`),
  },
  {
    name: 'the server became read-only',
    readyz: /accepts no writes: .*read-only/,
    answers: { read: [200], write: [503] },
    begin: () =>
      administer('postgres', 'ALTER SYSTEM SET default_transaction_read_only = on', 'SELECT pg_reload_conf()'),
    end: () =>
      administer(
        'postgres',
        'SET default_transaction_read_only = off',
        'ALTER SYSTEM RESET default_transaction_read_only',
        'SELECT pg_reload_conf()',
      ),
  },
  {
    name: 'the database accepts no connections',
    isVariation: true,
    readyz: /(the|to the) database is (unavailable|lost)/,
    answers: { read: [503], write: [503] },
    begin: () => administer('postgres', 'ALTER DATABASE bulkhead ALLOW_CONNECTIONS false', CUT),
    end: () => administer('postgres', 'ALTER DATABASE bulkhead ALLOW_CONNECTIONS true'),
  },
  {
    name: 'the role may no longer connect',
    isVariation: true,
    readyz: /(the|to the) database is (unavailable|lost)/,
    answers: { read: [503], write: [503] },
    begin: () => administer('postgres', 'REVOKE CONNECT ON DATABASE bulkhead FROM PUBLIC, bulkhead', CUT),
    end: () => administer('postgres', 'GRANT CONNECT ON DATABASE bulkhead TO PUBLIC, bulkhead'),
  },
  {
    name: 'the database is being restored under another name',
    isVariation: true,
    readyz: /(the|to the) database is (unavailable|lost)/,
    answers: { read: [503], write: [503] },
    begin: () => administer('postgres', 'ALTER DATABASE bulkhead ALLOW_CONNECTIONS false', CUT, RENAME),
    end: () =>
      administer(
        'postgres',
        'ALTER DATABASE restoring RENAME TO bulkhead',
        'ALTER DATABASE bulkhead ALLOW_CONNECTIONS true',
      ),
  },
  {
    name: 'the disk of the database is full',
    isVariation: true,
    skip: disk === null && NO_DISK,
    readyz: /accepts no writes: .*No space left/,
    // Small rows still fit into pages with free space.
    answers: { read: [200], write: [201, 503] },
    async begin() {
      // In the middle of a change, PostgreSQL ends when it finds no room for another 16 MB of its log: begin with an empty file of it.
      await administer('bulkhead', 'SELECT pg_switch_wal()', 'CHECKPOINT');
      await disk?.fill();
    },
    end: async () => disk?.empty(),
  },
];

/** Opens a pipe that has no room for another byte, as of a pager that is not read. */
function openFullPipe(path: string): number {
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  for (const bytes of [4_096, 1])
    try {
      for (;;) writeSync(fd, Buffer.alloc(bytes, '\n'));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
    }
  return fd;
}
const log = openFullPipe(join(await temporaryFolder(t), 'log'));
t.teardown(() => closeSync(log));
const env = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: postgres.url };
const service = await startServiceFixture(t, env, undefined, { stderrTo: log });
async function made(answer: Promise<Answer>): Promise<Answer['body']> {
  const { status, body } = await answer;
  assert.ok(status < 300, JSON.stringify(body));
  return body;
}
const { id: plugin } = await made(service.call('POST', '/api/plugins', { slug: 'inbox', displayName: 'Inbox' }));
const files = fileList({ 'readme.md': README, 'index.ts': INDEX });
await made(service.call('POST', `/api/plugins/${plugin}/versions`, { semVer: '1.0.0', files }));
const { id: installation } = await made(service.call('POST', '/api/installations', { slug: 'inbox' }));
const channel = await made(service.call('POST', `/api/installations/${installation}/channels`, { name: 'Inbox' }));
const { id: session } = await made(service.session('POST', '/sessions', { agentId: 'a' }));

const receive = async (body: string): Promise<number> =>
  (await fetch(channel.webhookUrl, { method: 'POST', body, headers: { connection: 'close' } })).status;
const ready = (port: string) => service.call('GET', `http://127.0.0.1:${port}/readyz`);
const opsPorts = [service.env.API_OPS_PORT, service.env.SUPERVISOR_OPS_PORT];
/** A call that writes, and one that only reads, on both interfaces. */
const calls: readonly [string, () => Promise<Answer>][] = [
  ['REST, write', () => service.call('POST', '/api/plugins', { slug: `p-${randomUUID()}`, displayName: 'P' })],
  ['session, write', () => service.session('POST', '/sessions', { agentId: 'a' })],
  ['REST, read', () => service.call('GET', '/api/plugins')],
  ['session, read', () => service.session('GET', '/sessions')],
];
async function received(): Promise<string[]> {
  const call = { callId: 'c', arguments: {} };
  const { body } = await service.session('POST', `/sessions/${session}/tools/inbox__got`, call);
  return body.isError === false ? JSON.parse(body.content[0].text) : [];
}

t.test('an ordinary role is told what it lacks, in one sentence', async (t) => {
  await administer('postgres', "CREATE ROLE guest LOGIN PASSWORD 'guest'", 'CREATE DATABASE guests');
  const url = new URL(postgres.url);
  Object.assign(url, { username: 'guest', password: 'guest', pathname: '/guests' });
  const lacks = /The role “guest” may not create tables in database “guests”\. Run ALTER DATABASE /;
  await t.rejects(migrate(url.href), { message: lacks });
  if (isSoak()) {
    const start = await startOnly({ DATA_DIR: await temporaryFolder(t), DATABASE_URL: url.href });
    t.match(await start.exited, {
      code: 1,
      stderr: new RegExp(`^DATABASE_URL does not work: ${lacks.source}[^\\n]+\\.\\n$`),
    });
  }
  await administer('postgres', 'ALTER DATABASE guests OWNER TO guest');
  t.ok((await migrate(url.href)).length > 0, 'which helps');
  const file = join(await temporaryFolder(t), 'guest.backup');
  const guest = { DATABASE_URL: url.href, DATA_DIR: service.env.DATA_DIR };
  t.match(await operator({ ...guest, DATA_DIR: await temporaryFolder(t) }, 'backup', file, '--check'), {
    code: 1,
    stderr: /Cannot create a temporary database: permission denied to create database\. Allow it .*CREATEDB/,
  });
  url.pathname = '/bulkhead';
  t.match(await operator({ ...guest, DATABASE_URL: url.href }, 'backup', `${file}-2`), {
    code: 1,
    stderr:
      /^The backup needs the database role of the service, which owns the tables: permission denied for table \w+\.\n$/,
  });
});

t.test('a backup to a folder that is missing, full or read-only', async (t) => {
  const { env } = service;
  const missing = join(env.DATA_DIR, 'nowhere');
  t.match(await operator(env, 'backup', join(missing, 'one')), {
    code: 1,
    stderr: `The folder ${missing} does not exist: create it, or choose another one.\n`,
  });
  if (small === null) return;
  await small.fill();
  t.match(await operator(env, 'backup', join(small.folder, 'one')), {
    code: 1,
    stderr: /The folder \S+ is full: make room, or choose another one\. Nothing was kept\.\n$/,
  });
  t.same(await readdir(small.folder), ['filler']);
  await promisify(execFile)('mount', ['-o', 'remount,ro', small.folder]);
  t.match(await operator(env, 'backup', join(small.folder, 'one')), {
    code: 1,
    stderr: /The folder \S+ is read-only: choose another one\.\n$/,
  });
});

t.equal(await receive('before'), 200);
const chosen = faults.filter(({ isVariation = false }) => isSoak() || !isVariation);
for (const { name, skip = false, readyz, answers, begin, end } of chosen)
  t.test(name, { skip }, async (t) => {
    await begin();
    for (const port of opsPorts) {
      const { reason } = await eventually(async () => {
        const { status, body } = await ready(port);
        return status === 503 && body;
      });
      t.match(reason, readyz, `not ready: ${reason}`);
    }
    for (const [what, call] of calls) {
      const { status, body } = await call();
      const expected = answers[what.endsWith('read') ? 'read' : 'write'];
      t.ok(expected.includes(status), `${what}: ${status} ${JSON.stringify(body).slice(0, 100)}`);
    }
    t.equal(await receive(name), 200, 'a webhook request is accepted');
    await end();
    for (const port of opsPorts) await eventually(async () => (await ready(port)).status === 200);
    await eventually(async () => (await received()).includes(`got ${name}`));
    for (const [what, call] of calls) t.ok((await call()).status < 300, `${what}: works again`);
    t.notMatch(service.lines.join('\n'), /Restarting it/, 'no process was restarted');
  });

t.test('a stop in the middle of everything, while the log is not read', async (t) => {
  const context = { message: { id: 'm', from: 'u', text: 'Two loaves', attachments: [] } };
  const hook = service.session('POST', `/sessions/${session}/hooks/inboundMessage`, { context });
  await eventually(async () => (await received()).includes('begun'));
  const accepted: string[] = [];
  for (let index = 0; index < WEBHOOKS; index += 1)
    if ((await receive(String(index))) === 200) accepted.push(`got ${index}`);
  const upload = service.call('POST', `/api/plugins/${plugin}/versions`, { semVer: '1.1.0', files }).catch(() => null);
  const commands = (await service.processes()).map(({ command }) => command);
  t.notOk(
    commands.some((command) => command.includes('postgres')),
    'with DATABASE_URL no PostgreSQL is started',
  );
  t.notOk(existsSync(join(service.env.DATA_DIR, 'postgres')), 'and no data directory of one is made');
  service.kill('SIGTERM');

  t.match(await hook, {
    status: 200,
    body: { action: 'continue', context: { message: { text: 'Two loaves, taken' } } },
  });
  // It arrived before the signal, or was refused a connection; it is not left half-way.
  const uploaded = await upload;
  t.ok(uploaded === null || uploaded.status === 201, `publish: ${uploaded?.status}`);
  t.match(await service.exited, {
    code: 0,
    stdout: /stopping\nthe API stopped\nthe supervisor stopped$/,
  });
  t.same(await service.leftovers(), []);
  t.equal(accepted.length, WEBHOOKS, 'all were accepted');

  const { DATA_DIR, SUPERVISOR_PORT } = service.env;
  await startProcess(t, { url: postgres.url, dataDir: DATA_DIR }, { SUPERVISOR_PORT });
  const missing = await eventually(async () => {
    const seen = new Set(await received().catch(() => []));
    return accepted.every((key) => seen.has(key)) && 'none';
  });
  t.equal(missing, 'none', 'every accepted webhook reached the plugin');
  const versions = 'SELECT 1 FROM versions WHERE plugin_id = $1';
  const { rowCount } = await withConnection(postgres.url, {}, (client) => client.query(versions, [plugin]));
  t.equal(rowCount, uploaded === null ? rowCount : 2);
});
