/** While the connection that listens for changes is lost, what was changed since counts all the same. */
import t from 'tap';
import { AccountPluginsCache } from '../../../supervisor/children/account-plugins-cache.ts';
import { SessionCache } from '../../../supervisor/sessions/session-cache.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
const { pool, supervisor } = fixture;

/** Ends the connection and keeps it from coming back, until the returned function is called. */
async function cutListener(): Promise<() => Promise<void>> {
  const held = await supervisor.listener.holdShared('cut');
  const holder = await pool.connect();
  await holder.query('BEGIN');
  const { rows } = await holder.query('SELECT pg_backend_pid() AS pid');
  // It waits for the listener's lock, and has it as soon as the listener is gone. The listener then waits for it.
  const locked = holder.query(`SELECT pg_advisory_xact_lock(hashtextextended('cut', 0))`);
  const [listening] = await eventually(async () => {
    const blocking = await pool.query('SELECT pg_blocking_pids($1) AS pids', [rows[0].pid]);
    return blocking.rows[0].pids.length > 0 && blocking.rows[0].pids;
  });
  await pool.query('SELECT pg_terminate_backend($1)', [listening]);
  await locked;
  await eventually(async () => !supervisor.listener.isConnected());
  return async () => {
    await holder.query('COMMIT');
    holder.release();
    await eventually(async () => supervisor.listener.isConnected());
    await held.close();
  };
}

t.test('a plugin is required and a session strict at once', async (t) => {
  const made = await fixture.install({ code: 'middleware.inboundMessage = () => { throw new Error("no"); };' });
  const session = await fixture.session();
  const message = { id: 'm', from: 'bob', text: 'bad', attachments: [] };
  const send = async () =>
    (await fixture.call('POST', `/sessions/${session}/hooks/inboundMessage`, { context: { message } })).body.action;
  const append = () =>
    fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'x' }] });
  t.equal(await send(), 'continue');
  t.equal((await append()).status, 200);
  const mend = await cutListener();
  await pool.query('UPDATE installations SET required = true, updated_at = clock_timestamp() WHERE id = $1', [
    made.installationId,
  ]);
  await pool.query('UPDATE sessions SET strict = true WHERE id = $1', [session]);
  t.equal(await send(), 'cancel');
  t.equal((await append()).body.code, 'not_judged');
  await mend();
  t.equal(await send(), 'cancel', 'the caches of before are not used again');
});

t.test('while the database is away, too, what is known counts', async (t) => {
  const made = await fixture.install({ code: 'middleware.systemPrompt = () => "x";' });
  const id = await fixture.session();
  let isAway = false;
  const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  const query = (text: string, values: unknown[]) => (isAway ? Promise.reject(away) : pool.query(text, values));
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => !isAway,
  });
  const sessions = new SessionCache({ query } as never, () => !isAway);
  const known = await cache.get(made.accountId);
  const session = await sessions.get(made.accountId, id);
  isAway = true;
  t.equal(await cache.current(made.accountId), known);
  t.equal(await sessions.get(made.accountId, id), session);
  await t.rejects(Promise.resolve(cache.current('another')), away);
  await t.rejects(sessions.get('another', 'other'), away);
});

t.test('a session that changes while it is read is not cached as it was', async (t) => {
  const { accountId } = await fixture.install({ code: 'middleware.systemPrompt = () => "x";' });
  const id = await fixture.session();
  const sessions: SessionCache = new SessionCache(
    {
      query: async (text: string, values: unknown[]) => {
        const found = await pool.query(text, values);
        await pool.query('UPDATE sessions SET strict = true WHERE id = $1', [id]);
        sessions.drop(id);
        return found;
      },
    } as never,
    () => true,
  );
  t.equal((await sessions.get(accountId, id)).strict, false);
  t.equal((await sessions.get(accountId, id)).strict, true);
});
