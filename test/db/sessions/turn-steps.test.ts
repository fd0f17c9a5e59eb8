/** The cost of a page of a turn's steps does not grow with the steps of the turn. */
import t from 'tap';
import { pageSteps } from '../../../db/sessions/turn-steps.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { openTurn } from './open-turn.ts';

const STEPS = amount({ quick: 5_000, soak: 20_000 });
const PAGE_ROWS = 1_000;

const { pool } = await testDatabase(t);
const { accountId, sessionId } = await openTurn(pool);
await pool.query(
  `INSERT INTO tool_calls (session_id, turn_id, call_id, digest, account_id, name)
   SELECT $1, 't', 'c' || n, '', $2, 'x' FROM generate_series(1, $3::int) n`,
  [sessionId, accountId, STEPS],
);
await pool.query(
  `INSERT INTO turn_outputs (session_id, turn_id, id, account_id, pieces, is_held)
   SELECT $1, 't', 'o' || n, $2, 0, true FROM generate_series(1, $3::int) n`,
  [sessionId, accountId, STEPS],
);
await pool.query('VACUUM ANALYZE tool_calls, turn_outputs, session_messages');

t.test('each page reads its own rows', async (t) => {
  let cursor: string | undefined;
  for (let page = 0; page < 3; page += 1) {
    const explained = explainPool(pool);
    const { calls, outputs, nextCursor } = await pageSteps(explained.pool, { sessionId, turnId: 't' }, cursor);
    t.equal(calls.length, PAGE_ROWS);
    t.equal(calls[0]?.callId, `c${1 + page * PAGE_ROWS}`);
    t.equal(outputs[0]?.id, `o${1 + page * PAGE_ROWS}`);
    for (const { rowsRead, indexes, temporaryBytes } of explained.costs) {
      const { tool_calls = 0, turn_outputs = 0 } = rowsRead;
      t.ok(Math.max(tool_calls, turn_outputs) <= PAGE_ROWS + 1, JSON.stringify(rowsRead));
      t.match(indexes.join(), /tool_calls_page|turn_outputs_page/);
      t.equal(temporaryBytes, 0);
    }
    cursor = nextCursor ?? undefined;
  }
});
