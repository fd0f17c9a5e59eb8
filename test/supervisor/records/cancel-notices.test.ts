/** A veto is answered before its notice is written. The notice precedes what is read or added later, and is not lost. */
import t, { type Test } from 'tap';
import { CancelNotices, WAITING_NOTICES_MAX } from '../../../supervisor/records/cancel-notices.ts';
import { eventually } from '../../runner/eventually.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const HOUR_MS = 3_600_000;

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
  const notices = new CancelNotices({ pool: fixture.pool, onError: (error) => errors.push(error) });
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
  await notices.close();
  const { rows } = await fixture.pool.query(
    'SELECT text FROM session_messages WHERE session_id = $1 ORDER BY position',
    [session.id],
  );
  t.equal(rows.length, WAITING_NOTICES_MAX + 1);
  t.ok(rows.some(({ text }) => text === 'late'));
  t.same(errors, []);
});

t.test('while the database is away, notices are kept, and later requests do not wait for them', async (t) => {
  const fixture = shared.withNewAccount();
  const sessions = [await fixture.session(), await fixture.session()].map((id) => ({ id, accountId: fixture.account }));
  const [first, second] = sessions as [(typeof sessions)[0], (typeof sessions)[0]];
  let isAway = true;
  let tries = 0;
  const query = (...given: [string, unknown[]]) => {
    tries += 1;
    if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
    return fixture.pool.query(...given);
  };
  const failed = Promise.withResolvers<void>();
  const errors: string[] = [];
  const onError = ({ message }: Error): void => {
    errors.push(message);
    if (errors.length === 4) failed.resolve();
  };
  const notices = new CancelNotices({ pool: { query } as never, onError, retryMs: 1 });
  await notices.add(first, { text: 'one' });
  await notices.add(second, { text: 'other' });
  await failed.promise;
  const triesBefore = tries;
  await notices.add(first, { text: 'two' });
  await notices.waitUntilWritten(first.id);
  t.equal(tries, triesBefore, 'a notice of a session that waits makes no try of its own');
  isAway = false;
  const read = async ({ id }: { id: string }): Promise<string[]> =>
    (
      await fixture.pool.query('SELECT text FROM session_messages WHERE session_id = $1 ORDER BY position', [id])
    ).rows.map(({ text }) => text);
  await eventually(async () => (await read(second)).length === 1);
  await notices.close();
  t.same(await read(first), ['one', 'two']);
  t.same(await read(second), ['other']);
  t.same(new Set(errors), new Set(['away']));
});

t.test('a notice that cannot be written is given up with its error', async (t) => {
  const fixture = shared.withNewAccount();
  const session = { id: await fixture.session(), accountId: fixture.account };
  const errors: Error[] = [];
  const query = () => Promise.reject(Object.assign(new Error('no'), { code: '42601' }));
  const notices = new CancelNotices({ pool: { query } as never, onError: (error) => errors.push(error) });
  for (let at = 0; at <= WAITING_NOTICES_MAX; at += 1) {
    await notices.add(session, { text: 'lost' });
    await notices.waitUntilWritten(session.id);
  }
  await notices.close();
  t.equal(errors.length, WAITING_NOTICES_MAX + 1, 'and takes no place of later ones');
});

t.test('a session that is locked does not hold back the notices of others', async (t) => {
  let isAway = true;
  const tried: string[] = [];
  const written: string[] = [];
  const query = async (_sql: string, [sessionId = '']: readonly string[]) => {
    tried.push(sessionId);
    if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
    if (sessionId.startsWith('locked')) throw Object.assign(new Error('it is locked'), { code: '55P03' });
    written.push(sessionId);
    return { rows: [{ addedIds: [] }] };
  };
  const kept = Promise.withResolvers<void>();
  let faults = 0;
  const onError = (): void => {
    faults += 1;
    if (faults === 4) kept.resolve();
  };
  const notices = new CancelNotices({ pool: { query } as never, onError, retryMs: HOUR_MS });
  for (const id of ['locked', 'locked too', 'one', 'two'])
    await notices.add({ id, accountId: id.replace(' too', '') }, { text: 'x' });
  await kept.promise;
  isAway = false;
  tried.length = 0;
  await notices.close();
  t.same(written, ['one', 'two']);
  t.same(tried, ['locked', 'one', 'two'], 'a further session of its account does not take their time');
});

t.test('a request does not wait long for a notice while the database hangs', async (t) => {
  const answer = Promise.withResolvers<void>();
  const query = () => answer.promise.then(() => ({ rows: [{ addedIds: [] }] }));
  const onError = (error: Error): void => {
    t.fail(error.message);
  };
  const notices = new CancelNotices({ pool: { query } as never, onError, answerMs: 1 });
  await notices.add({ id: 'session', accountId: 'account' }, { text: 'x' });
  await notices.waitUntilWritten('session');
  t.pass('while the write has no answer');
  answer.resolve();
  await notices.close();
});
