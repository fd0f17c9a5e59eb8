/** A transaction that adds rows to a session and stays open too long. */
import t from 'tap';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

/** More than one prompt has. */
const MESSAGES = 1_001;
const LOCK_TIMEOUT_MS = 100;

t.test('a prompt whose summary cannot be added has the messages', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const code = `compaction.summarize = () => { host.log('summarized'); return 'shorter'; };`;
  await fixture.install({ slug: 'short', code });
  const session = await fixture.session();
  await fixture.pool.query(
    `INSERT INTO session_messages (session_id, account_id, id, role, text)
     SELECT id, account_id, 'm' || n, 'user', 'm' || n FROM sessions, generate_series(1, $2) n WHERE id = $1 ORDER BY n`,
    [session, MESSAGES],
  );
  const turns = `/sessions/${session}/turns`;
  await fixture.call('POST', turns, { id: 't1', text: 'hello', trigger: 'user' });
  const readPrompt = () => fixture.call('GET', `${turns}/t1/prompt?compactAfter=1&keep=1`);
  const open = await fixture.pool.connect();
  await open.query('BEGIN');
  await open.query('SELECT FROM sessions WHERE id = $1 FOR KEY SHARE', [session]);
  fixture.pool.on('acquire', (client) => void client.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`));
  const { status, body } = await readPrompt();
  await open.query('COMMIT');
  open.release();
  t.match({ status, body }, { status: 200, body: { action: 'continue', isTruncated: true, notice: null } });
  t.match([body.messages?.length, body.messages?.at(-1)], [1_000, { id: 't1', text: 'hello' }]);
  t.equal((await fixture.readLog('summarized')).length, 1, 'they are not summarized again');
  t.match((await readPrompt()).body.messages, [{ text: /shorter$/ }, { id: 't1' }]);
});
