/** A real pgbouncer in transaction mode before the server: refused in one sentence, or used beside DATABASE_SESSION_URL. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { withConnection } from '../../../db/postgres/dedicated-connection.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { startOnly, startServiceFixture } from '../../deploy/service-fixture.ts';
import { buildWorkshop } from '../../deploy/workshop.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { whyMissing } from '../../runner/programs.ts';

t.setTimeout(240_000);
const skip = whyMissing('pgbouncer');
const NOBODY = 65_534;
const POLL_MS = 20;
/** What pgbouncer must be told to accept from a driver that does not know of it. */
const IGNORED = 'statement_timeout,lock_timeout,idle_in_transaction_session_timeout,options,extra_float_digits';

/** @returns the address of the database behind it */
async function startPooler(t: Teardown, url: string, more = ''): Promise<string> {
  const server = new URL(url);
  const port = await freePort();
  const folder = await temporaryFolder(t);
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
* = host=${server.hostname} port=${server.port} user=${server.username} password=${decodeURIComponent(server.password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
${more}
`,
  );
  await chmod(folder, 0o755);
  await chmod(file, 0o644);
  // It refuses to run as root.
  const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const child = spawn('pgbouncer', ['-q', file], { ...asUser, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended: ${output}`);
    const socket = connect(port, '127.0.0.1');
    const isUp = await Promise.race([once(socket, 'connect'), once(socket, 'error')]).then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isUp) break;
    await sleep(POLL_MS);
  }
  const pooled = new URL(url);
  pooled.host = `127.0.0.1:${port}`;
  return pooled.href;
}

const options = { name: 'pooler-test', connections: 4, onError: () => undefined };

t.test('a pooler that refuses the options of a connection is named at the start', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const DATABASE_URL = await startPooler(t, url);
  const { code, stderr } = await (await startOnly({ DATABASE_URL, DATA_DIR: await temporaryFolder(t) })).exited;
  t.equal(code, 1);
  t.match(
    stderr,
    /^DATABASE_URL does not work: the address of the database leads to a pooler: set DATABASE_SESSION_URL to .*\.\n$/,
  );
});

t.test('a pooler that swallows notifications is refused', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const pooled = await startPooler(t, url, `ignore_startup_parameters = ${IGNORED}`);
  const { pool, close } = openPool(pooled, options);
  t.teardown(close);
  await t.rejects(
    openListener(pool, () => undefined),
    {
      message:
        /^Notifications of PostgreSQL do not arrive: DATABASE_URL leads to a pooler in transaction mode\. Set DATABASE_SESSION_URL /,
    },
  );
});

t.test('beside DATABASE_SESSION_URL, limits hold and notifications arrive', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const { pool, session, close } = openPool(await startPooler(t, url), { ...options, sessionUrl: url });
  t.teardown(close);
  const show = async (name: string) =>
    inTransaction(pool, async (tx) => Object.values((await tx.query(`SHOW ${name}`)).rows[0])[0]);
  t.equal(await show('statement_timeout'), '30s');
  t.equal(await show('lock_timeout'), '10s');
  t.equal(await show('join_collapse_limit'), '5');
  const named = { name: 'the-same', text: 'SELECT $1::int AS n' };
  const found = await Promise.all(Array.from({ length: 40 }, (_, n) => pool.query({ ...named, values: [n] })));
  t.equal(found.length, 40, 'a named statement works on any connection');
  const listener = await openListener(pool, () => undefined, session);
  t.ok(listener.isConnected());
  await listener.close();
});

t.test('a service runs behind it', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const service = await startServiceFixture(t, {
    DATABASE_URL: await startPooler(t, url),
    DATABASE_SESSION_URL: url,
    DATA_DIR: join(await temporaryFolder(t), 'data'),
  });
  const workshop = await buildWorkshop(service);
  t.match(await workshop.prompt(), /Be brief\./);
});

t.test('every kind of connection has keepalives at both ends', async (t) => {
  const { url } = await testDatabase(t);
  const { pool, session, close } = openPool(url, options);
  t.teardown(close);
  t.match(session.options, { keepAlive: true, keepAliveInitialDelayMillis: 10_000 });
  const read = `SELECT current_setting('tcp_keepalives_idle') AS idle, current_setting('tcp_user_timeout') AS unconfirmed`;
  t.match((await pool.query(read)).rows, [{ idle: '10', unconfirmed: '25000' }]);
  await withConnection(url, {}, async (client) => {
    t.match((await client.query(read)).rows, [{ idle: '10', unconfirmed: '25000' }]);
  });
});
