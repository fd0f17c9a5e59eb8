/** Pieces of an output that come again: answered as before, and without reading the others. */
import t from 'tap';
import { type SupervisorFixture, startSupervisorFixture, withStartedPlugins } from '../supervisor-fixture.ts';

const PIECES = 2_000;
const OUTPUTS = 250;

const shared = withStartedPlugins(await startSupervisorFixture(t));

const STREAMING = `middleware.outboundMessage = { stream: true, handler: ({ message: { text }, partial }) => {
  host.log('before', { text: partial?.before ?? null });
  if (text.includes('THROW')) throw new Error('x');
  return { message: { text: text.replace('darn', '[bleep]') } };
} };`;

async function openTurn(fixture: SupervisorFixture) {
  const session = await fixture.session();
  const turns = `/sessions/${session}/turns`;
  await fixture.call('POST', turns, { id: 't1', text: 'hello', trigger: 'user' });
  const send = async (piece: number, text: string, done = false) =>
    (await fixture.call('POST', `${turns}/t1/output`, { id: 'o1', piece, text, done })).body;
  /** As if this many pieces had been sent, and shown. */
  const addPieces = async (judgedText: string | null, judgement: object | null) => {
    await fixture.pool.query(
      `INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown, judged_text, judgement)
       SELECT session_id, turn_id, id, n, account_id, 'x', true, $3, $4 FROM turn_outputs, generate_series(1, $2::int - 1) n
        WHERE session_id = $1`,
      [session, PIECES, judgedText, judgement],
    );
    await fixture.pool.query(
      'UPDATE turn_outputs SET pieces = $2, chars = $2, shown = $2, tail = tail || $3 WHERE session_id = $1',
      [session, PIECES, (judgedText ?? '').repeat(PIECES - 1)],
    );
  };
  return { session, turns, send, addPieces };
}

/** The rows that statements on a table return to the supervisor. */
async function countRows(fixture: SupervisorFixture, table: string, work: () => Promise<unknown>): Promise<number[]> {
  const counts: number[] = [];
  const query = fixture.pool.query.bind(fixture.pool) as (...args: unknown[]) => Promise<{ rowCount: number }>;
  const counting = async (...args: unknown[]) => {
    const result = await query(...args);
    const [statement] = args as [string | { text: string }];
    if ((typeof statement === 'string' ? statement : statement.text).includes(table)) counts.push(result.rowCount);
    return result;
  };
  fixture.pool.query = counting as unknown as typeof fixture.pool.query;
  try {
    await work();
  } finally {
    fixture.pool.query = query as unknown as typeof fixture.pool.query;
  }
  return counts;
}

t.test('a repeated piece is answered without the others, and the last one with their text', async (t) => {
  const fixture = shared.withNewAccount();
  const { send, addPieces } = await openTurn(fixture);
  t.match(await send(0, 'first '), { show: 'first ', state: 'open' });
  await addPieces(null, null);
  const rows = await countRows(fixture, 'turn_pieces', async () => {
    t.match(await send(0, 'first '), { show: 'first ', state: 'open' });
    t.match(await send(PIECES - 1, 'x'), { show: 'x', state: 'open' });
    t.match(await send(PIECES - 1, 'y'), { code: 'id_reused' });
    t.match(await send(0, 'first ', true), { code: 'id_reused' }, 'the text would end before what was shown');
    const last = await send(PIECES, 'end', true);
    t.match(last, { show: 'end', state: 'passed' });
    t.match(await send(PIECES, 'end', true), { show: 'end', state: 'passed' });
  });
  t.ok(rows.length > 4);
  t.ok(Math.max(...rows) <= 1, rows.join());
});

t.test('a repeated piece that was judged is answered as it was judged, without the others', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `stream-${fixture.account}`;
  await fixture.install({ slug, code: STREAMING, required: true });
  const { session, send, addPieces } = await openTurn(fixture);
  t.match(await send(0, 'A darn.'), { show: 'A [bleep].', state: 'open' });
  await addPieces('x', { hook: 'outboundMessage', outcome: 'unchanged', asked: 1, by: [], reason: null });
  const rows = await countRows(fixture, 'turn_pieces', async () => {
    t.match(await send(0, 'A darn.'), { show: 'A [bleep].', state: 'open' });
    for (let times = 0; times < 2; times += 1)
      t.match(await send(PIECES, 'THROW'), { show: '', action: 'cancel', isFinal: false, state: 'open' });
  });
  t.ok(Math.max(...rows) <= 1, rows.join());
  const judged = `A [bleep].${'x'.repeat(PIECES - 1)}`;
  t.same(
    (await fixture.readLog('before')).map(({ text }) => text),
    ['', judged, judged],
    'a piece that is sent again is judged with the text before it',
  );
  t.match(await send(PIECES + 1, 'held'), { show: '', state: 'open' }, 'after a piece without a judgement');
  t.match(await send(0, 'A darn.'), { show: 'A [bleep].' }, 'as it was judged, also while the rest is held');
  t.match(await send(PIECES, 'THROW'), { show: '' }, 'not judged');
  const { rows: outputs } = await fixture.pool.query('SELECT is_held FROM turn_outputs WHERE session_id = $1', [
    session,
  ]);
  t.same(outputs, [{ is_held: true }]);
});

t.test('judgements of pieces are merged at the end', async (t) => {
  const fixture = shared.withNewAccount();
  const slug = `stream-${fixture.account}`;
  await fixture.install({ slug, code: STREAMING });
  const { send, addPieces } = await openTurn(fixture);
  await send(0, 'A darn.');
  await addPieces('x', { hook: 'outboundMessage', outcome: 'unchanged', asked: 3, by: ['other'], reason: null });
  t.match(await send(PIECES, 'end', true), {
    show: 'end',
    state: 'passed',
    judgement: { outcome: 'changed', asked: 3, by: [slug, 'other'] },
  });
});

t.test('the end of a turn completes its open outputs in pages', async (t) => {
  const fixture = shared.withNewAccount();
  const { session, turns, send } = await openTurn(fixture);
  await send(0, 'first ');
  await fixture.pool.query(
    `INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held)
     SELECT session_id, turn_id, 'more ' || n, account_id, 1, true FROM turn_outputs, generate_series(2, $2::int) n
      WHERE session_id = $1`,
    [session, OUTPUTS],
  );
  const rows = await countRows(fixture, 'turn_outputs', async () => {
    t.match((await fixture.call('POST', `${turns}/t1/end`, {})).body, { state: 'ended', replyId: 'o1' });
  });
  t.ok(Math.max(...rows) <= 100, rows.join());
  const { rows: open } = await fixture.pool.query(
    `SELECT count(*)::int AS passed FROM turn_outputs WHERE session_id = $1 AND state = 'passed'`,
    [session],
  );
  t.same(open, [{ passed: OUTPUTS }]);
});
