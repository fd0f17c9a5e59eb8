/** The cost of a repeated piece does not grow with the pieces of its output, nor the memory of a list with its length. */
import t from 'tap';
import { findPiece, joinPieces, listUnfinishedOutputs } from '../../../db/sessions/turn-outputs.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { openTurn } from './open-turn.ts';

const PIECES = amount({ quick: 5_000, soak: 20_000 });
const OUTPUTS = 1_050;
const PAGE_ROWS = 100;

const { pool } = await testDatabase(t);
const { accountId, sessionId } = await openTurn(pool);
await pool.query(
  `INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held, tail, state)
   SELECT $1, 't', 'o' || n, $2, 1, true, 'end', CASE WHEN n % 10 = 0 THEN 'passed' ELSE 'open' END
     FROM generate_series(1, $3::int) n`,
  [sessionId, accountId, OUTPUTS],
);
await pool.query(
  `INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown)
   SELECT $1, 't', 'o1', n, $2, 'x', true FROM generate_series(0, $3::int - 1) n`,
  [sessionId, accountId, PIECES],
);
await pool.query('VACUUM ANALYZE turn_outputs, turn_pieces');
const key = { sessionId, turnId: 't', outputId: 'o1' };

t.test('a piece is read without the others', async (t) => {
  const explained = explainPool(pool);
  const piece = await findPiece(explained.pool, key, PIECES - 1);
  t.same(piece, { text: 'x', isShown: true, judgedText: null, judgement: null, tail: 'end', wholeChars: 0 });
  t.equal(await findPiece(explained.pool, key, PIECES), null);
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.turn_pieces ?? 0) <= 1, JSON.stringify(rowsRead));
});

t.test('the pieces of an output are read as one row', async (t) => {
  t.same(await joinPieces(pool, key, PIECES - 1), {
    text: 'x'.repeat(PIECES),
    shown: 'x'.repeat(PIECES - 1),
    isJudged: false,
    judgements: [],
  });
  t.same(await joinPieces(pool, { ...key, outputId: 'o2' }, 0), {
    text: '',
    shown: '',
    isJudged: true,
    judgements: [],
  });
});

t.test('pieces are joined in order as they were judged, with each different judgement once', async (t) => {
  const judgement = (outcome: string) => ({ hook: 'outboundMessage', outcome, asked: 1, by: [], reason: null });
  const rows = [
    ['A darn ', 'A [bleep] ', judgement('changed')],
    ['long ', 'long ', judgement('unchanged')],
    ['day', 'day', judgement('unchanged')],
    [' and', null, null],
  ] as const;
  for (const [piece, [text, judged, one]] of rows.entries())
    await pool.query(
      `INSERT INTO turn_pieces (session_id, turn_id, output_id, piece, account_id, text, is_shown, judged_text, judgement)
       VALUES ($1, 't', 'o3', $2, $3, $4, $5, $6, $7)`,
      [sessionId, piece, accountId, text, one !== null, judged, one],
    );
  const o3 = { ...key, outputId: 'o3' };
  t.same(await joinPieces(pool, o3, 3), {
    text: 'A [bleep] long day and',
    shown: 'A [bleep] long day',
    isJudged: false,
    judgements: [judgement('changed'), judgement('unchanged')],
  });
  await pool.query(`DELETE FROM turn_pieces WHERE output_id = 'o3' AND piece = 3`);
  t.match(await joinPieces(pool, o3, 1), {
    text: 'A [bleep] long day',
    shown: 'A [bleep] ',
    isJudged: true,
    judgements: [judgement('changed')],
  });
});

t.test('open outputs are listed in pages, in the order in which they began', async (t) => {
  const explained = explainPool(pool);
  const ids: string[] = [];
  for await (const id of listUnfinishedOutputs(explained.pool, key)) {
    ids.push(id);
    t.ok(explained.costs.length <= Math.ceil(ids.length / PAGE_ROWS), 'the next page is read when it is needed');
  }
  const open = Array.from({ length: OUTPUTS }, (_, n) => n + 1).filter((n) => n % 10 !== 0);
  t.same(
    ids,
    open.map((n) => `o${n}`),
  );
  for (const { rowsRead } of explained.costs)
    t.ok((rowsRead.turn_outputs ?? 0) < 2 * PAGE_ROWS, JSON.stringify(rowsRead));
});
