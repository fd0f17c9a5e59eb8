/** A veto is answered before its notice is written. The notice precedes what is read or added later, and is not lost. */
import t, { type Test } from 'tap';
import { CancelNotices, WAITING_NOTICES_MAX } from '../../../supervisor/records/cancel-notices.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

/** Lets no statement add or read messages until the answer is called. */
async function lockTranscripts(t: Test, { pool }: SupervisorFixture): Promise<() => Promise<void>> {
  const holder = await pool.connect();
  let isHeld = true;
  const unlock = async (): Promise<void> => {
    if (!isHeld) return;
    isHeld = false;
    await holder.query('ROLLBACK');
    holder.release();
  };
  t.teardown(unlock);
  await holder.query('BEGIN');
  await holder.query('LOCK TABLE session_messages IN ACCESS EXCLUSIVE MODE');
  return unlock;
}

t.test(
  'a veto is answered while the transcript cannot be written, and its notice comes first in what follows',
  async (t) => {
    const fixture = shared.withNewAccount();
    await fixture.install({ slug: 'veto', code: 'middleware.inboundMessage = (ctx) => ctx.cancel("not now");' });
    const session = `/sessions/${await fixture.session()}`;
    const ask = () =>
      fixture.call('POST', `${session}/hooks/inboundMessage`, {
        context: { message: { id: 'm', from: 'bob', text: 'hi', attachments: [] } },
      });
    await ask();
    const unlock = await lockTranscripts(t, fixture);
    for (let at = 0; at < 3; at += 1)
      t.match(await ask(), { status: 200, body: { action: 'cancel', reason: 'not now', cancelledBy: 'veto' } });
    const added = fixture.call('POST', `${session}/messages`, { messages: [{ role: 'user', text: 'next' }] });
    await unlock();
    t.equal((await added).status, 200);
    await ask();
    const { body } = await fixture.call('GET', `${session}/messages`);
    const notice = 'veto cancelled the operation: not now';
    t.same(
      body.items.map(({ text }: { text: string }) => text),
      [notice, notice, notice, notice, 'next', notice],
    );
  },
);

t.test('beyond the limit of an account, an answer waits until its notice is written', async (t) => {
  const errors: Error[] = [];
  const fixture = shared.withNewAccount();
  const other = shared.withNewAccount();
  const write = <T>(work: () => Promise<T>): Promise<T> => work();
  const notices = new CancelNotices({ pool: fixture.pool, writes: { write }, onError: (error) => errors.push(error) });
  const session = { id: await fixture.session(), accountId: fixture.account };
  const ofOther = { id: await other.session(), accountId: other.account };
  const unlock = await lockTranscripts(t, fixture);
  for (let at = 0; at < WAITING_NOTICES_MAX; at += 1) await notices.add(session, { text: `${at}` });
  const late = notices.add(session, { text: 'late' });
  await notices.add(ofOther, { text: 'of another account' });
  let isWritten = false;
  const written = late.then(() => {
    isWritten = true;
  });
  await fixture.pool.query('SELECT 1');
  t.notOk(isWritten);
  await unlock();
  await written;
  const { rows } = await fixture.pool.query(
    'SELECT text FROM session_messages WHERE session_id = $1 ORDER BY position',
    [session.id],
  );
  t.equal(rows.length, WAITING_NOTICES_MAX + 1);
  t.equal(rows.at(-1).text, 'late');
  await notices.close();
  t.same(errors, []);
});

t.test('a notice whose write failed is tried again, and given up with its error', async (t) => {
  const errors: Error[] = [];
  const fixture = shared.withNewAccount();
  let tries = 0;
  const write = async <T>(work: () => Promise<T>): Promise<T> => {
    tries += 1;
    await work();
    return work();
  };
  const notices = new CancelNotices({ pool: fixture.pool, writes: { write }, onError: (error) => errors.push(error) });
  const session = { id: await fixture.session(), accountId: fixture.account };
  await notices.add(session, { text: 'once' });
  await notices.close();
  t.equal(tries, 1);
  const { rowCount } = await fixture.pool.query('SELECT 1 FROM session_messages WHERE session_id = $1', [session.id]);
  t.equal(rowCount, 1, 'the repeated write adds nothing');
  const fail = () => Promise.reject(new Error('away'));
  const failing = new CancelNotices({
    pool: fixture.pool,
    writes: { write: fail },
    onError: (error) => errors.push(error),
  });
  await failing.add(session, { text: 'lost' });
  await failing.close();
  t.match(errors, [{ message: 'away' }]);
});
