/** Steps of turns that meet the clear or the deletion of their session are refused, and leave no rows. */
import type { PoolClient } from 'pg';
import t from 'tap';
import { clearSession } from '../../../db/sessions/sessions.ts';
import { claimTurnCall } from '../../../db/sessions/tool-calls.ts';
import { addPiece } from '../../../db/sessions/turn-outputs.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { testDatabase } from '../../runner/harness.ts';
import { openTurn } from './open-turn.ts';

const { pool } = await testDatabase(t);

const removals: Readonly<Record<string, (tx: PoolClient, sessionId: string) => Promise<unknown>>> = {
  cleared: clearSession,
  deleted: (tx, sessionId) => tx.query('DELETE FROM sessions WHERE id = $1', [sessionId]),
};
/** A call and a piece that begin a step, with and without a renewal of the lease. */
const runtimes = { 'that holds the turn': 'r', 'that takes over an expired lease': 'other' };

for (const [removed, remove] of Object.entries(removals))
  for (const [which, runtime] of Object.entries(runtimes))
    t.test(`a session is ${removed} during a step of a runtime ${which}`, async (t) => {
      const { sessionId } = await openTurn(pool);
      const lease = runtime === 'r' ? '1 hour' : '-1 second';
      const sql = `UPDATE turns SET state = 'open', lease_until = now() + $2::interval WHERE session_id = $1`;
      await pool.query(sql, [sessionId, lease]);
      const key = { sessionId, turnId: 't' };
      const [isClaimed, fate] = await during(
        pool,
        (tx) => remove(tx, sessionId),
        () => claimTurnCall(pool, { ...key, callId: 'c', digest: '' }, { runtime, name: 'x' }),
        () => addPiece(pool, { ...key, outputId: 'o' }, runtime, { piece: 0, text: 'hello', mode: 'none' }),
      );
      t.equal(isClaimed, false);
      t.equal(fate, null);
      for (const table of ['tool_calls', 'turn_outputs', 'turn_pieces'])
        t.equal((await pool.query(`SELECT 1 FROM ${table}`)).rowCount, 0, table);
    });
