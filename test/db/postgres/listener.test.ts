/** The connection that listens runs one statement at a time, however many are asked of it. */
import { once } from 'node:events';
import t from 'tap';
import { openListener } from '../../../db/postgres/listener.ts';
import { eventually } from '../../runner/eventually.ts';
import { testDatabase } from '../../runner/harness.ts';
import { openGate } from '../../storm/database-gate.ts';

const { pool, url } = await testDatabase(t);

t.test('subscriptions, locks and checks come all at once', async (t) => {
  const warnings: string[] = [];
  const note = ({ message }: Error) => void (message.includes('client.query()') && warnings.push(message));
  process.on('warning', note);
  t.teardown(() => process.off('warning', note));
  const listener = await openListener(pool, (error) => t.fail(error.message));
  t.teardown(() => listener.close());
  const noted: string[] = [];
  const names = Array.from({ length: 50 }, (_, index) => `channel ${index}`);
  const held = await Promise.all(
    names.flatMap((name) => [
      listener.listen(name, { onNotification: (payload) => noted.push(payload), onReconnect: () => undefined }),
      listener.holdShared(name),
    ]),
  );
  await pool.query('SELECT pg_notify(name, name) FROM unnest($1::text[]) AS given(name)', [names]);
  await Promise.all(names.map(() => listener.catchUp()));
  t.same(noted, names);
  await Promise.all(held.map((subscription) => subscription.close()));
  const { rows } = await pool.query(`SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`);
  t.equal(rows[0].count, 0);
  t.same(warnings, []);
});

t.test('a connection that does not answer is lost, with all that waits for its turn', async (t) => {
  const gate = await openGate(t, url);
  const lost: string[] = [];
  const session = { options: { connectionString: gate.url } };
  const listener = await openListener(pool, ({ message }) => lost.push(message), session, 1_000);
  t.teardown(() => listener.close());
  const reconnected = new EventTarget();
  const subscriber = {
    onNotification: () => undefined,
    onReconnect: () => void reconnected.dispatchEvent(new Event('done')),
  };
  gate.hold();
  const done = once(reconnected, 'done');
  const listening = [listener.listen('one', subscriber), listener.listen('two', subscriber)];
  await Promise.all([listener.catchUp(), listener.catchUp(), ...listening]);
  t.same(lost, ['The LISTEN connection does not respond']);
  gate.open();
  await done;
  const isBack = async () => {
    await listener.catchUp();
    return listener.isConnected();
  };
  t.ok(await eventually(isBack), 'a busy machine may lose it once more');
});

t.test('a lock that is given up during a reconnect stays held for the others of its name', async (t) => {
  const listener = await openListener(pool, () => undefined);
  t.teardown(() => listener.close());
  const reconnected = new EventTarget();
  await listener.listen('back', {
    onNotification: () => undefined,
    onReconnect: () => void reconnected.dispatchEvent(new Event('done')),
  });
  const name = 'of two readers';
  const first = await listener.holdShared(name);
  const second = await listener.holdShared(name);
  const listPids = async (mode: 'ShareLock' | 'ExclusiveLock'): Promise<number[]> => {
    const { rows } = await pool.query(
      `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = $1
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [mode],
    );
    return rows.map(({ pid }) => pid);
  };
  const [lostPid] = await listPids('ShareLock');
  const writer = await pool.connect();
  t.teardown(() => writer.release());
  // Waits for the readers, and has the lock when their connection is lost.
  const locked = writer.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
  await eventually(async () => (await listPids('ExclusiveLock')).length > 0);
  const done = once(reconnected, 'done');
  await pool.query('SELECT pg_terminate_backend($1)', [lostPid]);
  await locked;
  const isTrying = async (): Promise<boolean> => {
    const { rows } = await pool.query(
      `SELECT 1 FROM pg_stat_activity WHERE pid NOT IN (pg_backend_pid(), $1) AND datname = current_database()
          AND query LIKE 'SELECT pg_try_advisory_lock_shared%'`,
      [lostPid],
    );
    return rows.length > 0;
  };
  await eventually(isTrying);
  await first.close();
  await writer.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name]);
  await done;
  await listener.catchUp();
  t.equal((await listPids('ShareLock')).length, 1);
  await second.close();
  t.same(await listPids('ShareLock'), []);
});

t.test('a session in another database is refused', async (t) => {
  const other = await testDatabase(t);
  await t.rejects(
    openListener(pool, () => undefined, { options: { connectionString: other.url } }),
    { message: /do not arrive: DATABASE_URL and DATABASE_SESSION_URL lead to different databases, / },
  );
});
