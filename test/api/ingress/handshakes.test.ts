/** A request that may be a handshake is stored like any other while the database cannot ask its plugin. */
import t from 'tap';
import { openWebhookFixture } from './webhook-fixture.ts';

const fixture = await openWebhookFixture(t, {
  registrations: { channel: { receive: true, send: false, handshake: true, handshakeOn: null } },
});
const check = async () => {
  const { routingId } = await fixture.connect();
  const answer = await fixture.send(`/webhook/plugin/${routingId}`, { method: 'GET' });
  const stored = await fixture.pool.query('SELECT method FROM deliveries WHERE routing_id = $1', [routingId]);
  return { answer, stored: stored.rows };
};
const queued = { answer: { status: 200, body: { ok: true } }, stored: [{ method: 'GET' }] };

t.test('a database that does not respond', async (t) => {
  const holder = await fixture.pool.connect();
  t.teardown(() => holder.release());
  await holder.query('BEGIN');
  await holder.query('LOCK TABLE handshakes IN ACCESS EXCLUSIVE MODE');
  const checked = await check();
  await holder.query('ROLLBACK');
  t.match(checked, queued);
});

t.test('a database that is away', async (t) => {
  const { pool } = fixture;
  await pool.query(`CREATE FUNCTION refuse_handshake() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'away' USING ERRCODE = 'cannot_connect_now'; END $$`);
  await pool.query(
    'CREATE TRIGGER refuse_handshake BEFORE INSERT ON handshakes FOR EACH ROW EXECUTE FUNCTION refuse_handshake()',
  );
  t.match(await check(), queued);
});
