/** A real pgbouncer in transaction mode before the server: refused in one sentence, or used beside DATABASE_SESSION_URL. */
import { join } from 'node:path';
import t from 'tap';
import { withConnection } from '../../../db/postgres/dedicated-connection.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { inTransaction, openPool } from '../../../db/postgres/pool.ts';
import { startOnly, startServiceFixture } from '../../deploy/service-fixture.ts';
import { buildWorkshop } from '../../deploy/workshop.ts';
import { IGNORED_PARAMETERS, startPgbouncer } from '../../fixtures/pgbouncer.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../../runner/harness.ts';
import { whyMissing } from '../../runner/programs.ts';
import { soakTest } from '../../runner/soak.ts';

const skip = whyMissing('pgbouncer');

/** @returns the address of the database behind it */
async function startPooler(t: Teardown, url: string, more = ''): Promise<string> {
  const pooler = await startPgbouncer(await temporaryFolder(t), url, `default_pool_size = 4\n${more}`);
  t.teardown(pooler.kill);
  return pooler.url;
}

const options = { name: 'pooler-test', connections: 4, onError: () => undefined };

t.test('a pooler that refuses the options of a connection is named at the start', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const DATABASE_URL = await startPooler(t, url);
  const { code, stderr } = await (await startOnly({ DATABASE_URL, DATA_DIR: await temporaryFolder(t) })).exited;
  t.equal(code, 1);
  t.match(
    stderr,
    /^DATABASE_URL does not work: the address of the database is that of a connection pooler\. Keep it, and set DATABASE_SESSION_URL to .*\.\n$/,
  );
});

t.test('a pooler that swallows notifications is refused', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const pooled = await startPooler(t, url, IGNORED_PARAMETERS);
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
  t.equal(await show('max_parallel_workers_per_gather'), '0');
  t.equal(await show('jit'), 'off');
  const named = { name: 'the-same', text: 'SELECT $1::int AS n' };
  const found = await Promise.all(Array.from({ length: 40 }, (_, n) => pool.query({ ...named, values: [n] })));
  t.equal(found.length, 40, 'a named statement works on any connection');
  const listener = await openListener(pool, () => undefined, session);
  t.ok(listener.isConnected());
  await listener.close();
});

soakTest(t, 'a service runs behind a pooler in transaction mode', { skip }, async (t) => {
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
